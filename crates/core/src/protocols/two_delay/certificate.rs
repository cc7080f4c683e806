//! The certificates that signatures make: lists, each signer beside its signature.

use crate::base::crypto::Signature;
use crate::base::types::{ReplicaId, View};
use crate::ledger::block::BlockId;

/// Kinds of votes in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The one vote that counts for a fast commit.
    First = 1,
    /// No other block of the view can have been committed by first votes.
    Fallback = 2,
    /// The block has a QC.
    Second = 3,
}

/// A signer beside its signature.
pub type Signed = (ReplicaId, Signature);

/// q votes of one view for one block, first votes and fallback votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qc {
    /// The view.
    pub view: View,
    /// The block.
    pub block: BlockId,
    /// First votes, ascending by their signers.
    pub firsts: Vec<Signed>,
    /// Fallback votes of other replicas, ascending.
    pub fallbacks: Vec<Signed>,
}

impl Qc {
    /// The certificate of view 0, true by definition for an epoch's first block.
    #[must_use]
    pub fn genesis(block: BlockId) -> Self {
        Self { view: View(0), block, firsts: Vec::new(), fallbacks: Vec::new() }
    }

    /// Who voted.
    pub fn signers(&self) -> impl Iterator<Item = ReplicaId> {
        self.firsts.iter().chain(&self.fallbacks).map(|(signer, _)| *signer)
    }
}

/// What commits a block by itself: F first votes, or q second votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// First or second votes.
    pub phase: Phase,
    /// The view.
    pub view: View,
    /// The block.
    pub block: BlockId,
    /// The votes, ascending by their signers.
    pub votes: Vec<Signed>,
}

/// A replica's part in a [`Tc`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GaveUp {
    /// Who gave up.
    pub replica: ReplicaId,
    /// The view of its highest QC.
    pub high: View,
    /// Over both views.
    pub signature: Signature,
}

/// q time-outs of one view. It goes with a QC of a view no lower than any that they name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tc {
    /// The view given up.
    pub view: View,
    /// The time-outs, ascending by their signers.
    pub entries: Vec<GaveUp>,
}

impl Tc {
    /// The view of the highest QC that its signers hold.
    #[must_use]
    pub fn high(&self) -> View {
        self.entries.iter().map(|entry| entry.high).max().unwrap_or_default()
    }
}
