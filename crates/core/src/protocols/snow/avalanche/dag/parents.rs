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

/// Possible parents that are no crowd: as many as may be there besides pending ones.
const CROWD: usize = 256;

/// Up to `most` of them.
fn draw(mut all: Vec<u32>, most: usize, random: &mut Random) -> Vec<u32> {
    for place in 0..most.min(all.len()) {
        let other = place as u64 + random.below((all.len() - place) as u64);
        all.swap(place, other as usize);
    }
    all.truncate(most);
    all
}

impl<T: Transaction> Dag<T> {
    /// Up to `most` parents, drawn. Of a crowd those come first that bring polls to a pending
    /// transaction: no-ops cost nothing, and among thousands of them it would get none.
    pub(in super::super) fn choose_parents(
        &mut self,
        most: usize,
        random: &mut Random,
    ) -> Vec<u32> {
        let is_crowd = self.frontier.len() > CROWD;
        let (first, rest): (Vec<u32>, Vec<u32>) =
            if planted!("avalanche-parents-of-any-use", false, is_crowd) {
                let useful = self.useful();
                self.frontier.iter().partition(|at| self.slots[**at].stamp == useful)
            } else {
                (self.frontier.iter().copied().collect(), Vec::new())
            };
        let mut drawn = draw(first, most, random);
        drawn.extend(draw(rest, most - drawn.len(), random));
        drawn.into_iter().map(|at| self.not_too_deep(at)).collect()
    }

    /// Stamps the vertices with a pending transaction that never had a rival, and those above them.
    /// One that had needs β₂ polls, and whatever stands on it waits.
    fn useful(&mut self) -> u32 {
        let stamp = self.next_stamp();
        let is_honest = |tx: &u32| {
            let found = &self.txs[*tx];
            found.fate == Fate::Pending && (found.tracked.is_none() || !self.standing(*tx).1)
        };
        let has_honest = |slot: &Slot<T>| slot.transactions.iter().flatten().any(is_honest);
        let undecided = self.slots.iter().filter(|(_, slot)| {
            slot.fate == Fate::Pending && slot.undecided > 0 && has_honest(slot)
        });
        let mut open: Vec<u32> = undecided.map(|(at, _)| at).collect();
        while let Some(at) = open.pop() {
            let slot = &mut self.slots[at];
            if slot.stamp != stamp {
                slot.stamp = stamp;
                open.extend_from_slice(&slot.children);
            }
        }
        stamp
    }

    pub(in super::super) fn id(&self, at: u32) -> VertexId {
        self.slots[at].vertex.id()
    }

    /// Notes whether a vertex may be a parent, after something about it changed.
    pub(super) fn refresh(&mut self, at: u32) {
        self.file(at);
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
    pub(in super::super) fn choose_risky(&mut self, random: &mut Random) -> Option<u32> {
        let strong = |slot: &Slot<T>| slot.fate == Fate::Pending && slot.weak == 0;
        let tips = self.slots.iter().filter(|(_, slot)| {
            let covered = || slot.children.iter().any(|child| self.slots[*child].chits > 0);
            strong(slot) && slot.risky > 0 && slot.chits > 0 && !covered()
        });
        let tips: Vec<u32> = tips.map(|(at, _)| at).collect();
        let tip = tips.get(random.below(tips.len() as u64) as usize).copied()?;
        Some(self.not_too_deep(tip))
    }
}
