//! Simplified HotStuff: the three-chain without the "extends" test.
//!
//! Jehl, *Formal verification of HotStuff* (FORTE 2021), as the framework paper implements it.
//! With a certificate for p, write g for p's grandparent:
//!
//! - **vote**: the justify's view is not below the lock's. Whether the proposal extends the locked
//!   block need not be asked: a certificate of the lock's view is for the locked block, and one of
//!   a later view is newer.
//! - **lock** on the certificate that p carries, the head of the two-chain;
//! - **commit** g if g.view + 2 = p.view. Views grow along a chain, so that the block between them
//!   is of the view between them.

use super::{Facts, Outcome, Rules, chain_of};
use crate::protocols::hotstuff::block::Block;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

/// The simplified three-chain rule.
#[derive(Clone, Copy, Debug)]
pub struct Simplified;

impl Rules for Simplified {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "hotstuff-simplified",
            number: 3,
            phases: 1,
            certificates: 3,
            chain_length: 3,
            message_delays: 7,
            carries_all_qcs: false,
            waits_for_locks: false,
            view_change: "O(n), responsive",
            needs: "nothing",
            source: "Jehl 2021; the framework paper, section 4",
        }
    }

    fn may_vote(&self, _: &BlockTree, lock: &Qc, block: &Block, _: Option<&Tc>) -> bool {
        block.justify.view() >= lock.view()
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        let [p, _, g] = chain_of(tree, qc);
        let lock = super::justify_of(tree, qc);
        let (Some(p), Some(g)) = (p, g) else { return Outcome { lock, commit: None } };
        let consecutive = g.view.plus(2) == p.view;
        Outcome { lock, commit: consecutive.then(|| g.id()) }
    }
}
