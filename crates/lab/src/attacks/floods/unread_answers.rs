//! Questions with long answers, by whoever does not read them.
//!
//! The answers wait at the replica: 8 MiB a connection.
//!
//! Answered by bounded queues towards a client, by one budget for all of them, and by letting go
//! who does not read.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use quorate_app::kv::{Condition, command::encode};
use quorate_core::client::message::Request;

use super::super::honest::write_all;
use super::super::target::{Flow, drain, message};
use super::super::{Flood, Target};

/// Connections a replica: 512 MiB, if all is held.
const CONNECTIONS: usize = 64;
/// Questions of a connection.
const QUESTIONS: u64 = 16;
/// Bytes of an answer.
const VALUE_BYTES: usize = 512 << 10;
const KEY: &[u8] = b"unread";

pub(in super::super) const FLOOD: Flood = Flood::by_client(
    "unread-answers",
    "64 connections a replica that read none of 8 MiB",
    |target| {
        Box::pin(async move {
            let mut set = Vec::new();
            encode::set(&mut set, KEY, &vec![7; VALUE_BYTES], Condition::Always, false);
            write_all(&target, vec![set]).await;
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    },
);

async fn flood(target: Arc<Target>, replica: usize) {
    let flow = Flow { down: 16 << 10, ..Flow::FREE };
    let Some((send, receive)) = target.dial(replica, flow).await else { return };
    let mut question = Vec::new();
    encode::get(&mut question, KEY);
    let question = Bytes::from(question);
    for id in 0..QUESTIONS {
        let query = Request::Query { id, question: question.clone() };
        if send.send(message(&query)).await.is_err() {
            return;
        }
        target.did(1);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    drain(receive).await;
}
