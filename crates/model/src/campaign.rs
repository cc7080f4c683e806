//! What `make model` runs: every variant in both models, then every mutant.

use quorate_core::protocols::hotstuff::rules::{self, Rules};

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
        // Three phases are three rounds a view.
        match (self, rules.facts().phases, rules.facts().chain_length) {
            (Self::Quick, 1, _) => Views { rounds: [3, 5], driver: [1, 3] },
            (Self::Quick, ..) => Views { rounds: [1, 2], driver: [1, 2] },
            (Self::Full, 1, 3) => Views { rounds: [5, 7], driver: [2, 4] },
            (Self::Full, 1, _) => Views { rounds: [5, 8], driver: [2, 4] },
            (Self::Full, ..) => Views { rounds: [2, 4], driver: [1, 2] },
        }
    }
}

/// Checks every variant. `each` is called with each run as it ends, and whether it was good: a
/// sparing scheduler has to come so deep that conflicting certificates and commits occur.
pub fn rules(depth: Depth, threads: usize, mut each: impl FnMut(&Run, bool)) {
    for rules in rules::ALL {
        let views = depth.views(rules);
        let name = rules.facts().name;
        for (at, scheduler) in [Scheduler::Full, Scheduler::Sparing].into_iter().enumerate() {
            let deep = scheduler == Scheduler::Sparing;
            let mut done = |run: &Run| each(run, run.holds(deep));
            let title = |model, views| format!("{model}, {name}, {views} views, {scheduler:?}");
            let rounds = Rounds { rules, views: views.rounds[at], scheduler };
            done(&run(&title("rounds", rounds.views), rounds, threads));
            let driver = Driver { rules, views: views.driver[at], scheduler };
            done(&run(&title("driver", driver.views), driver, threads));
        }
    }
}

/// The most views that a mutant may need.
const MOST_VIEWS: u64 = 7;
/// With more the model of the driver has too many states.
const MOST_VIEWS_OF_DRIVER: u64 = 4;

/// Looks for the shortest violation of each mutant under the rounds model, with one more view at a
/// time; and, if that is not too long, with as many views in the model of the driver. `each` is
/// called with each last run.
pub fn mutants(threads: usize, mut each: impl FnMut(&Run)) {
    for mutant in mutant::ALL {
        let (run, views) = shortest(mutant, threads);
        each(&run);
        if views <= MOST_VIEWS_OF_DRIVER {
            each(&in_driver(mutant, views, threads));
        }
    }
}

/// The shortest violation of a mutant, or the last run without one; and its views.
#[must_use]
pub fn shortest(mutant: &'static Mutant, threads: usize) -> (Run, u64) {
    let mut views = 0;
    loop {
        views += 1;
        let model = Rounds { rules: mutant, views, scheduler: Scheduler::Sparing };
        let run = run(&title("rounds", mutant, views), model, threads);
        if run.violation.is_some() || views == MOST_VIEWS {
            return (run, views);
        }
    }
}

/// What the model of the driver finds of a mutant.
#[must_use]
pub fn in_driver(mutant: &'static Mutant, views: u64, threads: usize) -> Run {
    let model = Driver { rules: mutant, views, scheduler: Scheduler::Sparing };
    run(&title("driver", mutant, views), model, threads)
}

fn title(model: &str, mutant: &Mutant, views: u64) -> String {
    let (name, bug) = (mutant.rules.facts().name, mutant.bug.name());
    format!("{model}, {name} that {bug}, {views} views")
}
