//! What a node can be asked about: why a transaction is pending, and what is held.

use super::dag::Dag;
use super::interface::{Past, SeenVertex};
use super::names::{InputId, TransactionId, VertexId};
use super::state::{Fate, Slot, Spent};
use super::vertex::Transaction;
use super::why::{Reason, SetWhy, VertexWhy, Why};
use super::{Avalanche, Held};

impl<T: Transaction> Avalanche<T> {
    /// The vertices in memory, by name: those that are pending or were decided lately.
    pub fn vertices(&self) -> impl Iterator<Item = SeenVertex<'_, T>> {
        self.dag.vertices.values().map(|at| {
            let slot = &self.dag.slots[*at];
            SeenVertex {
                vertex: &slot.vertex,
                accepted: slot.fate == Fate::Accepted,
                rejected: slot.fate == Fate::Rejected,
                strongly_preferred: slot.weak == 0,
                confidence: slot.chits,
                count: slot.count,
                added: slot.added,
            }
        })
    }

    /// Whether the vertex is in memory: its transactions were verified.
    #[must_use]
    pub fn knows(&self, vertex: &VertexId) -> bool {
        self.dag.vertices.contains_key(vertex) || self.waiting.orphans.contains_key(vertex)
    }

    /// Whether the transaction is preferred to all its rivals; none if it is not known here.
    #[must_use]
    pub fn prefers(&self, transaction: &TransactionId) -> Option<bool> {
        let tx = self.dag.transactions.get(transaction)?;
        Some(self.dag.txs[*tx].disliked == 0)
    }

    /// The pending transactions, by name.
    pub fn pending(&self) -> impl Iterator<Item = TransactionId> {
        let pending = |tx: &u32| self.dag.txs[*tx].fate == Fate::Pending;
        let all = self.dag.transactions.iter();
        all.filter(move |(_, tx)| pending(tx)).map(|(id, _)| *id)
    }

    /// Another pending transaction than this one that spends the output: of a client of this node,
    /// or of a vertex in memory.
    #[must_use]
    pub fn pending_spender(&self, input: &InputId, than: &TransactionId) -> Option<TransactionId> {
        let in_graph = match self.dag.spent.get(input) {
            Some(Spent::One(of)) => std::slice::from_ref(of),
            Some(Spent::Set(set)) => &set.spenders,
            None => &[],
        };
        let mut in_graph = in_graph.iter().map(|of| &self.dag.txs[*of]);
        let other = in_graph.find(|tx| tx.fate == Fate::Pending && tx.id != *than);
        other.map(|tx| tx.id).or_else(|| self.own.spenders(input).find(|of| of != than))
    }

    /// A transaction that is pending, or was decided lately, or that a client of this node handed
    /// in.
    #[must_use]
    pub fn transaction(&self, id: &TransactionId) -> Option<&T> {
        let in_graph = self.dag.transactions.get(id).map(|tx| self.dag.transaction(*tx));
        in_graph.or_else(|| self.own.get(id))
    }

    /// What a node holds now.
    #[must_use]
    pub fn held(&self) -> Held {
        Held {
            vertices: self.dag.slots.len(),
            weight: self.dag.weight,
            queued: self.polls.queue.len(),
            pending: self.dag.pending,
            transactions: self.dag.transactions.len(),
            polls: self.polls.open.len(),
            orphans: self.waiting.orphans.len(),
            own: self.own.len(),
        }
    }

    /// Why a transaction is pending; none if it is not.
    #[must_use]
    pub fn why(&self, transaction: &TransactionId, past: &dyn Past) -> Option<Why> {
        let Some(tx) = self.dag.transactions.get(transaction).copied() else {
            return self.own.get(transaction).map(|own| self.why_unissued(own, past));
        };
        let dag = &self.dag;
        if dag.txs[tx].fate != Fate::Pending {
            return None;
        }
        let (count, contested) = dag.standing(tx);
        let numbers = self.settings.parameters;
        let needed = if contested { numbers.decision } else { numbers.early };
        let inputs = dag.transaction(tx).inputs().iter();
        let sets: Vec<_> = inputs.filter_map(|input| set(dag, tx, input)).collect();
        let homes = dag.homes(tx);
        let vertices = homes.iter().map(|at| vertex(dag, &dag.slots[*at])).collect();
        let preferred = dag.txs[tx].disliked == 0;
        let confidence = dag.confidence(tx);
        let slots = || homes.iter().map(|at| &dag.slots[*at]);
        let rival = sets.iter().find(|set| set.preferred != *transaction);
        let reason = if self.own.waits(transaction) {
            Reason::Unissued
        } else if let Some(set) = rival {
            Reason::Rival { input: set.input, rival: set.preferred }
        } else if slots().all(|slot| slot.weak > 0) {
            Reason::Ancestors
        } else if slots().all(|slot| slot.last_poll.is_none()) {
            Reason::Unpolled
        } else if count < needed {
            Reason::Polls(needed - count)
        } else if let Some(of) = dag.pending_dependency(tx, past) {
            Reason::Dependency(of)
        } else {
            Reason::Parents
        };
        let transaction = *transaction;
        Some(Why { transaction, confidence, preferred, count, needed, sets, vertices, reason })
    }

    fn why_unissued(&self, own: &T, past: &dyn Past) -> Why {
        let mut inputs = own.inputs().iter().map(|input| input.transaction);
        let lost = inputs.find(|of| self.is_lost(of, past));
        Why {
            transaction: own.id(),
            confidence: 0,
            preferred: true,
            count: 0,
            needed: self.settings.parameters.early,
            sets: Vec::new(),
            vertices: Vec::new(),
            reason: lost.map_or(Reason::Unissued, Reason::Dependency),
        }
    }
}

fn set<T: Transaction>(dag: &Dag<T>, tx: u32, input: &InputId) -> Option<SetWhy> {
    let named = |tx: u32| (dag.txs[tx].id, dag.confidence(tx));
    let mut found = match dag.spent.get(input)? {
        Spent::One(of) => SetWhy {
            input: *input,
            spenders: vec![named(*of)],
            preferred: dag.txs[*of].id,
            count: dag.slots[dag.txs[tx].home].count,
            contested: false,
        },
        Spent::Set(set) => SetWhy {
            input: *input,
            spenders: set.spenders.iter().map(|of| named(*of)).collect(),
            preferred: dag.txs[set.preferred].id,
            count: set.count,
            contested: set.contested,
        },
    };
    found.spenders.sort_unstable();
    Some(found)
}

fn vertex<T: Transaction>(dag: &Dag<T>, slot: &Slot<T>) -> VertexWhy {
    let open = |at: &&u32| dag.slots[**at].fate != Fate::Accepted;
    VertexWhy {
        vertex: slot.vertex.id(),
        strongly_preferred: slot.weak == 0,
        pending_parents: slot.parents.iter().filter(open).map(|at| dag.id(*at)).collect(),
        last_poll: slot.last_poll,
    }
}
