//! In what order the replicas are asked that may lead a view.

use crate::base::types::ReplicaId;

/// Those who may lead a view, in the order in which they are asked.
#[derive(Debug)]
pub(super) struct Order {
    /// Who may lead.
    pub(super) candidates: Vec<ReplicaId>,
    /// The place of the first choice.
    pub(super) first: usize,
}

impl Order {
    /// The first choice, and then those behind it, around.
    pub(super) fn candidates(&self) -> impl Iterator<Item = ReplicaId> {
        let (before, from) = self.candidates.split_at(self.first.min(self.candidates.len()));
        from.iter().chain(before).copied()
    }

    /// Whether `replica` is one of them.
    pub(super) fn has(&self, replica: ReplicaId) -> bool {
        self.candidates.contains(&replica)
    }
}
