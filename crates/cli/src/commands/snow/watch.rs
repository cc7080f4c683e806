//! `quorate snow watch`

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use crossterm::style::{Color, Print, ResetColor, SetForegroundColor};
use crossterm::terminal::{Clear, ClearType};
use crossterm::{cursor, queue};
use quorate_core::protocols::snow::analysis::Chain;
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_node::config::{Finding, Place};
use quorate_snow::colours::{Kind, Network, Seen};
use quorate_snow::setting::{Adversary, Setting, Stake, World};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json_line};
use crate::terminal::{Screen, ended};

/// How long a frame stays.
const FRAME: Duration = Duration::from_millis(40);
/// One-way delay between any two nodes.
const DELAY_NS: u64 = 50_000_000;

/// Watch nodes flip colours until all have decided; a key ends it.
///
/// Without a terminal, or with --frames, the frames are printed one below the other: `o` and `x`
/// are the two colours, `O` and `X` decided ones, `#` a faulty node.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Which of the family.
    #[arg(long, value_enum, default_value_t = Protocol::Snowball)]
    protocol: Protocol,
    /// How many nodes.
    #[arg(short = 'n', long, default_value_t = 800, value_parser = clap::value_parser!(u32).range(10..=4000))]
    nodes: u32,
    /// Of a hundred nodes so many are faulty.
    #[arg(long, default_value_t = 8, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=90))]
    byzantine: u32,
    /// What these do.
    #[arg(long, default_value = "opposite", value_parser = adversary())]
    adversary: String,
    /// How many are asked.
    #[arg(long, default_value_t = 10, value_name = "N")]
    k: u32,
    /// How many must agree.
    #[arg(long, default_value_t = 7, value_name = "N")]
    alpha: u32,
    /// How often in a row.
    #[arg(long, default_value_t = 20, value_name = "N")]
    beta: u32,
    /// Everything follows from it.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// Simulated milliseconds from frame to frame.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=60_000))]
    step: u64,
    /// Print at most so many frames as text, and end.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    frames: Option<u32>,
}

/// Which protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Protocol {
    /// No fault is tolerated.
    Slush,
    /// With a counter.
    Snowflake,
    /// With a counter and confidence.
    Snowball,
}

fn adversary() -> clap::builder::PossibleValuesParser {
    Adversary::ALL.map(|(name, _)| name).into()
}

impl Arguments {
    fn faulty(&self) -> u32 {
        self.nodes * self.byzantine / 100
    }

    fn numbers(&self) -> Parameters {
        Parameters { sample: self.k, quorum: self.alpha, early: 1, decision: self.beta }
    }

    fn network(&self) -> Result<Network, Failure> {
        let named = Adversary::ALL.iter().find(|(name, _)| *name == self.adversary);
        let setting = Setting {
            nodes: self.nodes as usize,
            faulty: self.faulty() as usize,
            adversary: named.map_or(Adversary::Opposite, |(_, adversary)| *adversary),
            numbers: self.numbers(),
            stake: Stake::Equal,
            world: World { timeout_ns: 4 * DELAY_NS, ..World::uniform(DELAY_NS) },
            seed: self.seed,
        };
        let kind = match self.protocol {
            Protocol::Slush => Kind::Slush,
            Protocol::Snowflake => Kind::Snowflake,
            Protocol::Snowball => Kind::Snowball,
        };
        Network::new(setting, kind, 500).map_err(|error| {
            let place = Place::Flag("--k, --alpha, --beta".to_owned());
            let remedy = "choose others: `quorate snow watch --help`".to_owned();
            Failure::new(Exit::Usage, Finding { what: error.to_string(), place, remedy })
        })
    }
}

/// Runs `snow watch`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let mut network = arguments.network()?;
    let live = arguments.frames.is_none() && format == Format::Table && io::stdout().is_terminal();
    if live {
        watch(arguments, &mut network)?;
    } else {
        let most = arguments.frames.unwrap_or(u32::MAX);
        for frame in 0..most {
            match format {
                Format::Table => print(&text(arguments, &network))?,
                Format::Json => print_json_line(&json!({
                    "ms": network.now_ns() / 1_000_000,
                    "colours": network.colours(),
                    "undecided": network.undecided(),
                }))?,
            }
            // A stalled network would be printed for ever.
            if network.undecided() == 0 || frame == 10_000 {
                break;
            }
            network.advance(network.now_ns() + arguments.step * 1_000_000);
        }
    }
    let report = network.report();
    if report.is_unsafe() {
        let [one, two] = report.decisions;
        let what = format!("two correct nodes decided differently: {one} and {two}");
        let place = Place::Flag(format!("--seed {}", arguments.seed));
        let remedy = "raise --alpha or --beta, or lower --byzantine".to_owned();
        return Err(Failure::new(Exit::Unsafe, Finding { what, place, remedy }));
    }
    Ok(())
}

/// The line above the grid.
fn head(arguments: &Arguments, network: &Network) -> String {
    let [red, blue] = network.colours();
    let bound = match arguments.protocol {
        Protocol::Slush => String::new(),
        _ => {
            let chain = Chain::new(arguments.nodes, arguments.faulty(), arguments.numbers());
            format!("   failure at most 10^{:.1}", chain.failure().log10)
        }
    };
    format!(
        "{:>7.2} s   o {red:>4}   x {blue:>4}   undecided {:>4}{bound}",
        network.now_ns() as f64 / 1e9,
        network.undecided()
    )
}

fn columns(nodes: u32) -> usize {
    // Letters are twice as high as they are wide.
    ((f64::from(nodes) * 2.0).sqrt().ceil() as usize).min(96)
}

fn letter(node: &Seen) -> char {
    match (node.is_faulty, node.colour.0, node.decided_at.is_some()) {
        (true, ..) => '#',
        (_, 0, false) => 'o',
        (_, 0, true) => 'O',
        (.., false) => 'x',
        (.., true) => 'X',
    }
}

/// The nodes in the order of the picture: faulty ones stand among the others.
fn spread(network: &Network) -> Vec<Seen> {
    let nodes: Vec<Seen> = network.nodes().collect();
    let (correct, faulty): (Vec<_>, Vec<_>) = nodes.iter().partition(|node| !node.is_faulty);
    let (mut correct, mut faulty) = (correct.into_iter(), faulty.into_iter());
    let (all, liars) = (nodes.len(), faulty.len());
    let is_faulty = |at: usize| (at + 1) * liars / all > at * liars / all;
    let pick = |at| if is_faulty(at) { faulty.next() } else { correct.next() };
    (0..all).filter_map(pick).copied().collect()
}

fn text(arguments: &Arguments, network: &Network) -> String {
    let mut text = format!("{}\n", head(arguments, network));
    for row in spread(network).chunks(columns(arguments.nodes)) {
        text.extend(row.iter().map(letter));
        text.push('\n');
    }
    text + "\n"
}

fn watch(arguments: &Arguments, network: &mut Network) -> Result<(), Failure> {
    let refused = |error| Failure::io(error, Path::new("terminal"), "add --frames 100");
    let screen = Screen::open().map_err(refused)?;
    loop {
        draw(arguments, network).map_err(refused)?;
        let is_over = network.undecided() == 0;
        if ended(if is_over { Duration::from_secs(3600) } else { FRAME }) {
            break;
        }
        network.advance(network.now_ns() + arguments.step * 1_000_000);
    }
    drop(screen);
    print(&format!("{}\n", head(arguments, network)))
}

fn draw(arguments: &Arguments, network: &Network) -> io::Result<()> {
    let mut out = io::stdout().lock();
    queue!(out, cursor::MoveTo(0, 0), ResetColor, Print(head(arguments, network)))?;
    queue!(out, Clear(ClearType::UntilNewLine), cursor::MoveToNextLine(1))?;
    for row in spread(network).chunks(columns(arguments.nodes)) {
        for node in row {
            let (colour, sign) = match letter(node) {
                '#' => (Color::White, '◆'),
                'o' => (Color::DarkRed, '▒'),
                'O' => (Color::Red, '█'),
                'x' => (Color::DarkBlue, '▒'),
                _ => (Color::Blue, '█'),
            };
            queue!(out, SetForegroundColor(colour), Print(sign))?;
        }
        queue!(out, Clear(ClearType::UntilNewLine), cursor::MoveToNextLine(1))?;
    }
    queue!(out, ResetColor, Print("[q] quit"), Clear(ClearType::FromCursorDown))?;
    out.flush()
}
