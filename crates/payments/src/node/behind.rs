//! Whether the network accepted what this node never heard of.
//!
//! Frames to a node that is too slow for its peers are lost, and nobody sends them again: what
//! comes later rests on what was lost. So a node asks its peers every few seconds which vertices
//! they accepted last. Vertices that peers with more than half of all stake accepted, and that are
//! unknown here for a whole round, say that it is behind.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use quorate_core::protocols::snow::avalanche::VertexId;
use quorate_core::{ReplicaId, Time};

/// From one round to the next: several times what a vertex takes to reach everybody.
const EVERY: Duration = Duration::from_secs(5);
/// Unknown vertices of a round that are remembered, at most.
const MAX_UNKNOWN: usize = 1 << 14;

/// What peers accepted last, as they say.
#[derive(Debug)]
pub(super) struct Survey {
    stakes: Vec<u64>,
    next: Time,
    /// Who was asked in this round and has not answered.
    asked: BTreeSet<ReplicaId>,
    /// Unknown vertices that they named, and the stake of those who did.
    unknown: BTreeMap<VertexId, u64>,
    /// Those of the round before that more than half of the stake had accepted.
    suspects: Vec<VertexId>,
}

impl Survey {
    /// Nobody was asked yet.
    pub(super) fn new(stakes: Vec<u64>, now: Time) -> Self {
        let (asked, unknown, suspects) = Default::default();
        Self { stakes, next: now.after(EVERY), asked, unknown, suspects }
    }

    /// A peer names the vertices that it accepted last. It is asked once a round.
    pub(super) fn page(
        &mut self,
        from: ReplicaId,
        vertices: &[VertexId],
        is_known: impl Fn(&VertexId) -> bool,
    ) {
        if !self.asked.remove(&from) {
            return;
        }
        let stake = self.stakes.get(from.index()).copied().unwrap_or(0);
        let named: BTreeSet<&VertexId> = vertices.iter().collect();
        for vertex in named.into_iter().filter(|vertex| !is_known(vertex)) {
            if self.unknown.len() < MAX_UNKNOWN || self.unknown.contains_key(vertex) {
                let sum = self.unknown.entry(*vertex).or_default();
                *sum = sum.saturating_add(stake);
            }
        }
    }

    /// Whom to ask now; `None`: nobody. Says beside it whether this node is behind.
    pub(super) fn look(
        &mut self,
        now: Time,
        connected: &[ReplicaId],
        is_known: impl Fn(&VertexId) -> bool,
    ) -> Option<(Vec<ReplicaId>, bool)> {
        if now < self.next {
            return None;
        }
        self.next = now.after(EVERY);
        let is_behind = self.suspects.iter().any(|vertex| !is_known(vertex));
        let total: u128 = self.stakes.iter().map(|stake| u128::from(*stake)).sum();
        let unknown = std::mem::take(&mut self.unknown);
        let accepted = unknown.into_iter().filter(|(_, stake)| 2 * u128::from(*stake) > total);
        self.suspects =
            accepted.map(|(vertex, _)| vertex).filter(|vertex| !is_known(vertex)).collect();
        self.asked = connected.iter().copied().collect();
        Some((connected.to_vec(), is_behind))
    }
}

#[cfg(test)]
mod tests {
    use quorate_core::Digest;

    use super::*;

    const VERTEX: VertexId = VertexId(Digest([7; 32]));
    const PEERS: [ReplicaId; 4] = [ReplicaId(0), ReplicaId(1), ReplicaId(2), ReplicaId(3)];

    fn round(survey: &mut Survey, number: u32, naming: &[ReplicaId], known: bool) -> bool {
        let now = Time(0).after(EVERY * number);
        let (asked, is_behind) = survey.look(now, &PEERS, |_| known).expect("a round is due");
        assert_eq!(asked, PEERS);
        assert!(survey.look(now, &PEERS, |_| known).is_none());
        for peer in naming {
            survey.page(*peer, &[VERTEX, VERTEX], |_| known);
            // Asked once, counted once.
            survey.page(*peer, &[VERTEX], |_| known);
        }
        is_behind
    }

    #[test]
    fn what_most_accepted_and_nobody_brings_says_that_a_node_is_behind() {
        let mut survey = Survey::new(vec![1; 4], Time(0));
        let found: Vec<bool> =
            (1..=3).map(|number| round(&mut survey, number, &PEERS[1..], false)).collect();
        assert_eq!(found, [false, false, true]);
    }

    #[test]
    fn half_of_the_stake_is_not_believed_and_what_comes_late_is_no_trouble() {
        let mut survey = Survey::new(vec![1; 4], Time(0));
        let half: Vec<bool> =
            (1..=4).map(|number| round(&mut survey, number, &PEERS[..2], false)).collect();
        assert_eq!(half, [false; 4]);
        let mut survey = Survey::new(vec![1; 4], Time(0));
        let late: Vec<bool> =
            (1..=4).map(|number| round(&mut survey, number, &PEERS, number > 2)).collect();
        assert_eq!(late, [false; 4]);
    }
}
