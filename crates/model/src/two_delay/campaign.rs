//! What `make model` runs of the protocol of two delays.

use std::time::Instant;

use super::{Rule, TwoDelay, explore, walks};
use crate::campaign::Depth;
use crate::report::Run;
use crate::rounds::Scheduler::{self, Full, Sparing};

const fn four(views: u8, blocks: usize, scheduler: Scheduler) -> TwoDelay {
    TwoDelay { replicas: 4, views, blocks, scheduler, rule: Rule::Right }
}

/// Checks the rules. `each` is called with each run as it ends, and whether it was good.
pub fn rules(depth: Depth, threads: usize, mut each: impl FnMut(&Run, bool)) {
    let (models, walked) = match depth {
        Depth::Quick => (vec![four(2, 2, Sparing), four(2, 2, Full)], 300),
        Depth::Full => (vec![four(2, 3, Full), four(3, 2, Sparing), four(3, 2, Full)], 20_000),
    };
    for model in models {
        let run = explore(model, threads);
        each(&run, run.holds(true));
    }
    let run = seven(Rule::Right, walked);
    each(&run, run.holds(true));
}

/// Looks for a violation of each wrong rule. `each` is called with each run.
pub fn mutants(threads: usize, mut each: impl FnMut(&Run)) {
    for rule in Rule::MUTANTS {
        each(&explore(TwoDelay { rule, ..four(3, 2, Sparing) }, threads));
    }
}

/// Walks of seven replicas, two of which lie, through four views.
#[must_use]
pub fn seven(rule: Rule, count: u64) -> Run {
    let model = TwoDelay { replicas: 7, rule, ..four(4, 3, Sparing) };
    let began = Instant::now();
    let seen = walks(&model, count);
    let sometimes =
        [("fast commits", seen.fast), ("slow commits", seen.slow), ("conflicts", seen.conflicts)];
    let missing = sometimes.into_iter().filter(|(_, walks)| *walks == 0).map(|(what, _)| what);
    let violation = seen.violation.map(|(property, way)| {
        (property, way.into_iter().map(|step| format!("{step:?}")).collect())
    });
    Run {
        name: format!("{model}, {count} walks"),
        states: seen.steps,
        steps: seen.steps,
        depth: 0,
        took: began.elapsed(),
        violation,
        missing: missing.collect(),
    }
}
