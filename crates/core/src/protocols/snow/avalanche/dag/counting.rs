//! What a poll means for the vertex that was asked about, and for its ancestors.

use std::collections::{BTreeMap, BTreeSet};

use super::super::names::VertexId;
use super::super::state::{Fate, Spent};
use super::super::vertex::Transaction;
use super::Dag;

impl<T: Transaction> Dag<T> {
    /// A successful poll: a chit (white paper, algorithm 4, lines 4.12 to 4.18). Returns what it
    /// touched, for [`decide`](Dag::decide).
    pub(in super::super) fn succeed(&mut self, vertex: u32) -> Vec<u32> {
        let touched = self.ancestors(vertex);
        let stamp = self.stamp;
        for at in &touched {
            let slot = &mut self.slots[*at];
            slot.chits = slot.chits.saturating_add(1);
            slot.count = slot.count.saturating_add(1);
            let first = slot.chits == 1;
            for place in 0..self.slots[*at].tracked.len() {
                let tx = self.slots[*at].tracked[place];
                self.count_chit(tx, stamp);
            }
            if first {
                self.refresh(*at);
            }
        }
        touched
    }

    fn count_chit(&mut self, tx: u32, stamp: u32) {
        if self.txs[tx].fate != Fate::Pending {
            return;
        }
        let confidence = match &mut self.txs[tx].tracked {
            Some(tracked) if planted!("avalanche-chit-twice", true, tracked.stamp != stamp) => {
                tracked.stamp = stamp;
                tracked.confidence += 1;
                tracked.confidence
            }
            _ => return,
        };
        for input in self.transaction(tx).inputs().to_vec() {
            let Some(Spent::Set(set)) = self.spent.get_mut(&input) else { continue };
            // `if Tʹ ≠ last: last = Tʹ, count = 1 else count++`
            if set.last == Some(tx) {
                set.count = set.count.saturating_add(1);
            } else {
                (set.last, set.count) = (Some(tx), 1);
            }
            // `if d(Tʹ) > d(pref): pref = Tʹ`
            let preferred = set.preferred;
            let has_more = confidence > self.confidence(preferred);
            let turns = planted!("avalanche-turns-without-confidence", true, has_more);
            if preferred != tx && turns {
                self.prefer(tx, &input);
            }
        }
        if self.txs[tx].rival && self.standing(tx).0 >= self.trust {
            self.txs[tx].rival = false;
            self.homes(tx).into_iter().for_each(|vertex| self.calm(vertex));
        }
    }

    /// An unsuccessful poll under the white paper's counters: those of all ancestors begin anew
    /// (line 4.20).
    pub(in super::super) fn fail_all(&mut self, vertex: u32) {
        for at in self.ancestors(vertex) {
            self.reset(at);
        }
    }

    /// An unsuccessful poll under Glacier's counters: those of an ancestor begin anew only if more
    /// than `allowed` seats do not strongly prefer it, by what their answers name: the seats of
    /// each negative answer, and the vertices in it.
    pub(in super::super) fn fail_named(
        &mut self,
        vertex: u32,
        against: &[(u32, Vec<VertexId>)],
        allowed: u32,
    ) {
        let touched = self.ancestors(vertex);
        let walk = self.stamp;
        touched.iter().for_each(|at| self.slots[*at].against = (walk, 0));
        // Correct peers name the same. It is walked down once.
        let mut answers: BTreeMap<BTreeSet<u32>, u32> = BTreeMap::new();
        for (seats, named) in against {
            let known = named.iter().filter_map(|id| self.vertices.get(id).copied());
            let named = known.filter(|at| self.slots[*at].stamp == walk).collect();
            *answers.entry(named).or_default() += seats;
        }
        for (named, seats) in answers {
            let answer = self.next_stamp();
            // It is against the descendants of what it names.
            let mut open: Vec<u32> = named.into_iter().collect();
            while let Some(at) = open.pop() {
                let slot = &mut self.slots[at];
                if slot.stamp == walk && slot.against.0 != answer {
                    slot.against = (answer, slot.against.1 + seats);
                    open.extend_from_slice(&slot.children);
                }
            }
        }
        for at in touched {
            let is_many = self.slots[at].against.1 > allowed;
            let is_named = planted!("avalanche-named-not-reset", false, is_many);
            // It is against the vertex itself in any case.
            if at == vertex || is_named {
                self.reset(at);
            }
        }
    }

    fn reset(&mut self, at: u32) {
        self.slots[at].count = planted!("avalanche-failure-keeps-counter", self.slots[at].count, 0);
        for place in 0..self.slots[at].tracked.len() {
            let tx = self.slots[at].tracked[place];
            for input in self.transaction(tx).inputs().to_vec() {
                if let Some(Spent::Set(set)) = self.spent.get_mut(&input) {
                    set.count = 0;
                }
            }
        }
    }
}
