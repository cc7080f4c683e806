//! Who leads a view.
//!
//! An election is a pure function of the view and, for the kinds that need it, of the committed
//! prefix: never of blocks that are not committed, or replicas would follow different leaders.

use crate::types::{ReplicaId, View};

/// How leaders are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// Each replica in turn: `view mod n`.
    RoundRobin,
}

impl Election {
    /// The leader of `view` among `replicas` replicas.
    #[must_use]
    pub fn leader(self, view: View, replicas: usize) -> ReplicaId {
        match self {
            Self::RoundRobin => ReplicaId((view.0 % replicas.max(1) as u64) as u16),
        }
    }
}
