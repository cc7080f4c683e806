//! `quorate sim snow`

mod colours;
mod payments;

use clap::{Args, ValueEnum};
use quorate_core::protocols::snow::analysis::{Chain, bitcoin_log10};
use quorate_core::protocols::snow::parameters::Parameters;
use quorate_lab::snow::world;
use quorate_node::config::{Finding, Place};
use quorate_snow::chain;
use quorate_snow::colours::Kind;
use quorate_snow::setting::{Adversary, Setting, Stake, World};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Run thousands of nodes of the Snow family on virtual time: Slush, Snowflake, Snowball, or
/// Avalanche with payments.
///
/// Beside what happened stands what the exact analysis says of these numbers. Safety is
/// probabilistic: the oracle looks for two decisions, or two accepted spends of one output, and
/// exits with a failure if there are. The same seed of the same version does the same again.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Which of the family.
    #[arg(long, value_enum, default_value_t = Protocol::Snowball)]
    protocol: Protocol,
    /// How many nodes.
    #[arg(short = 'n', long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(10..=10_000))]
    nodes: u32,
    /// Of a hundred nodes so many are faulty.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percent)]
    byzantine: f64,
    /// What these do.
    #[arg(long, default_value = "opposite", value_parser = adversary())]
    adversary: String,
    /// k, alpha, beta1 and beta2 by name: paper (10, 8, 11, 150) or later-practice (20, 15, 20,
    /// 20).
    #[arg(long, default_value = "paper", value_parser = named())]
    parameters: String,
    /// Another k.
    #[arg(long, value_name = "N")]
    k: Option<u32>,
    /// Another alpha.
    #[arg(long, value_name = "N")]
    alpha: Option<u32>,
    /// Another beta (beta2).
    #[arg(long, value_name = "N")]
    beta: Option<u32>,
    /// Where the nodes are: a preset of docs/networks.md.
    #[arg(long, default_value = "20-cities", value_parser = network())]
    network: String,
    /// Of a hundred messages so many are lost.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percent)]
    loss: f64,
    /// How stake is spread.
    #[arg(long, value_enum, default_value_t = Spread::Equal)]
    stake: Spread,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// How many runs, each with the next seed.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    runs: u64,
    /// Simulated seconds after which a run ends; avalanche: how long payments are submitted.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Of a hundred correct nodes so many begin with the first colour.
    #[arg(long, default_value_t = 50.0, value_name = "PERCENT", value_parser = percent)]
    first: f64,
    /// What handling a message costs a node, in microseconds.
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = micros)]
    message_us: f64,
    /// What verifying a payment costs a node that has not seen it, in microseconds.
    #[arg(long, default_value_t = 30.0, value_name = "N", value_parser = micros)]
    verify_us: f64,
    /// avalanche: payments a second.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    rate: u64,
    /// avalanche: how many nodes payments are submitted at.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    issuers: u32,
    /// avalanche: of a hundred payments so many are spent twice.
    #[arg(long, default_value_t = 0.0, value_name = "PERCENT", value_parser = percent)]
    double: f64,
    /// avalanche: simulated seconds after the last payment.
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=86_400))]
    rest: u64,
    /// avalanche: what an unsuccessful poll resets.
    #[arg(long, value_enum, default_value_t = CountersName::Glacier)]
    counters: CountersName,
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
    /// Payments over a DAG.
    Avalanche,
}

/// How stake is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Spread {
    /// Everybody has the same.
    Equal,
    /// The node of rank i has 1/i of the first one's.
    Zipf,
}

/// Whose counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CountersName {
    /// The counters of all ancestors.
    WhitePaper,
    /// Those that the answers name.
    Glacier,
}

fn percent(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    (0.0..=100.0).contains(&number).then_some(number).ok_or_else(|| "from 0 to 100".to_owned())
}

fn micros(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    let fits = (0.0..=1e6).contains(&number);
    fits.then_some(number).ok_or_else(|| "from 0 to 1000000".to_owned())
}

fn adversary() -> clap::builder::PossibleValuesParser {
    Adversary::ALL.map(|(name, _)| name).into()
}

fn named() -> clap::builder::PossibleValuesParser {
    Parameters::NAMED.map(|(name, _)| name).into()
}

fn network() -> clap::builder::PossibleValuesParser {
    quorate_netem::preset::ALL.map(|(name, _)| name).into()
}

impl Arguments {
    fn numbers(&self) -> Parameters {
        let mut numbers = Parameters::named(&self.parameters).unwrap_or(Parameters::PAPER);
        numbers.sample = self.k.unwrap_or(numbers.sample);
        numbers.quorum = self.alpha.unwrap_or(numbers.quorum);
        numbers.decision = self.beta.unwrap_or(numbers.decision);
        numbers.early = numbers.early.min(numbers.decision);
        numbers
    }

    fn world(&self) -> World {
        let mut world = world::named(&self.network);
        world.lost_ppm = (self.loss * 1e4) as u64;
        world.message_ns = (self.message_us * 1e3) as u64;
        world.verify_ns = (self.verify_us * 1e3) as u64;
        world
    }

    fn setting(&self, seed: u64) -> Setting {
        let named = Adversary::ALL.iter().find(|(name, _)| *name == self.adversary);
        Setting {
            nodes: self.nodes as usize,
            faulty: (f64::from(self.nodes) * self.byzantine / 100.0).round() as usize,
            adversary: named.map_or(Adversary::Opposite, |(_, adversary)| *adversary),
            numbers: self.numbers(),
            stake: if self.stake == Spread::Zipf { Stake::Zipf } else { Stake::Equal },
            world: self.world(),
            seed,
        }
    }

    fn kind(&self) -> Option<Kind> {
        match self.protocol {
            Protocol::Slush => Some(Kind::Slush),
            Protocol::Snowflake => Some(Kind::Snowflake),
            Protocol::Snowball => Some(Kind::Snowball),
            Protocol::Avalanche => None,
        }
    }
}

/// What was found: rows for people, a value for programs, and what breaks safety.
struct Outcome {
    rows: Vec<(&'static str, String)>,
    json: Value,
    violation: Option<String>,
}

/// Runs `sim snow`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let refused = |error: quorate_core::protocols::snow::parameters::Invalid| {
        let (what, place) = (error.to_string(), Place::Flag("--parameters".to_owned()));
        let remedy = "change --k, --alpha, --beta or --nodes".to_owned();
        Failure::new(Exit::Usage, Finding { what, place, remedy })
    };
    arguments.numbers().checked().map_err(refused)?;
    let outcome = match arguments.kind() {
        Some(kind) => colours::run(arguments, kind),
        None => payments::run(arguments),
    };
    let mut outcome = outcome.map_err(refused)?;
    if arguments.stake == Spread::Equal {
        add_analysis(arguments, &mut outcome);
    }
    match format {
        Format::Json => print_json(&outcome.json)?,
        Format::Table => {
            let mut text = String::new();
            for (name, value) in &outcome.rows {
                text.push_str(&format!("{name:<52}{value}\n"));
            }
            print(&text)?;
        }
    }
    match outcome.violation {
        None => Ok(()),
        Some(what) => {
            let place = Place::Flag(format!("--seed {}", arguments.seed));
            let remedy = "safety is probabilistic: see the bound above; raise alpha or beta, or lower the share".to_owned();
            Err(Failure::new(Exit::Unsafe, Finding { what, place, remedy }))
        }
    }
}

/// What the exact chain says of the same numbers, and what walks of it say.
fn add_analysis(arguments: &Arguments, outcome: &mut Outcome) {
    let setting = arguments.setting(0);
    let chain = Chain::new(arguments.nodes, setting.faulty as u32, setting.numbers);
    let bound = chain.failure();
    let walked = (bound.log10 < 0.0).then(|| chain::simulate(&chain, &bound, 1000, arguments.seed));
    let bitcoin = bitcoin_log10(arguments.byzantine / 100.0, 6);
    outcome.rows.push(("computed: failure at most", format!("10^{:.1}", bound.log10)));
    if let Some(walked) = &walked {
        let of = format!("10^{:.1} ± {:.0} %", walked.log10, walked.error * 100.0);
        outcome.rows.push(("  1000 weighted walks of the same chain", of));
    }
    outcome.rows.push((
        "  Bitcoin's six blocks at this share",
        if bitcoin.is_finite() { format!("10^{bitcoin:.1}") } else { "0".to_owned() },
    ));
    if setting.faulty == 0 && arguments.kind().is_some_and(|kind| kind != Kind::Slush) {
        let rounds = chain.expected_rounds();
        outcome.rows.push(("computed: polls of a node, expected", format!("{rounds:.1}")));
        outcome.json["computed_polls"] = json!(rounds);
    }
    outcome.json["computed_log10_failure"] = json!(bound.log10);
    outcome.json["walked_log10_failure"] = json!(walked.map(|walked| walked.log10));
    outcome.json["bitcoin_log10_failure"] = json!(bitcoin.is_finite().then_some(bitcoin));
}

fn ms(ns: u64) -> String {
    format!("{:.0} ms", ns as f64 / 1e6)
}
