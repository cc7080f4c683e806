//! How deep a vertex stands on ancestors that are not settled.
//!
//! A poll walks down all of them, so the depth is bounded where a vertex comes in. A slot remembers
//! a depth that it does not exceed. Ancestors settle all the time, and the depth is counted anew
//! only where the remembered one reaches the bound.

use super::super::vertex::Transaction;
use super::Dag;

impl<T: Transaction> Dag<T> {
    /// How deep a vertex on these parents stands: exactly, if that is beyond the bound.
    pub(super) fn depth_on(&mut self, parents: &[u32]) -> u32 {
        let remembered = self.remembered(parents);
        if remembered <= self.limits.depth {
            return remembered;
        }
        parents.iter().for_each(|parent| self.measure(*parent));
        self.remembered(parents)
    }

    /// Whether nothing may stand on this vertex now.
    pub(in super::super) fn is_deepest(&mut self, at: u32) -> bool {
        self.depth_on(&[at]) > self.limits.depth
    }

    /// The vertex, if this node may build on it, or an ancestor on which it may. Others see other
    /// depths, so it keeps some distance from the bound.
    pub(super) fn not_too_deep(&mut self, at: u32) -> u32 {
        let most = self.limits.depth - self.limits.depth / 8;
        let is_deep = |dag: &Self| !dag.slots[at].settled && dag.slots[at].depth >= most;
        if !is_deep(self) {
            return at;
        }
        self.measure(at);
        if !is_deep(self) {
            return at;
        }
        // All of them are measured: one of them is just above the bound.
        let ancestors = self.ancestors(at);
        ancestors.into_iter().find(|of| self.slots[*of].depth + 1 == most).unwrap_or(at)
    }

    fn remembered(&self, parents: &[u32]) -> u32 {
        let open = parents.iter().map(|parent| &self.slots[*parent]).filter(|slot| !slot.settled);
        open.map(|slot| slot.depth).max().unwrap_or(0) + 1
    }

    /// Counts the depth of a vertex anew, and of its ancestors: of each once a settlement.
    fn measure(&mut self, vertex: u32) {
        let mut open = vec![vertex];
        while let Some(at) = open.last().copied() {
            let is_known = |at: u32| {
                let slot = &self.slots[at];
                slot.settled || slot.measured == self.settlements
            };
            if is_known(at) {
                open.pop();
                continue;
            }
            let before = open.len();
            let parents = self.slots[at].parents.iter().copied();
            open.extend(parents.filter(|parent| !is_known(*parent)));
            if open.len() == before {
                let depth = self.remembered(&self.slots[at].parents);
                let slot = &mut self.slots[at];
                (slot.depth, slot.measured) = (depth, self.settlements);
                open.pop();
            }
        }
    }
}
