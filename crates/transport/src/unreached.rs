//! Warnings about a peer that cannot be reached: rare, and with a remedy.

use std::time::Duration;

use quorate_core::ReplicaId;
use tokio::time::Instant;

use super::handshake::HandshakeError;
use super::hello::Refusal;
use crate::TransportName;

/// Replicas that start one after the other need no warning.
const FIRST_AFTER: Duration = Duration::from_secs(5);
/// The interval between warnings doubles up to this limit.
const AT_LEAST_EVERY: Duration = Duration::from_secs(600);

/// The warnings about one peer.
pub(super) struct Unreached {
    peer: ReplicaId,
    address: String,
    transport: TransportName,
    since: Option<Instant>,
    /// The time after the first failure at which the next warning is due.
    due: Duration,
}

impl Unreached {
    pub(super) fn new(peer: ReplicaId, address: &str, transport: TransportName) -> Self {
        let address = address.to_owned();
        Self { peer, address, transport, since: None, due: FIRST_AFTER }
    }

    pub(super) fn reached(&mut self) {
        if self.due > FIRST_AFTER {
            tracing::info!("replica {} at {} is reached again", self.peer.0, self.address);
        }
        (self.since, self.due) = (None, FIRST_AFTER);
    }

    pub(super) fn failed(&mut self, error: &HandshakeError) {
        let waited = self.since.get_or_insert_with(Instant::now).elapsed();
        if waited >= self.due {
            tracing::warn!("{}", self.text(error));
            self.due = waited + self.due.min(AT_LEAST_EVERY);
        }
    }

    /// Names the problem and the remedy.
    pub(super) fn text(&self, error: &HandshakeError) -> String {
        let (what, remedy) = match error {
            HandshakeError::Unreachable(source) => (
                format!("nothing answers over {} ({source})", self.spelled()),
                format!(
                    "is it started, does its cluster.toml say transport = \"{}\" as the one here, \
                     and do firewalls let {} through?",
                    self.transport,
                    self.packets(),
                ),
            ),
            HandshakeError::Io(source) => (
                format!("the handshake failed ({source})"),
                "does a replica of a compatible version listen there?".to_owned(),
            ),
            HandshakeError::Key => (
                "it has another transport key than cluster.toml says, or does not accept this one's"
                    .to_owned(),
                "compare both transport keys in both cluster.toml files".to_owned(),
            ),
            HandshakeError::Refused(refusal @ Refusal::Versions { .. }, _) => (
                format!("it {refusal}"),
                "`quorate version` names the versions of a program, and docs/operations.md, \
                 \"Upgrade\", the order"
                    .to_owned(),
            ),
            HandshakeError::Refused(refusal, _) => {
                (format!("it {refusal}"), "compare the cluster.toml of both".to_owned())
            }
            HandshakeError::TimedOut => (
                "it answered but did not finish the handshake in time".to_owned(),
                "is the replica or the network overloaded?".to_owned(),
            ),
        };
        format!("replica {} at {} is not reached: {what}; {remedy}", self.peer.0, self.address)
    }

    fn spelled(&self) -> &'static str {
        match self.transport {
            TransportName::Tcp => "TCP",
            TransportName::Quic => "QUIC",
            TransportName::Udp => "UDP",
        }
    }

    fn packets(&self) -> &'static str {
        match self.transport {
            TransportName::Tcp => "TCP",
            TransportName::Quic | TransportName::Udp => "UDP",
        }
    }
}
