//! Round-robin: `view mod n`.
//!
//! Needs no history, and any n successive views have every replica as their leader once: at least
//! n − f live leaders with f gaps between them, so that among those n views, taken in a circle,
//! some three live leaders follow each other. A dead replica costs a time-out in every round.

use crate::base::types::{ReplicaId, View};

/// The leader of `view` among `replicas` replicas, at most 65,536.
#[must_use]
pub fn leader(view: View, replicas: usize) -> ReplicaId {
    ReplicaId((view.0 % replicas.max(1) as u64) as u16)
}
