//! Round-robin: `view mod n`.
//!
//! Needs no history, and any n successive views have every replica as their leader once: at least
//! n − f live leaders with f gaps between them, so that among those n views, taken in a circle,
//! some three live leaders follow each other. A dead replica costs a time-out in every round.
//!
//! Where members have weights, n is their sum, and each leads as often as it weighs
//! ([`Committee::turn`]).

use crate::base::membership::Committee;
use crate::base::types::{ReplicaId, View};

/// The leader of `view`.
#[must_use]
pub fn leader(view: View, committee: &Committee) -> ReplicaId {
    committee.turn(view.0)
}
