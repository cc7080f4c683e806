//! The lazy-trie store beside other engines, at YCSB's workloads: `make bench-store`.
//! `docs/store.md` says what the figures mean.

mod charts;
mod engines;
mod matrix;
mod process;
mod progress;
mod report;
mod rows;
mod task;
#[cfg(test)]
mod tests;
mod threshold;
mod workload;

use engines::{Durable, Failure, NAMES};
use rows::Settings;
use std::path::PathBuf;
use std::time::Instant;
use workload::Spread;

const USAGE: &str =
    "bench-store [options]            every engine at every workload, each in a process of its own
  --engines a,b            of those below, the first beside the others
  --items n                1000000
  --seconds s              of each workload, 10; before it half as long of reads
  --turns n                how often each engine meets each workload, by turns: 1; the median by operations/s is shown
  --threads 1,2   --spreads uniform,zipfian   --mixes ABCF
  --durable os|sync        how far a commit goes: os
  --batch n                changes to a commit: 1
  --keep                   leave the data when an engine is done

bench-store threshold [options]  the store's threshold of sluggish splitting, at several fillings
  --fillings n,n           200000,600000,1000000,2000000
  --bucket-items n,n       8,16,24,32,48,64,96,128
  --turns n                3
  --seconds s              of each workload, 4

  --folder path            for data: target/data
  --out path               for rows, tables and pictures: target/results/…, by the settings
Both go on where they were interrupted. Engines of this build: ";

fn main() {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let first = arguments.first().map(String::as_str);
    let outcome = match first {
        Some("task") => task(&arguments),
        Some("threshold") => {
            arguments.remove(0);
            threshold(arguments)
        }
        Some("--help") => {
            println!("{USAGE}{}", NAMES.join(", "));
            Ok(())
        }
        _ => matrix(arguments),
    };
    if let Err(error) = outcome {
        eprintln!("bench-store: {error}");
        std::process::exit(1);
    }
}

/// What [`task::Task::run`] starts. It ends with whom it was started by, so that an interrupted run
/// leaves no process behind.
fn task(arguments: &[String]) -> Result<(), Failure> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let text = arguments.get(1).ok_or("task wants a task")?;
    serde_json::from_str::<task::Task>(text)?.perform()
}

fn matrix(arguments: Vec<String>) -> Result<(), Failure> {
    let begun = Instant::now();
    let mut plan = matrix::Plan {
        engines: Vec::new(),
        settings: Settings {
            items: 1_000_000,
            seconds: 10.0,
            turns: 1,
            durable: Durable::Os,
            batch: 1,
        },
        threads: vec![1, 2],
        spreads: vec![Spread::Uniform, Spread::Zipfian],
        mixes: "ABCF".into(),
        folder: PathBuf::from("target/data"),
        out: PathBuf::new(),
        keep: false,
    };
    let mut arguments = arguments.into_iter();
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option} wants a value"));
        match option.as_str() {
            "--engines" => {
                plan.engines = value()?.split(',').map(engine).collect::<Result<_, _>>()?
            }
            "--items" => plan.settings.items = count(&value()?)?,
            "--seconds" => plan.settings.seconds = seconds(&value()?)?,
            "--turns" => plan.settings.turns = usize::try_from(count(&value()?)?)?,
            "--threads" => plan.threads = counts(&value()?)?,
            "--spreads" => {
                plan.spreads = value()?.split(',').map(spread).collect::<Result<_, _>>()?
            }
            "--mixes" => plan.mixes = mixes(value()?)?,
            "--durable" => plan.settings.durable = durable(&value()?)?,
            "--batch" => plan.settings.batch = usize::try_from(count(&value()?)?)?,
            "--folder" => plan.folder = value()?.into(),
            "--out" => plan.out = value()?.into(),
            "--keep" => plan.keep = true,
            _ => return Err(format!("no option {option}; --help names them").into()),
        }
    }
    let settings = &plan.settings;
    if plan.engines.is_empty() {
        // Of redb, there is one that syncs each commit.
        let fits = |name: &&&str| settings.durable == Durable::Os || **name != "redb-none";
        plan.engines = NAMES.iter().filter(fits).map(ToString::to_string).collect();
    }
    if plan.out.as_os_str().is_empty() {
        let durable = if settings.durable == Durable::Os { "os" } else { "sync" };
        plan.out = format!("target/results/{}-{durable}-{}", settings.items, settings.batch).into();
    }
    matrix::run(&plan)?;
    matrix::told(begun, &plan.out);
    Ok(())
}

fn threshold(arguments: Vec<String>) -> Result<(), Failure> {
    let mut plan = threshold::Plan {
        fillings: vec![200_000, 600_000, 1_000_000, 2_000_000],
        bucket_items: vec![8, 16, 24, 32, 48, 64, 96, 128],
        turns: 3,
        seconds: 4.0,
        folder: PathBuf::from("target/data"),
        out: PathBuf::from("target/results/threshold"),
    };
    let mut arguments = arguments.into_iter();
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option} wants a value"));
        match option.as_str() {
            "--fillings" => {
                plan.fillings = value()?.split(',').map(count).collect::<Result<_, _>>()?
            }
            "--bucket-items" => plan.bucket_items = counts(&value()?)?,
            "--turns" => plan.turns = count(&value()?)?,
            "--seconds" => plan.seconds = seconds(&value()?)?,
            "--folder" => plan.folder = value()?.into(),
            "--out" => plan.out = value()?.into(),
            _ => return Err(format!("no option {option}; --help names them").into()),
        }
    }
    threshold::run(&plan)
}

fn engine(name: &str) -> Result<String, Failure> {
    let known = NAMES.contains(&name).then(|| name.to_owned());
    known.ok_or_else(|| format!("no engine {name}; this build has {}", NAMES.join(", ")).into())
}

fn count(text: &str) -> Result<u64, Failure> {
    let number = text.replace('_', "").parse().map_err(|_| format!("{text} is no number"))?;
    if number == 0 { Err("0 is too few".into()) } else { Ok(number) }
}

fn counts(text: &str) -> Result<Vec<usize>, Failure> {
    text.split(',').map(|one| Ok(usize::try_from(count(one)?)?)).collect()
}

fn seconds(text: &str) -> Result<f64, Failure> {
    let seconds: f64 = text.parse().map_err(|_| format!("{text} is no number"))?;
    if (0.1..=86_400.0).contains(&seconds) {
        Ok(seconds)
    } else {
        Err("not within 0.1 to 86400 s".into())
    }
}

fn mixes(text: String) -> Result<String, Failure> {
    match text.chars().find(|mix| !"ABCF".contains(*mix)) {
        Some(other) => Err(format!("no workload {other}; there are A, B, C and F").into()),
        None => Ok(text),
    }
}

fn durable(text: &str) -> Result<Durable, Failure> {
    match text {
        "os" => Ok(Durable::Os),
        "sync" => Ok(Durable::Sync),
        other => Err(format!("no durability {other}; there are os and sync").into()),
    }
}

fn spread(text: &str) -> Result<Spread, Failure> {
    match text {
        "uniform" => Ok(Spread::Uniform),
        "zipfian" => Ok(Spread::Zipfian),
        other => Err(format!("no spread {other}; there are uniform and zipfian").into()),
    }
}
