//! What `make model` runs: every variant in both models, then every mutant.

use quorate_core::hotstuff::rules::{self, Rules};

use crate::driver::Driver;
use crate::mutant::{self, Mutant};
use crate::report::{Run, run};
use crate::rounds::{Rounds, Scheduler};

/// How deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// For tests: seconds.
    Quick,
    /// Minutes.
    Full,
}

/// Views with which a model is run: with a [full](Scheduler::Full) scheduler and a
/// [sparing](Scheduler::Sparing) one.
struct Views {
    rounds: [u64; 2],
    driver: [u64; 2],
}

impl Depth {
    fn views(self, rules: &dyn Rules) -> Views {
        // Three phases are three rounds a view, and three certificates in a row take a view more
        // than two.
        match (self, rules.facts().phases, rules.facts().chain_length) {
            (Self::Quick, 1, _) => Views { rounds: [4, 5], driver: [2, 4] },
            (Self::Quick, ..) => Views { rounds: [1, 2], driver: [1, 2] },
            (Self::Full, 1, 3) => Views { rounds: [5, 7], driver: [2, 5] },
            (Self::Full, 1, _) => Views { rounds: [5, 8], driver: [3, 5] },
            (Self::Full, ..) => Views { rounds: [2, 4], driver: [1, 2] },
        }
    }
}

/// Checks every variant. `each` is called with each run as it ends.
pub fn rules(depth: Depth, threads: usize, mut each: impl FnMut(&Run)) {
    for rules in rules::ALL {
        let views = depth.views(rules);
        let name = rules.facts().name;
        for (at, scheduler) in [Scheduler::Full, Scheduler::Sparing].into_iter().enumerate() {
            let views = views.rounds[at];
            let title = format!("rounds, {name}, {views} views, {scheduler:?}");
            each(&run(&title, Rounds { rules, views, scheduler }, threads));
        }
        for (at, scheduler) in [Scheduler::Full, Scheduler::Sparing].into_iter().enumerate() {
            let views = views.driver[at];
            let title = format!("driver, {name}, {views} views, {scheduler:?}");
            each(&run(&title, Driver { rules, views, scheduler }, threads));
        }
    }
}

/// The most views that a mutant may need.
const MOST_VIEWS: u64 = 7;

/// Looks for the shortest violation of each mutant in both models: with one more view at a time.
/// `each` is called with the run that found it, or the last one.
pub fn mutants(threads: usize, mut each: impl FnMut(&Run)) {
    for mutant in mutant::ALL {
        each(&shortest(mutant, "rounds", threads));
        each(&shortest(mutant, "driver", threads));
    }
}

/// The shortest violation of a mutant in the model of this name, or the last run without one.
#[must_use]
pub fn shortest(mutant: &'static Mutant, model: &str, threads: usize) -> Run {
    let title = format!("{model}, {} that {}", mutant.rules.facts().name, mutant.bug.name());
    let mut views = 0;
    loop {
        views += 1;
        let scheduler = Scheduler::Sparing;
        let run = if model == "driver" {
            run(&title, Driver { rules: mutant, views, scheduler }, threads)
        } else {
            run(&title, Rounds { rules: mutant, views, scheduler }, threads)
        };
        if run.violation.is_some() || views == MOST_VIEWS {
            return run;
        }
    }
}
