//! Coming back without memory (protocols.md section 10).
//!
//! A replica whose data folder was lost cannot know what it voted for. On an operator's explicit
//! word it asks all others for the highest view they may have been heard in, waits for q of them, and then
//! abstains, durably, from votes, time-outs and proposals until a certificate stands
//! [`ABSTAINED_VIEWS`] views and more beyond the highest answer that is not a liar's alone. Why that is enough: what it may have
//! signed in view v needed a certificate of view v − 1, whose q signers share a correct replica
//! other than itself with any q that answer. Until then it counts toward f.

use std::collections::BTreeMap;

use crate::certificate::Qc;
use crate::committee::Committee;
use crate::protocol::Safety;
use crate::types::{Digest, Duration, ReplicaId, Time, View};

/// How many views beyond the highest testimony a replica without memory abstains.
pub const ABSTAINED_VIEWS: u64 = 16;

/// The testimonies at hand.
#[derive(Clone, Debug)]
pub struct Rejoin {
    nonce: Digest,
    quorum: usize,
    faults: usize,
    testimonies: BTreeMap<ReplicaId, (View, Qc)>,
    deadline: Time,
}

/// How long to wait before asking again.
const PATIENCE: Duration = Duration::from_millis(500);

impl Rejoin {
    /// Begins to collect answers to `nonce`, which must never have been used before.
    #[must_use]
    pub fn new(nonce: Digest, committee: &Committee) -> Self {
        Self {
            nonce,
            quorum: committee.quorum(),
            faults: committee.faults(),
            testimonies: BTreeMap::new(),
            deadline: Time(0),
        }
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

    /// Takes in an answer whose signature and QC were checked. With q of them returns the safety
    /// record to start with.
    pub fn testimony(
        &mut self,
        from: ReplicaId,
        view: View,
        high_qc: Qc,
        fresh: Safety,
    ) -> Option<Safety> {
        self.testimonies.insert(from, (view, high_qc));
        if self.testimonies.len() < mutant!("rejoin-one-testimony", 1, self.quorum) {
            return None;
        }
        let mut views: Vec<View> = self.testimonies.values().map(|(view, _)| *view).collect();
        views.sort_unstable();
        let high_qc = self.testimonies.values().map(|(_, qc)| qc).max_by_key(|qc| qc.view())?;
        // This replica counts toward f, so f − 1 of the others may lie: the f-th highest view is no
        // lower than the highest an honest one named, and no liar can name one out of reach.
        let witnessed = views.iter().rev().nth(self.faults.saturating_sub(1))?;
        let beyond = witnessed.max(&high_qc.view()).plus(ABSTAINED_VIEWS);
        let highest = mutant!("rejoin-without-abstaining", View(0), beyond);
        // Its lost lock was no higher than the highest QC of those who voted above it.
        let (lock, high_qc) = (high_qc.clone(), high_qc.clone());
        Some(Safety { abstain_until: highest, lock, high_qc, ..fresh })
    }
}
