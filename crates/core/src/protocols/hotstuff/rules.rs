//! The rules that tell the variants of HotStuff apart: one small file each, pure functions of the
//! tree, held against the paper line by line.
//!
//! Common to all and not asked here: a replica votes once a view and phase, in increasing order;
//! never in a view that it gave up; and a block's parent is the block of its justify.
//!

mod basic;
mod chained;
mod fast;
mod hotstuff_2;
mod simplified;
mod two_chain;

pub use basic::Basic;
pub use chained::Chained;
pub use fast::Fast;
pub use hotstuff_2::HotStuff2;
pub use simplified::Simplified;
pub use two_chain::{SECOND as SECOND_VOTE, SECOND_VOTE_DELAYS, TwoChain};

use std::fmt::Debug;

use crate::base::types::View;
use crate::ledger::block::BlockId;
use crate::protocols::hotstuff::block::{Block, Header};
use crate::protocols::hotstuff::certificate::{Qc, Tc};
use crate::protocols::hotstuff::tree::BlockTree;

/// What a certificate leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The certificate to lock on, if it is newer than the present lock.
    pub lock: Option<Qc>,
    /// The block to commit, with all its ancestors.
    pub commit: Option<BlockId>,
}

/// What a variant is: the constants by which the driver runs it and people compare it.
#[derive(Debug)]
pub struct Facts {
    /// Its name in configuration.
    pub name: &'static str,
    /// Its number in signed statements. Never used again for another.
    pub number: u8,
    /// Kinds of votes in one view, each with its certificate: more than one means that the
    /// leader of a view takes one block through all of them.
    pub phases: u8,
    /// Certificates a block needs, its own included, until it is committed.
    pub certificates: u8,
    /// Views from a block's own to the one whose proposal carries the certificate that commits it.
    pub chain_length: u64,
    /// One-way message delays from proposal to commit at every replica.
    pub message_delays: u64,
    /// Whether a time-out certificate carries every signer's high QC (an AggQC).
    pub carries_all_qcs: bool,
    /// Whether a leader that enters its view by a time-out certificate waits for the locks of all
    /// correct replicas before it proposes: for all, or for as long as a message may take.
    pub waits_for_locks: bool,
    /// What a view change costs, in signatures sent by all together.
    pub view_change: &'static str,
    /// What it asks of the parts around it.
    pub needs: &'static str,
    /// Where the rules are from.
    pub source: &'static str,
}

/// A variant of HotStuff.
pub trait Rules: Debug + Send + Sync + 'static {
    /// Its constants.
    fn facts(&self) -> &'static Facts;

    /// Whether a replica locked on `lock` may vote for `block`, whose parent is in the tree and
    /// whose view was entered by `tc` if its justify is not of the view before.
    fn may_vote(&self, tree: &BlockTree, lock: &Qc, block: &Block, tc: Option<&Tc>) -> bool;

    /// What a valid certificate leads to, as far as its block and its ancestors are in the tree.
    fn on_qc(&self, tree: &BlockTree, qc: &Qc) -> Outcome;

    /// Whether a replica that gave up on `given_up` and nothing later may say a second time that it
    /// stands by a block of `view`, whose certificate it has just seen. Asked only where second
    /// votes are cast ([`Settings::second_vote`](super::Settings::second_vote)).
    fn may_vote_again(&self, view: View, given_up: View) -> bool {
        let _ = (view, given_up);
        false
    }

    /// The certificate that a leader extends: its high QC, where the rules do not bind it to what
    /// the time-out certificate says.
    fn justify(&self, high_qc: &Qc, tc: Option<&Tc>) -> Qc {
        let _ = tc;
        high_qc.clone()
    }
}

/// Every variant, in the order in which programs list them.
pub const ALL: [&dyn Rules; 6] = [&Basic, &Chained, &Simplified, &Fast, &TwoChain, &HotStuff2];

/// The variant of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static dyn Rules> {
    ALL.into_iter().find(|rules| rules.facts().name == name)
}

/// Whether `block` descends from (or is) the block `lock` certifies.
fn extends_lock(tree: &BlockTree, lock: &Qc, block: &Block) -> bool {
    match tree.get(&lock.block()) {
        Some(locked) => tree.extends(&block.parent(), &locked.id()),
        // A lock below the tree is on a committed block, which everything here extends.
        None => lock.view() <= tree.root().view,
    }
}

/// The blocks certified in a row, newest first: the one `qc` certifies, its parent, its parent's
/// parent; as far as they are at hand.
fn chain_of<'a>(tree: &'a BlockTree, qc: &Qc) -> [Option<&'a Header>; 3] {
    let newest = tree.find(&qc.block());
    let parent = newest.and_then(|block| tree.find(&block.parent()));
    let grandparent = parent.and_then(|block| tree.find(&block.parent()));
    [newest, parent, grandparent]
}

/// The certificate in the block that `qc` certifies. Below a snapshot's block there are headers
/// alone: whatever was locked on there is below what this replica holds to be committed.
fn justify_of(tree: &BlockTree, qc: &Qc) -> Option<Qc> {
    tree.block(&qc.block()).map(|block| block.justify.clone())
}

/// The two-chain rule of [`Fast`], [`TwoChain`] and [`HotStuff2`]: lock on the certificate itself;
/// commit the parent of the certified block if the two are of consecutive views.
fn two_chain(tree: &BlockTree, qc: &Qc) -> Outcome {
    let lock = Some(qc.clone());
    let [Some(p), Some(parent), _] = chain_of(tree, qc) else {
        return Outcome { lock, commit: None };
    };
    Outcome { lock, commit: (p.view == parent.view.next()).then(|| parent.id()) }
}
