//! Chained HotStuff: the three-chain rule.
//!
//! Yin, Malkhi, Reiter, Golan Gueta, Abraham, *HotStuff: BFT consensus in the lens of blockchain*,
//! Algorithms 4 and 5; the dissertation's Algorithm 1 (D1). With a certificate `qc` for b″, write
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

use super::{Outcome, Rules};
use crate::block::Block;
use crate::certificate::Qc;
use crate::tree::BlockTree;

/// The three-chain rule.
#[derive(Clone, Copy, Debug)]
pub struct ThreeChain;

impl Rules for ThreeChain {
    const NAME: &'static str = "hotstuff-chained";
    const PROTOCOL: u8 = 1;
    const COMMIT_DEPTH: u64 = 3;
    const MESSAGE_DELAYS: u64 = 7;

    fn may_vote(tree: &BlockTree, lock: &Qc, block: &Block) -> bool {
        let liveness = block.justify.view() > lock.view();
        // A lock below the tree is on a committed block, which everything here extends.
        let safety = || match tree.get(&lock.block()) {
            Some(locked) => tree.extends(&block.parent(), &locked.id()),
            None => lock.view() <= tree.root().view,
        };
        liveness || safety()
    }

    fn on_qc(tree: &BlockTree, qc: &Qc) -> Outcome {
        let Some(b2) = tree.find(&qc.block()) else { return Outcome::default() };
        let lock = Some(b2.justify.clone());
        let Some(b1) = tree.find(&b2.parent()) else { return Outcome { lock, commit: None } };
        let Some(b) = tree.find(&b1.parent()) else { return Outcome { lock, commit: None } };
        let consecutive = b2.view == b1.view.next() && b1.view == b.view.next();
        Outcome { lock, commit: consecutive.then(|| b.id()) }
    }
}
