//! The votes for each height between the water marks.

use std::collections::BTreeMap;

use super::words::{Phase, Vote};
use crate::base::membership::Committee;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Height, ReplicaId, View};
use crate::ledger::block::BlockId;

/// The votes for each height above the stable checkpoint: of each replica the one of the highest
/// view.
#[derive(Clone, Debug)]
pub(super) struct Window {
    committee: Committee,
    slots: BTreeMap<Height, Slot>,
}

/// By phase and replica.
#[derive(Clone, Debug)]
struct Slot {
    prepares: PerPeer<Option<(View, BlockId)>>,
    commits: PerPeer<Option<(View, BlockId)>>,
}

impl Slot {
    fn of(&self, phase: Phase) -> &PerPeer<Option<(View, BlockId)>> {
        match phase {
            Phase::Prepare => &self.prepares,
            Phase::Commit => &self.commits,
        }
    }
}

impl Window {
    /// No votes.
    pub fn new(committee: Committee) -> Self {
        Self { committee, slots: BTreeMap::new() }
    }

    /// Takes in a vote. Says whether it contradicts an earlier one of its view, which stays.
    pub fn add(&mut self, from: ReplicaId, vote: &Vote) -> bool {
        let peers = self.committee.size();
        let slot = self.slots.entry(vote.height).or_insert_with(|| Slot {
            prepares: PerPeer::new(peers),
            commits: PerPeer::new(peers),
        });
        let votes = match vote.phase {
            Phase::Prepare => &mut slot.prepares,
            Phase::Commit => &mut slot.commits,
        };
        let Some(place) = votes.get_mut(from) else { return false };
        match place {
            Some((view, block)) if *view == vote.view => return *block != vote.block,
            Some((view, _)) if *view > vote.view => {}
            _ => *place = Some((vote.view, vote.block)),
        }
        false
    }

    /// How much the replicas count that voted so.
    pub fn weight(&self, vote: &Vote) -> usize {
        let Some(slot) = self.slots.get(&vote.height) else { return 0 };
        let same = slot.of(vote.phase).of_each();
        let same = same.filter(|(_, held)| **held == Some((vote.view, vote.block)));
        same.map(|(replica, _)| self.committee.weight(replica)).sum()
    }

    /// The replicas whose latest vote of a phase at a height is for this block, in any view.
    pub fn voters(&self, phase: Phase, height: Height, block: &BlockId) -> Vec<ReplicaId> {
        let Some(slot) = self.slots.get(&height) else { return Vec::new() };
        let held = slot.of(phase).of_each();
        held.filter(|(_, held)| held.is_some_and(|(_, id)| id == *block))
            .map(|(id, _)| id)
            .collect()
    }

    /// What a replica last voted for, by phase.
    pub fn voted(&self, replica: ReplicaId, height: Height) -> Vec<Vote> {
        let Some(slot) = self.slots.get(&height) else { return Vec::new() };
        let vote = |phase: Phase| {
            let (view, block) = (*slot.of(phase).get(replica)?)?;
            Some(Vote { phase, view, height, block })
        };
        [Phase::Prepare, Phase::Commit].into_iter().filter_map(vote).collect()
    }

    /// Votes of a phase that so much weight stands for, at each height above this one; the highest
    /// height first.
    pub fn agreed(&self, phase: Phase, above: Height, weight: usize) -> Vec<Vote> {
        let mut found = Vec::new();
        for (height, slot) in self.slots.range(above.next()..).rev() {
            let mut votes: Vec<_> = slot.of(phase).iter().flatten().copied().collect();
            votes.sort();
            votes.dedup();
            let votes =
                votes.into_iter().map(|(view, block)| Vote { phase, view, height: *height, block });
            found.extend(votes.filter(|vote| self.weight(vote) >= weight));
        }
        found
    }

    /// Forgets the heights up to a stable checkpoint.
    pub fn forget(&mut self, stable: Height) {
        self.slots = self.slots.split_off(&stable.next());
    }
}
