//! Basic HotStuff: four phases, one block a view.
//!
//! Yin et al. 2019, Algorithms 1 and 2; the dissertation's basic HotStuff. The leader of a view
//! takes one block through three kinds of votes and tells all of each certificate:
//!
//! | phase | the leader sends | a replica | votes make |
//! |---|---|---|---|
//! | prepare | the proposal | votes if it is safe | the prepare QC (phase 1) |
//! | pre-commit | the prepare QC | keeps it as its high QC, votes | the pre-commit QC (phase 2) |
//! | commit | the pre-commit QC | **locks** on it, votes | the commit QC (phase 3) |
//! | decide | the commit QC | **commits**, enters the next view | |
//!
//! - **vote** (`safeNode`, prepare): the proposal extends the locked block, or its justify is of a
//!   newer view than the lock; then one vote a phase, on that phase's certificate, in the same
//!   view.
//!
//! Deviations: the commit QC of a view takes the next leader into its view at once, without waiting
//! for q NEW-VIEWs: nobody can hold a newer certificate. After a time-out the certificate of the
//! pacemaker brings the high QCs of q replicas, which is what NEW-VIEWs are for. The next block's
//! justify is the highest certificate of the highest view (a commit QC in good times), so that a
//! chain of blocks tells what of it is committed.

use super::{Facts, Outcome, Rules, extends_lock};
use crate::protocols::hotstuff::block::Block;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

const PRE_COMMIT: u8 = 2;
const COMMIT: u8 = 3;

/// The rules of basic HotStuff.
#[derive(Clone, Copy, Debug)]
pub struct Basic;

impl Rules for Basic {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "hotstuff-basic",
            number: 2,
            phases: COMMIT,
            certificates: 3,
            chain_length: 1,
            message_delays: 7,
            carries_all_qcs: false,
            waits_for_locks: false,
            view_change: "O(n), responsive",
            needs: "nothing",
            source: "Yin et al. 2019, Algorithms 1 and 2",
        }
    }

    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, _: Option<&Tc>) -> bool {
        let liveness = block.justify.view() > lock.view();
        liveness || extends_lock(tree, lock, block)
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        let lock = (qc.phase() >= PRE_COMMIT).then(|| qc.clone());
        let commit = (qc.phase() >= COMMIT).then(|| tree.find(&qc.block())).flatten();
        Outcome { lock, commit: commit.map(|block| block.id()) }
    }
}
