//! Iteration in order of key.

use super::MerkleMap;
use super::node::{Child, Slot, first_difference, nibble, rank};
use crate::Hash;
use std::slice;

/// The pairs of a [`MerkleMap`] in ascending order of key; see [`MerkleMap::iter`].
pub struct Iter<'a, V> {
    /// What is still to come of each branch on the path, the innermost last.
    path: Vec<slice::Iter<'a, Slot<V>>>,
}

impl<'a, V> Iter<'a, V> {
    pub(super) fn all(top: &'a Slot<V>) -> Self {
        Self { path: vec![slice::from_ref(top).iter()] }
    }

    /// The pairs whose key is `start` or above.
    pub(super) fn from(top: &'a Slot<V>, start: &Hash) -> Self {
        let Some(closest) = top.child.closest(start) else {
            return Self { path: Vec::new() };
        };
        let parting = first_difference(&closest.key, start);
        let depth = parting.unwrap_or(u8::MAX);
        let mut path = Vec::new();
        let mut slot = top;
        // Down to where `start` leaves the map, keeping what lies to the right.
        while let Child::Branch(branch) = &slot.child
            && branch.depth <= depth
        {
            let nibble = nibble(start, branch.depth);
            let at = rank(branch.present, nibble);
            if branch.depth == depth {
                path.push(branch.slots[at..].iter());
                return Self { path };
            }
            path.push(branch.slots[at + 1..].iter());
            slot = &branch.slots[at];
        }
        // All below `slot` lies on the same side of `start`.
        if closest.key >= *start {
            path.push(slice::from_ref(slot).iter());
        }
        Self { path }
    }
}

impl<'a, V> Iterator for Iter<'a, V> {
    type Item = (&'a Hash, &'a V);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let Some(slot) = self.path.last_mut()?.next() else {
                self.path.pop();
                continue;
            };
            match &slot.child {
                Child::Empty => {}
                Child::Leaf(entry) => return Some((&entry.key, &entry.value)),
                Child::Branch(branch) => self.path.push(branch.slots.iter()),
            }
        }
    }
}

impl<'a, V> IntoIterator for &'a MerkleMap<V> {
    type Item = (&'a Hash, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.iter()
    }
}
