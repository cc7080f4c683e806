//! Proofs: the path of a name through the digest tree.

use super::super::entry::{Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::item::{self, Name};
use super::super::memory::View;
use super::block::Block;
use crate::merkle::{Proof, ProofLeaf, ValueDigest, one};

/// Proves the value, or the absence, of a name in the digest tree at `root`. Returns the proof and
/// the value.
///
/// # Errors
/// [`Error::Damaged`].
pub(in super::super) fn prove<'a>(
    view: View<'a>,
    root: Entry,
    name: &Name<'_>,
    hash: &Hash,
    hashing: ValueDigest,
) -> Result<(Proof, Option<&'a [u8]>), Error> {
    let mut path = Vec::new();
    let (mut entry, mut below_root) = (root, false);
    loop {
        let block = Block::read(view, entry)?;
        // Only the root may have one child, so each block below it has a join of its own.
        if block.len() < 2 && below_root {
            return Err(view
                .memory()
                .damaged(entry.address(), "a block of digests with one child"));
        }
        if block.len() == 0 {
            return Ok((Proof { leaf: ProofLeaf::None, path: Vec::new() }, None));
        }
        let above = path.len();
        let child = block.route(hash, |bit, from, to| path.push((bit, block.digest_of(from, to))));
        let passed = path.get(above.saturating_sub(1)..).unwrap_or(&[]);
        if !passed.is_sorted_by(|(a, _), (b, _)| a < b) || (path.len() == above && above > 0) {
            return Err(view.memory().damaged(entry.address(), "the joins of a block of digests"));
        }
        (entry, below_root) = (block.entry(child), true);
        if entry.kind() == Kind::Item {
            break;
        }
    }
    path.reverse();
    let item = item::read(view, entry.address())?;
    let value = one(hashing, item.value);
    if item.is(name, hash) {
        return Ok((Proof { leaf: ProofLeaf::Own(value), path }, Some(item.value)));
    }
    Ok((Proof { leaf: ProofLeaf::Other(item.hash().0, value), path }, None))
}
