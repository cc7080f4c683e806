//! `quorate sim`

mod report;
mod snow;

use std::collections::BTreeSet;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};
use quorate_adversary::Schedule;
use quorate_core::protocols::hotstuff::rules::{self, Rules};
use quorate_core::protocols::pbft;
use quorate_core::protocols::snow::snowman;
use quorate_core::protocols::two_delay;
use quorate_node::config::{Finding, Place};
use quorate_sim::campaign::{self, Campaign, Progress, Report, Violation};
use quorate_sim::diagram;
use quorate_sim::family::{Family, Frosties, HotStuffs, Pbfts, Snowmans, TwoDelays};
use quorate_sim::lines::Line;
use quorate_sim::swarm::{Plan, Tally, Trouble};
use quorate_sim::trace::Trace;

use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, print};

/// How often the live line is written: on a terminal, and into a file.
const EVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// Lines of a trace around a violation in the diagram.
const SHOWN: usize = 400;

/// Run clusters on virtual time in which anything may go wrong, and look for violations.
///
/// Each seed is one cluster: its options, its network, crashes, disks, clocks and liars are drawn
/// from the seed. Safety is judged after every step, liveness after the network has healed. A
/// violation prints its seed; the same seed of the same version does the same again.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    /// Something else than clusters.
    #[command(subcommand)]
    what: Option<What>,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub seed: u64,
    /// How many seeds. Default: as many as there is time for; 1000 without --minutes.
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// Begin no seed after so many minutes (0.5 is half a minute).
    #[arg(long, value_name = "N", value_parser = minutes)]
    pub minutes: Option<f64>,
    /// Only this protocol. Default: one of the HotStuff family, drawn.
    #[arg(long, value_name = "NAME", value_parser = protocol())]
    pub protocol: Option<String>,
    /// Only so many replicas, 1 to 64. Default: drawn.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub replicas: Option<u16>,
    /// What goes wrong besides network, crashes and disks. Default: drawn.
    #[arg(long, value_name = "NAME", value_parser = trouble())]
    pub trouble: Option<String>,
    /// What liars do, and when (docs/adversaries.md): NAME, NAME@FROM..TO, NAME@FROM..TO/PERIOD,
    /// several separated by commas. The trouble is liars then. Default: drawn.
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "trouble")]
    pub adversary: Option<Schedule>,
    /// How long the storm lasts before the network heals, in seconds of the world. Default: drawn.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub storm_seconds: Option<u64>,
    /// A client reads besides, without ordering.
    #[arg(long)]
    pub reads: bool,
    /// Threads. Default: one a core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Run this one seed with everything written down.
    #[arg(long, value_name = "SEED", conflicts_with_all = ["seed", "seeds", "minutes", "markdown"])]
    pub replay: Option<u64>,
    /// Where --replay writes `seed-N.txt` (the trace) and `seed-N.html` (messages in time and
    /// space).
    #[arg(long, value_name = "FOLDER", default_value = ".", requires = "replay")]
    pub folder: PathBuf,
    /// Write the report to this file as a page in Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// What else can be simulated.
#[derive(Debug, Subcommand)]
enum What {
    Snow(Box<snow::Arguments>),
}

/// Snowman with `liveness = "frosty"`.
const FROSTY: &str = "snowman-frosty";

fn minutes(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number of minutes".to_owned())?;
    let fits = number > 0.0 && number <= 60.0 * 24.0 * 30.0;
    fits.then_some(number).ok_or_else(|| "more than 0 and at most 43200 (30 days)".to_owned())
}

fn protocol() -> clap::builder::PossibleValuesParser {
    let named = rules::ALL.map(|rules| rules.facts().name);
    let others = [pbft::NAME, snowman::NAME, FROSTY, two_delay::NAME];
    named.into_iter().chain(others).collect::<Vec<_>>().into()
}

fn trouble() -> clap::builder::PossibleValuesParser {
    Trouble::ALL.map(Trouble::name).into()
}

impl Arguments {
    fn plan(&self) -> Plan {
        let named = |name: &String| rules::ALL.into_iter().find(|it| it.facts().name == name);
        Plan {
            trouble: self.trouble.as_deref().and_then(Trouble::named),
            rules: self.protocol.as_ref().and_then(named).map(|rules| rules as &'static dyn Rules),
            replicas: self.replicas.map(usize::from),
            storm_seconds: self.storm_seconds,
            adversary: self.adversary.clone(),
            service: None,
            reads: self.reads,
        }
    }

    /// Whether the adversaries that are named are those of the protocol.
    fn adversaries_fit(&self) -> Result<(), Failure> {
        let is_pbft = self.protocol.as_deref() == Some(pbft::NAME);
        let foreign = self.adversary.as_ref().and_then(|schedule| match is_pbft {
            true => schedule.build_for_pbft(0).err(),
            false => schedule.build(0).err(),
        });
        let Some(foreign) = foreign else { return Ok(()) };
        let (what, place) = (foreign.to_string(), Place::Flag("--adversary".to_owned()));
        let remedy = format!("name others, or another protocol (--protocol {})", pbft::NAME);
        Err(Failure::new(Exit::Usage, Finding { what, place, remedy }))
    }

    /// The flags that make another run the same.
    fn repeated(&self) -> String {
        let mut flags = String::new();
        let mut add = |flag: &str, value: Option<String>| {
            if let Some(value) = value {
                flags.push_str(&format!(" --{flag} {value}"));
            }
        };
        add("protocol", self.protocol.clone());
        add("replicas", self.replicas.map(|n| n.to_string()));
        add("trouble", self.trouble.clone());
        add("adversary", self.adversary.as_ref().map(Schedule::to_string));
        add("storm-seconds", self.storm_seconds.map(|n| n.to_string()));
        if self.reads {
            flags.push_str(" --reads");
        }
        flags
    }
}

/// Runs `sim`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    if let Some(What::Snow(arguments)) = &arguments.what {
        return snow::run(arguments, format);
    }
    arguments.adversaries_fit()?;
    // A violation is a panic inside a world: it is caught, counted and told once.
    std::panic::set_hook(Box::new(|_| {}));
    match arguments.replay {
        Some(seed) => replay(arguments, seed),
        None => search(arguments, format),
    }
}

fn search(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        first: arguments.seed,
        seeds: arguments.seeds.unwrap_or(match arguments.minutes {
            Some(_) => u64::MAX - arguments.seed,
            None => 1000,
        }),
        time: arguments.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0)),
        threads: arguments.threads.map_or(cores, usize::from),
        most_violations: 10,
        plan: arguments.plan(),
    };
    let (_runtime, told) = runtime()?;
    let progress = Progress::default();
    let began = Instant::now();
    let report = std::thread::scope(|scope| {
        let running = scope.spawn(|| match arguments.protocol.as_deref() {
            Some(pbft::NAME) => campaign.run::<Pbfts>(&progress),
            Some(snowman::NAME) => campaign.run::<Snowmans>(&progress),
            Some(FROSTY) => campaign.run::<Frosties>(&progress),
            Some(two_delay::NAME) => campaign.run::<TwoDelays>(&progress),
            _ => campaign.run::<HotStuffs>(&progress),
        });
        let live = std::io::stderr().is_terminal();
        let every = if live { EVERY.0 } else { EVERY.1 };
        let (mut told_at, mut told_of) = (Instant::now(), BTreeSet::new());
        while !running.is_finished() {
            if told.load(Ordering::Relaxed) {
                progress.stop();
            }
            if told_at.elapsed() >= every {
                told_at = Instant::now();
                tell(&progress.report(), began.elapsed(), live, &mut told_of);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        if live {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        running.join()
    });
    let Ok(report) = report else {
        let what = "the campaign itself failed; this is a bug".to_owned();
        let remedy = "report it with the command line".to_owned();
        return Err(Failure::new(Exit::Failed, Finding { what, place: Place::Default, remedy }));
    };
    let elapsed = began.elapsed();
    match format {
        Format::Table => print(&report::for_people(&campaign, &report, elapsed))?,
        Format::Json => crate::output::print_json(&report::json(&campaign, &report, elapsed))?,
    }
    if let Some(file) = &arguments.markdown {
        std::fs::write(file, report::markdown(&campaign, &report, elapsed))
            .map_err(|error| Failure::io(error, file, "name another file with --markdown"))?;
    }
    match report.violations.first() {
        None => Ok(()),
        Some(first) => Err(violated(first, &arguments.repeated())),
    }
}

/// Says what is going on, and each violation once. Whoever closed standard error does not want to
/// see it.
fn tell(report: &Report, elapsed: Duration, live: bool, told_of: &mut BTreeSet<u64>) {
    let (begin, end) = if live { ("\r\x1b[K", "\r") } else { ("", "\n") };
    for found in report.violations.iter().filter(|found| told_of.insert(found.seed)) {
        let Violation { seed, oracle, what, .. } = found;
        let _ = writeln!(std::io::stderr(), "{begin}seed {seed}: {oracle}: {what}");
    }
    let _ = write!(std::io::stderr(), "{}{end}", report::live(report, elapsed));
}

fn traced<F: Family>(seed: u64, plan: &Plan) -> (Result<Tally, Violation>, Vec<Line>) {
    let (outcome, cluster) = campaign::run::<F>(seed, plan, Trace::on());
    (outcome, cluster.map_or_else(Vec::new, |mut cluster| cluster.trace.take_lines()))
}

fn replay(arguments: &Arguments, seed: u64) -> Result<(), Failure> {
    let (outcome, lines) = match arguments.protocol.as_deref() {
        Some(pbft::NAME) => traced::<Pbfts>(seed, &arguments.plan()),
        Some(snowman::NAME) => traced::<Snowmans>(seed, &arguments.plan()),
        Some(FROSTY) => traced::<Frosties>(seed, &arguments.plan()),
        Some(two_delay::NAME) => traced::<TwoDelays>(seed, &arguments.plan()),
        _ => traced::<HotStuffs>(seed, &arguments.plan()),
    };
    let words = match &outcome {
        Ok(_) => format!("seed {seed}: no violation"),
        Err(violation) => format!("seed {seed}: {}: {}", violation.oracle, violation.what),
    };
    let (trace, html) =
        (named(&arguments.folder, seed, "txt"), named(&arguments.folder, seed, "html"));
    let write = |file: &Path, text: &str| {
        std::fs::create_dir_all(&arguments.folder)
            .and_then(|()| std::fs::write(file, text))
            .map_err(|error| Failure::io(error, file, "name another folder with --folder"))
    };
    write(&trace, &(diagram::text(&lines) + &words + "\n"))?;
    write(&html, &diagram::html(&words, &lines[lines.len().saturating_sub(SHOWN)..]))?;
    print(&format!("{words}\n{}\n{}\n", trace.display(), html.display()))?;
    outcome.map(|_| ()).map_err(|violation| violated(&violation, &arguments.repeated()))
}

fn named(folder: &Path, seed: u64, extension: &str) -> PathBuf {
    folder.join(format!("seed-{seed}.{extension}"))
}

fn violated(violation: &Violation, flags: &str) -> Failure {
    let Violation { seed, oracle, what, events } = violation;
    let what = format!("{oracle}: {what}");
    let place = Place::Flag(format!("--replay {seed}{flags}"));
    let remedy = format!(
        "`quorate sim --replay {seed}{flags}` shows how it comes to that after {events} events; report it \
         with the version"
    );
    Failure::new(Exit::Unsafe, Finding { what, place, remedy })
}
