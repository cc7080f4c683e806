//! Frames of 5 MiB of which all but the end is sent, on many connections.
//!
//! What has arrived of them is held until the rest comes: 8,192 connections would hold 40 GiB of
//! each replica.
//!
//! Answered by one budget for all connections, in which long frames are admitted only while there
//! is room.

use std::sync::Arc;

use bytes::Bytes;

use super::super::target::{Flow, drain};
use super::super::{Flood, Target};

/// Connections a replica: 480 MiB, if all is held.
const CONNECTIONS: usize = 96;
/// As long as a client's frame may be.
const FRAME_BYTES: usize = 5 << 20;
/// What of it is sent.
const SENT_BYTES: u64 = 5_200_000;

pub(in super::super) const FLOOD: Flood =
    Flood::by_client("long-frames", "96 frames of 5 MiB a replica, all but their ends", |target| {
        Box::pin(async move {
            let frame = Bytes::from(vec![1; FRAME_BYTES]);
            target.begin().await;
            let act = move |target, replica| flood(target, replica, frame.clone());
            target.swarm(CONNECTIONS, act).await;
        })
    });

async fn flood(target: Arc<Target>, replica: usize, frame: Bytes) {
    let flow = Flow { up: SENT_BYTES, trickle: None, down: u64::MAX };
    let Some((send, receive)) = target.dial(replica, flow).await else { return };
    if send.send(frame).await.is_ok() {
        target.did(1);
        drain(receive).await;
    }
}
