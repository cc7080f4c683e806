//! A web page that its reader's browser sends to a gateway: a POST whose body is commands.
//!
//! A browser reaches what listens on its machine's loopback interface, and a server that takes
//! lines for commands executes the body: here `FLUSHALL`, which the load would see.
//!
//! Answered by ending a connection whose first words are those of HTTP.

use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;

use super::super::target::{connect, until_ended};
use super::super::{Flood, Target};

/// Connections.
const CONNECTIONS: usize = 4;
const PAGE: &[u8] = b"POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Type: text/plain\r\n\
    Content-Length: 40\r\n\r\nFLUSHALL\r\nSET owned yes\r\nFLUSHALL\r\n";

pub(in super::super) const FLOOD: Flood =
    Flood::on_gateway("web-page", "POST with commands in its body, by a browser", |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    });

async fn flood(target: Arc<Target>, _: usize) {
    let Some(address) = &target.gateway else { return };
    let Ok(mut stream) = connect(address).await else { return };
    target.did(1);
    if stream.write_all(PAGE).await.is_ok() && stream.shutdown().await.is_ok() {
        until_ended(&mut stream).await;
    }
}
