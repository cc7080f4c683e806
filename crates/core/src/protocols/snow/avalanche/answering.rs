//! Vertices and questions of others.

use std::sync::Arc;

use super::Avalanche;
use super::dag::inserting::Insertion;
use super::dag::room::{Newcomer, Room};
use super::interface::{Effects, Output, Past};
use super::message::{MAX_AGAINST, Message, Vote};
use super::names::VertexId;
use super::vertex::{Transaction, Vertex};
use crate::base::types::{ReplicaId, Time};

impl<T: Transaction> Avalanche<T> {
    pub(super) fn on_query(
        &mut self,
        now: Time,
        from: ReplicaId,
        poll: u64,
        vertex: &Arc<Vertex<T>>,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        let id = vertex.id();
        if self.dag.vertices.contains_key(&id) || self.rejected.0.contains(&id) {
            return self.answer(from, poll, &id, past, fx);
        }
        if past.has_vertex(&id) {
            let vote = Vote::Yes;
            self.counts.answered += 1;
            return fx.output(Output::Send { to: from, message: Message::Answer { poll, vote } });
        }
        if !self.waiting.ask(&id, (from, poll)) {
            self.take(now, from, Some(poll), vertex, past, fx);
        }
    }

    pub(super) fn on_have(
        &mut self,
        now: Time,
        from: ReplicaId,
        vertex: &Arc<Vertex<T>>,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        let id = vertex.id();
        let known = self.dag.vertices.contains_key(&id) || self.waiting.orphans.contains_key(&id);
        if self.waiting.is_wanted(&id) && !known {
            self.take(now, from, None, vertex, past, fx);
        } else {
            self.counts.unasked += u64::from(!known);
        }
    }

    pub(super) fn on_want(
        &mut self,
        from: ReplicaId,
        vertex: VertexId,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        if let Some(at) = self.dag.vertices.get(&vertex) {
            let message = Message::Have(Arc::clone(&self.dag.slots[*at].vertex));
            fx.output(Output::Send { to: from, message });
        } else if past.has_vertex(&vertex) {
            fx.output(Output::Serve { to: from, vertex });
        }
    }

    /// Takes a vertex that is not known; then those that waited for it.
    fn take(
        &mut self,
        now: Time,
        from: ReplicaId,
        poll: Option<u64>,
        vertex: &Arc<Vertex<T>>,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        if vertex.check().is_err() {
            return self.refuse(from, poll, fx);
        }
        let questions = poll.map(|poll| (from, poll)).into_iter().collect();
        let mut open = vec![(Arc::clone(vertex), from, questions)];
        while let Some((vertex, from, questions)) = open.pop() {
            let id = vertex.id();
            match self.insert(now, &vertex, Some(from), past, fx) {
                Insertion::At(_) => {
                    for (peer, poll) in questions {
                        self.answer(peer, poll, &id, past, fx);
                    }
                    let ready = self.waiting.arrived(&id).into_iter();
                    open.extend(ready.map(|of| (of.vertex, of.from, of.questions)));
                }
                Insertion::Missing(parents) => {
                    let limits = self.settings.limits;
                    let first = questions.first().map(|(_, poll)| *poll);
                    if self.waiting.add(&vertex, &parents, (from, first), now, &limits) {
                        for parent in parents {
                            let message = Message::Want(parent);
                            fx.output(Output::Send { to: from, message });
                        }
                    } else {
                        self.refuse(from, first, fx);
                    }
                }
                Insertion::Refused => {
                    let above = self.waiting.questions_above(&id);
                    for (peer, poll) in questions.into_iter().chain(above) {
                        self.refuse(peer, Some(poll), fx);
                    }
                }
            }
        }
    }

    /// Puts a vertex of a peer, or of this node, into the graph, and into the queue of those to ask
    /// about.
    pub(super) fn insert(
        &mut self,
        now: Time,
        vertex: &Arc<Vertex<T>>,
        from: Option<ReplicaId>,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) -> Insertion {
        let parents = match self.dag.admit(vertex, past) {
            Ok(parents) => parents,
            Err(refused) => return refused,
        };
        let forgotten = self.counts.forgotten;
        if !self.make_room(now, vertex, from, &parents, past) {
            return Insertion::Refused;
        }
        // What gave way may be what the vertex spends outputs of.
        if self.counts.forgotten > forgotten
            && let Err(refused) = self.dag.admit(vertex, past)
        {
            return refused;
        }
        let mut decided = Vec::new();
        let at = self.dag.insert(vertex, parents, (from, now), past, &mut decided);
        if self.dag.slots[at].fate == super::state::Fate::Pending {
            let is_long = self.polls.queue.len() >= 2 * self.settings.limits.vertices;
            if planted!("avalanche-queue-unbounded", false, is_long) {
                self.polls.forget(|id| self.dag.vertices.contains_key(id));
            }
            self.polls.wait(vertex.id(), from.is_none(), 0);
            self.polls.own += usize::from(from.is_none());
        }
        self.own.last_vertex = now;
        if self.own.no_op_at.is_none() {
            self.await_no_op(now);
        }
        self.tell(decided, fx);
        Insertion::At(at)
    }

    /// Makes room for a vertex, if it can be made.
    fn make_room(
        &mut self,
        now: Time,
        vertex: &Vertex<T>,
        from: Option<ReplicaId>,
        parents: &[u32],
        past: &dyn Past,
    ) -> bool {
        let stake = from.map_or(0, |peer| self.electorate.stake(peer));
        let stake = (stake, self.electorate.total());
        let weight = vertex.weight();
        let mut worthy = false;
        // One after the other: when one is gone, another may have become the only one that holds
        // a payment, or preferred.
        loop {
            match self.dag.room(&Newcomer { from, stake, weight, parents, worthy, now }) {
                Room::There => return true,
                Room::Valve => {
                    self.dag.passed(from, now);
                    return true;
                }
                Room::None if worthy || !self.dag.is_worthy(vertex, parents, past) => return false,
                Room::None => worthy = true,
                Room::Behind(victims) => {
                    let Some(at) = victims.first() else { return true };
                    let dropped = self.dag.forget(*at);
                    self.counts.forgotten += 1;
                    self.note_dropped(dropped);
                    // With what it spent a parent may be gone, too.
                    if parents.iter().any(|parent| self.dag.slots.get(*parent).is_none()) {
                        return false;
                    }
                }
            }
        }
    }

    fn answer(
        &mut self,
        to: ReplicaId,
        poll: u64,
        vertex: &VertexId,
        past: &dyn Past,
        fx: &mut Effects<T>,
    ) {
        let vote = match self.dag.vertices.get(vertex).copied() {
            Some(at)
                if planted!(
                    "avalanche-ancestors-not-looked-at",
                    self.dag.prefers_own(at),
                    self.dag.strongly_prefers(at)
                ) =>
            {
                Vote::Yes
            }
            Some(at) => Vote::No(self.dag.culprits(at, MAX_AGAINST)),
            None if past.has_vertex(vertex) => Vote::Yes,
            None => Vote::No(vec![*vertex]),
        };
        self.counts.answered += 1;
        fx.output(Output::Send { to, message: Message::Answer { poll, vote } });
    }

    /// A vertex that is not taken is not preferred either.
    pub(super) fn refuse(&mut self, to: ReplicaId, poll: Option<u64>, fx: &mut Effects<T>) {
        self.counts.refused += 1;
        if let Some(poll) = poll {
            let vote = Vote::No(Vec::new());
            fx.output(Output::Send { to, message: Message::Answer { poll, vote } });
        }
    }
}
