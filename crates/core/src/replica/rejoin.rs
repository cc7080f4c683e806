//! Coming back without memory.
//!
//! A replica whose data folder was lost cannot know what it said. On an operator's explicit word it
//! asks all others where they stand, waits for q of them, and has its protocol
//! [recollect](crate::protocols::protocol::Protocol::recollect) what it must keep away from. Until
//! its protocol lets it speak again it counts toward f.

use std::collections::BTreeMap;

use crate::base::membership::Committee;
use crate::base::types::{Digest, Duration, ReplicaId, Time};

/// The testimonies at hand.
#[derive(Clone, Debug)]
pub struct Rejoin<Y> {
    nonce: Digest,
    quorum: usize,
    testimonies: BTreeMap<ReplicaId, Y>,
    deadline: Time,
}

/// How long to wait before asking again.
const PATIENCE: Duration = Duration::from_millis(500);

impl<Y> Rejoin<Y> {
    /// Begins to collect answers to `nonce`, which must never have been used before.
    #[must_use]
    pub fn new(nonce: Digest, committee: &Committee) -> Self {
        Self { nonce, quorum: committee.quorum(), testimonies: BTreeMap::new(), deadline: Time(0) }
    }

    /// When to ask (again).
    #[must_use]
    pub fn deadline(&self) -> Time {
        self.deadline
    }

    /// Notes that all were asked.
    pub fn asked(&mut self, now: Time) {
        self.deadline = now.after(PATIENCE);
    }

    /// What the answers must repeat.
    #[must_use]
    pub fn nonce(&self) -> Digest {
        self.nonce
    }

    /// Takes in an answer whose signature and claims were checked. Returns the answers once q have
    /// come, in the order of the replicas' ids.
    pub fn testimony(&mut self, from: ReplicaId, testimony: Y) -> Option<Vec<Y>> {
        self.testimonies.insert(from, testimony);
        if self.testimonies.len() < mutant!("rejoin-one-testimony", 1, self.quorum) {
            return None;
        }
        Some(std::mem::take(&mut self.testimonies).into_values().collect())
    }
}
