//! What `make model` runs of PBFT.

use std::sync::Arc;

use quorate_core::protocols::pbft::Authentication;

use super::{Bound, Chooser, Driver, Rule, ViewChanges};
use crate::campaign::Depth;
use crate::report::{Run, run};
use crate::rounds::Scheduler::{self, Full, Sparing};

const fn bound(views: u8, heights: u8, scheduler: Scheduler) -> Bound {
    Bound { views, heights, scheduler }
}

/// Checks the choice and the replicas. `each` is called with each run as it ends, and whether it
/// was good: in all but the shallow ones everything that should be seen has to be.
pub fn rules(depth: Depth, threads: usize, mut each: impl FnMut(&Run, bool)) {
    let bounds: &[Bound] = match depth {
        Depth::Quick => &[bound(2, 1, Full), bound(2, 2, Sparing)],
        Depth::Full => {
            &[bound(3, 1, Full), bound(2, 2, Full), bound(4, 1, Sparing), bound(3, 3, Sparing)]
        }
    };
    for bound in bounds.iter().copied() {
        let run = view_changes(Rule::Right, bound, threads);
        each(&run, run.holds(bound.heights > 1 && bound.views > 1));
    }
    let bounds: &[Bound] = match depth {
        Depth::Quick => &[bound(1, 2, Full), bound(2, 1, Full), bound(2, 2, Sparing)],
        Depth::Full => &[bound(2, 1, Full), bound(2, 3, Sparing)],
    };
    let mut drive = |bound, authentication| {
        let run = driver(bound, authentication, threads);
        each(&run, run.holds(true));
    };
    for bound in bounds.iter().copied() {
        drive(bound, Authentication::Signatures);
        drive(bound, Authentication::Macs);
    }
    if depth == Depth::Full {
        drive(bound(2, 2, Full), Authentication::Macs);
        drive(bound(3, 2, Sparing), Authentication::Macs);
    }
}

/// Looks for a violation of each wrong choice. `each` is called with each run.
pub fn mutants(threads: usize, mut each: impl FnMut(&Run)) {
    for rule in Rule::MUTANTS {
        each(&view_changes(rule, bound(2, 2, Sparing), threads));
    }
}

/// Explores the model with a choice.
#[must_use]
pub fn view_changes(rule: Rule, bound: Bound, threads: usize) -> Run {
    let chooser = Arc::new(Chooser::new(rule));
    let bug = if rule == Rule::Right { "" } else { rule.name() };
    let name = match rule {
        Rule::Right => format!("view changes, pbft, {bound}"),
        _ => format!("view changes, pbft that {bug}"),
    };
    run(&name, ViewChanges { bound, chooser }, threads)
}

/// Explores the model with production's replicas beside it.
#[must_use]
pub fn driver(bound: Bound, authentication: Authentication, threads: usize) -> Run {
    let chooser = Arc::new(Chooser::new(Rule::Right));
    let name = format!("driver, pbft, {bound}, {authentication:?}");
    run(&name, Driver { bound, authentication, chooser }, threads)
}
