//! Which vertices a new one may vouch for (white paper, section 3.4): the strongly preferred ones
//! without such children.
//!
//! Deviation: in the white paper a payment may vouch for a rival whose own poll succeeded. Others
//! may prefer the other one, and the payment is stuck. Here only no-ops do, until the rival has had
//! β₁ successful polls in a row.

use super::super::super::random::Random;
use super::super::names::VertexId;
use super::super::state::{Fate, Slot};
use super::super::vertex::Transaction;
use super::Dag;

impl<T: Transaction> Dag<T> {
    /// Up to `most` parents, drawn.
    pub(in super::super) fn choose_parents(&self, most: usize, random: &mut Random) -> Vec<u32> {
        let mut all: Vec<u32> = self.frontier.iter().copied().collect();
        for place in 0..most.min(all.len()) {
            let other = place as u64 + random.below((all.len() - place) as u64);
            all.swap(place, other as usize);
        }
        all.truncate(most);
        all
    }

    pub(in super::super) fn id(&self, at: u32) -> VertexId {
        self.slots[at].vertex.id()
    }

    /// Notes whether a vertex may be a parent, after something about it changed.
    pub(super) fn refresh(&mut self, at: u32) {
        let slot = &self.slots[at];
        let eligible = slot.fate != Fate::Rejected && slot.weak == 0 && slot.risky == 0;
        if eligible == slot.eligible {
            return;
        }
        let slot = &mut self.slots[at];
        slot.eligible = eligible;
        if eligible && slot.eligible_children == 0 {
            self.frontier.insert(at);
        } else if !eligible {
            self.frontier.remove(&at);
        }
        for place in 0..self.slots[at].parents.len() {
            let parent = self.slots[at].parents[place];
            let slot = &mut self.slots[parent];
            if eligible {
                slot.eligible_children += 1;
                self.frontier.remove(&parent);
                if slot.settled && slot.eligible_children == 1 {
                    self.doomed.push(parent);
                }
            } else {
                slot.eligible_children -= 1;
                if slot.eligible && slot.eligible_children == 0 {
                    self.frontier.insert(parent);
                }
            }
        }
    }

    /// A vertex for a no-op to vouch for, drawn: one with a transaction that has a rival, or a
    /// descendant, that is strongly preferred here and whose poll has succeeded. So that is how a
    /// preferred rival gets its chits.
    pub(in super::super) fn choose_risky(&self, random: &mut Random) -> Option<u32> {
        let strong = |slot: &Slot<T>| slot.fate == Fate::Pending && slot.weak == 0;
        let tips = self.slots.iter().filter(|(_, slot)| {
            let covered = || slot.children.iter().any(|child| self.slots[*child].chits > 0);
            strong(slot) && slot.risky > 0 && slot.chits > 0 && !covered()
        });
        let tips: Vec<u32> = tips.map(|(at, _)| at).collect();
        tips.get(random.below(tips.len() as u64) as usize).copied()
    }
}
