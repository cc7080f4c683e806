//! `quorate pay bench`

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_crypto::SecretKey;
use quorate_node::config::Durability;
use quorate_payments::Address;
use quorate_payments::setup::{self, Made, Options};
use serde_json::json;

use super::failed;
use super::load::{Chain, Tally, pay};
use super::local::Nodes;
use crate::arguments::{durability, seconds};
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, print, print_json};

/// Keys that the outputs belong to.
const KEYS: usize = 64;
/// How long payments that are under way are waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long nodes are dead that are killed, and how long payments go on after it.
const DEAD: Duration = Duration::from_secs(3);
const AFTER: Duration = Duration::from_secs(3);

/// Measure a network of processes on this machine: payments a second, and how long one takes.
///
/// Each payment is signed by its wallet, verified by every node, and counted when the node that it
/// was given to says that it is accepted and durable.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many nodes.
    #[arg(short = 'n', long, default_value_t = 20, value_name = "N")]
    nodes: usize,
    /// Payments under way at a time; each of them goes on when it is accepted.
    #[arg(long, default_value_t = 400, value_name = "N")]
    outstanding: usize,
    /// How long to measure.
    #[arg(long, default_value = "10", value_parser = seconds, value_name = "SECONDS")]
    seconds: Duration,
    /// How long to pay before.
    #[arg(long, default_value = "3", value_parser = seconds, value_name = "SECONDS")]
    warmup: Duration,
    /// When all is measured, kill so many nodes with SIGKILL under load, start them again after
    /// three seconds, and see that nothing accepted is lost. No payments are given to these.
    #[arg(long, default_value_t = 0, value_name = "N")]
    kill: usize,
    /// What an acceptance waits for: the disk, or the operating system.
    #[arg(long, default_value = "sync", value_parser = durability(), value_name = "NAME")]
    durability: Durability,
    /// Leave the folder with homes and logs, and say where it is.
    #[arg(long)]
    keep: bool,
}

/// What was measured.
struct Measured {
    rate: f64,
    p50: f64,
    p99: f64,
    /// Questions and answers of a payment and node, and the processor time of each: all threads,
    /// kernel and encryption included.
    messages: f64,
    message_us: f64,
    undecided: usize,
    refused: u64,
    agree: bool,
    /// Whether the ledgers hold what wallets were told is accepted, and nothing else.
    exact: bool,
    node_0: serde_json::Value,
}

/// Runs `pay bench`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let made = tempfile::Builder::new().prefix("quorate-pay-").tempdir().map_err(|error| {
        Failure::io(error, &std::env::temp_dir(), "set TMPDIR to a folder that can be written")
    })?;
    let folder = made.path().to_owned();
    let _removed = match arguments.keep {
        true => {
            eprintln!("homes and logs stay in {}", made.keep().display());
            None
        }
        false => Some(made),
    };
    if arguments.kill >= arguments.nodes {
        let what = format!("{} of {} nodes cannot be killed", arguments.kill, arguments.nodes);
        return Err(failed(Exit::Usage, &what, &folder, "leave one alive with --kill"));
    }
    let measured = measure(arguments, &folder)?;
    tell(arguments, &measured, format)?;
    let Measured { refused, undecided, agree, exact, .. } = measured;
    if refused == 0 && undecided == 0 && agree && exact {
        return Ok(());
    }
    let what = "payments were refused, left undecided or lost, or ledgers differ";
    Err(wrong(&folder, &what))
}

fn wrong(folder: &Path, error: &dyn std::fmt::Display) -> Failure {
    failed(Exit::Failed, error, folder, "see the logs in the nodes' homes (--keep)")
}

/// A network, and what is paid in it.
struct Scene {
    net: Made,
    /// By the node that they are given to.
    chains: Vec<Vec<Chain>>,
    recipients: Vec<Address>,
}

fn make(arguments: &Arguments, folder: &Path) -> Result<Scene, Failure> {
    let keys =
        (0..KEYS).map(|_| SecretKey::generate().map(Arc::new)).collect::<Result<Vec<_>, _>>();
    let keys = keys.map_err(|error| wrong(folder, &error))?;
    let addresses: Vec<_> = keys.iter().map(|key| Address::of(&key.public_key())).collect();
    let owner = |place: usize| (Some(addresses[place % KEYS]), 1_000_000_000);
    let options = Options {
        name: "bench".to_owned(),
        base_port: None,
        genesis: (0..arguments.outstanding.max(1)).map(owner).collect(),
        parameters: setup::parameters_among(arguments.nodes),
    };
    let net =
        setup::init(folder, arguments.nodes, &options).map_err(|error| wrong(folder, &error))?;
    let mut chains: Vec<Vec<Chain>> = vec![Vec::new(); arguments.nodes - arguments.kill];
    let alive = chains.len();
    for (place, (output, made)) in net.network.genesis.outputs().enumerate() {
        let key = Arc::clone(&keys[place % KEYS]);
        chains[place % alive].push(Chain { key, output, amount: made.amount });
    }
    Ok(Scene { net, chains, recipients: addresses })
}

fn measure(arguments: &Arguments, folder: &Path) -> Result<Measured, Failure> {
    let Scene { net, chains, recipients } = make(arguments, folder)?;
    let (runtime, _told) = runtime()?;
    let mut nodes = Nodes::start(&net, folder, arguments.durability.name())?;
    let network = Arc::new(net.network);
    let tally = Tally::new();
    let mut end = Instant::now() + arguments.warmup + arguments.seconds;
    if arguments.kill > 0 {
        end += DEAD + AFTER;
    }
    let recipients = Arc::new(recipients);
    let tasks: Vec<_> = chains
        .into_iter()
        .enumerate()
        .map(|(id, chains)| {
            let (network, recipients) = (Arc::clone(&network), Arc::clone(&recipients));
            let (node, tally) = (ReplicaId(id as u16), Arc::clone(&tally));
            runtime.spawn(pay(network, node, chains, recipients, end, PATIENCE, tally))
        })
        .collect();
    std::thread::sleep(arguments.warmup);
    tally.begin_anew();
    let before = tally.accepted.load(Ordering::Relaxed);
    let (began_work, begun) = (nodes.work(), Instant::now());
    std::thread::sleep(arguments.seconds);
    let ended_work = nodes.work();
    let accepted = tally.accepted.load(Ordering::Relaxed) - before;
    let rate = accepted as f64 / begun.elapsed().as_secs_f64();
    let (p50, p99) = (tally.quantile_ms(0.5), tally.quantile_ms(0.99));
    let worked = ended_work.0.saturating_sub(began_work.0);
    let messages = ended_work.1.saturating_sub(began_work.1) as f64;
    if arguments.kill > 0 {
        let last = nodes.size() - arguments.kill..nodes.size();
        nodes.kill(last.clone());
        std::thread::sleep(DEAD);
        nodes.start_again(last)?;
    }
    let mut undecided = 0;
    for task in tasks {
        let joined = runtime.block_on(task).map_err(|error| wrong(folder, &error))?;
        undecided += joined.map_err(|error| wrong(folder, &error))?;
    }
    let agree = nodes.await_agreement();
    let status = nodes.status(0).unwrap_or_default();
    let (count, sum) = tally.told();
    Ok(Measured {
        rate,
        p50,
        p99,
        messages: messages / accepted.max(1) as f64 / arguments.nodes as f64,
        message_us: worked.as_secs_f64() * 1e6 / messages.max(1.0),
        undecided,
        refused: tally.refused.load(Ordering::Relaxed),
        agree,
        exact: status["accepted"] == count && status["sum"] == sum,
        node_0: status["numbers"].clone(),
    })
}

fn tell(arguments: &Arguments, measured: &Measured, format: Format) -> Result<(), Failure> {
    let Measured { rate, p50, p99, messages, message_us, undecided, .. } = measured;
    let Measured { refused, agree, exact, node_0, .. } = measured;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let killed = arguments.kill;
    match format {
        Format::Table => print(&format!(
            "{} nodes, {cores} cores, durability {}: {rate:.0} payments/s accepted, p50 {p50:.0} ms, \
             p99 {p99:.0} ms\nkilled: {killed}   refused: {refused}   undecided: {undecided}   \
             ledgers agree: {agree}   and hold what was accepted: {exact}\n\
             messages of a payment and node: {messages:.1}   processor of a message: {message_us:.1} us\n",
            arguments.nodes,
            arguments.durability.name(),
        )),
        Format::Json => print_json(&json!({
            "nodes": arguments.nodes,
            "cores": cores,
            "durability": arguments.durability.name(),
            "outstanding": arguments.outstanding,
            "payments_per_second": rate,
            "p50_ms": p50,
            "p99_ms": p99,
            "messages_per_payment_and_node": messages,
            "processor_us_per_message": message_us,
            "killed": killed,
            "refused": refused,
            "undecided": undecided,
            "agree": agree,
            "exact": exact,
            "node_0": node_0,
        })),
    }
}
