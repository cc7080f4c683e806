//! A vertex comes in.

use std::sync::Arc;

use super::super::interface::{Conflict, Past};
use super::super::names::{InputId, TransactionId, VertexId};
use super::super::state::{Fate, Slot, Spent, Tx};
use super::super::vertex::{Transaction, Vertex};
use super::{Dag, Decision};
use crate::base::types::{ReplicaId, Time};

/// What became of a vertex that came in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) enum Insertion {
    /// It is in the graph.
    At(u32),
    /// These parents are not known here.
    Missing(Vec<VertexId>),
    /// It spends what does not exist, or too many spend the same: it is not taken.
    Refused,
}

impl<T: Transaction> Dag<T> {
    /// The parents in memory of a vertex that is not known, if it may come in wherever there is
    /// room.
    ///
    /// # Errors
    /// [`Insertion`] says why it does not.
    pub(in super::super) fn admit(
        &mut self,
        vertex: &Vertex<T>,
        past: &dyn Past,
    ) -> Result<Vec<u32>, Insertion> {
        let mut parents = Vec::new();
        let mut missing = Vec::new();
        for parent in vertex.parents() {
            match self.vertices.get(parent) {
                Some(at) => parents.push(*at),
                None if past.has_vertex(parent) => {}
                None => missing.push(*parent),
            }
        }
        if !missing.is_empty() {
            return Err(Insertion::Missing(missing));
        }
        let is_deep = self.depth_on(&parents) > self.limits.depth;
        if planted!("avalanche-depth-unbounded", false, is_deep)
            || !vertex.transactions().iter().all(|transaction| self.may_enter(transaction, past))
        {
            return Err(Insertion::Refused);
        }
        Ok(parents)
    }

    /// Takes a vertex that was admitted, on these parents; says where it is.
    pub(in super::super) fn insert(
        &mut self,
        vertex: &Arc<Vertex<T>>,
        parents: Vec<u32>,
        (from, now): (Option<ReplicaId>, Time),
        past: &dyn Past,
        decided: &mut Vec<Decision<T>>,
    ) -> u32 {
        let at = self.place(Arc::clone(vertex), parents, (from, now));
        let mut spent = Vec::new();
        for (place, transaction) in vertex.transactions().iter().enumerate() {
            if let Some(conflict) = self.enter(at, place as u32, transaction, past) {
                spent.push((transaction.id(), conflict));
            }
        }
        for (id, conflict) in spent {
            if let Some(tx) = self.transactions.get(&id).copied() {
                self.reject(tx, conflict, decided);
            }
        }
        self.refresh(at);
        if self.slots[at].parents.iter().any(|parent| self.slots[*parent].fate == Fate::Rejected) {
            self.doom(at);
        }
        at
    }

    /// Whether the outputs that it spends exist, and not too many others spend them.
    fn may_enter(&self, transaction: &T, past: &dyn Past) -> bool {
        let id = transaction.id();
        if self.transactions.contains_key(&id) || past.has_transaction(&id) {
            return true;
        }
        let mut spent = Vec::with_capacity(transaction.inputs().len());
        let all = transaction.inputs().iter().all(|input| {
            let of = &input.transaction;
            let worth = match self.transactions.get(of) {
                Some(tx) => self.transaction(*tx).output(input.index),
                None if past.has_transaction(of) => past.output(input),
                None => None,
            };
            let exists = worth.is_some();
            spent.extend(worth);
            let crowded = match self.spent.get(input) {
                Some(Spent::Set(set)) => set.spenders.len() >= self.limits.spenders,
                Some(Spent::One(_)) | None => false,
            };
            exists && !crowded
        });
        all && transaction.is_covered_by(&spent)
    }

    fn place(
        &mut self,
        vertex: Arc<Vertex<T>>,
        parents: Vec<u32>,
        (from, now): (Option<ReplicaId>, Time),
    ) -> u32 {
        let id = vertex.id();
        let count = vertex.transactions().len();
        self.weight += vertex.weight();
        let depth = self.depth_on(&parents);
        let of = |keep: &dyn Fn(&Slot<T>) -> bool| {
            parents.iter().filter(|parent| keep(&self.slots[**parent])).count() as u32
        };
        let slot = Slot {
            weak: of(&|parent| parent.weak > 0),
            risky: of(&|parent| parent.risky > 0),
            open_parents: of(&|parent| parent.fate != Fate::Accepted),
            unsettled_parents: of(&|parent| !parent.settled),
            vertex,
            from,
            children: Vec::new(),
            transactions: vec![None; count],
            tracked: Vec::new(),
            fate: Fate::Pending,
            settled: false,
            depth,
            measured: 0,
            undecided: 0,
            sole: 0,
            leaf: None,
            chits: 0,
            count: 0,
            eligible: false,
            eligible_children: 0,
            last_poll: None,
            added: now,
            stamp: 0,
            against: (0, 0),
            parents,
        };
        let at = self.slots.insert(slot);
        for place in 0..self.slots[at].parents.len() {
            let parent = self.slots[at].parents[place];
            self.slots[parent].children.push(at);
            self.file(parent);
        }
        self.vertices.insert(id, at);
        self.bill(at);
        at
    }

    /// Puts a transaction of a new vertex into its conflict sets (white paper, algorithm 3). Says
    /// what rules it out.
    fn enter(&mut self, at: u32, place: u32, transaction: &T, past: &dyn Past) -> Option<Conflict> {
        let id = transaction.id();
        if let Some(known) = self.transactions.get(&id).copied() {
            self.enter_again(at, place, known);
            return None;
        }
        if past.has_transaction(&id) {
            return None;
        }
        let (fate, disliked, rival, tracked) = (Fate::Pending, 0, false, None);
        let tx = Tx { id, home: at, place, fate, disliked, rival, tracked };
        let tx = self.txs.insert(tx);
        self.transactions.insert(id, tx);
        self.slots[at].transactions[place as usize] = Some(tx);
        self.slots[at].undecided += 1;
        self.slots[at].sole += 1;
        let mut conflict = None;
        for input in transaction.inputs() {
            let rejected = |of: &u32| self.txs[*of].fate == Fate::Rejected;
            if let Some(by) = planted!("avalanche-ledger-not-asked", None, past.spender(input)) {
                conflict = Some(Conflict::Spent { input: *input, by });
            } else if self.transactions.get(&input.transaction).is_some_and(rejected) {
                conflict = Some(Conflict::Unfounded(input.transaction));
            } else if let Some(by) = self.spend(tx, input) {
                conflict = Some(Conflict::Spent { input: *input, by });
            }
        }
        if self.txs[tx].tracked.is_some() {
            self.split(tx);
        }
        conflict
    }

    /// A transaction that is in another vertex already.
    fn enter_again(&mut self, at: u32, place: u32, tx: u32) {
        self.slots[at].transactions[place as usize] = Some(tx);
        if let [sole] = self.homes(tx)[..]
            && self.txs[tx].fate == Fate::Pending
        {
            self.slots[sole].sole -= 1;
            self.file(sole);
        }
        self.track(tx);
        let Tx { tracked, fate, disliked, rival, .. } = &mut self.txs[tx];
        if let Some(tracked) = tracked {
            tracked.vertices.push(at);
        }
        let (fate, disliked, rival) = (*fate, *disliked, *rival);
        let slot = &mut self.slots[at];
        slot.tracked.push(tx);
        slot.undecided += u32::from(fate == Fate::Pending);
        if disliked > 0 {
            self.weaken(at);
        }
        if rival {
            self.endanger(at);
        }
        if fate == Fate::Rejected {
            self.doom(at);
        }
    }

    /// Notes who spends an output; names an accepted spender.
    fn spend(&mut self, tx: u32, input: &InputId) -> Option<TransactionId> {
        let other = match self.spent.get(input) {
            None => {
                self.spent.insert(*input, Spent::One(tx));
                return None;
            }
            Some(Spent::One(other)) => *other,
            Some(Spent::Set(set)) => set.preferred,
        };
        if self.txs[other].fate == Fate::Accepted {
            return Some(self.txs[other].id);
        }
        self.track(other);
        // Its earlier inputs are tracked with it; this one joins the set.
        self.track(tx);
        self.join(tx, input);
        None
    }
}
