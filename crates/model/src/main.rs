//! Runs the model checkers and prints what they found.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use quorate_core::hotstuff::rules;
use quorate_model::mutant;
use quorate_model::report::{Limits, Run, run};
use quorate_model::rounds::{Learning, Rounds};

fn main() -> ExitCode {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut good = true;
    for rules in rules::ALL {
        for (views, learning) in [(4, Learning::AnyTime), (6, Learning::AsNeeded)] {
            let name = format!("{}, {views} views, {learning:?}", rules.facts().name);
            let run = run(&name, Rounds { rules, views, learning }, Limits::none(threads));
            println!("{run}");
            good &= run.holds();
        }
    }
    for mutant in mutant::ALL {
        let name = format!("{} that {}", mutant.rules.facts().name, mutant.bug.name());
        let model = Rounds { rules: mutant, views: 7, learning: Learning::AsNeeded };
        let run: Run = run(&name, model, Limits::none(threads));
        println!("{run}");
        if let Some((_, steps)) = &run.violation
            && std::env::args().any(|arg| arg == "--steps")
        {
            steps.iter().for_each(|step| println!("    {step}"));
        }
        good &= run.violation.is_some();
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
