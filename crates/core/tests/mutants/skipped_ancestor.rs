//! A known fault of other frameworks: where an ancestor of a block to be committed is missing and
//! cannot be had, the commit goes on without it. The real driver waits for it.

use quorate_core::protocols::hotstuff::block::SharedBlock;
use quorate_core::protocols::hotstuff::rules::Chained;
use quorate_core::protocols::hotstuff::{HotStuff, Message, Types};
use quorate_core::protocols::protocol::{Input, Ledger, Protocol};
use quorate_core::{Duration, Time};

use crate::cluster::mutant::{Fx, Mutation};
use crate::script::{Bug, Unwatched, play};

/// How long it waits for a missing block: longer than the others take to pass over its own view.
const PATIENCE: Duration = Duration::from_millis(300);

/// Gives up fetching, and takes the newest certified block it holds for the committed head: as if
/// all below were here.
#[derive(Default)]
struct Skips {
    proposals: Vec<SharedBlock>,
    /// Since when blocks are missing.
    missing_since: Option<Time>,
}

impl Mutation for Skips {
    fn step(
        &mut self,
        driver: &mut HotStuff,
        now: Time,
        input: Input<Types>,
        ledger: &mut dyn Ledger,
    ) -> Fx {
        if let Input::Message { message, .. } = &input
            && let Message::Proposal { block, .. } = message.get()
        {
            self.proposals.push(SharedBlock::clone(block));
        }
        let mut fx = driver.step(now, input, ledger);
        if driver.missing().is_none() {
            self.missing_since = None;
        } else if now.since(*self.missing_since.get_or_insert(now)) >= PATIENCE {
            let certificate = driver.high_qc().clone();
            let held = self.proposals.iter().find(|block| block.id() == certificate.block());
            if let Some(root) = held.cloned() {
                let skip = Input::Installed { root, recent: Vec::new(), evidence: certificate };
                fx.merge(driver.step(now, skip, ledger));
            }
        }
        fx
    }
}

fn skips(id: usize) -> Option<Box<dyn Mutation>> {
    if id == 3 { Some(Box::new(Skips::default())) } else { None }
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
