//! Connections that are opened and say nothing, by the thousand, at the port for clients and at
//! that for replicas.
//!
//! They take the places of handshakes under way, and file descriptors: nobody else comes in, a
//! replica that was restarted does not find the others, and one that has no descriptor left cannot
//! write its log.
//!
//! Answered by a deadline for handshakes, places by address before anybody is known, and
//! descriptors that are reserved for log and snapshots.

use std::sync::Arc;
use std::time::Duration;

use super::super::target::{connect, until_ended};
use super::super::{Flood, Target, Trial};

/// Connections a replica.
const CONNECTIONS: usize = 3000;
/// Pause before one that was ended is opened again.
const AGAIN: Duration = Duration::from_secs(1);

pub(in super::super) const CLIENTS: Flood = Flood::by_client(
    "half-open-clients",
    "3,000 silent connections to each port for clients",
    |target| Box::pin(hold(target, |target, replica| target.replicas[replica].address.clone())),
);

pub(in super::super) const PEERS: Flood = Flood::by_client(
    "half-open-peers",
    "3,000 silent connections to each port for replicas",
    |target| Box::pin(hold(target, |target, replica| target.peers[replica].clone())),
)
.with(Trial::Return);

async fn hold(target: Arc<Target>, address: fn(&Target, usize) -> String) {
    target.begin().await;
    let silent = move |target: Arc<Target>, replica: usize| async move {
        target.did(1);
        if let Ok(mut stream) = connect(&address(&target, replica)).await {
            until_ended(&mut stream).await;
        }
        // It is for places, not for as many handshakes of the system's as there can be.
        tokio::time::sleep(AGAIN).await;
    };
    target.swarm(CONNECTIONS, silent).await;
}
