//! Nodes: 128 slots, of which only used ones take room.
//!
//! ```text
//!  0  CRC-32C of bytes 4 to the end, begun with the address (set when the node is written out)
//!  4  number of digits of the prefix u8 | 5 zero [3] | 8 the version that made it u64
//! 16  used slots u128, bit i for slot i | 32 their entries, u64 each, in order
//! …   the digits of the prefix, u8 each
//! ```
//! The prefix is path compression: the digits that all items below share, after those of the node's
//! parent.

use super::entry::{Address, Entry, checksum};
use super::error::Error;
use super::hash::{DIGITS, Hash};
use super::memory::View;
use super::readers::Parts;

pub(super) const HEAD_BYTES: usize = 32;
/// The slot of a node with one child.
pub(super) const LEAST_BYTES: u64 = 48;
/// The slot of a node with all children, without a prefix.
pub(super) const FULL_BYTES: u32 = HEAD_BYTES as u32 + 8 * 128;
/// Where the entries begin.
const MAP_AT: usize = 16;

/// A node in the space.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    pub(super) version: u64,
    map: u128,
    entries: &'a [[u8; 8]],
    /// The digits that all items below share.
    pub(super) prefix: &'a [u8],
}

/// The step at a node on the path to a hash.
pub(super) struct Lead {
    /// The number of digits in the node's prefix, ...
    pub(super) prefix: usize,
    /// ... and how many of them match the hash.
    pub(super) matching: usize,
    /// The index of the child's entry, or of the place where it would be.
    pub(super) rank: usize,
    /// The child; empty if there is none.
    pub(super) child: Entry,
    /// The version that made the node.
    pub(super) version: u64,
}

impl Lead {
    /// [`Node::lead`] for a node that needs no check and has no prefix, like most nodes. It reads
    /// little of the node.
    #[inline]
    fn at_once(view: View<'_>, address: Address, hash: &Hash, depth: usize) -> Option<Lead> {
        let room = view.room(address).filter(|room| room.trusted)?;
        let digit = hash.digit(depth);
        // The entry's place in a full node, and nearly so in most nodes. It is loaded together with
        // the head.
        room.ask_for(entry_at(usize::from(digit)), 1);
        let head: &[u8; HEAD_BYTES] = room.take(HEAD_BYTES)?.first_chunk()?;
        if head[4] != 0 {
            return None;
        }
        let map = u128::from_le_bytes(*head.last_chunk()?);
        let version = u64::from_le_bytes(*head[8..].first_chunk()?);
        let bit = 1u128 << digit;
        let rank = (map & (bit - 1)).count_ones() as usize;
        let child = if map & bit == 0 {
            Entry::EMPTY
        } else {
            Entry(u64::from_le_bytes(*room.take(entry_at(rank + 1))?.last_chunk()?))
        };
        Some(Lead { prefix: 0, matching: 0, rank, child, version })
    }
}

impl<'a> Node<'a> {
    /// Reads the node at `address`, checked unless its slab is trusted.
    pub(super) fn read(view: View<'a>, address: Address) -> Result<Node<'a>, Error> {
        let damaged = |what| view.memory().damaged(address, what);
        let room = view.room(address).ok_or_else(|| damaged("nothing is there"))?;
        let head = room.take(HEAD_BYTES).ok_or_else(|| damaged("a node does not fit"))?;
        let map = head
            .get(MAP_AT..)
            .and_then(|b| b.first_chunk().copied())
            .map_or(0, u128::from_le_bytes);
        let prefix = usize::from(head.get(4).copied().unwrap_or(0));
        let version =
            head.get(8..).and_then(|b| b.first_chunk().copied()).map_or(0, u64::from_le_bytes);
        let count = map.count_ones() as usize;
        let entries_end = HEAD_BYTES + 8 * count;
        let bytes =
            room.take(entries_end + prefix).ok_or_else(|| damaged("the length of a node"))?;
        if !room.trusted && !is_sound(address, bytes) {
            return Err(damaged("the checksum of a node"));
        }
        let prefix = bytes.get(entries_end..).unwrap_or(&[]);
        if prefix.len() >= DIGITS || prefix.iter().any(|digit| *digit > 0x7f) {
            return Err(damaged("the prefix of a node"));
        }
        let (entries, _) = bytes.get(HEAD_BYTES..entries_end).unwrap_or(&[]).as_chunks::<8>();
        Ok(Node { version, map, entries, prefix })
    }

    /// A node without a place: the root above the parts of a tree. Its entries may be empty.
    pub(super) fn above(parts: &'a Parts) -> Node<'a> {
        Node { version: 0, map: u128::MAX, entries: parts, prefix: &[] }
    }

    /// The step at the node at `address` on the path to `hash`, after `depth` digits.
    pub(super) fn lead(
        view: View<'a>,
        address: Address,
        hash: &Hash,
        depth: usize,
    ) -> Result<Lead, Error> {
        if let Some(lead) = Lead::at_once(view, address, hash, depth) {
            return Ok(lead);
        }
        let node = Node::read(view, address)?;
        let (prefix, version) = (node.prefix.len(), node.version);
        let (rank, taken) = node.rank(hash.digit(depth + prefix));
        let child = if taken { node.at(rank) } else { Entry::EMPTY };
        Ok(Lead { matching: node.matching(hash, depth), prefix, rank, child, version })
    }

    /// The number of digits of the prefix that match `hash` from `depth` on.
    pub(super) fn matching(&self, hash: &Hash, depth: usize) -> usize {
        self.prefix
            .iter()
            .enumerate()
            .take_while(|(i, digit)| hash.digit(depth + i) == **digit)
            .count()
    }

    /// The index of a slot's entry, or of its place, and whether it exists.
    pub(super) fn rank(&self, digit: u8) -> (usize, bool) {
        let bit = 1u128 << (digit & 0x7f);
        ((self.map & (bit - 1)).count_ones() as usize, self.map & bit != 0)
    }

    /// The entry of a slot.
    pub(super) fn child(&self, digit: u8) -> Entry {
        match self.rank(digit) {
            (rank, true) => self.at(rank),
            _ => Entry::EMPTY,
        }
    }

    /// The entry with this index.
    pub(super) fn at(&self, rank: usize) -> Entry {
        self.entries.get(rank).map_or(Entry::EMPTY, |bytes| Entry(u64::from_le_bytes(*bytes)))
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Its length in bytes.
    pub(super) fn bytes(&self) -> usize {
        entry_at(self.entries.len()) + self.prefix.len()
    }

    pub(super) fn slots(&self) -> u128 {
        self.map
    }

    pub(super) fn entries(self) -> impl Iterator<Item = Entry> + 'a {
        self.entries.iter().map(|bytes| Entry(u64::from_le_bytes(*bytes)))
    }

    /// Encodes the node with another entry at a slot, for `version`.
    pub(super) fn encode_with(&self, into: &mut Vec<u8>, version: u64, digit: u8, entry: Entry) {
        let bit = 1u128 << (digit & 0x7f);
        let (rank, taken) = self.rank(digit);
        let map = if entry == Entry::EMPTY { self.map & !bit } else { self.map | bit };
        head(into, version, map, self.prefix.len());
        let entries = self.entries.as_flattened();
        let (before, behind) = entries.split_at_checked(8 * rank).unwrap_or((entries, &[]));
        into.extend_from_slice(before);
        if entry != Entry::EMPTY {
            into.extend_from_slice(&entry.0.to_le_bytes());
        }
        into.extend_from_slice(if taken { behind.get(8..).unwrap_or(&[]) } else { behind });
        into.extend_from_slice(self.prefix);
    }

    /// Encodes the node with another prefix.
    pub(super) fn encode_under(&self, into: &mut Vec<u8>, version: u64, prefix: &[u8]) {
        head(into, version, self.map, prefix.len());
        into.extend_from_slice(self.entries.as_flattened());
        into.extend_from_slice(prefix);
    }
}

fn head(into: &mut Vec<u8>, version: u64, map: u128, prefix: usize) {
    into.clear();
    into.extend_from_slice(&[0; 4]);
    into.extend_from_slice(&[prefix as u8, 0, 0, 0]);
    into.extend_from_slice(&version.to_le_bytes());
    into.extend_from_slice(&map.to_le_bytes());
}

/// Encodes a node with these children, in the order of digits.
pub(super) fn encode(into: &mut Vec<u8>, version: u64, children: &[(u8, Entry)], prefix: &[u8]) {
    let map = children.iter().fold(0, |map, (digit, _)| map | 1u128 << (digit & 0x7f));
    head(into, version, map, prefix.len());
    for (_, entry) in children {
        into.extend_from_slice(&entry.0.to_le_bytes());
    }
    into.extend_from_slice(prefix);
}

/// The offset of the version in a node.
pub(super) const VERSION_AT: usize = 8;

/// The offset of an entry in a node.
pub(super) fn entry_at(rank: usize) -> usize {
    HEAD_BYTES + 8 * rank
}

/// The length of the node at the start of `bytes`.
pub(super) fn length(bytes: &[u8]) -> Option<usize> {
    let map = u128::from_le_bytes(*bytes.get(MAP_AT..)?.first_chunk()?);
    Some(HEAD_BYTES + 8 * map.count_ones() as usize + usize::from(*bytes.get(4)?))
}

/// Whether the checksum of the node in exactly these bytes is right.
pub(super) fn is_sound(address: Address, bytes: &[u8]) -> bool {
    bytes
        .split_first_chunk::<4>()
        .is_some_and(|(stored, content)| *stored == checksum(address, content).to_le_bytes())
}

/// Sets the checksum of the node at the start of `slot`, before it is written out.
pub(super) fn seal(address: Address, slot: &mut [u8]) {
    let length = length(slot).unwrap_or(0);
    if let Some((stored, content)) =
        slot.get_mut(..length).and_then(|b| b.split_first_chunk_mut::<4>())
    {
        *stored = checksum(address, content).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::super::memory::{Buffer, Memory};
    use super::*;

    /// A hash that begins with these digits.
    fn hash_of(digits: &[u8]) -> Hash {
        let mut hash = Hash([0; 32]);
        for (at, digit) in digits.iter().enumerate() {
            for bit in (0..7).filter(|bit| digit >> (6 - bit) & 1 == 1) {
                hash.0[(7 * at + bit) / 8] |= 0x80 >> ((7 * at + bit) % 8);
            }
        }
        hash
    }

    #[test]
    #[allow(unsafe_code)]
    fn a_lead_is_what_the_whole_node_says() {
        let memory = Memory::new(4096, 1, 4096).unwrap();
        let address = memory.address(0, 0);
        for prefix in [&[][..], &[3], &[127, 0]] {
            for step in [1, 2, 3, 17, 128] {
                let children: Vec<(u8, Entry)> = (0..128)
                    .step_by(step)
                    .map(|digit| (digit, Entry::bucket(Address(u64::from(digit) + 7))))
                    .collect();
                let (mut bytes, mut buffer) = (Vec::new(), Buffer::zeroed(4096).unwrap());
                encode(&mut bytes, 5, &children, prefix);
                buffer.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
                memory.show_buffer(0, 1, true, &buffer);
                // SAFETY: no thread writes.
                let view = unsafe { memory.view() };
                let node = Node::read(view, address).unwrap();
                for digit in 0..128 {
                    let hash = hash_of(&[&[9], prefix, &[digit]].concat());
                    let lead = Node::lead(view, address, &hash, 1).unwrap();
                    assert_eq!((lead.prefix, lead.matching), (prefix.len(), prefix.len()));
                    assert_eq!((lead.child, lead.version), (node.child(digit), 5));
                    assert_eq!(lead.rank, node.rank(digit).0);
                }
                let elsewhere = Node::lead(view, address, &hash_of(&[9, 4, 1]), 1).unwrap();
                assert_eq!(elsewhere.matching, 0);
            }
        }
    }
}
