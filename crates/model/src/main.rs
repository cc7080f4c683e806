//! Runs the model checkers and prints what they found. `--quick`: in seconds. `--steps`: with the
//! way to each violation of a mutant.
#![forbid(unsafe_code)]

use std::cell::Cell;
use std::process::ExitCode;

use quorate_model::campaign::{self, Depth};
use quorate_model::report::Run;
use quorate_model::{pbft, two_delay};

fn main() -> ExitCode {
    let asked = |name: &str| std::env::args().skip(1).any(|arg| arg == name);
    if let Some(unknown) =
        std::env::args().skip(1).find(|a| !["--quick", "--steps"].contains(&&**a))
    {
        eprintln!("unknown option {unknown}; there are --quick and --steps");
        return ExitCode::from(2);
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let depth = if asked("--quick") { Depth::Quick } else { Depth::Full };
    let good = Cell::new(true);
    let tell = |run: &Run, is_good: bool| {
        println!("{run}");
        good.set(good.get() & is_good);
        if let Some((_, moves)) = run.violation.as_ref().filter(|_| asked("--steps")) {
            moves.iter().for_each(|step| println!("    {step}"));
        }
    };
    let right = |run: &Run, held: bool| tell(run, held);
    let wrong = |run: &Run| tell(run, run.violation.is_some());
    campaign::rules(depth, threads, right);
    campaign::mutants(threads, wrong);
    pbft::campaign::rules(depth, threads, right);
    pbft::campaign::mutants(threads, wrong);
    two_delay::campaign::rules(depth, threads, right);
    two_delay::campaign::mutants(threads, wrong);
    if good.get() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
