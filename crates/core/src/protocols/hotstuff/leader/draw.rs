//! The pseudo-random numbers of a view, the same at every replica.
//!
//! BLAKE3 of (chain, epoch, view), under a domain of its own. Everybody can compute them for all
//! views to come; an election whose outcome must not be foreseen gets that from its history, not
//! from here.

use crate::base::membership::Committee;
use crate::base::types::{Digest, ReplicaId, View};

/// Three independent uniform numbers.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draw([u64; 3]);

impl Draw {
    /// The numbers of `view` in `committee`'s epoch.
    pub(super) fn new(committee: &Committee, view: View) -> Self {
        let mut seed = [0; 48];
        seed[..32].copy_from_slice(&committee.chain().0);
        seed[32..40].copy_from_slice(&committee.epoch().0.to_le_bytes());
        seed[40..].copy_from_slice(&view.0.to_le_bytes());
        // With the domain 63 bytes, one block of the hash.
        let digest = Digest::of("quorate leader", &seed);
        let mut words = [0; 3];
        for (word, bytes) in words.iter_mut().zip(digest.0.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Self(words)
    }

    /// The place of the one of these replicas that the first number draws, each by its weight; 0
    /// if there is none.
    pub(super) fn first_of(&self, committee: &Committee, replicas: &[ReplicaId]) -> usize {
        let weights = replicas.iter().map(|replica| committee.weight(*replica) as u64);
        let mut left = below(self.0[0], weights.clone().sum());
        let drawn = weights.clone().position(|weight| {
            let hit = left < weight;
            left = left.saturating_sub(weight);
            hit
        });
        drawn.unwrap_or_default()
    }

    /// The second number, as one below `bound`.
    pub(super) fn second(&self, bound: u64) -> u64 {
        below(self.0[1], bound)
    }

    /// The third number, as one below `bound`.
    pub(super) fn third(&self, bound: u64) -> u64 {
        below(self.0[2], bound)
    }
}

/// `word` scaled to less than `bound`. No outcome is more likely than another by more than one in
/// 2^64.
fn below(word: u64, bound: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}
