//! `/blocks`: the last committed blocks, oldest first, as one JSON object.

use serde_json::{Value, json};

use super::Facts;
use crate::replica::recent::Told;

/// The object.
pub(super) fn of(facts: &Facts) -> Value {
    let blocks: Vec<Value> = facts.metrics.recent.blocks().iter().map(one).collect();
    json!({ "replica": facts.replica, "replicas": facts.epochs.committee().replicas().count(), "blocks": blocks })
}

fn one(told: &Told) -> Value {
    json!({
        "height": told.height.0,
        "view": told.view.0,
        "proposer": told.proposer.map(|id| id.0),
        "frames": told.frames,
        "voters": told.voters.iter().map(|id| id.0).collect::<Vec<_>>(),
        "committed_ms": told.committed_ms,
    })
}
