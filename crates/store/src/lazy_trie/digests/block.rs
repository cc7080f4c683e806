//! A block: some subtrees of the binary trie, in the order of their keys, and the joins between
//! them.
//!
//! ```text
//!  0  CRC-32C of bytes 4 to the end, begun with the address (set when the block is written out)
//!  4  number of children u8, n, at most 16 | 5 alone u8 | 6 digits u16
//!  8  root of the lazy-trie u64 | 16 version u64 (both, and 5 and 6, are zero except in the root)
//! 24  the children, u64 each: items, or blocks | their digests [32] each
//!  …  between each two neighbours: the bit of the join there, u8 each
//! ```
//! The bits decide which joins are below which: of a range of neighbours, the join with the lowest
//! bit is the topmost and divides them. The digests of joins are not stored: to hash a few again,
//! many at once, costs less than to read, copy and write them. Only the root may have fewer than
//! two children: one for each first digit of four bits that occurs. Bit d of its *digits* says
//! whether keys begin with d.
//!
//! A root that is *alone* (1) has its digests, but its children are not written: its version has no
//! proofs. Checkpoints have no such roots.

use super::super::entry::{Address, Entry, Kind};
use super::super::error::Error;
use super::super::hash::Hash;
use super::super::memory::View;
use super::super::node::is_sound;
use super::{Crown, MOST};
use crate::merkle::{Digest, Domain, EMPTY_ROOT, message};

pub(in super::super) const HEAD_BYTES: usize = 24;

/// A block in the space.
#[derive(Clone, Copy)]
pub(in super::super) struct Block<'a> {
    pub(in super::super) crown: Crown,
    /// Whether its children are not in the space.
    pub(in super::super) alone: bool,
    /// In the root: the first digits that occur.
    pub(super) digits: u16,
    entries: &'a [[u8; 8]],
    pub(super) digests: &'a [Digest],
    pub(super) bits: &'a [u8],
}

/// The length of a block with this number of children.
pub(super) const fn bytes_of(children: usize) -> usize {
    HEAD_BYTES + 40 * children + children.saturating_sub(1)
}

/// The length of the block that `bytes` begin with.
pub(in super::super) fn length(bytes: &[u8]) -> Option<usize> {
    let children = usize::from(*bytes.get(4)?);
    (children <= MOST).then(|| bytes_of(children))
}

/// The index of the topmost join; there is at least one.
pub(super) fn topmost(bits: &[u8]) -> usize {
    let mut least = 0;
    let mut top = u8::MAX;
    for (index, bit) in bits.iter().enumerate().rev() {
        // Two equal bits are never the lowest of a range.
        if *bit <= top {
            (least, top) = (index, *bit);
        }
    }
    least
}

impl<'a> Block<'a> {
    /// Reads the block of an entry, checked unless its slab is trusted. An empty entry is a block
    /// without children.
    pub(in super::super) fn read(view: View<'a>, entry: Entry) -> Result<Block<'a>, Error> {
        if entry == Entry::EMPTY {
            let crown = Crown { tree: 0, version: super::super::open::FIRST_VERSION };
            return Ok(Block {
                crown,
                alone: false,
                digits: 0,
                entries: &[],
                digests: &[],
                bits: &[],
            });
        }
        let address = entry.address();
        let damaged = |what| view.memory().damaged(address, what);
        if entry.kind() != Kind::Node {
            return Err(damaged("an entry that leads to no block of digests"));
        }
        let room = view.room(address).ok_or_else(|| damaged("nothing is there"))?;
        let head = room.take(HEAD_BYTES).ok_or_else(|| damaged("a block does not fit"))?;
        let bytes = length(head).and_then(|length| room.take(length));
        let bytes = bytes.ok_or_else(|| damaged("the length of a block of digests"))?;
        if !room.trusted && !is_sound(address, bytes) {
            return Err(damaged("the checksum of a block of digests"));
        }
        Block::parse(bytes).ok_or_else(|| damaged("the length of a block of digests"))
    }

    fn parse(bytes: &'a [u8]) -> Option<Block<'a>> {
        let children = usize::from(*bytes.get(4)?);
        let joins = children.saturating_sub(1);
        let crown = Crown {
            tree: crate::bytes::u64_at(bytes, 8)?,
            version: crate::bytes::u64_at(bytes, 16)?,
        };
        let (entries, rest) = bytes.get(HEAD_BYTES..)?.split_at_checked(8 * children)?;
        let (digests, rest) = rest.split_at_checked(32 * children)?;
        Some(Block {
            crown,
            alone: *bytes.get(5)? != 0,
            digits: u16::from_le_bytes(*bytes.get(6..8)?.first_chunk()?),
            entries: entries.as_chunks().0,
            digests: digests.as_chunks().0,
            bits: rest.get(..joins)?,
        })
    }

    pub(in super::super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn entry(&self, child: usize) -> Entry {
        self.entries.get(child).map_or(Entry::EMPTY, |bytes| Entry(u64::from_le_bytes(*bytes)))
    }

    pub(super) fn entries(self) -> impl Iterator<Item = Entry> + 'a {
        self.entries.iter().map(|bytes| Entry(u64::from_le_bytes(*bytes)))
    }

    /// The digest of children `from..to`, which form a subtree: its joins are hashed.
    pub(super) fn digest_of(&self, from: usize, to: usize) -> Digest {
        if to <= from + 1 {
            return self.digests.get(from).copied().unwrap_or(EMPTY_ROOT);
        }
        let join = from + topmost(self.bits.get(from..to - 1).unwrap_or(&[]));
        let Some(bit) = self.bits.get(join) else { return EMPTY_ROOT };
        let (left, right) = (self.digest_of(from, join + 1), self.digest_of(join + 1, to));
        Domain::join(*bit).hash(&message(&left, &right))
    }

    /// The digest of the whole block.
    pub(in super::super) fn digest(&self) -> Digest {
        self.digest_of(0, self.len())
    }

    /// The child at which a search for `hash` continues. `passed` gets each join on the way, and
    /// the range of the children on its other side.
    pub(super) fn route(&self, hash: &Hash, mut passed: impl FnMut(u8, usize, usize)) -> usize {
        let (mut from, mut to) = (0, self.len());
        while to > from + 1 {
            let Some(bits) = self.bits.get(from..to - 1) else { break };
            let join = from + topmost(bits);
            let bit = self.bits.get(join).copied().unwrap_or(0);
            if hash.bit(bit) {
                passed(bit, from, join + 1);
                from = join + 1;
            } else {
                passed(bit, join + 1, to);
                to = join + 1;
            }
        }
        from
    }
}

/// The head of a block; the entries, the digests and the bits follow.
pub(super) fn head(children: usize, digits: u16, alone: bool, crown: Crown) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    (head[4], head[5]) = (children as u8, u8::from(alone));
    head[6..8].copy_from_slice(&digits.to_le_bytes());
    head[8..16].copy_from_slice(&crown.tree.to_le_bytes());
    head[16..].copy_from_slice(&crown.version.to_le_bytes());
    head
}

/// Sets the checksum of the block at the start of `slot`, before it is written out.
pub(in super::super) fn seal(address: Address, slot: &mut [u8]) {
    let length = length(slot).unwrap_or(0);
    if let Some((stored, content)) =
        slot.get_mut(..length).and_then(|bytes| bytes.split_first_chunk_mut::<4>())
    {
        *stored = super::super::entry::checksum(address, content).to_le_bytes();
    }
}
