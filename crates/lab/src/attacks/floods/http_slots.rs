//! Connections to the port for status and metrics that send half a request.
//!
//! There are few places: monitoring sees nothing, and takes the replica for dead.
//!
//! Answered by deadlines for a request and for a connection's life, and places by address.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;

use super::super::target::connect;
use super::super::{Flood, Target, Trial};

/// Connections a replica.
const CONNECTIONS: usize = 200;

pub(in super::super) const FLOOD: Flood =
    Flood::by_client("http-slots", "200 connections a replica, half a request each", |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    })
    .with(Trial::Status);

async fn flood(target: Arc<Target>, replica: usize) {
    let Some(address) = target.http.get(replica) else { return };
    let Ok(mut stream) = connect(address).await else { return };
    target.did(1);
    let head = b"GET /status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";
    if stream.write_all(head).await.is_err() {
        return;
    }
    while stream.write_all(b"x").await.is_ok() {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
