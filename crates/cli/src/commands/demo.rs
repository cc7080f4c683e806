//! `quorate demo`: a cluster of processes, a load that checks every answer, and a kill.

mod screen;
mod show;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_lab::counting::{Counting, Size, Verdict};
use quorate_lab::local::{Echo, LocalCluster, Options};
use quorate_node::client::{Authenticity, ClientConfig};
use quorate_node::config::{Durability, Finding, Place};
use quorate_node::testnet;
use serde_json::{Value, json};

use crate::arguments::{ChoiceArguments, durability};
use crate::failure::{Exit, Failure};
use crate::local::{failure, program, runtime, start_gateway};
use crate::output::{Format, print, print_json_line, warn};
use screen::Screen;
use show::Show;

/// How long the cluster may take for anything that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a demonstration takes that nobody watches, if not told.
const UNWATCHED: Duration = Duration::from_secs(10);
/// How often keys are looked for and the plan is gone on with.
const TICK: Duration = Duration::from_millis(50);
/// The load: small enough to leave a laptop's cores to the replicas.
const SIZE: Size = Size { clients: 4, outstanding: 4 };

/// Run a cluster in a temporary folder, with load, and show what it does.
///
/// Without a terminal, or with --seconds, the leader is killed half-way and restarted; every
/// answer is checked, and the exit code is not 0 if anything was lost or done twice.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Stop after this long; the last one given counts. Default: when told to; 10 without a
    /// terminal.
    #[arg(long, overrides_with = "seconds", value_name = "N")]
    pub seconds: Option<u64>,
    /// How many replicas; n tolerates (n - 1) / 3 faulty ones.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    pub replicas: usize,
    /// The port that answers redis-cli; another free one if it is taken.
    #[arg(long, default_value_t = 6379, value_name = "PORT")]
    pub port: u16,
    /// What a vote waits for: the disk, or the operating system.
    #[arg(long, default_value = "sync", value_parser = durability(), value_name = "NAME")]
    pub durability: Durability,
    /// Leave the folder with homes and logs, and say where it is.
    #[arg(long)]
    pub keep: bool,
    #[command(flatten)]
    pub choices: ChoiceArguments,
}

/// Runs `demo`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let made = tempfile::Builder::new().prefix("quorate-demo-").tempdir().map_err(|error| {
        Failure::io(error, &std::env::temp_dir(), "set TMPDIR to a folder that can be written")
    })?;
    // Removed when this goes out of scope; by then nothing runs in it any more.
    let _removed;
    let folder: PathBuf = match arguments.keep {
        true => {
            let folder = made.keep();
            eprintln!("homes and logs stay in {}", folder.display());
            folder
        }
        false => {
            _removed = made;
            _removed.path().to_owned()
        }
    };
    demonstrate(arguments, &folder, format)
}

fn demonstrate(
    arguments: &Arguments,
    folder: &std::path::Path,
    format: Format,
) -> Result<(), Failure> {
    let live = format == Format::Table
        && std::io::stdout().is_terminal()
        && std::io::stdin().is_terminal();
    let options = testnet::Options {
        chain: "demo".to_owned(),
        durability: arguments.durability,
        ..arguments.choices.options(arguments.replicas)
    };
    let net = testnet::init(folder, arguments.replicas, &options)?;
    warn(&net.warnings);
    let failed = |error: &dyn std::error::Error| failure(error, folder);
    let (runtime, told) = runtime()?;
    let program = program()?;
    let start = Options {
        program: program.clone(),
        arguments: Vec::new(),
        own_arguments: BTreeMap::new(),
        echo: Echo::No,
        namespaces: Vec::new(),
    };
    let cluster = LocalCluster::start(net.cluster, net.replicas, start).map_err(|e| failed(&e))?;
    cluster.await_ready(PATIENCE).map_err(|error| failed(&error))?;
    let (_gateway, redis) = start_gateway(&program, &net.client, arguments.port, Echo::No)?;
    let config = ClientConfig {
        replicas: cluster.addresses(),
        session: cluster.session(),
        give_up_after: None,
        authenticity: Authenticity::of(cluster.cluster()),
        incarnation: None,
    };
    let counting = runtime.block_on(Counting::begin(config, SIZE, PATIENCE));
    let counting = counting.map_err(|error| failed(&error))?;

    let redis_port = redis.rsplit(':').next().unwrap_or_default().to_owned();
    let unwatched = (!live).then_some(UNWATCHED);
    let length = arguments.seconds.map(Duration::from_secs).or(unwatched);
    let mut show = Show::new(cluster, counting, runtime, length);
    let mut screen = Screen::open(live, arguments, &redis_port)?;
    while !show.is_over() && !told.load(Ordering::Relaxed) {
        let began = Instant::now();
        let keys = screen.keys(TICK);
        show.obey(&keys).map_err(|error| failed(&*error))?;
        show.go_on().map_err(|error| failed(&*error))?;
        screen.draw(&mut show);
        std::thread::sleep(TICK.saturating_sub(began.elapsed()));
    }
    drop(screen);
    let (outcome, verdict) = show.end(PATIENCE).map_err(|error| failed(&*error))?;
    let report = report(arguments, &outcome, &verdict);
    match format {
        Format::Json => print_json_line(&report)?,
        Format::Table => print(&for_people(arguments, &outcome, &verdict))?,
    }
    if verdict.is_sound() {
        return Ok(());
    }
    let what = format!(
        "{} acknowledged commands were lost, {} were executed twice, {} were answered wrongly",
        verdict.lost, verdict.duplicated, verdict.wrong
    );
    let remedy = "run again with --keep, and report what happened with the folder".to_owned();
    let place = Place::Default;
    Err(Failure::new(Exit::Unsafe, Finding { what, place, remedy }))
}

fn report(arguments: &Arguments, outcome: &show::Outcome, verdict: &Verdict) -> Value {
    let ms = |span: Option<Duration>| span.map(|span| span.as_secs_f64() * 1e3);
    let choices = arguments.choices.combination(arguments.replicas);
    json!({
        "protocol": choices.protocol.name(),
        "votes": choices.votes.name(),
        "second_vote": choices.second_vote,
        "pacemaker": choices.pacemaker.name(),
        "leader": choices.leader.name(),
        "signatures": choices.signatures.as_str(),
        "transport": arguments.choices.transport().name(),
        "replicas": arguments.replicas,
        "durability": arguments.durability.name(),
        "seconds": outcome.seconds,
        "acknowledged": verdict.acknowledged,
        "lost": verdict.lost,
        "duplicated": verdict.duplicated,
        "wrong": verdict.wrong,
        "ambiguous": verdict.ambiguous,
        "failed": verdict.failed,
        "throughput": verdict.throughput,
        "p50_ms": verdict.p50_ms,
        "p99_ms": verdict.p99_ms,
        "max_ms": verdict.max_ms,
        "killed": outcome.killed,
        "throughput_before_kill": outcome.before,
        "throughput_while_down": outcome.down,
        "recovery_ms": ms(outcome.recovery),
        "catch_up_ms": ms(outcome.catch_up),
    })
}

fn for_people(arguments: &Arguments, outcome: &show::Outcome, verdict: &Verdict) -> String {
    let mut text = format!(
        "{} commands acknowledged in {:.0} s by {} replicas ({}): {:.0}/s, p50 {:.1} ms, p99 {:.1} ms\n\
         lost: {}   duplicated: {}   wrong: {}   unknown: {}\n",
        verdict.acknowledged,
        outcome.seconds,
        arguments.replicas,
        arguments.choices.described(arguments.replicas),
        verdict.throughput,
        verdict.p50_ms,
        verdict.p99_ms,
        verdict.lost,
        verdict.duplicated,
        verdict.wrong,
        verdict.ambiguous,
    );
    if let (Some(before), Some(down)) = (outcome.before, outcome.down) {
        text.push_str(&format!(
            "throughput: {before:.0}/s before the leader was killed, {down:.0}/s while it was down\n"
        ));
    }
    if let Some(recovery) = outcome.recovery {
        text.push_str(&format!(
            "leader killed: a command submitted then was committed {:.0} ms later\n",
            recovery.as_secs_f64() * 1e3
        ));
    }
    if let Some(catch_up) = outcome.catch_up {
        text.push_str(&format!(
            "restarted: it had caught up after {:.0} ms\n",
            catch_up.as_secs_f64() * 1e3
        ));
    }
    text
}
