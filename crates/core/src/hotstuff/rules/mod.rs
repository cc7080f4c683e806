//! The rules that tell the chained variants of HotStuff apart: one small file each, pure
//! functions of the tree, held against the paper line by line.

pub mod chained;

pub use chained::ThreeChain;

use crate::block::{Block, BlockId};
use crate::certificate::Qc;
use crate::tree::BlockTree;

/// What a certificate leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The certificate to lock on, if it is newer than the present lock.
    pub lock: Option<Qc>,
    /// The block to commit, with all its ancestors.
    pub commit: Option<BlockId>,
}

/// A variant of chained HotStuff.
pub trait Rules: Send + 'static {
    /// Its name in configuration.
    const NAME: &'static str;
    /// Its number in signed statements.
    const PROTOCOL: u8;
    /// Views from a block's own to the one whose proposal carries the certificate that commits it.
    const COMMIT_DEPTH: u64;
    /// One-way message delays from proposal to commit at every replica.
    const MESSAGE_DELAYS: u64;

    /// Whether a replica locked on `lock` may vote for `block`, whose parent is in the tree.
    /// (That it votes once a view, in increasing views, is the same for all variants and not
    /// asked here.)
    fn may_vote(tree: &BlockTree, lock: &Qc, block: &Block) -> bool;

    /// What a valid certificate leads to, as far as its block and its ancestors are in the tree.
    fn on_qc(tree: &BlockTree, qc: &Qc) -> Outcome;
}
