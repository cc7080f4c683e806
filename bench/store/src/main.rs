//! YCSB over this store and its peers: `make bench-store`. See `docs/store.md` for what the figures mean.

mod engines;
mod measure;
mod workload;

use engines::{Durable, Failure, NAMES};
use std::path::PathBuf;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    pub engines: Vec<String>,
    pub items: u64,
    pub seconds: f64,
    pub threads: Vec<usize>,
    pub spreads: Vec<workload::Spread>,
    pub mixes: String,
    pub durable: Durable,
    /// Changes that are committed together.
    pub batch: usize,
    pub folder: PathBuf,
    pub keep: bool,
}

const USAGE: &str = "bench-store [--engines a,b] [--items n] [--seconds s] [--threads 1,2] [--spreads uniform,zipfian]
            [--mixes ABCF] [--durable os|sync] [--batch n] [--folder path] [--keep]
Every engine is loaded and measured in a process of its own, one after the other; then it is killed under load and opened again.
Engines of this build: ";

fn main() {
    if let Err(error) = run() {
        eprintln!("bench-store: {error}\n\n{USAGE}{NAMES:?}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let mut plan = Plan {
        engines: NAMES.iter().map(ToString::to_string).collect(),
        items: 1_000_000,
        seconds: 5.0,
        threads: vec![1, 2],
        spreads: vec![workload::Spread::Uniform, workload::Spread::Zipfian],
        mixes: "ABCF".to_string(),
        durable: Durable::Os,
        batch: 1,
        folder: std::env::temp_dir().join("bench-store"),
        keep: false,
    };
    let mut role = measure::Role::Parent;
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option} wants a value"));
        match option.as_str() {
            "--engines" => plan.engines = value()?.split(',').map(str::to_string).collect(),
            "--items" => plan.items = value()?.replace('_', "").parse()?,
            "--seconds" => plan.seconds = value()?.parse()?,
            "--threads" => {
                plan.threads = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?
            }
            "--spreads" => {
                plan.spreads = value()?.split(',').map(spread).collect::<Result<_, _>>()?;
            }
            "--mixes" => plan.mixes = value()?,
            "--durable" => {
                plan.durable = match value()?.as_str() {
                    "os" => Durable::Os,
                    "sync" => Durable::Sync,
                    other => return Err(format!("no durability {other}").into()),
                }
            }
            "--batch" => plan.batch = value()?.parse::<usize>()?.max(1),
            "--folder" => plan.folder = value()?.into(),
            "--keep" => plan.keep = true,
            "--role" => role = measure::Role::parse(&value()?)?,
            _ => return Err(format!("no option {option}").into()),
        }
    }
    measure::run(&plan, role)
}

fn spread(name: &str) -> Result<workload::Spread, Failure> {
    match name {
        "uniform" => Ok(workload::Spread::Uniform),
        "zipfian" => Ok(workload::Spread::Zipfian),
        _ => Err(format!("no spread {name}").into()),
    }
}
