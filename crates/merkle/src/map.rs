//! A persistent Merkle map: replicated state with cheap snapshots and a cheap root.
//!
//! [`MerkleMap`] maps 32-byte hashed keys to values. Cloning it takes constant time and gives a
//! snapshot; later writes copy only the nodes they touch, and nothing is copied while no snapshot
//! shares it. [`MerkleMap::root`] hashes only what changed since it was last called.
//!
//! # In memory
//!
//! Four levels of the binary trie make one node: a sorted array of its present slots (2 to 16),
//! holding for each slot the child, its digest, and the digest of the join between that slot and
//! the one before. A write marks slots dirty on its way down. The root then collects every stale
//! hash of the map, in order of bit, so that each bit's joins go through the vector unit as one
//! batch.

mod iter;
mod node;
mod prove;
mod refresh;

pub use iter::Iter;

use node::{Entry, Slot, first_difference};
use refresh::Refresh;
use std::fmt;
use std::sync::Arc;

use crate::Hash;

/// A value of a [`MerkleMap`].
pub trait Leaf: Clone {
    /// The digest that stands for this value under the root. It must be a collision-resistant hash
    /// of all that replicas must agree on, and a function of the value alone. Must not panic: a map
    /// whose refresh was unwound has lost what it was working on.
    fn digest(&self) -> Hash;

    /// Exactly the [digest](Self::digest) of each value; `digests` is as long. Some roots come from
    /// the one and some from the other. Here for values whose hashes can be computed side by side,
    /// as [`Kind`](crate::hashes::Kind) does. Must not panic either.
    fn digests(values: &[&Self], digests: &mut [Hash]) {
        for (value, digest) in values.iter().zip(digests) {
            *digest = value.digest();
        }
    }
}

/// An authenticated map from hashed keys to values, with constant-time snapshots; see the
/// [crate](crate) for what its root means.
///
/// Keys must be outputs of a hash function: the map's depth relies on it, its correctness does not.
///
/// A clone shares everything with its original. Call [`root`](Self::root) before cloning where the
/// root is wanted at all: what is stale at the time of the clone, each of the two hashes for
/// itself.
pub struct MerkleMap<V> {
    /// Its digest is the root, unless there were `writes`.
    top: Slot<V>,
    len: usize,
    /// Writes since the root was last computed: a bound on the leaves that are stale.
    writes: usize,
    refresh: Refresh<V>,
}

impl<V> MerkleMap<V> {
    /// A map that holds nothing.
    pub fn new() -> Self {
        Self { top: Slot::default(), len: 0, writes: 0, refresh: Refresh::default() }
    }

    /// How many pairs the map holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the map holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The value under `key`.
    pub fn get(&self, key: &Hash) -> Option<&V> {
        let closest = self.top.child.closest(key)?;
        (closest.key == *key).then_some(&closest.value)
    }

    /// Whether there is a value under `key`.
    pub fn contains_key(&self, key: &Hash) -> bool {
        self.get(key).is_some()
    }

    /// All pairs in ascending order of key.
    pub fn iter(&self) -> Iter<'_, V> {
        Iter::all(&self.top)
    }

    /// The pairs whose key is `start` or above, in ascending order of key. Finding the first takes
    /// one or two descents.
    pub fn iter_from(&self, start: &Hash) -> Iter<'_, V> {
        Iter::from(&self.top, start)
    }
}

impl<V: Leaf> MerkleMap<V> {
    /// The value under `key`, to be changed in place. Its digest counts as stale from here on,
    /// changed or not.
    pub fn get_mut(&mut self, key: &Hash) -> Option<&mut V> {
        if !self.contains_key(key) {
            return None;
        }
        self.writes += 1;
        self.top.touch(key)
    }

    /// Puts `value` under `key` and returns the value it replaces.
    pub fn insert(&mut self, key: Hash, value: V) -> Option<V> {
        match self.vacancy(&key) {
            Some(depth) => {
                self.add(depth, Entry { key, value });
                None
            }
            None => {
                self.writes += 1;
                self.top.touch(&key).map(|old| std::mem::replace(old, value))
            }
        }
    }

    /// The value under `key`, to be changed in place; if there is none, what `make` returns is put
    /// there first. As with [`get_mut`](Self::get_mut), its digest counts as stale.
    pub fn get_or_insert_with(&mut self, key: &Hash, make: impl FnOnce() -> V) -> &mut V {
        match self.vacancy(key) {
            Some(depth) => self.add(depth, Entry { key: *key, value: make() }),
            None => self.writes += 1,
        }
        self.top.touch(key).expect("the key is there by now")
    }

    /// Takes the value under `key` out of the map.
    pub fn remove(&mut self, key: &Hash) -> Option<V> {
        if !self.contains_key(key) {
            return None;
        }
        self.writes += 1;
        self.len -= 1;
        let entry = self.top.remove(key)?;
        Some(Arc::try_unwrap(entry).unwrap_or_else(|shared| (*shared).clone()).value)
    }

    /// The root of the content, as the [crate](crate) specifies it. Costs the hashes of what
    /// changed since the last call; without change, nothing.
    pub fn root(&mut self) -> Hash {
        if self.writes > 0 {
            self.refresh.run(&mut self.top, self.writes);
            self.writes = 0;
        }
        self.top.digest
    }

    /// The nibble at which `key` parts from the closest key of the map; `None` if the map holds it.
    fn vacancy(&self, key: &Hash) -> Option<u8> {
        match self.top.child.closest(key) {
            Some(closest) => first_difference(&closest.key, key),
            None => Some(0),
        }
    }

    fn add(&mut self, depth: u8, entry: Entry<V>) {
        self.top.add(self.writes > 0, depth, entry);
        self.writes += 1;
        self.len += 1;
    }
}

impl<V> Clone for MerkleMap<V> {
    /// A snapshot, in constant time.
    fn clone(&self) -> Self {
        Self {
            top: self.top.clone(),
            len: self.len,
            writes: self.writes,
            refresh: Refresh::default(),
        }
    }
}

impl<V> Default for MerkleMap<V> {
    fn default() -> Self {
        Self::new()
    }
}

impl<V: fmt::Debug> fmt::Debug for MerkleMap<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self).finish()
    }
}
