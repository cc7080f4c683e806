use super::node::{Branch, Child, join_slot, nibble, rank};
use super::{Leaf, MerkleMap};
use crate::{Hash, Proof, ProofLeaf};

impl<V: Leaf> MerkleMap<V> {
    /// The proof, under [`root`](Self::root), of the digest of the value under `key`, or that there
    /// is none. Brings the root up to date first.
    pub fn prove(&mut self, key: &Hash) -> Proof {
        self.root();
        let mut path = Vec::new();
        let mut child = &self.top.child;
        while let Child::Branch(branch) = child {
            child = branch.pass(key, &mut path);
        }
        path.reverse();
        let leaf = match child {
            Child::Leaf(entry) if entry.key == *key => ProofLeaf::Own(entry.value.digest()),
            Child::Leaf(entry) => ProofLeaf::Other(entry.key, entry.value.digest()),
            Child::Empty | Child::Branch(_) => ProofLeaf::None,
        };
        Proof { leaf, path }
    }
}

impl<V> Branch<V> {
    /// Where a search for `key` goes on, whether or not the key is below: the joins passed on the
    /// way are added, each as its bit and the digest of its other side. Nothing here may be dirty.
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
