//! A known fault of other frameworks: where an ancestor of a block to be committed is missing and
//! cannot be had, the commit goes on without it. The real driver waits for it.

use quorate_core::Duration;
use quorate_core::protocols::hotstuff::rules::Chained;

use crate::cluster::mutant::{Mutation, Skips};
use crate::script::{Bug, Unwatched, play};

/// How long it waits for a missing block: longer than the others take to pass over its own view.
const PATIENCE: Duration = Duration::from_millis(300);

fn skips(id: usize) -> Option<Box<dyn Mutation>> {
    if id == 3 { Some(Box::new(Skips::after(PATIENCE))) } else { None }
}

#[test]
fn a_commit_that_skips_an_ancestor_leaves_a_gap_and_halts_the_replica() {
    let unwatched = Unwatched::Replica(3);
    let broken =
        play("skipped_ancestor", &Bug { mutation: skips, unwatched, ..Bug::none(&Chained) });
    assert!(broken.says("r3: view 15, QC of view 14, height 13, 1 commands"));
    assert!(broken.says("r3 commits b16 at height 14"));
    assert!(broken.says("r3 halts: safety: the committed block"));

    let real = play("skipped_ancestor_waited_for", &Bug::none(&Chained));
    real.repeats(&broken);
    assert!(real.says("r3: view 15, QC of view 14, height 5, 1 commands"));
    assert!(real.says("(all answered)"));
    assert!(real.says("r3: view 23, QC of view 22, height 17, 4 commands"));
}

#[test]
fn a_gap_is_noticed_when_it_is_committed() {
    let broken = play("skipped_ancestor_noticed", &Bug { mutation: skips, ..Bug::none(&Chained) });
    assert!(broken.says("(agreement: r3 committed 14 with a gap: 6 is the next)"));
}
