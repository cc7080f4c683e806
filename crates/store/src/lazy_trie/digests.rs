//! The digest tree of an authenticated store: the binary trie whose root [`merkle`](crate::merkle) defines, beside the lazy-trie.
//!
//! Up to [`MOST`] subtrees of the binary trie stand in one *block* with the joins between them, so that a path is a few blocks and a lookup
//! without a proof reads none of them. Blocks divide and unite as those of a B-tree do; where they do depends on history, digests do not. They are
//! copied like nodes of the trie are, each once per batch, or once for many ([`Proofs`](super::Proofs)):
//! - [`block`]: a block in the space;
//! - [`thaw`]: the blocks that a batch meets, in memory, and finding the way in them;
//! - [`edit`]: leaves put, replaced and removed there;
//! - [`refresh`]: joins hashed, equal bits together, and blocks written;
//! - [`prove`]: paths for proofs, and the check of everything.
//!
//! The root of the digest tree also names the root of the lazy-trie: one word stands for a version.

pub(super) mod block;
mod edit;
pub(super) mod prove;
mod refresh;
mod row;
mod thaw;
pub(super) mod verify;

pub(super) use block::Block;
pub(super) use thaw::Thawed;

use super::entry::{Address, Entry};
use super::error::Error;
use super::hash::Hash;
use super::space::Space;
use crate::merkle::Digest;

/// Children of a block at most: few enough that a changed path is a small copy, and to fit the slots of the smallest slabs there may be.
pub(super) const MOST: usize = 16;
/// So many changes are thawed together: what they meet stays in the processor's cache. They are neighbours, so that little is met twice.
const CHANGES_AT_ONCE: usize = 256;

/// What a batch did to an item, as far as the digest tree goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct LeafChange {
    pub(super) hash: Hash,
    /// Whether there was one before.
    pub(super) existed: bool,
    /// The item there is now, and the digest of its leaf.
    pub(super) leaf: Option<(Entry, Digest)>,
}

/// What a root says beside its digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crown {
    /// The root of the lazy-trie.
    pub(super) tree: u64,
    pub(super) version: u64,
}

/// The bytes of a slot for any root.
pub(super) const ROOT_BYTES: u32 = block::bytes_of(MOST) as u32;

/// Brings the digest tree at `root` up to date, and writes it; the new root. `changes` is emptied.
///
/// # Errors
/// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`].
pub(super) fn update(
    space: &mut Space,
    thawed: &mut Thawed,
    root: Entry,
    crown: Crown,
    changes: &mut Vec<LeafChange>,
) -> Result<Entry, Error> {
    unite(changes);
    let mut root = root;
    let mut chunks = changes.chunks(CHANGES_AT_ONCE);
    loop {
        let chunk = chunks.next();
        thawed.forget();
        thawed.begin(space, root)?;
        for change in chunk.unwrap_or(&[]) {
            thawed.change(space, change)?;
        }
        refresh::hash(thawed);
        root = refresh::write(thawed, space, crown)?;
        if chunks.len() == 0 {
            break;
        }
    }
    thawed.forget();
    changes.clear();
    Ok(root)
}

/// Brings what is thawed of the digest tree at `root` up to date, and writes the root alone to a slot of [`ROOT_BYTES`]; the new root.
/// `changes` is emptied.
///
/// # Errors
/// [`Error::Damaged`]: then what is thawed is of no use any more.
pub(super) fn update_thawed(
    space: &mut Space,
    thawed: &mut Thawed,
    (root, slot): (Entry, Address),
    crown: Crown,
    changes: &mut Vec<LeafChange>,
) -> Result<Entry, Error> {
    unite(changes);
    thawed.begin(space, root)?;
    for chunk in changes.chunks(CHANGES_AT_ONCE) {
        for change in chunk {
            thawed.change(space, change)?;
        }
        refresh::hash(thawed);
    }
    changes.clear();
    refresh::show(thawed, space, slot, crown)
}

/// Writes what is thawed; the root.
///
/// # Errors
/// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`]: then nothing was written.
pub(super) fn write(space: &mut Space, thawed: &mut Thawed, crown: Crown) -> Result<Entry, Error> {
    refresh::write(thawed, space, crown)
}

/// Makes the changes of each item one.
fn unite(changes: &mut Vec<LeafChange>) {
    // Stable: of the changes of one item the first knows what was there, the last what is there now.
    changes.sort_by_key(|change| change.hash);
    changes.dedup_by(|later, first| {
        let same = later.hash == first.hash;
        if same {
            first.leaf = later.leaf;
        }
        same
    });
}
