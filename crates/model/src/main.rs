//! Runs the model checkers and prints what they found.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use quorate_core::hotstuff::rules;
use quorate_model::mutant;
use quorate_model::report::{Limits, run};
use quorate_model::rounds::{Rounds, Scheduler};

fn main() -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = Limits::none(threads);
    let steps = std::env::args().any(|arg| arg == "--steps");
    let mut good = true;
    for rules in rules::ALL {
        let several = rules.facts().phases > 1;
        let (full, sparing) = if several { (2, 4) } else { (5, 8) };
        for (views, scheduler) in [(full, Scheduler::Full), (sparing, Scheduler::Sparing)] {
            let name = format!("{}, {views} views, {scheduler:?}", rules.facts().name);
            let run = run(&name, Rounds { rules, views, scheduler }, limits);
            println!("{run}");
            good &= run.holds();
        }
    }
    for mutant in mutant::ALL {
        let name = format!("{} that {}", mutant.rules.facts().name, mutant.bug.name());
        // The shortest: with one more view at a time.
        let within = |views| run(&name, Rounds { rules: mutant, views, scheduler: Scheduler::Sparing }, limits);
        let found = (1..=7).map(within).find(|run| run.violation.is_some());
        let Some(run) = found else {
            println!("{name}: not found");
            good = false;
            continue;
        };
        println!("{run}");
        if let Some((_, moves)) = run.violation.as_ref().filter(|_| steps) {
            moves.iter().for_each(|step| println!("    {step}"));
        }
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
