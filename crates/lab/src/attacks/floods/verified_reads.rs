//! Questions for proofs and for the newest block, without end.
//!
//! A proof walks the tree, and wishes for roots make replicas certify blocks that hold nothing.
//!
//! Answered by caps on questions and their bytes, by connection and in all, and by forgetting
//! wishes.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::client::message::Request;

use super::super::target::{Flow, message};
use super::super::{Flood, Target};

/// Connections a replica.
const CONNECTIONS: usize = 8;
/// Questions of a connection under way.
const UNDER_WAY: u64 = 64;

pub(in super::super) const FLOOD: Flood = Flood::by_client(
    "verified-reads",
    "8 connections a replica, 64 questions under way each",
    |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    },
);

async fn flood(target: Arc<Target>, replica: usize) {
    let Some((send, mut receive)) = target.dial(replica, Flow::FREE).await else { return };
    for id in 0u64.. {
        let key = Bytes::from(format!("counter-0-{}", id % 50));
        let question = match id % 4 {
            0 => Request::Newest { id },
            _ => Request::Prove { id, question: key },
        };
        if send.send(message(&question)).await.is_err() {
            return;
        }
        target.did(1);
        if id >= UNDER_WAY && receive.receive().await.is_none() {
            return;
        }
    }
}
