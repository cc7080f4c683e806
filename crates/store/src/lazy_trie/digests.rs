//! The digest tree of an authenticated store: the binary trie whose root [`merkle`](crate::merkle) defines, beside the lazy-trie.
//!
//! Up to [`MOST`] subtrees of the binary trie stand in one *block* with the joins between them, so that a path is a few blocks and a lookup
//! without a proof reads none of them. The root parts the keys by their first four bits; below it blocks divide and unite as those of a B-tree do; where they do depends on history, digests do not. They are
//! copied like nodes of the trie are, each once per batch, or once for many ([`Proofs`](super::Proofs)):
//! - [`block`]: a block in the space;
//! - [`forest`]: the root, and the subtrees below it;
//! - [`share`]: subtrees changed by several threads, side by side and beside the one that changes the lazy-trie;
//! - [`thaw`]: the blocks that a batch meets, in memory, and finding the way in them;
//! - [`meet`]: the ways down to leaves that are there, and leaves replaced; [`edit`]: leaves put and removed;
//! - [`refresh`]: joins hashed, equal bits together, and blocks written;
//! - [`prove`]: paths for proofs, and the check of everything.
//!
//! The root of the digest tree also names the root of the lazy-trie: one word stands for a version.

pub(super) mod block;
mod edit;
mod forest;
mod meet;
pub(super) mod prove;
mod refresh;
mod row;
mod share;
mod thaw;
pub(super) mod verify;

pub(super) use block::Block;
pub(super) use forest::{Forest, ROOT_BYTES};
pub(super) use share::Broken;

use super::entry::Entry;
use super::hash::Hash;
use crate::merkle::Digest;

/// Children of a block at most: few enough that a changed path is a small copy, and to fit the slots of the smallest slabs there may be.
pub(super) const MOST: usize = 16;

/// What a batch did to an item, as far as the digest tree goes. Once it was done there, it is what undoes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafChange {
    pub(super) hash: Hash,
    /// Whether there was one before.
    pub(super) existed: bool,
    /// The item there is now, and the digest of its leaf.
    pub(super) leaf: Option<(Entry, Digest)>,
}

impl LeafChange {
    pub(super) fn hash(&self) -> &Hash {
        &self.hash
    }
}

/// What a root says beside its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crown {
    /// The root of the lazy-trie.
    pub(super) tree: u64,
    pub(super) version: u64,
}
