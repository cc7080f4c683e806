//! `quorate twins run`

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use quorate_node::config::{Finding, Place};
use quorate_sim::twins::campaign::{Failed, Progress, Source};
use quorate_sim::twins::format::Head;
use quorate_sim::twins::scenario::MAX_PREFIX;
use quorate_sim::twins::{Campaign, Plan, Scenario, Shape, Variant, shrink};
use serde_json::{Value, json};

use super::progress::{ProgressFile, totals_json};
use super::signing::Signing;
use super::{KindArguments, counted, files, grouped, replay};
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, print, print_json, table};

/// How often the live line is written: on a terminal, and into a file.
const EVERY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How often the progress file is written.
const SAVED_EVERY: Duration = Duration::from_secs(2);

/// Run scenarios against real protocols, on all cores, and look for violations.
///
/// After a few views in which everybody hears everybody the script begins; behind it everybody
/// hears everybody again, and all correct replicas have to commit something new within so many
/// views. Without files the scenarios are made as they are needed. SIGINT stops a campaign; with
/// --progress the same command goes on with it.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Files of scenarios, or folders of them, in this project's format or the framework paper's.
    #[arg(value_name = "FILE", conflicts_with_all = ["exhaustive", "sample"])]
    files: Vec<PathBuf>,
    #[command(flatten)]
    kind: KindArguments,
    /// Protocols, with commas between them. all: the six of `quorate protocols`; every: these with
    /// the linear pacemaker and with second votes as well.
    #[arg(long, default_value = "all", value_name = "NAME,...", value_parser = variants)]
    protocol: Variants,
    /// What replicas sign with.
    #[arg(long, value_enum, default_value_t, value_name = "NAME")]
    signatures: Signing,
    /// Views before the script.
    #[arg(long, default_value_t = 3, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(0..=MAX_PREFIX as u64))]
    prefix: u64,
    /// Threads. Default: one a core.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Keep how far it has come in this file, and go on from there.
    #[arg(long, value_name = "FILE")]
    progress: Option<PathBuf>,
    /// Where scenarios that fail go: each as it was, and as small as it fails.
    #[arg(long, default_value = "twins-failures", value_name = "FOLDER")]
    failures: PathBuf,
    /// Give a protocol up when so many scenarios have failed.
    #[arg(long, default_value_t = 10, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1000))]
    max_failures: u64,
    /// Tell one scenario of this file in full: every message, and the block tree.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["files", "progress"])]
    replay: Option<PathBuf>,
    /// Which scenario of the file, from 0; without --replay: tell the one of this number.
    #[arg(long, value_name = "N", conflicts_with_all = ["files", "progress", "sample"])]
    scenario: Option<u128>,
    /// Do not tell of messages, only of what came of it.
    #[arg(long)]
    brief: bool,
}

/// Protocols by name.
#[derive(Clone, Debug)]
struct Variants(Vec<Variant>);

fn variants(text: &str) -> Result<Variants, String> {
    let mut all: Vec<Variant> = Vec::new();
    for name in text.split(',') {
        let named = Variant::named(name.trim());
        if named.is_empty() {
            let names: Vec<&str> = Variant::all().iter().map(|variant| variant.name).collect();
            return Err(format!("no protocol {name:?}: use all, every, {}", names.join(", ")));
        }
        all.extend(named);
    }
    Ok(Variants(all))
}

/// What is run, whatever the protocol.
struct Work {
    source: Source,
    shape: Shape,
    /// In words: what the progress file is of.
    identity: String,
}

/// Runs `twins run`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    if arguments.replay.is_some() || arguments.scenario.is_some() {
        return tell(arguments, format);
    }
    let work = work(arguments, format)?;
    let mut saved = match &arguments.progress {
        Some(path) => Some(ProgressFile::open(path, &work.identity)?),
        None => None,
    };
    let (_runtime, told) = runtime()?;
    let mut rows = Vec::new();
    for variant in &arguments.protocol.0 {
        let plan = plan(arguments, *variant, work.shape)?;
        let before = saved.as_ref().map(|file| file.of(variant.name)).unwrap_or_default();
        let (end, seconds) = campaign(arguments, &plan, &work, before.clone(), &told, &mut saved)?;
        keep(arguments, &plan, &work.source, &end.failed)?;
        let rate = (end.totals.scenarios - before.totals.scenarios) as f64 / seconds;
        rows.push((variant.name, end, rate));
        if told.load(Ordering::Relaxed) {
            break;
        }
    }
    match format {
        Format::Table => print(&for_people(&rows))?,
        Format::Json => print_json(&for_programs(&work, &rows))?,
    }
    verdict(arguments, &work, &rows, told.load(Ordering::Relaxed))
}

fn plan(arguments: &Arguments, variant: Variant, shape: Shape) -> Result<Plan, Failure> {
    let signatures = arguments.signatures.signatures(shape.replicas())?;
    Ok(Plan::new(variant, signatures).with_prefix(arguments.prefix))
}

fn work(arguments: &Arguments, format: Format) -> Result<Work, Failure> {
    let prefix = arguments.prefix;
    if arguments.files.is_empty() {
        let space = arguments.kind.space()?;
        let numbers = arguments.kind.numbers(&space);
        if format == Format::Table {
            let words = counted(&space);
            print(&format!("{words}\n{} to be run\n", grouped(numbers.len())))?;
        }
        let (shape, identity) = (space.kind().shape, arguments.kind.identity());
        let source = Source::Numbered(Box::new(space), numbers);
        return Ok(Work { source, shape, identity: format!("{identity}, prefix {prefix}") });
    }
    let paths = files::list(&arguments.files)?;
    let mut scenarios: Vec<Scenario> = Vec::new();
    let mut shape = None;
    for path in &paths {
        let contents = files::read(path)?;
        if *shape.get_or_insert(contents.shape) != contents.shape {
            let what = "it has other replicas or twins than the files before it".to_owned();
            return Err(files::refused(path, what, "run it by itself"));
        }
        scenarios.extend(contents.scenarios);
    }
    let Some(shape) = shape else {
        let what = "there is no file of scenarios".to_owned();
        return Err(files::refused(&arguments.files[0], what, "name files that end in .json"));
    };
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let identity =
        format!("{} scenarios of {}, prefix {prefix}", scenarios.len(), names.join(", "));
    Ok(Work { source: Source::Listed(scenarios), shape, identity })
}

/// Runs one protocol's campaign, on from where it was. What came of it, and the seconds it took.
fn campaign(
    arguments: &Arguments,
    plan: &Plan,
    work: &Work,
    before: Progress,
    told: &AtomicBool,
    saved: &mut Option<ProgressFile>,
) -> Result<(Progress, f64), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let campaign = Campaign {
        plan,
        source: &work.source,
        threads: arguments.threads.map_or(cores, usize::from),
        max_failures: arguments.max_failures,
    };
    let live = std::io::stderr().is_terminal();
    let every = if live { EVERY.0 } else { EVERY.1 };
    let began = Instant::now();
    let (mut said_at, mut saved_at) = (began, None::<Instant>);
    let from = before.totals.scenarios;
    let (name, mut failed) = (plan.variant.name, None);
    let end = campaign.run(before, told, |progress| {
        if said_at.elapsed() >= every {
            said_at = Instant::now();
            let line = live_line(name, progress, from, work.source.len(), began.elapsed());
            let (begin, end) = if live { ("\r", "\x1b[K") } else { ("", "\n") };
            // Whoever closed standard error does not want to see it.
            let _ = write!(std::io::stderr(), "{begin}{line}{end}");
        }
        if saved_at.is_none_or(|at| at.elapsed() >= SAVED_EVERY)
            && let Some(file) = saved
        {
            saved_at = Some(Instant::now());
            if let Err(error) = file.save(name, progress) {
                // Going on would lose what comes of it.
                told.store(true, Ordering::Relaxed);
                failed.get_or_insert(error);
            }
        }
    });
    if live {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    if let Some(file) = saved {
        file.save(name, &end)?;
    }
    failed.map_or(Ok((end, began.elapsed().as_secs_f64())), Err)
}

/// `hotstuff-chained [####····] 42.0 %, 10,000 of 23,000, 4,321/s, 3 s left, 120 forked, 0 failed`.
fn live_line(name: &str, progress: &Progress, from: u128, all: u128, elapsed: Duration) -> String {
    let totals = &progress.totals;
    let share = totals.scenarios as f64 / all.max(1) as f64;
    let full = (share * 20.0) as usize;
    let bar = format!("{}{}", "#".repeat(full), "·".repeat(20_usize.saturating_sub(full)));
    let rate = (totals.scenarios - from) as f64 / elapsed.as_secs_f64();
    let left = (all - totals.scenarios) as f64 / rate.max(1e-9);
    let left = match left as u64 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    };
    format!(
        "{name} [{bar}] {:.1} %, {} of {}, {rate:.0}/s, {left} left, {} forked, {} failed",
        share * 100.0,
        grouped(totals.scenarios),
        grouped(all),
        grouped(totals.forked.into()),
        totals.failed,
    )
}

/// Writes scenarios that failed to files, each as it was and as small as it fails.
fn keep(
    arguments: &Arguments,
    plan: &Plan,
    source: &Source,
    failed: &[Failed],
) -> Result<(), Failure> {
    if failed.is_empty() {
        return Ok(());
    }
    files::make_folder(&arguments.failures)?;
    let most = usize::try_from(arguments.max_failures).unwrap_or(usize::MAX);
    for failure in failed.iter().take(most) {
        let Some(scenario) = source.get(failure.place) else { continue };
        let name = format!("{}-{}", plan.variant.name, failure.place);
        let file = |suffix: &str| arguments.failures.join(format!("{name}{suffix}.json"));
        write_one(&file(""), plan, &scenario, &failure.violation.to_string())?;
        if let Some((small, violation)) = shrink(plan, &scenario) {
            write_one(&file("-small"), plan, &small, &violation.to_string())?;
        }
    }
    Ok(())
}

fn write_one(path: &Path, plan: &Plan, scenario: &Scenario, words: &str) -> Result<(), Failure> {
    let groups = scenario.views.iter().flat_map(|view| view.groups.iter());
    let head = Head {
        shape: scenario.shape,
        partitions: groups.map(|groups| groups.count()).max().unwrap_or(1),
        views: scenario.views.len(),
        prefix: Some(plan.prefix),
        failure: Some((plan.variant.name.to_owned(), words.to_owned())),
    };
    files::write(path, &quorate_sim::twins::format::write(&head, &[(None, scenario.clone())]))
}

type Row = (&'static str, Progress, f64);

fn for_people(rows: &[Row]) -> String {
    let head = [
        "PROTOCOL",
        "SCENARIOS",
        "COMMITTED",
        "FORKED",
        "EQUIVOCATED",
        "NOTICED",
        "FAILED",
        "RECOVERED IN",
        "PER SECOND",
    ];
    let cells: Vec<_> = rows
        .iter()
        .map(|(name, end, rate)| {
            let totals = &end.totals;
            [
                (*name).to_owned(),
                grouped(totals.scenarios),
                grouped(totals.committed.into()),
                grouped(totals.forked.into()),
                grouped(totals.equivocated.into()),
                grouped(totals.noticed.into()),
                grouped(totals.failed.into()),
                format!("{} views", totals.longest_suffix),
                grouped(*rate as u128),
            ]
        })
        .collect();
    let mut text = table(head, &cells);
    for (name, end, _) in rows {
        if end.totals.scenarios > 0 && end.totals.forked == 0 {
            text.push_str(&format!("warning: {name}: nothing forked, which proves nothing\n"));
        }
        for failed in end.failed.iter().take(3) {
            text.push_str(&format!("{name}: scenario {}: {}\n", failed.place, failed.violation));
        }
    }
    text
}

fn for_programs(work: &Work, rows: &[Row]) -> Value {
    let protocols: Vec<Value> = rows
        .iter()
        .map(|(name, end, rate)| {
            let mut row = totals_json(end);
            (row["protocol"], row["scenarios_per_second"]) = (json!(name), json!(rate));
            row
        })
        .collect();
    json!({
        "campaign": work.identity,
        "scenarios": work.source.len().to_string(),
        "protocols": protocols,
    })
}

fn verdict(arguments: &Arguments, work: &Work, rows: &[Row], stopped: bool) -> Result<(), Failure> {
    let failed: Vec<&str> =
        rows.iter().filter(|(_, end, _)| end.totals.failed > 0).map(|(name, ..)| *name).collect();
    if !failed.is_empty() {
        let what = format!("violations in {}", failed.join(", "));
        let place = Place::File(arguments.failures.clone());
        let remedy = "see them with quorate twins run --replay FILE".to_owned();
        return Err(Failure::new(Exit::Unsafe, Finding { what, place, remedy }));
    }
    if stopped {
        let done = rows.last().map_or(0, |(_, end, _)| end.totals.scenarios);
        let name = rows.last().map_or("nothing", |(name, ..)| *name);
        let what = format!(
            "stopped in {name} after {} of {} scenarios",
            grouped(done),
            grouped(work.source.len())
        );
        let (place, remedy) = match &arguments.progress {
            Some(file) => (Place::File(file.clone()), "the same command goes on from there"),
            None => (Place::Flag("--progress".to_owned()), "name a file to go on from next time"),
        };
        return Err(Failure::new(Exit::Failed, Finding { what, place, remedy: remedy.to_owned() }));
    }
    Ok(())
}

/// Tells of one scenario.
fn tell(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let no_such = |number: u128, place: Place| {
        let what = format!("there is no scenario {number}");
        let remedy = "use a smaller number".to_owned();
        Failure::new(Exit::Usage, Finding { what, place, remedy })
    };
    let number = arguments.scenario.unwrap_or(0);
    let (scenario, protocol, prefix) = match &arguments.replay {
        Some(path) => {
            let contents = files::read(path)?;
            let place = usize::try_from(number).unwrap_or(usize::MAX);
            let scenario = contents.scenarios.get(place).cloned();
            let scenario = scenario.ok_or_else(|| no_such(number, Place::File(path.clone())))?;
            (scenario, contents.protocol, contents.prefix)
        }
        None => {
            let space = arguments.kind.space()?;
            let scenario = space.scenario(number);
            let flag = || no_such(number, Place::Flag("--scenario".to_owned()));
            (scenario.ok_or_else(flag)?, None, None)
        }
    };
    // A file knows which protocol its scenario makes fail.
    let of_file = protocol.map(|name| Variant::named(&name)).filter(|named| !named.is_empty());
    let variants = of_file.unwrap_or_else(|| arguments.protocol.0.clone());
    let mut failed = false;
    for variant in variants {
        let mut plan = plan(arguments, variant, scenario.shape)?;
        if let Some(prefix) = prefix {
            plan = plan.with_prefix(prefix);
        }
        failed |= replay::tell(&plan, &scenario, arguments.brief, format)?;
    }
    if failed {
        let place = Place::File(arguments.replay.clone().unwrap_or_default());
        let what = "the scenario fails".to_owned();
        let remedy = "the lines above say how".to_owned();
        return Err(Failure::new(Exit::Unsafe, Finding { what, place, remedy }));
    }
    Ok(())
}
