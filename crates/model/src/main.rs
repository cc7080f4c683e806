//! Runs the model checkers and prints what they found. `--quick`: in seconds. `--steps`: with the
//! way to each violation of a mutant.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use quorate_model::campaign::{self, Depth};

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
    let mut good = true;
    campaign::rules(depth, threads, |run, held| {
        println!("{run}");
        good &= held;
    });
    campaign::mutants(threads, |run| {
        println!("{run}");
        good &= run.violation.is_some();
        if let Some((_, moves)) = run.violation.as_ref().filter(|_| asked("--steps")) {
            moves.iter().for_each(|step| println!("    {step}"));
        }
    });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
