//! The digest tree of an authenticated store: the binary trie whose root [`merkle`](crate::merkle)
//! defines. It stands beside the lazy-trie.
//!
//! Up to [`MOST`] subtrees of the binary trie form one *block*, with the joins between them. So a
//! path has few blocks, and a lookup without a proof reads none of them. The root divides the keys
//! by their first four bits. Below it blocks split and merge like those of a B-tree. The borders of
//! blocks depend on history; digests do not. Blocks are copied like nodes of the trie, each once
//! for a batch, or once for many batches ([`Proofs`](super::Proofs)):
//! - [`block`]: a block in the space;
//! - [`forest`]: the root, and the subtrees below it;
//! - [`share`]: subtrees changed by several threads, in parallel with changes of the lazy-trie;
//! - [`thaw`]: the blocks that a batch visits, in memory, and lookups in them;
//! - [`meet`]: the paths to existing leaves, and their replacement; [`edit`]: leaves put and
//!   removed;
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

/// The most children of a block. The copies of a changed path stay small, and a block fits the
/// slots of the smallest slabs allowed.
pub(super) const MOST: usize = 16;

/// A batch's change of one item, as the digest tree needs it. After it was applied, it is the
/// change that undoes it.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafChange {
    pub(super) hash: Hash,
    /// Whether the item existed before.
    pub(super) existed: bool,
    /// The new item, and the digest of its leaf.
    pub(super) leaf: Option<(Entry, Digest)>,
}

impl LeafChange {
    pub(super) fn hash(&self) -> &Hash {
        &self.hash
    }
}

/// The contents of a root beside its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crown {
    /// The root of the lazy-trie.
    pub(super) tree: u64,
    pub(super) version: u64,
}
