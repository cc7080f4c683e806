//! `COMMAND DOCS` and `COMMAND` on a gateway, many in a row, by whoever does not read.
//!
//! Some bytes are answered with 20 KiB and more: a megabyte of questions was 1.2 GB of answers in
//! memory.
//!
//! Answered by a bound on what a connection is owed, before the answer is made.

use std::sync::Arc;

use tokio::io::AsyncWriteExt as _;

use super::super::target::connect;
use super::super::{Flood, Target};

/// Connections.
const CONNECTIONS: usize = 16;
/// Questions in one write.
const QUESTIONS: u64 = 512;

pub(in super::super) const FLOOD: Flood =
    Flood::on_gateway("command-docs", "COMMAND DOCS by whoever does not read", |target| {
        Box::pin(async move {
            target.begin().await;
            // As many as if each replica had a gateway.
            target.swarm(CONNECTIONS, flood).await;
        })
    });

async fn flood(target: Arc<Target>, _: usize) {
    let Some(address) = &target.gateway else { return };
    let Ok(mut stream) = connect(address).await else { return };
    let questions = b"COMMAND DOCS\r\n".repeat(QUESTIONS as usize);
    while stream.write_all(&questions).await.is_ok() {
        target.did(QUESTIONS);
    }
}
