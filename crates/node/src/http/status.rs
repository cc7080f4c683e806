//! `/status`: how a replica is, as one JSON object.

use quorate_core::{Committee, ReplicaId};
use serde_json::{Map, Value, json};

use super::history::EVERY;
use super::warnings::Warning;
use super::{Facts, VERSION};
use crate::replica::metrics::Metrics;

/// The members, those that learn among them.
fn members(facts: &Facts, committee: &Committee, connected: &[u16]) -> Vec<Value> {
    let member = |id: ReplicaId| {
        let is_connected = id.0 == facts.replica || connected.contains(&id.0);
        json!({
            "id": id.0,
            "weight": committee.weight(id),
            "connected": is_connected,
            "wire_version": facts.peers.version(id),
        })
    };
    committee.replicas().map(member).collect()
}

/// How large the state is, and where it differs.
fn state(metrics: &Metrics) -> Value {
    json!({
        "bytes": metrics.state_bytes.get(),
        "limit_bytes": metrics.state_limit_bytes.get(),
        "snapshot_bytes": metrics.snapshot_bytes.get(),
        "snapshot_limit_bytes": metrics.snapshot_limit_bytes.get(),
        "root_differs_at": metrics.state_root_differs_at.get(),
    })
}

/// The numbers that only this protocol has.
fn details(metrics: &Metrics) -> Map<String, Value> {
    metrics.details().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

/// The object. Names of [`Metrics::numbers`] stand under `numbers`, beside what people look for
/// first.
pub(super) fn of(facts: &Facts) -> Value {
    let metrics = &facts.metrics;
    let numbers: Map<_, _> = metrics
        .numbers()
        .into_iter()
        .map(|(name, _, value)| (name.to_owned(), value.into()))
        .collect();
    let stages: Map<_, _> = metrics
        .stages()
        .map(|(name, stage, _)| (name.to_owned(), json!(stage.visits.sum_ns() as f64 / 1e9)))
        .collect();
    let sent: Map<_, _> = metrics
        .sent_by_kind()
        .into_iter()
        .map(|(kind, (messages, bytes))| {
            (kind.to_owned(), json!({ "messages": messages, "bytes": bytes }))
        })
        .collect();
    let transport: Map<_, _> =
        facts.counters.all().into_iter().map(|(name, n)| (name.to_owned(), n.into())).collect();
    let connected: Vec<u16> = facts.peers.connected().iter().map(|peer| peer.0).collect();
    let (not_ready, wire) = (facts.not_ready(), facts.peers.versions());
    let committee = facts.epochs.committee();
    let rules = committee.rules();
    let last = facts.history.last(1).pop();
    json!({
        "replica": facts.replica,
        "chain": facts.cluster.chain,
        "chain_digest": facts.cluster.chain_digest().to_string(),
        "protocol": facts.cluster.protocol.name(),
        "application": facts.application,
        "replicas": committee.replicas().count(),
        "epoch": committee.epoch().0,
        "rules": { "core": rules.core, "application": rules.application },
        "standing": facts.standing().name(),
        "members": members(facts, &committee, &connected),
        "version": VERSION,
        "wire_versions": { "oldest": wire.oldest(), "newest": wire.newest() },
        "process": std::process::id(),
        "ready": not_ready.is_none(),
        "not_ready": not_ready,
        "view": metrics.view.get(),
        "leader": metrics.leader.get(),
        "committed_height": metrics.committed_height.get(),
        "executed_height": metrics.executed_height.get(),
        "mempool": {
            "frames": metrics.mempool_frames.get(),
            "bytes": metrics.mempool_bytes.get(),
        },
        "peers": connected,
        "clients": metrics.client_connections.get(),
        "log_bytes": metrics.log_bytes.get(),
        "state": state(metrics),
        "abstaining": metrics.abstain_until_view.get() != 0,
        "rejoining": metrics.rejoining.get() != 0,
        "last_seconds": last.map(|one| json!({
            "seconds": EVERY.as_secs(),
            "commands_per_s": one.commands_per_s,
            "p50_ms": one.p50_ms,
            "p99_ms": one.p99_ms,
        })),
        "warnings": facts.warnings().iter().map(Warning::to_json).collect::<Vec<_>>(),
        "stage_seconds": stages,
        "refused": metrics.refused(),
        "sent": sent,
        "transport": transport,
        "details": details(metrics),
        "numbers": numbers,
    })
}
