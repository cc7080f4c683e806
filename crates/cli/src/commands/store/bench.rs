//! `quorate store bench`

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use hdrhistogram::Histogram;
use quorate_lab::load::{Keys, Popularity};
use quorate_lab::random::Random;
use quorate_node::config::{Finding, Place};
use quorate_store::lazy_trie::{Batch, Durability, Error, Options, Store};
use serde_json::{Value, json};

use super::{is_nothing, refusal};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// YCSB's sizes: "user" and nineteen digits.
const KEY_BYTES: usize = 23;
const VALUE_BYTES: usize = 128;
/// Items of a commit while loading.
const LOAD_BATCH: u64 = 1000;
/// Latencies are told to three digits.
const DIGITS: u8 = 3;
const PERCENTILES: [f64; 4] = [50.0, 95.0, 99.0, 99.9];

/// Put a YCSB mix on a new store, and tell how fast it was.
///
/// 23-byte keys, 128-byte values, each change a commit of its own. The figures are those of this
/// machine in these seconds: see docs/store.md for measured ones beside other stores.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Where the store is made and kept: an empty folder, or none yet. Default: a temporary one.
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The mix: a half updates, b 5 % updates, c reads, f half read-modify-writes.
    #[arg(long, value_enum, default_value_t = Mix::A, value_name = "MIX")]
    workload: Mix,
    /// How many items are there.
    #[arg(long, default_value_t = 100_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    items: u64,
    /// How long the mix runs, in seconds.
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Threads that ask.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=64))]
    threads: u64,
    /// Each item as often as any other, instead of a few very often (Zipf's law).
    #[arg(long)]
    uniform: bool,
    /// A change returns when it survives the loss of power, instead of `kill -9`.
    #[arg(long)]
    sync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mix {
    A,
    B,
    C,
    F,
}

impl Mix {
    /// Reads of a hundred operations.
    const fn reads(self) -> u64 {
        match self {
            Self::A | Self::F => 50,
            Self::B => 95,
            Self::C => 100,
        }
    }
}

/// What a thread did.
struct Done {
    reads: Histogram<u64>,
    changes: Histogram<u64>,
}

/// Runs `store bench`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let temporary = match &arguments.folder {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(|error| {
            Failure::io(error, &std::env::temp_dir(), "name a folder with --folder")
        })?),
    };
    let temporary_path = temporary.as_ref().map(tempfile::TempDir::path);
    let folder = arguments.folder.as_deref().or(temporary_path).unwrap_or(Path::new("."));
    if !is_nothing(folder) {
        let what = "this folder is not empty".to_owned();
        let place = Place::File(folder.to_owned());
        let remedy = "name an empty folder, or one that is not there yet".to_owned();
        return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
    }
    let report = measure(arguments, folder).map_err(|error| refusal::of(&error, folder))?;
    match format {
        Format::Json => print_json(&report),
        Format::Table => print(&for_people(&report)),
    }
}

fn measure(arguments: &Arguments, folder: &Path) -> Result<Value, Error> {
    let durability = if arguments.sync { Durability::Sync } else { Durability::Os };
    let (store, _) = Store::open(folder, Options { durability, ..Options::default() })?;
    let begun = Instant::now();
    load(&store, arguments.items)?;
    let loaded_seconds = begun.elapsed().as_secs_f64();
    let popularity = if arguments.uniform { Popularity::Uniform } else { Popularity::Zipfian };
    let keys = Keys::new(popularity, arguments.items);
    let begun = Instant::now();
    let until = begun + Duration::from_secs(arguments.seconds);
    let done = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..arguments.threads)
            .map(|thread| {
                let (store, keys) = (&store, &keys);
                scope.spawn(move || work(store, keys, arguments, thread, until))
            })
            .collect();
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<_>, _>>()
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let (mut reads, mut changes) = (histogram(), histogram());
    for one in &done {
        // The bounds of all are the same.
        let _ = (reads.add(&one.reads), changes.add(&one.changes));
    }
    let operations = reads.len() + changes.len();
    let statistics = store.statistics();
    Ok(json!({
        "workload": format!("{:?}", arguments.workload).to_lowercase(),
        "items": arguments.items,
        "threads": arguments.threads,
        "popularity": if arguments.uniform { "uniform" } else { "zipfian" },
        "durability": if arguments.sync { "sync" } else { "os" },
        "load": { "seconds": loaded_seconds, "items_per_second": arguments.items as f64 / loaded_seconds },
        "seconds": seconds,
        "operations_per_second": operations as f64 / seconds,
        "read": latencies(&reads),
        "change": latencies(&changes),
        "space_bytes": statistics.space_bytes,
        "log_bytes": statistics.log_bytes,
    }))
}

fn load(store: &Store, items: u64) -> Result<(), Error> {
    let mut random = Random(0);
    let mut batch = Batch::new();
    for item in 0..items {
        batch.put(&key(item), &value(&mut random))?;
        if batch.len() as u64 == LOAD_BATCH || item + 1 == items {
            store.write(&batch)?;
            batch.clear();
        }
    }
    Ok(())
}

fn work(
    store: &Store,
    keys: &Keys,
    arguments: &Arguments,
    thread: u64,
    until: Instant,
) -> Result<Done, Error> {
    let mut random = Random(thread + 1);
    let mut done = Done { reads: histogram(), changes: histogram() };
    loop {
        let begun = Instant::now();
        if begun >= until {
            return Ok(done);
        }
        let key = key(keys.choose(arguments.items, &mut random));
        let histogram = if random.below(100) < arguments.workload.reads() {
            std::hint::black_box(store.get_with(&key, <[u8]>::len)?);
            &mut done.reads
        } else if arguments.workload == Mix::F {
            let new = value(&mut random);
            store.merge(&key, |old| {
                std::hint::black_box(old);
                Some(new.to_vec())
            })?;
            &mut done.changes
        } else {
            store.put(&key, &value(&mut random))?;
            &mut done.changes
        };
        let ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        histogram.saturating_record(ns);
    }
}

fn histogram() -> Histogram<u64> {
    // From a nanosecond to a minute.
    Histogram::new_with_bounds(1, 60_000_000_000, DIGITS)
        .unwrap_or_else(|_| unreachable!("bounds that a histogram can have"))
}

/// The key of an item: in no order, as YCSB's.
fn key(item: u64) -> [u8; KEY_BYTES] {
    let mut key = *b"user0000000000000000000";
    let mut rest = Random(item).next();
    for digit in key.iter_mut().skip(4).rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn value(random: &mut Random) -> [u8; VALUE_BYTES] {
    let mut value = [0; VALUE_BYTES];
    value.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.next().to_le_bytes()));
    value
}

fn latencies(histogram: &Histogram<u64>) -> Value {
    let us = |ns: u64| ns as f64 / 1000.0;
    let at = |percentile| us(histogram.value_at_percentile(percentile));
    let [p50, p95, p99, p999] = PERCENTILES.map(at);
    json!({
        "count": histogram.len(),
        "p50_us": p50,
        "p95_us": p95,
        "p99_us": p99,
        "p99_9_us": p999,
        "max_us": us(histogram.max()),
    })
}

fn for_people(report: &Value) -> String {
    let number = |value: &Value, digits: usize| {
        value.as_f64().map_or_else(String::new, |number| format!("{number:.digits$}"))
    };
    let row = |name: &str| {
        let part = &report[name];
        let fields = ["p50_us", "p95_us", "p99_us", "p99_9_us", "max_us"];
        let [p50, p95, p99, p999, max] = fields.map(|field| number(&part[field], 1));
        [name.to_owned(), part["count"].to_string(), p50, p95, p99, p999, max]
    };
    let head = ["OPERATION", "COUNT", "P50 US", "P95 US", "P99 US", "P99.9 US", "MAX US"];
    format!(
        "{} items loaded in {} s; {} operations/s\n\n{}",
        report["items"],
        number(&report["load"]["seconds"], 2),
        number(&report["operations_per_second"], 0),
        table(head, &[row("read"), row("change")]),
    )
}
