//! Conflict sets: who is preferred, and what that means for vertices.

use super::super::interface::Conflict;
use super::super::names::InputId;
use super::super::state::{ConflictSet, Fate, Spent, Tracked};
use super::super::vertex::Transaction;
use super::{Dag, Decision};

impl<T: Transaction> Dag<T> {
    /// Gives a transaction counters of its own: those that it had with its vertex.
    pub(super) fn track(&mut self, tx: u32) {
        if self.txs[tx].tracked.is_some() {
            return;
        }
        let home = self.txs[tx].home;
        let slot = &mut self.slots[home];
        let chits = slot.chits;
        slot.tracked.push(tx);
        self.txs[tx].tracked = Some(Box::new(Tracked {
            confidence: u64::from(chits),
            vertices: vec![home],
            stamp: 0,
        }));
        self.split(tx);
    }

    /// Makes sets of all outputs that only this transaction spends.
    pub(super) fn split(&mut self, tx: u32) {
        let home = &self.slots[self.txs[tx].home];
        let (last, count) = ((home.chits > 0).then_some(tx), home.count);
        for input in self.transaction(tx).inputs().to_vec() {
            if let Some(Spent::One(of)) = self.spent.get(&input)
                && *of == tx
            {
                let (spenders, contested) = (vec![tx], false);
                let set = ConflictSet { spenders, preferred: tx, last, count, contested };
                self.spent.insert(input, Spent::Set(Box::new(set)));
            }
        }
    }

    /// A rival joins a set: the older one stays preferred.
    pub(super) fn join(&mut self, tx: u32, input: &InputId) {
        if let Some(Spent::Set(set)) = self.spent.get_mut(input)
            && !set.spenders.contains(&tx)
        {
            set.spenders.push(tx);
            set.contested = true;
            let preferred = set.preferred;
            for rival in set.spenders.clone() {
                let trusted = rival != tx && self.standing(rival).0 >= self.trust;
                let known = &mut self.txs[rival];
                if known.fate == Fate::Pending
                    && !trusted
                    && !std::mem::replace(&mut known.rival, true)
                {
                    self.homes(rival).into_iter().for_each(|vertex| self.endanger(vertex));
                }
            }
            self.dislike(tx);
            let is_first = self.txs[preferred].fate == Fate::Rejected;
            if planted!("avalanche-newest-preferred", true, is_first) {
                self.prefer(tx, input);
            }
        }
    }

    /// Prefers `tx` for this output.
    pub(super) fn prefer(&mut self, tx: u32, input: &InputId) {
        if let Some(Spent::Set(set)) = self.spent.get_mut(input)
            && set.preferred != tx
        {
            let before = std::mem::replace(&mut set.preferred, tx);
            self.dislike(before);
            self.like(tx);
        }
    }

    fn dislike(&mut self, tx: u32) {
        self.txs[tx].disliked += 1;
        if self.txs[tx].disliked == 1 {
            for vertex in self.homes(tx) {
                self.weaken(vertex);
            }
        }
    }

    fn like(&mut self, tx: u32) {
        self.txs[tx].disliked -= 1;
        if self.txs[tx].disliked == 0 {
            for vertex in self.homes(tx) {
                self.strengthen(vertex);
            }
        }
    }

    /// One more reason against a vertex; with the first, one against each child.
    pub(super) fn weaken(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            slot.weak += 1;
            if slot.weak == 1 {
                open.extend_from_slice(&slot.children);
                self.refresh(at);
            }
        }
    }

    /// One reason less.
    pub(super) fn strengthen(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            slot.weak -= 1;
            if slot.weak == 0 {
                open.extend_from_slice(&slot.children);
                self.refresh(at);
            }
        }
    }

    /// A rejected transaction leaves the preference to the best of its pending rivals.
    fn give_way(&mut self, tx: u32, input: &InputId) {
        let Some(Spent::Set(set)) = self.spent.get(input) else { return };
        if set.preferred == tx {
            let pending = set.spenders.iter().filter(|of| self.txs[**of].fate == Fate::Pending);
            let best = pending.max_by_key(|of| (self.confidence(**of), u32::MAX - **of));
            if let Some(best) = best.copied() {
                self.prefer(best, input);
            }
        }
    }

    /// One more reason not to vouch for a vertex; with the first, one for each child.
    pub(super) fn endanger(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            slot.risky += 1;
            if slot.risky == 1 {
                open.extend_from_slice(&slot.children);
                self.refresh(at);
            }
        }
    }

    /// One reason less.
    pub(super) fn calm(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            slot.risky -= 1;
            if slot.risky == 0 {
                open.extend_from_slice(&slot.children);
                self.refresh(at);
            }
        }
    }

    /// Rules a transaction out, and with it all that spend its outputs.
    pub(super) fn reject(&mut self, tx: u32, reason: Conflict, decided: &mut Vec<Decision<T>>) {
        let mut open = vec![(tx, reason)];
        while let Some((tx, reason)) = open.pop() {
            if self.txs[tx].fate != Fate::Pending {
                continue;
            }
            self.txs[tx].fate = Fate::Rejected;
            let id = self.txs[tx].id;
            decided.push(Decision::Rejected(id, reason));
            self.dislike(tx);
            for input in self.transaction(tx).inputs().to_vec() {
                self.give_way(tx, &input);
            }
            for vertex in self.homes(tx) {
                self.slots[vertex].undecided -= 1;
                self.is_decided(tx, vertex);
                self.doom(vertex);
            }
            let outputs = InputId { transaction: id, index: 0 }..=InputId {
                transaction: id,
                index: u32::MAX,
            };
            for (_, spent) in self.spent.range(outputs) {
                let spenders = match spent {
                    Spent::One(of) => std::slice::from_ref(of),
                    Spent::Set(set) => &set.spenders,
                };
                open.extend(spenders.iter().map(|of| (*of, Conflict::Unfounded(id))));
            }
        }
    }
}
