//! A fixed leader: one replica leads every view.
//!
//! The fastest while it lives: it makes every certificate itself, so that the next proposal leaves
//! with the vote that completes the quorum. For measurements, and for protocols whose view change
//! names another leader by other means.
//!
//! **No liveness after its death.** No time-out brings another leader: the cluster stands still,
//! safely, until that replica is back. Nor is there chain quality: a lying leader proposes every
//! block, and leaves out whose commands it likes.

use crate::base::types::ReplicaId;

/// The leader of every view.
#[must_use]
pub const fn leader(replica: ReplicaId) -> ReplicaId {
    replica
}
