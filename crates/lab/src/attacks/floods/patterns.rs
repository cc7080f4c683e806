//! Unsigned queries with patterns that match badly: `KEYS` and `SCAN MATCH` of `*a*a*…b` over long
//! keys of `a`.
//!
//! A pattern of a kibibyte against a key of 64 KiB takes a fifth of a second where nobody bills it,
//! on the thread that decides.
//!
//! Answered by billing pattern and key before they are compared, by an allowance a query and a
//! share a client, and by reads apart from the deciding thread.

use std::sync::Arc;

use bytes::Bytes;
use quorate_app::kv::command::{Scan, encode};
use quorate_app::kv::{Condition, MAX_KEY_BYTES, MAX_PATTERN_BYTES};
use quorate_core::client::message::Request;

use super::super::honest::write_all;
use super::super::target::{Flow, message};
use super::super::{Flood, Target};

/// Connections a replica.
const CONNECTIONS: usize = 4;
/// Long keys.
const KEYS: usize = 200;

pub(in super::super) const FLOOD: Flood =
    Flood::by_client("patterns", "KEYS and SCAN MATCH of bad patterns over long keys", |target| {
        Box::pin(async move {
            write_all(&target, keys()).await;
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    });

fn keys() -> Vec<Vec<u8>> {
    let set = |number: usize| {
        let mut key = vec![b'a'; MAX_KEY_BYTES - 8];
        key.extend_from_slice(format!("{number:06}a").as_bytes());
        let mut command = Vec::new();
        encode::set(&mut command, &key, b"1", Condition::Always, false);
        command
    };
    (0..KEYS).map(set).collect()
}

async fn flood(target: Arc<Target>, replica: usize) {
    let Some((send, mut receive)) = target.dial(replica, Flow::FREE).await else { return };
    let mut pattern = b"*a".repeat(MAX_PATTERN_BYTES / 2 - 1);
    pattern.extend_from_slice(b"*b");
    let (mut keys, mut scan) = (Vec::new(), Vec::new());
    encode::keys(&mut keys, &pattern);
    let all = Scan { cursor: 0, count: 10_000, kind: None, pattern: Some(&pattern) };
    encode::scan(&mut scan, &all);
    let questions = [Bytes::from(keys), Bytes::from(scan)];
    for id in 0u64.. {
        let question = questions[usize::from(id % 2 == 1)].clone();
        if send.send(message(&Request::Query { id, question })).await.is_err() {
            return;
        }
        target.did(1);
        // Eight are under way at a time.
        if id >= 8 && receive.receive().await.is_none() {
            return;
        }
    }
}
