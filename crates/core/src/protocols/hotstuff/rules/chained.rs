//! Chained HotStuff: the three-chain rule.
//!
//! Yin, Malkhi, Reiter, Golan Gueta, Abraham, *HotStuff: BFT consensus in the lens of blockchain*,
//! Algorithms 4 and 5; the dissertation's Algorithm 1. With a certificate `qc` for b″, write
//! b′ for the block b″ certifies and b for the block b′ certifies:
//!
//! - **vote** (`safeNode`): the proposal extends the locked block, or its justify is of a newer
//!   view than the lock;
//! - **lock** on the certificate of b′, the head of the two-chain;
//! - **commit** b if b, b′, b″ are of consecutive views. The view of the block that carries `qc`
//!   does not matter.
//!
//! Deviations: the dissertation prints `b` in UPDATE where `b'.justify.node` is meant, and puts
//! UPDATE inside the vote condition; here certificates count whether or not a vote is cast.
//! Links are by justify, so that "direct parent" needs no dummy blocks: consecutive views say it.

use super::{Facts, Outcome, Rules, chain_of, extends_lock};
use crate::protocols::hotstuff::block::Block;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

/// The three-chain rule.
#[derive(Clone, Copy, Debug)]
pub struct Chained;

impl Rules for Chained {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "hotstuff-chained",
            number: 1,
            phases: 1,
            certificates: 3,
            chain_length: 3,
            message_delays: 7,
            carries_all_qcs: false,
            waits_for_locks: false,
            view_change: "O(n), responsive",
            needs: "nothing",
            source: "Yin et al. 2019, Algorithms 4 and 5",
        }
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, _: Option<&Tc>) -> bool {
        let liveness = block.justify.view() > lock.view();
        liveness || extends_lock(tree, lock, block)
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        let [b2, b1, b] = chain_of(tree, qc);
        let lock = super::justify_of(tree, qc);
        let (Some(b2), Some(b1), Some(b)) = (b2, b1, b) else {
            return Outcome { lock, commit: None };
        };
        let consecutive = b2.view == b1.view.next() && b1.view == b.view.next();
        Outcome { lock, commit: consecutive.then(|| b.id()) }
    }
}
