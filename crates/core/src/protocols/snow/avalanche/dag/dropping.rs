//! How vertices leave memory.

use super::super::names::InputId;
use super::super::state::{Dropped, Fate, Spent};
use super::super::vertex::Transaction;
use super::Dag;

impl<T: Transaction> Dag<T> {
    /// Nobody will ever strongly prefer this vertex, nor its descendants.
    pub(super) fn doom(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            if slot.fate == Fate::Pending {
                slot.fate = Fate::Rejected;
                open.extend_from_slice(&slot.children);
                self.unbill(at);
                self.doomed.push(at);
                self.refresh(at);
            }
        }
    }

    /// An accepted vertex whose ancestors are decided needs no more polls; nor do its children, if
    /// they are accepted.
    pub(super) fn settle(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            if slot.settled || slot.fate != Fate::Accepted || slot.unsettled_parents > 0 {
                continue;
            }
            slot.settled = true;
            self.settlements += 1;
            if slot.eligible_children > 0 {
                self.doomed.push(at);
            }
            for place in 0..self.slots[at].children.len() {
                let child = self.slots[at].children[place];
                self.slots[child].unsettled_parents -= 1;
                open.push(child);
            }
        }
    }

    /// Drops what is not needed any more: rejected vertices, and settled ones with a child that can
    /// be a parent. Of settled ones without, `frontier` stay.
    pub(in super::super) fn sweep(&mut self, frontier: usize) -> Dropped {
        let mut dropped = Dropped::default();
        if self.frontier.len() > frontier {
            let settled = |at: &u32| self.slots[*at].settled;
            let mut old: Vec<u32> = self.frontier.iter().copied().filter(settled).collect();
            old.sort_by_key(|at| (self.slots[*at].added, *at));
            let excess = (self.frontier.len() - frontier).min(old.len());
            self.doomed.extend_from_slice(&old[..excess]);
        }
        while let Some(at) = self.doomed.pop() {
            if self.slots.get(at).is_some() {
                self.remove(at, &mut dropped);
            }
        }
        self.forget_unfounded(&mut dropped);
        dropped
    }

    /// Forgets a vertex that gives way. It was not rejected, and may come again.
    pub(in super::super) fn forget(&mut self, at: u32) -> Dropped {
        let mut dropped = Dropped { unfounded: vec![at], ..Dropped::default() };
        self.forget_unfounded(&mut dropped);
        dropped
    }

    /// Forgets vertices with their descendants, and what spends outputs of transactions that leave
    /// with them. None of them was rejected.
    fn forget_unfounded(&mut self, dropped: &mut Dropped) {
        let rejected = std::mem::take(&mut dropped.rejected);
        while let Some(at) = dropped.unfounded.pop() {
            if self.slots.get(at).is_none() {
                continue;
            }
            let before = std::mem::take(&mut self.doomed);
            self.doom(at);
            for at in std::mem::replace(&mut self.doomed, before) {
                self.remove(at, dropped);
            }
        }
        dropped.rejected = rejected;
    }

    pub(super) fn remove(&mut self, at: u32, dropped: &mut Dropped) {
        self.frontier.remove(&at);
        let slot = &mut self.slots[at];
        let (settled, weak, risky) = (slot.settled, slot.weak > 0, slot.risky > 0);
        let open = slot.fate != Fate::Accepted;
        // It lets go of them first. Below, its outputs may go to rivals, which is a reason against
        // it, but none against what was built on it.
        let children = std::mem::take(&mut slot.children);
        if slot.fate == Fate::Rejected {
            dropped.rejected.push(slot.vertex.id());
        }
        for parent in slot.parents.clone() {
            self.slots[parent].children.retain(|child| *child != at);
            self.file(parent);
        }
        for child in children {
            self.slots[child].parents.retain(|parent| *parent != at);
            if weak {
                self.strengthen(child);
            }
            if risky {
                self.calm(child);
            }
            self.slots[child].open_parents -= u32::from(open);
            if !settled {
                self.slots[child].unsettled_parents -= 1;
                self.settle(child);
            }
        }
        self.leave_strays(at);
        for tx in self.slots[at].transactions.clone().into_iter().flatten() {
            self.leave(tx, at, dropped);
        }
        if let Some(slot) = self.slots.remove(at) {
            self.vertices.remove(&slot.vertex.id());
            self.weight -= slot.vertex.weight();
        }
    }

    /// A transaction loses one of its vertices.
    fn leave(&mut self, tx: u32, at: u32, dropped: &mut Dropped) {
        let mut others = self.homes(tx);
        others.retain(|vertex| *vertex != at);
        if let Some(home) = others.first().copied() {
            let id = self.txs[tx].id;
            let transactions = self.slots[home].vertex.transactions();
            let place = transactions.iter().position(|transaction| transaction.id() == id);
            let found = &mut self.txs[tx];
            (found.home, found.place) = (home, place.unwrap_or(0) as u32);
            let is_sole = found.fate == Fate::Pending && others.len() == 1;
            if let Some(tracked) = &mut found.tracked {
                tracked.vertices = others;
            }
            self.slots[home].sole += u32::from(is_sole);
            self.file(home);
            return;
        }
        for input in self.transaction(tx).inputs().to_vec() {
            self.unspend(tx, &input);
        }
        if let Some(found) = self.txs.remove(tx) {
            self.transactions.remove(&found.id);
            self.waiting.remove(&found.id);
            let spenders = self.strays.remove(&found.id).unwrap_or_default();
            if found.fate == Fate::Pending {
                dropped.homeless.push(found.id);
                let stay = planted!("avalanche-homeless-stay", true, false);
                dropped.unfounded.extend(spenders.into_iter().filter(|_| !stay));
            }
        }
    }

    fn unspend(&mut self, tx: u32, input: &InputId) {
        let next = match self.spent.get_mut(input) {
            Some(Spent::Set(set)) => {
                set.spenders.retain(|spender| *spender != tx);
                set.last = set.last.filter(|last| *last != tx);
                if set.preferred != tx && !set.spenders.is_empty() {
                    return;
                }
                let spenders = set.spenders.clone();
                let rank = |of: &u32| {
                    let is_pending = self.txs[*of].fate == Fate::Pending;
                    (is_pending, self.confidence(*of), u32::MAX - of)
                };
                spenders.into_iter().max_by_key(rank)
            }
            Some(Spent::One(of)) if *of == tx => None,
            Some(Spent::One(_)) | None => return,
        };
        match next {
            Some(next) => self.prefer(next, input),
            None => drop(self.spent.remove(input)),
        }
    }
}
