//! Frames of random bytes, as fast as connections are made.
//!
//! Each costs a handshake and the reading of a frame that means nothing.
//!
//! Answered by ending the connection at the first message that cannot be read, and by bounds on
//! handshakes under way.

use std::sync::Arc;

use bytes::Bytes;

use super::super::target::{Flow, drain};
use super::super::{Flood, Target};
use crate::random::Random;

/// Connections a replica.
const CONNECTIONS: usize = 8;
/// Frames behind each other, before anything can be answered.
const FRAMES: u64 = 16;

pub(in super::super) const FLOOD: Flood = Flood::by_client(
    "junk-frames",
    "frames of random bytes, a new connection each time",
    |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    },
);

async fn flood(target: Arc<Target>, replica: usize) {
    let Some((send, receive)) = target.dial(replica, Flow::FREE).await else { return };
    let mut random = Random(target.done());
    for _ in 0..FRAMES {
        let junk: Vec<u8> = (0..4096).map(|_| (random.unit() * 256.0) as u8).collect();
        if send.send(Bytes::from(junk)).await.is_err() {
            return;
        }
        target.did(1);
    }
    drain(receive).await;
}
