//! HotStuff-2: two phases with a linear view change.
//!
//! Malkhi, Nayak, *HotStuff-2: optimal two-phase responsive BFT*, 2023, the pipelined form. With a
//! certificate for p:
//!
//! - **vote**: the justify's view is not below the lock's;
//! - **lock**: the highest certificate seen;
//! - **commit** p's parent if p.view = parent.view + 1;
//! - **propose**: at once with a certificate of the view before. After a bad view the leader waits
//!   until it has heard the locks of all (they come in NEW-VIEWs), or for Δ, in which those of all
//!   correct replicas come: with two phases a single correct replica may hold a lock that no q
//!   others know of, and would refuse anything below it. Only this wait depends on time, and only
//!   liveness on the wait.
//!
//! Deviation: the paper's synchroniser (a wish to enter, relayed by leaders) is replaced by this
//! project's pacemakers.

use super::{Facts, Outcome, Rules, two_chain};
use crate::protocols::hotstuff::block::Block;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

/// The rules of HotStuff-2.
#[derive(Clone, Copy, Debug)]
pub struct HotStuff2;

impl Rules for HotStuff2 {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "hotstuff-2",
            number: 6,
            phases: 1,
            certificates: 2,
            chain_length: 2,
            message_delays: 5,
            carries_all_qcs: false,
            waits_for_locks: true,
            view_change: "O(n), waits Δ after a bad view only",
            needs: "an estimate of Δ (view_timeout.delta)",
            source: "Malkhi, Nayak 2023",
        }
    }

    fn may_vote(&self, _: &BlockTree, lock: &Qc, block: &Block, _: Option<&Tc>) -> bool {
        block.justify.view() >= lock.view()
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        two_chain(tree, qc)
    }
}
