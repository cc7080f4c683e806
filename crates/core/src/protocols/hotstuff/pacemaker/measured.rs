//! What successful views took.
//!
//! One place a leader, so that nobody can fill a window with its own views. A place rises at once
//! to what the leader's last view took, and falls half-way. What a view *typically* takes is the
//! longest place without those of f leaders: f liars cannot raise it above what a correct leader
//! takes, and leaders of which f are slow need not be waited for. (Where votes are sent to the next
//! leader, that one decides when its predecessor's view ends: liars that each lead behind a correct
//! leader occupy two places each.)

use super::timing::ENOUGH;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Duration, ReplicaId};

#[derive(Clone, Debug)]
pub(super) struct Measured {
    faults: usize,
    /// How many views were measured, at most [`ENOUGH`].
    views: usize,
    last: Duration,
    places: PerPeer<Option<Duration>>,
    typical: Duration,
}

impl Measured {
    pub(super) fn new(replicas: usize, faults: usize) -> Self {
        let places = PerPeer::new(replicas);
        Self { faults, views: 0, last: Duration::ZERO, places, typical: Duration::ZERO }
    }

    /// A view of `leader` was certified `took` after it was entered.
    pub(super) fn note(&mut self, leader: ReplicaId, took: Duration) {
        let Some(place) = self.places.get_mut(leader) else { return };
        let fallen = place.map_or(took, |before| took.saturating_add(before) / 2);
        *place = Some(took.max(fallen));
        self.views = ENOUGH.min(self.views + 1);
        self.last = took;
        let mut known: Vec<Duration> = self.places.iter().flatten().copied().collect();
        known.sort_unstable();
        let slowest = known.len().saturating_sub(self.faults + 1);
        self.typical = known.get(slowest).copied().unwrap_or_default();
    }

    /// What a view typically takes, once enough were measured.
    pub(super) fn typical(&self) -> Option<Duration> {
        (self.views == ENOUGH).then_some(self.typical)
    }

    /// What a view takes by all that is known: typically or at the last, whichever is longer.
    /// `None` before the first.
    pub(super) fn lately(&self) -> Option<Duration> {
        (self.views > 0).then(|| self.typical.max(self.last))
    }
}
