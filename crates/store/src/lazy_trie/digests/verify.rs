//! The check of a digest tree: every digest is computed again from the items.

use super::super::entry::{Address, Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::item;
use super::super::memory::View;
use super::super::node::is_sound;
use super::block::{Block, HEAD_BYTES, length, topmost};
use crate::merkle::{Digest, Domain, ValueDigest, leaf, message};
use std::collections::BTreeSet;

/// Each block on a path has a join of its own, and a hash has 256 bits.
const DEPTH_LIMIT: usize = 256;

impl Block<'_> {
    /// Whether a root's digits are those of the keys below its children, as far as these are known.
    fn digits_are_of(&self, children: &[Below]) -> bool {
        let digits = (0..16u8).filter(|digit| self.digits >> digit & 1 == 1);
        let is_of = |digit, below: &Below| {
            below.is_none_or(|(_, first, last)| {
                [first, last].iter().all(|key| key.0[0] >> 4 == digit)
            })
        };
        self.digits.count_ones() as usize == children.len()
            && digits.zip(children).all(|(digit, below)| is_of(digit, below))
    }
}

/// A walk through the digest tree.
pub(in super::super) struct Survey<'a> {
    pub(in super::super) view: View<'a>,
    pub(in super::super) hashing: ValueDigest,
    /// Slots of the lazy-trie. Those of the digest tree are added.
    pub(in super::super) seen: BTreeSet<Address>,
    /// The number of correct leaves.
    pub(in super::super) leaves: u64,
    pub(in super::super) damage: Vec<Error>,
}

/// The digest, the first key and the last key below an entry. `None` if they could not be
/// determined; the reason was then reported.
type Below = Option<(Digest, Hash, Hash)>;

impl Survey<'_> {
    /// Checks everything below `root`.
    pub(in super::super) fn root(&mut self, root: Entry) {
        if root != Entry::EMPTY {
            self.block(root, 0);
        }
    }

    fn note(&mut self, address: Address, what: &'static str) -> Below {
        self.damage.push(self.view.memory().damaged(address, what));
        None
    }

    fn block(&mut self, entry: Entry, depth: usize) -> Below {
        let address = entry.address();
        if depth > DEPTH_LIMIT {
            return self.note(address, "a path longer than a hash");
        }
        if !self.seen.insert(address) {
            return self.note(address, "two entries lead there");
        }
        let block = match Block::read(self.view, entry) {
            Ok(block) => block,
            Err(error) => {
                self.damage.push(error);
                return None;
            }
        };
        if !self.is_sealed(address) {
            return self.note(address, "the checksum of a block of digests");
        }
        if block.len() < 2 && depth > 0 {
            return self.note(address, "a block of digests with one child");
        }
        let mut children = Vec::with_capacity(block.len());
        for (child, digest) in block.entries().zip(block.digests) {
            let below = if child.kind() == Kind::Item {
                self.leaf(child, digest, address)
            } else {
                self.block(child, depth + 1)
            };
            if below.is_some_and(|(found, ..)| found != *digest) {
                self.note(address, "the digest of a block");
            }
            children.push(below);
        }
        if depth == 0 && !block.digits_are_of(&children) {
            return self.note(address, "the first digits of the topmost block");
        }
        self.joins(address, &block, &children, 0)
    }

    fn leaf(&mut self, entry: Entry, digest: &Digest, block: Address) -> Below {
        if !self.seen.contains(&entry.address()) {
            return self.note(block, "a digest of an item that is not in the trie");
        }
        // An unreadable item was reported when the trie was walked.
        let item = item::read(self.view, entry.address()).ok()?;
        let hash = item.hash();
        let found = leaf(self.hashing, &hash.0, item.value);
        if found != *digest {
            self.note(block, "the digest of an item is not that of the item");
            return None;
        }
        self.leaves += 1;
        Some((found, hash, hash))
    }

    /// The digest and keys below neighbours, the first of them child `first`.
    fn joins(&mut self, at: Address, block: &Block<'_>, below: &[Below], first: usize) -> Below {
        if below.len() < 2 {
            return below.first().copied().flatten();
        }
        let bits = block.bits.get(first..first + below.len() - 1)?;
        let parting = topmost(bits);
        let (left, right) = below.split_at_checked(parting + 1)?;
        let left = self.joins(at, block, left, first);
        let right = self.joins(at, block, right, first + parting + 1);
        let (left, right) = (left?, right?);
        let bit = *bits.get(parting)?;
        if left.2 >= right.1 || left.2.parting(&right.1) != Some(bit) {
            return self.note(at, "the bit of a join");
        }
        let digest = Domain::join(bit).hash(&message(&left.0, &right.0));
        Some((digest, left.1, right.2))
    }

    /// Whether the checksum of a written block is right. Readers may have skipped it.
    fn is_sealed(&self, address: Address) -> bool {
        let room = self.view.room(address);
        let head = room.and_then(|room| room.take(HEAD_BYTES));
        let bytes =
            head.and_then(length).and_then(|length| room.and_then(|room| room.take(length)));
        // A shadow's blocks get their checksums when they are written out.
        bytes.is_some_and(|bytes| bytes.starts_with(&[0; 4]) || is_sound(address, bytes))
    }
}
