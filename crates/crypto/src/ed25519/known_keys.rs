//! A cache of decompressed keys of clients whose signatures were valid before.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use curve25519_dalek::EdwardsPoint;

/// Keys in each of the two generations: 2 × 8192 entries of about 200 bytes, 3 MiB in all.
pub(super) const GENERATION: usize = 8192;

/// A bounded map from encodings to points, in two generations. When the young one is full it
/// becomes the old one, and the old one is dropped. So keys in use stay, and a look-up costs
/// nothing more.
#[derive(Default)]
pub(super) struct KnownKeys {
    generations: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    young: HashMap<[u8; 32], EdwardsPoint>,
    old: HashMap<[u8; 32], EdwardsPoint>,
}

impl KnownKeys {
    pub(super) fn get(&self, key: &[u8; 32]) -> Option<EdwardsPoint> {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(point) = generations.young.get(key) {
            return Some(*point);
        }
        let point = generations.old.get(key).copied()?;
        generations.insert(*key, point);
        Some(point)
    }

    /// Adds the key of a valid signature. Keys of false signatures are not added, so an attacker
    /// has to sign to evict others.
    pub(super) fn insert(&self, key: [u8; 32], point: EdwardsPoint) {
        let mut generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.insert(key, point);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let generations = self.generations.lock().unwrap_or_else(PoisonError::into_inner);
        generations.young.len() + generations.old.len()
    }
}

impl Generations {
    fn insert(&mut self, key: [u8; 32], point: EdwardsPoint) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(key, point);
    }
}
