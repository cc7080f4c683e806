//! Proofs of what a map holds.
//!
//! The encoding is the store's (docs/store.md, "Authenticated mode"), version 1, integers
//! little-endian; `quorate_store::merkle::Proof` reads and verifies it:
//!
//! ```text
//! 0 version u8 = 1 | 1 kind u8: 0 the map is empty, 1 the key is there, 2 it is not
//! 2 kind 1: d [32]; kind 2: another key k' [32] ‖ its d' [32]
//! … number of joins u16 (at most 256) | for each, from the leaf to the root: b u8 ‖ the digest of the other side [32]
//! ```

use super::node::{Branch, Child, join_slot, nibble, rank};
use super::{Hash, Leaf, MerkleMap};

const VERSION: u8 = 1;
const EMPTY: u8 = 0;
const PRESENT: u8 = 1;
const ABSENT: u8 = 2;

impl<V: Leaf> MerkleMap<V> {
    /// The encoded proof, under [`root`](Self::root), of the digest of the value under `key`, or that
    /// there is none. Brings the root up to date first.
    pub fn prove(&mut self, key: &Hash) -> Vec<u8> {
        self.root();
        let mut joins = Vec::new();
        let mut child = &self.top.child;
        while let Child::Branch(branch) = child {
            child = branch.pass(key, &mut joins);
        }
        let mut bytes = vec![VERSION];
        match child {
            Child::Leaf(entry) if entry.key == *key => {
                bytes.push(PRESENT);
                bytes.extend_from_slice(&entry.value.digest());
            }
            Child::Leaf(entry) => {
                bytes.push(ABSENT);
                bytes.extend_from_slice(&entry.key);
                bytes.extend_from_slice(&entry.value.digest());
            }
            Child::Empty | Child::Branch(_) => bytes.push(EMPTY),
        }
        bytes.extend_from_slice(&(joins.len() as u16).to_le_bytes());
        for (bit, other_side) in joins.iter().rev() {
            bytes.push(*bit);
            bytes.extend_from_slice(other_side);
        }
        bytes
    }
}

impl<V> Branch<V> {
    /// Where a search for `key` goes on, whether or not the key is below: the joins passed on the way
    /// are added, each as its bit and the digest of its other side. Nothing here may be dirty.
    fn pass(&self, key: &Hash, joins: &mut Vec<(u8, Hash)>) -> &Child<V> {
        let wanted = nibble(key, self.depth);
        let mut block = self.present;
        while !block.is_power_of_two() {
            // The highest bit in which nibbles of the block differ: its weight, and where its upper
            // half begins.
            let (first, last) = (block.trailing_zeros(), block.ilog2());
            let weight = (first ^ last).ilog2();
            let lower = block & ((1 << (last >> weight << weight)) - 1);
            let upper = block & !lower;
            let goes_up = wanted >> weight & 1 == 1;
            let (taken, other) = if goes_up { (upper, lower) } else { (lower, upper) };
            joins.push((4 * self.depth + (3 - weight as u8), *self.digest_of(other)));
            block = taken;
        }
        &self.slots[rank(self.present, block.trailing_zeros() as u8)].child
    }

    /// The digest of a block of present nibbles.
    fn digest_of(&self, block: u16) -> &Hash {
        if block.is_power_of_two() {
            return &self.slots[rank(self.present, block.trailing_zeros() as u8)].digest;
        }
        &self.slots[join_slot(self.present, block)].join
    }
}
