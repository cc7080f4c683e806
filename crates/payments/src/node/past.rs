//! The ledger as the protocol asks it, and how it says why a payment is pending.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use quorate_core::Digest;
use quorate_core::protocols::snow::avalanche::vertex::Worth;
use quorate_core::protocols::snow::avalanche::{Past, Record, VertexId, Why};

use crate::ledger::{LedgerError, OutputState, View};
use crate::transaction::{OutputId, TransactionId};
use crate::verify::Signed;

/// The ledger as the protocol asks it, with what this turn accepted and has not written yet.
pub(super) struct LedgerPast {
    pub(super) view: View,
    genesis: TransactionId,
    fresh: RefCell<Fresh>,
    /// The protocol cannot be told that a look-up failed; the turn ends with it.
    failed: Cell<Option<LedgerError>>,
}

#[derive(Default)]
struct Fresh {
    vertices: BTreeSet<VertexId>,
    transactions: BTreeMap<TransactionId, Signed>,
    spent: BTreeMap<OutputId, TransactionId>,
}

impl LedgerPast {
    pub(super) fn new(view: View, genesis: TransactionId) -> Self {
        Self { view, genesis, fresh: RefCell::default(), failed: Cell::new(None) }
    }

    /// All of this turn is written.
    pub(super) fn is_written(&self) {
        *self.fresh.borrow_mut() = Fresh::default();
    }

    /// Why a look-up failed, if one did.
    pub(super) fn failure(&self) -> Option<LedgerError> {
        self.failed.take()
    }

    pub(super) fn ask<T: Default>(&self, read: Result<T, LedgerError>) -> T {
        read.unwrap_or_else(|error| {
            self.failed.set(Some(error));
            T::default()
        })
    }

    pub(super) fn note(&self, records: &[Record<Signed>]) {
        let mut fresh = self.fresh.borrow_mut();
        for record in records {
            match record {
                Record::Transaction(transaction) => {
                    let id = transaction.id();
                    fresh.spent.extend(transaction.inputs().iter().map(|input| (*input, id)));
                    fresh.transactions.insert(id, transaction.clone());
                }
                Record::Vertex(vertex) => drop(fresh.vertices.insert(vertex.id())),
            }
        }
    }

    pub(super) fn state(&self, input: &OutputId) -> Option<OutputState> {
        let fresh = self.fresh.borrow();
        let made = fresh.transactions.get(&input.transaction);
        let made = made.and_then(|of| of.outputs().get(input.index as usize));
        let state = match made {
            Some(output) => {
                Some(OutputState::Unspent { to: output.to, amount: output.amount, slot: 0 })
            }
            None => self.ask(self.view.output(input)),
        };
        match (fresh.spent.get(input), state) {
            (Some(by), Some(OutputState::Unspent { to, amount, .. })) => {
                Some(OutputState::Spent { by: *by, to, amount })
            }
            (_, state) => state,
        }
    }
}

impl Past for LedgerPast {
    fn has_vertex(&self, vertex: &VertexId) -> bool {
        self.fresh.borrow().vertices.contains(vertex)
            || self.ask(self.view.note(&vertex.0)).is_some()
    }

    fn has_transaction(&self, id: &TransactionId) -> bool {
        *id == self.genesis
            || self.fresh.borrow().transactions.contains_key(id)
            || self.ask(self.view.accepted(id)).is_some()
    }

    fn spender(&self, input: &OutputId) -> Option<TransactionId> {
        match self.state(input)? {
            OutputState::Spent { by, .. } => Some(by),
            OutputState::Unspent { .. } => None,
        }
    }

    fn output(&self, input: &OutputId) -> Option<Worth> {
        let (OutputState::Unspent { to, amount, .. } | OutputState::Spent { to, amount, .. }) =
            self.state(input)?;
        Some(Worth { owner: Digest(to.0), amount })
    }
}

/// Why a transaction is pending, for people.
pub(super) fn explanation(why: &Why) -> String {
    let mut text = format!(
        "{}; confidence {}, {} of {} successful polls in a row, {}",
        why.reason,
        why.confidence,
        why.count,
        why.needed,
        if why.preferred { "preferred" } else { "not preferred" },
    );
    for set in why.sets.iter().filter(|set| set.spenders.len() > 1) {
        let spenders = set.spenders.iter();
        let spenders: Vec<_> =
            spenders.map(|(id, confidence)| format!("{id} (confidence {confidence})")).collect();
        text.push_str(&format!(
            "\n  output {}: spent by {}; {} is preferred",
            set.input,
            spenders.join(", "),
            set.preferred
        ));
    }
    for vertex in &why.vertices {
        if let Some(poll) = vertex.last_poll {
            text.push_str(&format!(
                "\n  last poll: {} for, {} against, {} without an answer",
                poll.yes, poll.no, poll.missing
            ));
        }
    }
    text
}
