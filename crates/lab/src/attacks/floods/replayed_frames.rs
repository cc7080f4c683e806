//! Frames of honest clients, sent again: `pull` hands them to everybody.
//!
//! A replica that takes the sender of an old frame for its client sends the answers there, and
//! forgets where the client is. (The load sees it: no answer comes to who waits for one.)
//!
//! Answered by learning where a session's client is from frames that are new.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::base::wire::Decode as _;
use quorate_core::client::message::{Request, Response};
use quorate_core::protocols::hotstuff::block::FullBlock;

use super::super::target::{Flow, message};
use super::super::{Flood, Target};

/// Connections a replica.
const CONNECTIONS: usize = 8;
/// Bytes of blocks asked for at once.
const BUDGET_BYTES: u32 = 1 << 20;

pub(in super::super) const FLOOD: Flood =
    Flood::by_client("replayed-frames", "frames of others, sent again", |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    });

async fn flood(target: Arc<Target>, replica: usize) {
    let Some((send, mut receive)) = target.dial(replica, Flow::FREE).await else { return };
    let mut from = Height(1);
    loop {
        let pull = Request::Pull { from, budget_bytes: BUDGET_BYTES };
        if send.send(message(&pull)).await.is_err() {
            return;
        }
        let blocks = loop {
            let Some(bytes) = receive.receive().await else { return };
            if let Ok(Response::Blocks { from: first, blocks }) = Response::from_bytes(bytes) {
                from = Height(first.0 + blocks.len() as u64);
                break blocks;
            }
        };
        if blocks.is_empty() && !newest(&mut from) {
            return;
        }
        for frame in blocks.into_iter().flat_map(frames_of) {
            let again = Request::Submit { relay: false, frame };
            if send.send(message(&again)).await.is_err() {
                return;
            }
            target.did(1);
            while receive.try_receive().is_some() {}
        }
    }
}

fn frames_of(block: Bytes) -> Vec<quorate_core::ledger::frame::SharedFrame> {
    FullBlock::from_bytes(block).map(|block| block.frames).unwrap_or_default()
}

/// At the newest block: the old ones again, from the first on.
fn newest(from: &mut Height) -> bool {
    let anew = from.0 > 1;
    *from = Height(1);
    anew
}
