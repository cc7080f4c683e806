//! The members of each epoch, and the one place where quorums are counted.
//!
//! Members have weights, and n is their sum. f = ⌊(n − 1) / 3⌋ of the weight may lie, and a quorum
//! is q = n − f. (The papers write 2f + 1, which is the same for n = 3f + 1 and wrong for every
//! other n: two sets of 2f + 1 out of 3f + 3 may share no correct replica.)
//!
//! A member of weight 0 is a *learner*: it is sent everything, and counts for nothing. A member
//! keeps its id for as long as it is one. The id of a member that left is vacant, and may be given
//! to another one later.

mod committee;
mod counts;
mod member;
mod rules;

use std::collections::BTreeMap;

use crate::base::types::Epoch;
pub use crate::base::types::MAX_REPLICAS;
pub use committee::{Committee, CommitteeError, Opening};
pub(crate) use committee::{decode_members, encode_members};
pub use counts::{
    against_fast, against_fast_beside_liar, fast_quorum, faults, faults_of_a_fifth, honest_witness,
    quorum, quorum_of_a_fifth, witness_of_a_fifth,
};
pub use member::{Governance, Member, ReplicaKey};
pub use rules::{NoRules, Rules};

/// The committees of a chain, each from an epoch on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    latest: Committee,
    /// By epoch.
    earlier: BTreeMap<Epoch, Committee>,
}

impl Membership {
    /// Of a chain that has had one committee.
    #[must_use]
    pub fn new(first: Committee) -> Self {
        Self { latest: first, earlier: BTreeMap::new() }
    }

    /// The committee of `epoch`, if it has begun.
    #[must_use]
    pub fn committee(&self, epoch: Epoch) -> Option<&Committee> {
        if epoch == self.latest.epoch() { Some(&self.latest) } else { self.earlier.get(&epoch) }
    }

    /// The committee of the latest epoch.
    #[must_use]
    pub fn latest(&self) -> &Committee {
        &self.latest
    }

    /// The committee of the epoch that begins now. `None`, and nothing changes, unless it is of
    /// this chain and its epoch follows the latest.
    #[must_use]
    pub fn begin(&mut self, next: Committee) -> Option<&Committee> {
        let follows = next.epoch().0 == self.latest.epoch().0.checked_add(1)?;
        if next.chain() != self.latest.chain() || !follows {
            return None;
        }
        let ended = std::mem::replace(&mut self.latest, next);
        self.earlier.insert(ended.epoch(), ended);
        Some(&self.latest)
    }
}
