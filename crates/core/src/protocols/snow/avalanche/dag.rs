//! The graph of pending vertices, with what decides about them.
//!
//! Transactions share the counters of their vertex as long as they have no rival and are in no
//! other vertex: all of them then are in the same polls. So a poll costs a step for each pending
//! ancestor, not for each transaction in it.
//!
//! Whether a vertex is strongly preferred is kept up to date ([`Slot::weak`]), not searched for.

mod accepting;
mod conflicts;
mod counting;
mod depth;
mod dropping;
pub(super) mod inserting;
mod parents;
mod recount;
pub(super) mod room;
mod strays;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::interface::{Conflict, Rule};
use super::names::{InputId, TransactionId, VertexId};
use super::settings::Limits;
use super::slab::Slab;
use super::state::{Bill, Fate, Leaf, Slot, Spent, Tx};
use super::vertex::{Transaction, Vertex};
use crate::base::types::{ReplicaId, Time};

/// Vertices looked at for what a negative answer names.
const LOOKED_AT: usize = 1024;

/// The graph.
#[derive(Clone, Debug)]
pub(super) struct Dag<T> {
    pub(super) slots: Slab<Slot<T>>,
    pub(super) vertices: BTreeMap<VertexId, u32>,
    pub(super) txs: Slab<Tx>,
    pub(super) transactions: BTreeMap<TransactionId, u32>,
    pub(super) spent: BTreeMap<InputId, Spent>,
    /// Eligible vertices without eligible children.
    pub(super) frontier: BTreeSet<u32>,
    /// Vertices with a transaction that waits for this one to be accepted.
    waiting: BTreeMap<TransactionId, Vec<u32>>,
    /// Vertices that this transaction is [stray](Slot::strays) for.
    strays: BTreeMap<TransactionId, Vec<u32>>,
    /// What leaves memory before the next step.
    doomed: Vec<u32>,
    stamp: u32,
    /// Vertices that are pending.
    pub(super) pending: usize,
    /// The weight of all vertices.
    pub(super) weight: usize,
    /// What the pending vertices that each peer brought take; without a peer: this node's own.
    bills: BTreeMap<Option<ReplicaId>, Bill>,
    /// Those that may give way, the first of each peer first.
    leaves: BTreeSet<(Option<ReplicaId>, Leaf, Time, u32)>,
    /// All pending ones, the oldest of each peer first.
    ages: BTreeSet<(Option<ReplicaId>, Time, u32)>,
    /// How many vertices of each peer passed its valve in the last second that it was open.
    valves: BTreeMap<Option<ReplicaId>, (u64, u32)>,
    /// Vertices that were settled so far, and one.
    settlements: u64,
    limits: Limits,
    /// Successful polls in a row that show that others prefer a rival, too: β₁.
    trust: u32,
}

/// What a walk or an insertion decided, in this order.
#[derive(Clone, Debug)]
pub(super) enum Decision<T> {
    Accepted(T, Rule),
    Vertex(Arc<Vertex<T>>),
    Rejected(TransactionId, Conflict),
}

impl<T: Transaction> Dag<T> {
    pub(super) fn new(limits: Limits, trust: u32) -> Self {
        Self {
            slots: Slab::default(),
            vertices: BTreeMap::new(),
            txs: Slab::default(),
            transactions: BTreeMap::new(),
            spent: BTreeMap::new(),
            frontier: BTreeSet::new(),
            waiting: BTreeMap::new(),
            strays: BTreeMap::new(),
            doomed: Vec::new(),
            stamp: 0,
            pending: 0,
            weight: 0,
            bills: BTreeMap::new(),
            leaves: BTreeSet::new(),
            ages: BTreeSet::new(),
            valves: BTreeMap::new(),
            settlements: 1,
            limits,
            trust,
        }
    }

    pub(super) fn transaction(&self, tx: u32) -> &T {
        let Tx { home, place, .. } = self.txs[tx];
        &self.slots[home].vertex.transactions()[place as usize]
    }

    /// The vertices that have this transaction.
    pub(super) fn homes(&self, tx: u32) -> Vec<u32> {
        let Tx { home, tracked, .. } = &self.txs[tx];
        tracked.as_ref().map_or_else(|| vec![*home], |tracked| tracked.vertices.clone())
    }

    pub(super) fn confidence(&self, tx: u32) -> u64 {
        let Tx { home, tracked, .. } = &self.txs[tx];
        let shared = || u64::from(self.slots[*home].chits);
        tracked.as_ref().map_or_else(shared, |tracked| tracked.confidence)
    }

    /// Whether the vertex and all its ancestors are preferred.
    pub(super) fn strongly_prefers(&self, vertex: u32) -> bool {
        self.slots[vertex].weak == 0
    }

    /// Whether the vertex is preferred, whatever its ancestors are: what a bug would look at.
    #[cfg(quorate_mutants)]
    pub(super) fn prefers_own(&self, vertex: u32) -> bool {
        let mut own = self.slots[vertex].transactions.iter().flatten();
        own.all(|tx| self.txs[*tx].disliked == 0)
    }

    fn next_stamp(&mut self) -> u32 {
        self.stamp = self.stamp.wrapping_add(1);
        self.stamp
    }

    /// The vertex and its ancestors that are not settled, children before their parents' other
    /// children: each once.
    fn ancestors(&mut self, vertex: u32) -> Vec<u32> {
        let stamp = self.next_stamp();
        let mut found = vec![vertex];
        self.slots[vertex].stamp = stamp;
        let mut at = 0;
        while at < found.len() {
            for place in 0..self.slots[found[at]].parents.len() {
                let parent = self.slots[found[at]].parents[place];
                let slot = &mut self.slots[parent];
                if slot.stamp != stamp && !slot.settled {
                    slot.stamp = stamp;
                    found.push(parent);
                }
            }
            at += 1;
        }
        found
    }

    /// Those of the vertex and its ancestors that have a transaction that is not preferred, at most
    /// `most`: what a negative answer names. If none is near, one that is not.
    pub(super) fn culprits(&mut self, vertex: u32, most: usize) -> Vec<VertexId> {
        let stamp = self.next_stamp();
        let (mut found, mut seen, mut at) = (Vec::new(), vec![vertex], 0);
        // All on the way down from a vertex to a culprit are weak, so nothing else is looked at.
        while let Some(next) = seen.get(at).copied()
            && found.len() < most
        {
            if at == LOOKED_AT {
                if found.is_empty() {
                    found.push(self.culprit_below(next));
                }
                break;
            }
            // What is not against its parents is against its own transactions.
            let mut own = self.slots[next].weak;
            for place in 0..self.slots[next].parents.len() {
                let parent = self.slots[next].parents[place];
                let slot = &mut self.slots[parent];
                if slot.weak > 0 {
                    own -= 1;
                    if slot.stamp != stamp {
                        slot.stamp = stamp;
                        seen.push(parent);
                    }
                }
            }
            if own > 0 {
                found.push(self.slots[next].vertex.id());
            }
            at += 1;
        }
        found
    }

    /// The culprit at the end of one way down from a vertex that is not strongly preferred: it has
    /// a transaction that is not preferred, or such a parent. The way is as long as the bound on
    /// depth at most.
    fn culprit_below(&self, vertex: u32) -> VertexId {
        let mut at = vertex;
        loop {
            let slot = &self.slots[at];
            let has_one = slot.transactions.iter().flatten().any(|tx| self.txs[*tx].disliked > 0);
            let is_weak = |parent: &&u32| {
                let parent = &self.slots[**parent];
                parent.weak > 0 && !parent.settled
            };
            match slot.parents.iter().find(is_weak) {
                Some(parent) if !has_one => at = *parent,
                _ => return slot.vertex.id(),
            }
        }
    }

    pub(super) fn fate(&self, transaction: &TransactionId) -> Option<Fate> {
        self.transactions.get(transaction).map(|tx| self.txs[*tx].fate)
    }
}
