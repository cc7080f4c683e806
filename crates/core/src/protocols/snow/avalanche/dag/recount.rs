//! What the graph keeps up to date, counted anew: an oracle for tests and simulations.
//!
//! The counts of a vertex follow those of its parents and children step by step. One that is missed
//! breaks no rule at once: a vertex that counts a parent too many is never strongly preferred, and
//! its node is against it for ever.

use super::super::Avalanche;
use super::super::state::{Fate, Slot, Tx};
use super::super::vertex::Transaction;
use super::Dag;

impl<T: Transaction> Avalanche<T> {
    /// A count of the graph that is not what it should be: its vertex, its name, what it is, and
    /// what it should be. To be asked between steps; it looks at the whole graph.
    #[must_use]
    pub fn miscounted(&self) -> Option<String> {
        let slots = &self.dag.slots;
        let wrong = slots.iter().find_map(|(at, slot)| {
            let mut counts = self.dag.recount(at, slot).into_iter();
            let (name, is, should) = counts.find(|(_, is, should)| is != should)?;
            Some(format!("{:?}: {name} is {is}, should be {should}", slot.vertex.id()))
        });
        let pending = slots.iter().filter(|(_, slot)| slot.fate == Fate::Pending).count();
        let few = (pending != self.dag.pending).then(|| format!("{pending} vertices are pending"));
        wrong.or(few)
    }
}

impl<T: Transaction> Dag<T> {
    fn recount(&self, at: u32, slot: &Slot<T>) -> [(&'static str, usize, usize); 8] {
        let own = |keep: &dyn Fn(&Tx) -> bool| {
            slot.transactions.iter().flatten().filter(|tx| keep(&self.txs[**tx])).count()
        };
        let parents = |keep: &dyn Fn(&Slot<T>) -> bool| {
            slot.parents.iter().filter(|parent| keep(&self.slots[**parent])).count()
        };
        let eligible = slot.children.iter().filter(|child| self.slots[**child].eligible).count();
        let weak = own(&|tx| tx.disliked > 0) + parents(&|parent| parent.weak > 0);
        let risky = own(&|tx| tx.rival) + slot.strays.len() + parents(&|parent| parent.risky > 0);
        let is_pending = |tx: &Tx| tx.fate == Fate::Pending;
        let is_sole = |tx: &Tx| {
            is_pending(tx) && tx.tracked.as_ref().is_none_or(|tracked| tracked.vertices.len() == 1)
        };
        let is_tip = slot.eligible && slot.eligible_children == 0;
        [
            ("weak", slot.weak as usize, weak),
            ("risky", slot.risky as usize, risky),
            ("open parents", slot.open_parents as usize, parents(&|of| of.fate != Fate::Accepted)),
            ("unsettled parents", slot.unsettled_parents as usize, parents(&|of| !of.settled)),
            ("undecided", slot.undecided as usize, own(&is_pending)),
            ("sole", slot.sole as usize, own(&is_sole)),
            ("eligible children", slot.eligible_children as usize, eligible),
            ("tip", self.frontier.contains(&at).into(), is_tip.into()),
        ]
    }
}
