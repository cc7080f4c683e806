//! Fast-HotStuff: two phases, with an aggregated QC after a view without a certificate.
//!
//! Jalalzai, Niu, Feng, Gai, *Fast-HotStuff: a fast and resilient HotStuff protocol*, in its
//! corrected form. With a certificate for p:
//!
//! - **vote**, certificate case: the block's view is its justify's plus one;
//! - **vote**, AggQC case: the block's view is the AggQC's plus one, and its justify is the highest
//!   QC in the AggQC (so the block extends that one's block). The AggQC is q signed words "I gave
//!   up on this view and my high QC is this one", with all these QCs: it proves that no correct
//!   replica can have seen a commit that the block leaves out;
//! - **lock**: the high QC is the lock; no rule looks at it;
//! - **commit** p's parent if p.view = parent.view + 1.
//!
//! The early version committed on direct parents of *any* views and is unsafe: two branches can
//! each see a "two-chain" over skipped views. It exists
//! as a mutant in the tests only.
//!
//! Deviation: a replica checks the highest QC and the signatures over all; the other QCs are
//! vouched for by their signers and never built upon.

use super::{Facts, Outcome, Rules, two_chain};
use crate::protocols::hotstuff::block::Block;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

/// The corrected rules of Fast-HotStuff.
#[derive(Clone, Copy, Debug)]
pub struct Fast;

impl Rules for Fast {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "hotstuff-fast",
            number: 4,
            phases: 1,
            certificates: 2,
            chain_length: 2,
            message_delays: 5,
            carries_all_qcs: true,
            waits_for_locks: false,
            view_change: "O(n²) in the AggQC, responsive",
            needs: "time-outs in a list or aggregate",
            source: "Jalalzai et al. 2020 (corrected)",
        }
    }

    fn may_vote(&self, _: &BlockTree, _: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        match tc {
            None => block.view == block.justify.view().next(),
            Some(agg) => {
                let highest = block.justify.ballot() == agg.high_qc().ballot();
                block.view == agg.view().next() && highest
            }
        }
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        two_chain(tree, qc)
    }

    /// A leader may know a newer QC than the AggQC does, but must extend what the AggQC says.
    fn justify(&self, high_qc: &Qc, tc: Option<&Tc>) -> Qc {
        tc.map_or_else(|| high_qc.clone(), |agg| agg.high_qc().clone())
    }
}
