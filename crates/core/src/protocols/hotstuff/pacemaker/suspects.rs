//! Which leaders failed lately.
//!
//! The failure detector that the dissertation leaves undone, each replica for itself; only liveness
//! rests on it. A leader that failed in two of its views in a row is suspected, until a block of
//! its own is certified. Its fourth, eighth, ... failure is followed by a view in which it is not,
//! so that a slow one gets its chance (after the 64th, every 64th is). Where more than f leaders
//! would be suspected, it was not the leaders: nobody is.

use crate::base::per_peer::PerPeer;
use crate::base::types::ReplicaId;

/// So many failures in a row make a suspect.
const ENOUGH: u32 = 2;
/// At least each so many failures in a row a leader gets its chance.
const LONGEST_GAP: u32 = 64;

#[derive(Clone, Debug)]
pub(super) struct Suspects {
    faults: usize,
    /// By leader: how many of its views in a row failed.
    failures: PerPeer<u32>,
}

impl Suspects {
    pub(super) fn new(replicas: usize, faults: usize) -> Self {
        Self { faults, failures: PerPeer::new(replicas) }
    }

    pub(super) fn blame(&mut self, leader: ReplicaId) {
        if let Some(failures) = self.failures.get_mut(leader) {
            *failures = failures.saturating_add(1);
        }
    }

    pub(super) fn praise(&mut self, leader: ReplicaId) {
        if let Some(failures) = self.failures.get_mut(leader) {
            *failures = 0;
        }
    }

    /// Whether `leader` failed in its last view.
    pub(super) fn has_failed(&self, leader: ReplicaId) -> bool {
        self.failures.get(leader).is_some_and(|failures| *failures > 0)
    }

    /// Whether `leader` is not worth the full wait this time.
    pub(super) fn suspects(&self, leader: ReplicaId) -> bool {
        let failures = self.failures.get(leader).copied().unwrap_or(0);
        let has_chance =
            failures.is_power_of_two() && failures > ENOUGH || failures.is_multiple_of(LONGEST_GAP);
        let all = self.failures.iter().filter(|failures| **failures >= ENOUGH).count();
        failures >= ENOUGH && !has_chance && all <= self.faults
    }
}
