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
use quorate_payments::setup::{self, Options};
use serde_json::{Value, json};

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
const PATIENCE: Duration = Duration::from_secs(30);

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
    /// What an acceptance waits for: the disk, or the operating system.
    #[arg(long, default_value = "sync", value_parser = durability(), value_name = "NAME")]
    durability: Durability,
    /// Leave the folder with homes and logs, and say where it is.
    #[arg(long)]
    keep: bool,
}

/// What a network did while it was measured.
struct Measured {
    /// Payments accepted a second.
    rate: f64,
    p50_ms: f64,
    p99_ms: f64,
    refused: u64,
    /// Payments that were neither accepted nor refused in time.
    undecided: usize,
    /// Whether all ledgers ended the same.
    agree: bool,
    /// What the first node counts.
    numbers: Option<Value>,
}

fn wrong(folder: &Path, error: &dyn std::fmt::Display) -> Failure {
    failed(Exit::Failed, error, folder, "see the logs in the nodes' homes (--keep)")
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
    let measured = measure(arguments, &folder)?;
    show(arguments, format, &measured)?;
    if measured.refused == 0 && measured.undecided == 0 && measured.agree {
        return Ok(());
    }
    Err(wrong(&folder, &"payments were refused or left undecided, or ledgers differ"))
}

/// Starts a network with its homes in `folder`, pays along chains of outputs, and measures.
fn measure(arguments: &Arguments, folder: &Path) -> Result<Measured, Failure> {
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
    let made = setup::init(folder, arguments.nodes, &options);
    let net = made.map_err(|error| wrong(folder, &error))?;
    let (runtime, _told) = runtime()?;
    let nodes = Nodes::start(&net, folder, arguments.durability.name())?;

    let network = Arc::new(net.network);
    let tally = Tally::new();
    let begin = Instant::now() + arguments.warmup;
    let end = begin + arguments.seconds;
    let mut chains: Vec<Vec<Chain>> = vec![Vec::new(); arguments.nodes];
    for (place, (output, made)) in network.genesis.outputs().enumerate() {
        let key = Arc::clone(&keys[place % KEYS]);
        chains[place % arguments.nodes].push(Chain { key, output, amount: made.amount });
    }
    let recipients = Arc::new(addresses);
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
    let measured = Instant::now();
    std::thread::sleep(arguments.seconds);
    let accepted = tally.accepted.load(Ordering::Relaxed) - before;
    let rate = accepted as f64 / measured.elapsed().as_secs_f64();
    let (p50_ms, p99_ms) = (tally.quantile_ms(0.5), tally.quantile_ms(0.99));
    let mut undecided = 0;
    for task in tasks {
        let joined = runtime.block_on(task).map_err(|error| wrong(folder, &error))?;
        undecided += joined.map_err(|error| wrong(folder, &error))?;
    }
    let agree = nodes.await_agreement();
    let refused = tally.refused.load(Ordering::Relaxed);
    let numbers = nodes.status(0).map(|status| status["numbers"].clone());
    Ok(Measured { rate, p50_ms, p99_ms, refused, undecided, agree, numbers })
}

fn show(arguments: &Arguments, format: Format, measured: &Measured) -> Result<(), Failure> {
    let Measured { rate, p50_ms, p99_ms, refused, undecided, agree, numbers } = measured;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    match format {
        Format::Table => print(&format!(
            "{} nodes, {cores} cores, durability {}: {rate:.0} payments/s accepted, p50 {p50_ms:.0} ms, \
             p99 {p99_ms:.0} ms\nrefused: {refused}   undecided: {undecided}   ledgers agree: {agree}\n",
            arguments.nodes,
            arguments.durability.name(),
        )),
        Format::Json => print_json(&json!({
            "nodes": arguments.nodes,
            "cores": cores,
            "durability": arguments.durability.name(),
            "outstanding": arguments.outstanding,
            "payments_per_second": rate,
            "p50_ms": p50_ms,
            "p99_ms": p99_ms,
            "refused": refused,
            "undecided": undecided,
            "agree": agree,
            "node_0": numbers,
        })),
    }
}
