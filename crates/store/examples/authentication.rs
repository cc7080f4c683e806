//! Measures the cost of authentication: the same changes to a store with and one without, in turns;
//! then proofs.
//!
//! Arguments: `--items n` (1000000), `--batch n` (1000), `--updates n` for each round (200000),
//! `--rounds n` (4), `--digest-memory MiB` (256), `--durable os|sync` (os), `--folder path` (a
//! temporary folder). Rounds include the checkpoint of their changes.

use quorate_store::lazy_trie::{Batch, Durability, Hash, Options, Proofs, Store};
use quorate_store::merkle::Proof;
use std::path::PathBuf;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

struct Plan {
    items: u64,
    batch: u64,
    updates: u64,
    rounds: u64,
    digest_memory_bytes: u64,
    durability: Durability,
    folder: Option<PathBuf>,
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// A key of 23 bytes, as in `make bench-store`.
fn key(number: u64) -> [u8; 23] {
    let mut key = *b"user0000000000000000000";
    let mut rest = number;
    for digit in key[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    key
}

fn value(random: &mut Random) -> [u8; 128] {
    let mut value = [0; 128];
    value.chunks_mut(8).for_each(|chunk| chunk.copy_from_slice(&random.next().to_le_bytes()));
    value
}

/// The processor time of this process in seconds, over all threads.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let ticks: f64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / 100.0
}

fn plan() -> Result<Plan, Failure> {
    let mut plan = Plan {
        items: 1_000_000,
        batch: 1000,
        updates: 200_000,
        rounds: 4,
        digest_memory_bytes: Options::default().digest_memory_bytes,
        durability: Durability::Os,
        folder: None,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let value = arguments.next().ok_or(format!("{option} wants a value"))?;
        let number = || value.replace('_', "").parse::<u64>();
        match option.as_str() {
            "--items" => plan.items = number()?.max(1),
            "--batch" => plan.batch = number()?.max(1),
            "--updates" => plan.updates = number()?,
            "--rounds" => plan.rounds = number()?,
            "--digest-memory" => plan.digest_memory_bytes = number()?.saturating_mul(1 << 20),
            "--durable" => {
                plan.durability = match value.as_str() {
                    "os" => Durability::Os,
                    "sync" => Durability::Sync,
                    other => return Err(format!("no durability {other}").into()),
                }
            }
            "--folder" => plan.folder = Some(value.into()),
            _ => return Err(format!("no option {option}").into()),
        }
    }
    Ok(plan)
}

/// Writes the items of `numbers` in batches.
fn write(
    store: &Store,
    plan: &Plan,
    random: &mut Random,
    numbers: impl Iterator<Item = u64>,
) -> Result<(), Failure> {
    let mut batch = Batch::new();
    for number in numbers {
        batch.put(&key(number), &value(random))?;
        if batch.len() as u64 == plan.batch {
            store.write(&batch)?;
            batch.clear();
        }
    }
    store.write(&batch)?;
    store.checkpoint()?;
    Ok(())
}

/// The duration of an action, and its processor time, in seconds.
fn timed(what: impl FnOnce() -> Result<(), Failure>) -> Result<(f64, f64), Failure> {
    let (begun, before) = (Instant::now(), processor());
    what()?;
    Ok((begun.elapsed().as_secs_f64(), processor() - before))
}

fn measure_updates(plan: &Plan, stores: &[(&str, Store)]) -> Result<(), Failure> {
    let mut best = vec![0f64; stores.len()];
    let mut spent = vec![(0f64, 0f64); stores.len()];
    println!("| round | store | updates/s | processor µs an update |\n|---|---|---|---|");
    for round in 0..plan.rounds {
        for (index, (name, store)) in stores.iter().enumerate() {
            let mut draws = Random(round);
            let numbers = (0..plan.updates).map(|_| draws.next() % plan.items);
            let mut random = Random(round << 32);
            let (seconds, busy) = timed(|| write(store, plan, &mut random, numbers))?;
            let rate = plan.updates as f64 / seconds;
            let each = busy * 1e6 / plan.updates as f64;
            println!("| {round} | {name} | {rate:.0} | {each:.2} |");
            best[index] = best[index].max(rate);
            spent[index] = (spent[index].0 + seconds, spent[index].1 + busy);
        }
    }
    println!("\nas shares of what it is without authentication:");
    for (index, (name, _)) in stores.iter().enumerate().skip(1) {
        println!(
            "{name}: throughput {:.2} (all rounds), {:.2} (best rounds); processor time {:.2}",
            spent[0].0 / spent[index].0,
            best[index] / best[0],
            spent[0].1 / spent[index].1,
        );
    }
    Ok(())
}

fn measure_proofs(plan: &Plan, store: &Store) -> Result<(), Failure> {
    const PROOFS: u64 = 20_000;
    let snapshot = store.snapshot()?;
    let root = snapshot.root()?;
    println!("\n| proof of | bytes | most | prove µs | verify µs |\n|---|---|---|---|---|");
    for (what, first) in [("presence", 0), ("absence", plan.items)] {
        let mut random = Random(7);
        let keys: Vec<_> = (0..PROOFS).map(|_| key(first + random.next() % plan.items)).collect();
        let begun = Instant::now();
        let proofs: Vec<Vec<u8>> = keys
            .iter()
            .map(|key| Ok(snapshot.prove(key)?.encode()))
            .collect::<Result<_, Failure>>()?;
        let proving = begun.elapsed().as_secs_f64() * 1e6 / PROOFS as f64;
        let begun = Instant::now();
        for (key, bytes) in keys.iter().zip(&proofs) {
            let there = Proof::decode(bytes)?.verify(&root, &Hash::of(key).0)?.is_some();
            if there != (first == 0) {
                return Err("a proof of something else".into());
            }
        }
        let verifying = begun.elapsed().as_secs_f64() * 1e6 / PROOFS as f64;
        let bytes: usize = proofs.iter().map(Vec::len).sum();
        let most = proofs.iter().map(Vec::len).max().unwrap_or(0);
        let mean = bytes as f64 / PROOFS as f64;
        println!("| {what} | {mean:.0} | {most} | {proving:.2} | {verifying:.2} |");
    }
    Ok(())
}

fn main() -> Result<(), Failure> {
    let plan = plan()?;
    let folder = plan.folder.clone().unwrap_or_else(|| {
        std::env::temp_dir().join(format!("quorate-authentication-{}", std::process::id()))
    });
    let mut stores = Vec::new();
    println!("{} items of 23 + 128 bytes, batches of {}\n", plan.items, plan.batch);
    println!(
        "| store | loaded in s | loads/s | trie, % of the data | digests, % \
         |\n|---|---|---|---|---|"
    );
    let kinds = [
        ("plain", None),
        ("proofs of each commit", Some(Proofs::EachCommit)),
        ("proofs when asked", Some(Proofs::WhenAsked)),
    ];
    for (name, proofs) in kinds {
        let options = Options {
            authenticated: proofs.is_some(),
            proofs: proofs.unwrap_or(Proofs::EachCommit),
            durability: plan.durability,
            digest_memory_bytes: plan.digest_memory_bytes,
            ..Options::default()
        };
        let (store, recovered) = Store::open(folder.join(name), options)?;
        if !recovered.created {
            return Err(format!("{}: not empty, give another --folder", folder.display()).into());
        }
        let (seconds, _) = timed(|| write(&store, &plan, &mut Random(1), 0..plan.items))?;
        store.checkpoint()?;
        let statistics = store.statistics();
        let data = (statistics.key_bytes + statistics.value_bytes) as f64 / 100.0;
        let trie = (statistics.bucket_slot_bytes + statistics.node_slot_bytes) as f64 / data;
        let digests = statistics.digest_slot_bytes as f64 / data;
        let rate = plan.items as f64 / seconds;
        println!("| {name} | {seconds:.1} | {rate:.0} | {trie:.1} | {digests:.1} |");
        stores.push((name, store));
    }
    println!();
    measure_updates(&plan, &stores)?;
    measure_proofs(&plan, &stores[1].1)?;
    drop(stores);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
