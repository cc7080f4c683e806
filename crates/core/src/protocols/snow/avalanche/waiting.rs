//! Vertices that wait for a parent, with the questions about them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::names::VertexId;
use super::settings::Limits;
use super::vertex::{Transaction, Vertex};
use crate::base::types::{Duration, ReplicaId, Time};

/// How long a vertex waits.
const PATIENCE: Duration = Duration::from_secs(10);
/// The most questions about one vertex that wait with it.
const QUESTIONS: usize = 64;

/// All together weigh this part of what vertices in memory may; those of a peer, that part.
const ALL: usize = 4;
const OF_PEER: usize = 64;

/// A vertex that waits.
#[derive(Clone, Debug)]
pub(super) struct Orphan<T> {
    pub(super) vertex: Arc<Vertex<T>>,
    pub(super) from: ReplicaId,
    missing: BTreeSet<VertexId>,
    pub(super) questions: Vec<(ReplicaId, u64)>,
}

/// All that wait.
#[derive(Clone, Debug)]
pub(super) struct Waiting<T> {
    pub(super) orphans: BTreeMap<VertexId, Orphan<T>>,
    /// Who waits for a vertex. Its keys are what was asked for.
    on: BTreeMap<VertexId, Vec<VertexId>>,
    ends: VecDeque<(Time, VertexId)>,
    /// How many each peer sent, and their weight.
    of_peer: BTreeMap<ReplicaId, (usize, usize)>,
    /// The weight of all.
    weight: usize,
}

impl<T> Default for Waiting<T> {
    fn default() -> Self {
        Self {
            orphans: BTreeMap::new(),
            on: BTreeMap::new(),
            ends: VecDeque::new(),
            of_peer: BTreeMap::new(),
            weight: 0,
        }
    }
}

impl<T: Transaction> Waiting<T> {
    /// Notes one more question about a vertex that waits. Says whether it does.
    pub(super) fn ask(&mut self, vertex: &VertexId, question: (ReplicaId, u64)) -> bool {
        let Some(orphan) = self.orphans.get_mut(vertex) else { return false };
        if orphan.questions.len() < QUESTIONS {
            orphan.questions.push(question);
        }
        true
    }

    /// Lets a vertex wait, unless too many do.
    pub(super) fn add(
        &mut self,
        vertex: &Arc<Vertex<T>>,
        missing: &[VertexId],
        from: (ReplicaId, Option<u64>),
        now: Time,
        limits: &Limits,
    ) -> bool {
        let (count, of_peer) = self.of_peer.get(&from.0).copied().unwrap_or_default();
        let weight = vertex.weight();
        let has_many = planted!("avalanche-orphans-of-one", false, count >= limits.orphans_of_peer);
        let are_many = self.orphans.len() >= limits.orphans || has_many;
        // The first of a peer may be as heavy as any: what rests on it comes to nothing otherwise.
        let has_heavy = count > 0 && of_peer + weight > limits.weight / OF_PEER;
        let is_heavy = self.weight + weight > limits.weight / ALL || has_heavy;
        if are_many || is_heavy {
            return false;
        }
        self.weight += weight;
        self.of_peer.insert(from.0, (count + 1, of_peer + weight));
        let id = vertex.id();
        for parent in missing {
            self.on.entry(*parent).or_default().push(id);
        }
        let questions = from.1.map(|poll| (from.0, poll)).into_iter().collect();
        let (vertex, missing) = (Arc::clone(vertex), missing.iter().copied().collect());
        self.orphans.insert(id, Orphan { vertex, from: from.0, missing, questions });
        self.ends.push_back((now.after(PATIENCE), id));
        true
    }

    pub(super) fn is_wanted(&self, vertex: &VertexId) -> bool {
        self.on.contains_key(vertex)
    }

    /// Those that waited for this vertex alone.
    pub(super) fn arrived(&mut self, vertex: &VertexId) -> Vec<Orphan<T>> {
        let waited = self.on.remove(vertex).unwrap_or_default();
        let mut ready = Vec::new();
        for id in waited {
            let Some(orphan) = self.orphans.get_mut(&id) else { continue };
            orphan.missing.remove(vertex);
            if orphan.missing.is_empty() {
                ready.extend(self.remove(&id));
            }
        }
        ready
    }

    /// A vertex was not taken in. Returns the questions about all that wait for it, and for those:
    /// they go on waiting, but whoever asked need not.
    pub(super) fn questions_above(&mut self, vertex: &VertexId) -> Vec<(ReplicaId, u64)> {
        let (mut questions, mut open, mut seen) = (Vec::new(), vec![*vertex], BTreeSet::new());
        while let Some(id) = open.pop() {
            for waits in self.on.get(&id).into_iter().flatten() {
                if let Some(orphan) = self.orphans.get_mut(waits)
                    && seen.insert(*waits)
                {
                    questions.append(&mut orphan.questions);
                    open.push(*waits);
                }
            }
        }
        questions
    }

    fn remove(&mut self, id: &VertexId) -> Option<Orphan<T>> {
        let orphan = self.orphans.remove(id)?;
        let weight = orphan.vertex.weight();
        self.weight -= weight;
        if let Some((count, of_peer)) = self.of_peer.get_mut(&orphan.from) {
            (*count, *of_peer) = (*count - 1, *of_peer - weight);
            if *count == 0 {
                self.of_peer.remove(&orphan.from);
            }
        }
        for parent in &orphan.missing {
            if let Some(on) = self.on.get_mut(parent) {
                on.retain(|waits| waits != id);
                if on.is_empty() {
                    self.on.remove(parent);
                }
            }
        }
        while self.ends.front().is_some_and(|(_, id)| !self.orphans.contains_key(id)) {
            self.ends.pop_front();
        }
        Some(orphan)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.ends.front().map(|(end, _)| *end)
    }

    /// Gives up on those that waited for too long. Returns the questions about them.
    pub(super) fn expire(&mut self, now: Time) -> Vec<(ReplicaId, u64)> {
        let mut questions = Vec::new();
        while let Some((_, id)) = self.ends.pop_front_if(|(end, _)| *end <= now) {
            questions.extend(self.remove(&id).into_iter().flat_map(|orphan| orphan.questions));
        }
        questions
    }
}
