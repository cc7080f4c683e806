//! Running the workloads, and what is read off.

use crate::Plan;
use crate::engines::{self, Durable, Engine, Failure, Put};
use crate::workload::{Chooser, KEY_BYTES, MIXES, Mix, Random, Spread, VALUE_BYTES, key, value};
use hdrhistogram::Histogram;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Items loaded with one commit.
const LOAD_BATCH: u64 = 1000;

/// What this process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Starts the others.
    Parent,
    /// Loads and measures one engine.
    Measure,
    /// Writes until killed.
    Victim,
    /// Opens what the victim left.
    Survivor,
}

impl Role {
    pub fn parse(name: &str) -> Result<Role, Failure> {
        match name {
            "measure" => Ok(Role::Measure),
            "victim" => Ok(Role::Victim),
            "survivor" => Ok(Role::Survivor),
            _ => Err(format!("no role {name}").into()),
        }
    }
}

pub fn run(plan: &Plan, role: Role) -> Result<(), Failure> {
    match role {
        Role::Parent => parent(plan),
        Role::Measure => measure(plan),
        Role::Victim => victim(plan),
        Role::Survivor => survivor(plan),
    }
}

fn parent(plan: &Plan) -> Result<(), Failure> {
    println!(
        "{} items of {KEY_BYTES} + {VALUE_BYTES} bytes, commits of {} to {}, {} s each\n",
        plan.items,
        plan.batch,
        if plan.durable == Durable::Os { "the operating system" } else { "the disk" },
        plan.seconds
    );
    println!(
        "| engine | workload | spread | threads | operations/s | p50 µs | p99 µs | bytes written per byte changed |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for engine in &plan.engines {
        let folder = plan.folder.join(engine);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        child(plan, engine, "measure")?.wait()?;
        let mut victim = child(plan, engine, "victim")?;
        std::thread::sleep(Duration::from_secs_f64(plan.seconds.max(3.0)));
        victim.kill()?;
        victim.wait()?;
        child(plan, engine, "survivor")?.wait()?;
        if !plan.keep {
            fs::remove_dir_all(&folder)?;
        }
    }
    Ok(())
}

fn child(plan: &Plan, engine: &str, role: &str) -> Result<std::process::Child, Failure> {
    let join = |list: Vec<String>| list.join(",");
    let spreads = plan.spreads.iter().map(|s| format!("{s:?}").to_lowercase()).collect();
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--role", role, "--engines", engine])
        .args(["--items", &plan.items.to_string(), "--seconds", &plan.seconds.to_string()])
        .args(["--threads", &join(plan.threads.iter().map(ToString::to_string).collect())])
        .args(["--spreads", &join(spreads), "--mixes", &plan.mixes])
        .args(["--durable", &format!("{:?}", plan.durable).to_lowercase()])
        .args(["--batch", &plan.batch.to_string()])
        .arg("--folder")
        .arg(plan.folder.join(engine))
        .stdin(Stdio::null());
    Ok(command.spawn()?)
}

fn engine(plan: &Plan) -> Result<(String, Box<dyn Engine>), Failure> {
    let name = plan.engines.first().cloned().unwrap_or_default();
    let engine = engines::open(&name, &plan.folder, plan.durable)?;
    Ok((name, engine))
}

fn measure(plan: &Plan) -> Result<(), Failure> {
    let (name, engine) = engine(plan)?;
    let begun = Instant::now();
    load(&*engine, plan.items)?;
    let loaded = plan.items as f64 / begun.elapsed().as_secs_f64();
    engine.settle()?;
    println!(
        "| {name} | load | | 1 | {loaded:.0} | {:.2} | | | |",
        processor_seconds() * 1e6 / plan.items as f64
    );
    let data = plan.items * (KEY_BYTES + VALUE_BYTES) as u64;
    eprintln!(
        "{name}: loaded, {:.0} % of the data on disk, {:.0} MiB of memory of its own; {}",
        100.0 * disk_bytes(&plan.folder)? as f64 / data as f64,
        proc_field("/proc/self/status", "RssAnon:") as f64 / 1024.0,
        engine.report()
    );
    for spread in &plan.spreads {
        let chooser = Chooser::new(plan.items, *spread);
        for mix in MIXES.iter().filter(|mix| plan.mixes.contains(mix.name)) {
            for threads in &plan.threads {
                one(plan, &name, &*engine, *mix, *spread, &chooser, *threads)?;
            }
        }
    }
    eprintln!(
        "{name}: at the end {:.0} % of the data on disk, {:.0} MiB of memory of its own; {}",
        100.0 * disk_bytes(&plan.folder)? as f64 / data as f64,
        proc_field("/proc/self/status", "RssAnon:") as f64 / 1024.0,
        engine.report()
    );
    Ok(())
}

fn load(engine: &dyn Engine, items: u64) -> Result<(), Failure> {
    let mut random = Random(1);
    let mut puts: Vec<Put> = Vec::new();
    for number in 0..items {
        puts.push((key(number), value(number, &mut random)));
        if puts.len() as u64 == LOAD_BATCH || number + 1 == items {
            engine.write(&puts)?;
            puts.clear();
        }
    }
    Ok(())
}

fn one(
    plan: &Plan,
    name: &str,
    engine: &dyn Engine,
    mix: Mix,
    spread: Spread,
    chooser: &Chooser,
    threads: usize,
) -> Result<(), Failure> {
    let stop = AtomicBool::new(false);
    let written = proc_field("/proc/self/io", "write_bytes:");
    let processor = processor_seconds();
    let begun = Instant::now();
    let outcome: Vec<Result<Counted, Failure>> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|index| {
                let stop = &stop;
                scope.spawn(move || work(plan, engine, mix, chooser, index as u64, stop))
            })
            .collect();
        std::thread::sleep(Duration::from_secs_f64(plan.seconds));
        stop.store(true, Ordering::Relaxed);
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap_or_else(|_| Err("a panic".into())))
            .collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let processor = processor_seconds() - processor;
    let mut all = Counted::new()?;
    for counted in outcome {
        let counted = counted?;
        all.times.add(&counted.times)?;
        all.operations += counted.operations;
        all.changes += counted.changes;
    }
    let written = proc_field("/proc/self/io", "write_bytes:") - written;
    let changed = all.changes * (KEY_BYTES + VALUE_BYTES) as u64;
    let amplification = if changed == 0 {
        String::new()
    } else {
        format!("{:.1}", written as f64 / changed as f64)
    };
    println!(
        "| {name} | {} | {spread:?} | {threads} | {:.0} | {:.2} | {:.2} | {:.2} | {amplification} |",
        mix.name,
        all.operations as f64 / seconds,
        processor * 1e6 / all.operations.max(1) as f64,
        all.times.value_at_quantile(0.5) as f64 / 1e3,
        all.times.value_at_quantile(0.99) as f64 / 1e3,
    );
    std::io::stdout().flush()?;
    Ok(())
}

struct Counted {
    operations: u64,
    changes: u64,
    times: Histogram<u64>,
}

impl Counted {
    fn new() -> Result<Counted, Failure> {
        Ok(Counted {
            operations: 0,
            changes: 0,
            times: Histogram::new_with_bounds(1, 60_000_000_000, 2)?,
        })
    }
}

fn work(
    plan: &Plan,
    engine: &dyn Engine,
    mix: Mix,
    chooser: &Chooser,
    index: u64,
    stop: &AtomicBool,
) -> Result<Counted, Failure> {
    let mut counted = Counted::new()?;
    let mut random = Random(index * 7919 + u64::from(mix.name as u32));
    let mut puts: Vec<Put> = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let number = chooser.draw(&mut random);
        let key = key(number);
        let begun = Instant::now();
        counted.operations += 1;
        if random.percent() < mix.reads_percent {
            if engine.read(&key)? != Some(number) {
                return Err(format!("item {number} is missing or another's").into());
            }
        } else if mix.modify && plan.batch == 1 {
            counted.changes += 1;
            let fresh = random.next();
            engine.modify(&key, &mut |value| value[8..16].copy_from_slice(&fresh.to_le_bytes()))?;
        } else {
            counted.changes += 1;
            if mix.modify && engine.read(&key)? != Some(number) {
                return Err(format!("item {number} is missing or another's").into());
            }
            puts.push((key, value(number, &mut random)));
            if puts.len() == plan.batch {
                engine.write(&puts)?;
                puts.clear();
            }
        }
        counted.times.saturating_record(u64::try_from(begun.elapsed().as_nanos())?);
    }
    Ok(counted)
}

fn victim(plan: &Plan) -> Result<(), Failure> {
    let (_, engine) = engine(plan)?;
    let chooser = Chooser::new(plan.items, Spread::Uniform);
    work(plan, &*engine, MIXES[0], &chooser, 99, &AtomicBool::new(false)).map(|_| ())
}

fn survivor(plan: &Plan) -> Result<(), Failure> {
    let begun = Instant::now();
    let (name, engine) = engine(plan)?;
    let there = engine.read(&key(0))?;
    let seconds = begun.elapsed().as_secs_f64();
    if there != Some(0) {
        return Err(format!("{name}: item 0 is gone").into());
    }
    println!(
        "| {name} | after kill -9, to the first read | | | {seconds:.3} s | {:.2} s | | | |",
        processor_seconds()
    );
    Ok(())
}

fn disk_bytes(folder: &Path) -> Result<u64, Failure> {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes +=
            if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(bytes)
}

/// What all threads of this process have used, in hundredths.
fn processor_seconds() -> f64 {
    let text = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = text.rsplit(')').next().unwrap_or_default();
    let ticks: u64 =
        behind_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// A number behind a name in a file of /proc.
fn proc_field(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    line.split_whitespace().next().and_then(|number| number.parse().ok()).unwrap_or(0)
}
