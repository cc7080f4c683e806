//! Two-chain HotStuff: Jolteon, DiemBFT version 4.
//!
//! Gelashvili, Kokoris-Kogias, Sonnino, Spiegelman, Xiang, *Jolteon and Ditto*, section 3; The Diem
//! Team, *DiemBFT v4*, 2021, `safe_to_vote` and `commit`. With a certificate for p:
//!
//! - **vote**: the block's view is its justify's plus one; or it is that of a time-out certificate
//!   plus one, and the justify is not below the highest high-QC view that q replicas signed in it;
//! - **lock**: the high QC is the lock; what it protects is in the time-out certificates;
//! - **commit** p's parent if p.view = parent.view + 1;
//! - **second vote** (an option, with votes broadcast): on seeing the certificate of b a replica
//!   tells all that it has, and q such words commit b at three message delays. Never after it gave
//!   up on the view of b or a later one with a lower high QC: a time-out certificate could leave b
//!   out. These words bear no signature: whoever hears them knows by the
//!   channel whose they are, and nobody shows them to others, as the chain will show the same. The
//!   empty block that does is put off for a moment (`proposing.rs`): most often commands take its
//!   place.

use super::{Facts, Outcome, Rules, two_chain};
use crate::base::types::View;
use crate::protocols::hotstuff::block::Block;
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

/// One-way message delays from proposal to commit with second votes: proposal, vote, second vote.
pub const SECOND_VOTE_DELAYS: u64 = 3;

/// The phase of second votes, in the order of a replica's votes.
pub const SECOND: u8 = 2;

/// The two-chain rule with time-out certificates.
#[derive(Clone, Copy, Debug)]
pub struct TwoChain;

impl Rules for TwoChain {
    fn facts(&self) -> &'static Facts {
        &Facts {
            name: "hotstuff-two-chain",
            number: 5,
            phases: 1,
            certificates: 2,
            chain_length: 2,
            message_delays: 5,
            carries_all_qcs: false,
            waits_for_locks: false,
            view_change: "O(n²) broadcast time-outs, responsive",
            needs: "time-outs in a list or aggregate",
            source: "Gelashvili et al. 2021, section 3; DiemBFT v4",
        }
    }

    fn may_vote(&self, _: &BlockTree, _: &Qc, block: &Block, tc: Option<&Tc>) -> bool {
        match tc {
            None => block.view == block.justify.view().next(),
            Some(tc) => {
                let highest = block.justify.view() >= tc.high_qc_view();
                block.view == tc.view().next() && highest
            }
        }
    }

    /// Not after it gave up on the block's view or a later one: it did so with a lower high QC, and
    /// a time-out certificate that leaves the block out may rest on that.
    fn may_vote_again(&self, view: View, given_up: View) -> bool {
        given_up < view
    }

    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome {
        two_chain(tree, qc)
    }
}
