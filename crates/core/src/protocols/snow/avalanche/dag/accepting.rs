//! Both rules of acceptance (white paper, section 3.3):
//! a transaction is accepted when it is preferred in every conflict set it is in, and either it has
//! no conflict, all parents of its vertex are accepted and its counter reached β₁, or its counter
//! reached β₂ in each of its sets.
//!
//! Deviation: it must also wait for the transactions whose outputs it spends. The white paper
//! leaves that to the ledger.

use std::collections::VecDeque;
use std::sync::Arc;

use super::super::super::parameters::Parameters;
use super::super::interface::{Conflict, Past, Rule};
use super::super::names::TransactionId;
use super::super::state::{Fate, Spent};
use super::super::vertex::Transaction;
use super::{Dag, Decision};

impl<T: Transaction> Dag<T> {
    /// Accepts what may be accepted now that these vertices changed, and what follows from it.
    pub(in super::super) fn decide(
        &mut self,
        touched: Vec<u32>,
        parameters: &Parameters,
        past: &dyn Past,
        decided: &mut Vec<Decision<T>>,
    ) {
        let mut open: VecDeque<u32> = touched.into();
        while let Some(at) = open.pop_front() {
            if self.slots.get(at).is_none_or(|slot| slot.fate != Fate::Pending) {
                continue;
            }
            let shared = self.rule_of_vertex(at, parameters);
            for place in 0..self.slots[at].transactions.len() {
                let Some(tx) = self.slots[at].transactions[place] else { continue };
                if self.txs[tx].fate != Fate::Pending {
                    continue;
                }
                let rule = match self.txs[tx].tracked {
                    None => shared,
                    Some(_) => self.rule_of(tx, parameters),
                };
                let Some(rule) = rule else { continue };
                let dependency = self.pending_dependency(tx, past);
                match planted!("avalanche-accepted-before-its-inputs", None, dependency) {
                    Some(on) => self.wait_for(on, at),
                    None => self.accept(tx, rule, &mut open, decided),
                }
            }
            let slot = &self.slots[at];
            if slot.fate == Fate::Pending && slot.undecided == 0 && shared.is_some() {
                self.accept_vertex(at, &mut open, decided);
            }
        }
    }

    /// By which rule the transactions that share the vertex's counters are accepted; so is a no-op.
    pub(in super::super) fn rule_of_vertex(&self, at: u32, numbers: &Parameters) -> Option<Rule> {
        let slot = &self.slots[at];
        let is_next = planted!("avalanche-early-before-parents", true, slot.open_parents == 0);
        if slot.count >= numbers.early && is_next {
            Some(Rule::Early)
        } else {
            (slot.count >= numbers.decision).then_some(Rule::Counter)
        }
    }

    fn rule_of(&self, tx: u32, numbers: &Parameters) -> Option<Rule> {
        let (count, contested) = self.standing(tx);
        let ready = |vertex: &u32| self.slots[*vertex].open_parents == 0;
        let is_virtuous = planted!("avalanche-early-for-rivals", true, !contested);
        if is_virtuous && count >= numbers.early && self.homes(tx).iter().any(ready) {
            Some(Rule::Early)
        } else {
            (count >= numbers.decision).then_some(Rule::Counter)
        }
    }

    /// The counter of a transaction: the least of its sets', zero where another one is preferred or
    /// was last; and whether it ever had a rival.
    pub(in super::super) fn standing(&self, tx: u32) -> (u32, bool) {
        let home = &self.slots[self.txs[tx].home];
        if self.txs[tx].tracked.is_none() || self.transaction(tx).inputs().is_empty() {
            return (home.count, false);
        }
        let (mut count, mut contested) = (u32::MAX, false);
        for input in self.transaction(tx).inputs() {
            match self.spent.get(input) {
                Some(Spent::Set(set)) => {
                    let leads = set.preferred == tx && set.last == Some(tx);
                    count = count.min(if leads { set.count } else { 0 });
                    contested |= set.contested;
                }
                Some(Spent::One(_)) => count = count.min(home.count),
                None => count = 0,
            }
        }
        (count, contested)
    }

    /// A transaction that this one spends an output of, and that is not accepted.
    pub(in super::super) fn pending_dependency(
        &self,
        tx: u32,
        past: &dyn Past,
    ) -> Option<TransactionId> {
        let accepted = |of: &TransactionId| match self.fate(of) {
            Some(fate) => fate == Fate::Accepted,
            None => past.has_transaction(of),
        };
        let mut of = self.transaction(tx).inputs().iter().map(|input| input.transaction);
        of.find(|of| !accepted(of))
    }

    fn wait_for(&mut self, on: TransactionId, at: u32) {
        let waiting = self.waiting.entry(on).or_default();
        if !waiting.contains(&at) {
            waiting.push(at);
        }
    }

    fn accept(
        &mut self,
        tx: u32,
        rule: Rule,
        open: &mut VecDeque<u32>,
        decided: &mut Vec<Decision<T>>,
    ) {
        self.txs[tx].fate = Fate::Accepted;
        let id = self.txs[tx].id;
        let transaction = self.transaction(tx).clone();
        for input in transaction.inputs() {
            let rivals = match self.spent.get(input) {
                Some(Spent::Set(set)) => set.spenders.clone(),
                _ => continue,
            };
            self.prefer(tx, input);
            let is_rival = |rival: &u32| planted!("avalanche-rivals-live-on", false, *rival != tx);
            for rival in rivals.into_iter().filter(is_rival) {
                self.reject(rival, Conflict::Spent { input: *input, by: id }, decided);
            }
        }
        decided.push(Decision::Accepted(transaction, rule));
        let rival = std::mem::replace(&mut self.txs[tx].rival, false);
        for vertex in self.homes(tx) {
            self.slots[vertex].undecided -= 1;
            self.is_decided(tx, vertex);
            if rival {
                self.calm(vertex);
            }
            open.push_back(vertex);
        }
        open.extend(self.waiting.remove(&id).into_iter().flatten());
    }

    fn accept_vertex(&mut self, at: u32, open: &mut VecDeque<u32>, decided: &mut Vec<Decision<T>>) {
        let slot = &mut self.slots[at];
        slot.fate = Fate::Accepted;
        decided.push(Decision::Vertex(Arc::clone(&slot.vertex)));
        self.unbill(at);
        self.file(at);
        for place in 0..self.slots[at].children.len() {
            let child = self.slots[at].children[place];
            self.slots[child].open_parents -= 1;
            open.push_back(child);
        }
        self.settle(at);
    }
}
