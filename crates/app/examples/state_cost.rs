//! What the state of the key-value store costs, in memory and on disk: one thread, no network, no
//! log of a replica.
//!
//! `cargo run --release -p quorate-app --example state_cost -- [KEYS…] [--seconds N] [--folder F]
//! [--disk-only] [--mixes AC] [--stores N]`: blocks of 800 commands, uniform keys of 23 bytes,
//! values of 128: half of them set (A), or none (C). With several stores each executes every block
//! in turn, as replicas do that share a processor and its cache. Prints the microseconds of a
//! command in one store, by the clock and of all processors.

use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate_app::kv::command::encode;
use quorate_app::kv::disk::{FileFolders, Shelf};
use quorate_app::kv::{Condition, KeyValue};
use quorate_core::ledger::state_machine::{Checkpoint, Decided, Replies, StateMachine};
use quorate_core::{Height, View};
use quorate_store::lazy_trie;

type Failure = Box<dyn std::error::Error>;

const BLOCK: usize = 800;
const VALUE_BYTES: usize = 128;
const TICKS_PER_SECOND: f64 = 100.0;

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

fn set(command: &mut Vec<u8>, key: u64, random: &mut Random) {
    let mut value = [0; VALUE_BYTES];
    value.as_chunks_mut::<8>().0.iter_mut().for_each(|part| *part = random.next().to_le_bytes());
    encode::set(command, format!("user{key:019}").as_bytes(), &value, Condition::Always, false);
}

/// Processor time of this process so far, its threads included.
fn processor_seconds() -> Result<f64, Failure> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks = fields.skip(11).take(2).map(str::parse::<f64>).sum::<Result<f64, _>>()?;
    Ok(ticks / TICKS_PER_SECOND)
}

/// What executes blocks as replicas do, but for the session table.
struct Bench<S> {
    stores: Vec<KeyValue<S>>,
    /// The checkpoint of each, on its way.
    finishing: Vec<Option<JoinHandle<()>>>,
    height: u64,
}

fn finish(mut checkpoint: Box<dyn Checkpoint>) {
    if let Err(error) = checkpoint.finish() {
        eprintln!("checkpoint: {error}");
    }
}

impl<S: quorate_app::kv::Storage> Bench<S> {
    fn execute(&mut self, commands: &[Vec<u8>]) -> Result<(), Failure> {
        let commands: Vec<&[u8]> = commands.iter().map(Vec::as_slice).collect();
        self.height += 1;
        let decided = Decided {
            height: Height(self.height),
            view: View(self.height),
            commands: &commands,
            rules: 1,
            callers: &[],
        };
        for (store, finishing) in self.stores.iter_mut().zip(&mut self.finishing) {
            let mut replies = Replies::default();
            store.apply(&decided, &mut replies);
            if let Some(keeper) = store.keeper() {
                keeper.check()?;
            }
            std::hint::black_box(store.root());
            if let Some(keeper) = store.keeper()
                && keeper.is_due()
                && finishing.as_ref().is_none_or(JoinHandle::is_finished)
            {
                // As a replica does, by another thread.
                let checkpoint = keeper.begin_checkpoint(&[0; 56])?;
                *finishing = Some(std::thread::spawn(move || finish(checkpoint)));
            }
        }
        Ok(())
    }

    fn load(&mut self, keys: u64, random: &mut Random) -> Result<(), Failure> {
        for first in (0..keys).step_by(BLOCK) {
            let block: Vec<Vec<u8>> = (first..keys.min(first + BLOCK as u64))
                .map(|key| {
                    let mut command = Vec::new();
                    set(&mut command, key, random);
                    command
                })
                .collect();
            self.execute(&block)?;
        }
        Ok(())
    }

    /// Microseconds of a command, by the clock and of all processors.
    fn run(&mut self, keys: u64, sets_of_8: u64, time: Duration) -> Result<(f64, f64), Failure> {
        let mut random = Random(keys + sets_of_8 + 1);
        let mut pool = Vec::new();
        for _ in 0..256 {
            let mut block = Vec::new();
            for _ in 0..BLOCK {
                let (key, mut command) = (random.next() % keys, Vec::new());
                if random.next() >> 61 < sets_of_8 {
                    set(&mut command, key, &mut random);
                } else {
                    encode::get(&mut command, format!("user{key:019}").as_bytes());
                }
                block.push(command);
            }
            pool.push(block);
        }
        let (begun, before) = (Instant::now(), processor_seconds()?);
        let mut commands = 0;
        while begun.elapsed() < time {
            let block = &pool[commands / BLOCK % pool.len()];
            self.execute(block)?;
            commands += BLOCK;
        }
        let (clock, processor) = (begun.elapsed().as_secs_f64(), processor_seconds()? - before);
        let executed = (commands * self.stores.len()) as f64;
        Ok((clock * 1e6 / executed, processor * 1e6 / executed))
    }
}

fn measure<S: quorate_app::kv::Storage>(
    name: &str,
    stores: Vec<KeyValue<S>>,
    keys: u64,
    time: Duration,
    mixes: &str,
) -> Result<(), Failure> {
    let finishing = stores.iter().map(|_| None).collect();
    let mut bench = Bench { stores, finishing, height: 0 };
    bench.load(keys, &mut Random(1))?;
    for (mix, sets_of_8) in [('A', 4), ('C', 0)].into_iter().filter(|(mix, _)| mixes.contains(*mix))
    {
        let (clock, processor) = bench.run(keys, sets_of_8, time)?;
        println!(
            "{name:<6} {keys:>9} keys  {mix}  {clock:.3} us a command, {processor:.3} of processors"
        );
    }
    Ok(())
}

fn on_disk(
    folder: &Path,
    stores: usize,
    keys: u64,
    time: Duration,
    mixes: &str,
) -> Result<(), Failure> {
    let place = folder.join(format!("state_cost-{}-{keys}", std::process::id()));
    let open = |number: usize| {
        let folders = FileFolders::new(&place.join(number.to_string()));
        Ok(KeyValue::on_disk(&Shelf::open(folders, lazy_trie::Options::default())?))
    };
    let stores = (0..stores).map(open).collect::<Result<_, Failure>>()?;
    let measured = measure("disk", stores, keys, time, mixes);
    std::fs::remove_dir_all(&place)?;
    measured
}

fn main() -> Result<(), Failure> {
    let (mut keys, mut seconds, mut folder) = (Vec::new(), 5, std::env::temp_dir());
    let (mut kinds, mut mixes, mut stores) = (vec!["memory", "disk"], "AC".to_owned(), 1);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--seconds" => seconds = arguments.next().ok_or("--seconds N")?.parse()?,
            "--folder" => folder = PathBuf::from(arguments.next().ok_or("--folder F")?),
            "--stores" => stores = arguments.next().ok_or("--stores N")?.parse()?,
            "--mixes" => mixes = arguments.next().ok_or("--mixes AC")?,
            "--disk-only" => kinds.retain(|kind| *kind == "disk"),
            number => keys.push(number.parse()?),
        }
    }
    if stores == 0 {
        return Err("--stores wants 1 or more".into());
    }
    if keys.is_empty() {
        keys = vec![10_000, 100_000, 1_000_000];
    }
    for keys in keys {
        let time = Duration::from_secs(seconds);
        for kind in &kinds {
            match *kind {
                "memory" => {
                    let stores = (0..stores).map(|_| KeyValue::new()).collect();
                    measure("memory", stores, keys, time, &mixes)?;
                }
                _ => on_disk(&folder, stores, keys, time, &mixes)?,
            }
        }
    }
    Ok(())
}
