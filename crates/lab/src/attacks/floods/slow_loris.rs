//! Good connections whose frames come a byte every 200 ms.
//!
//! Each holds a place and the beginning of a frame for as long as the frame lasts, which is for
//! ever.
//!
//! Answered by a deadline for the next whole frame, and places by address.

use std::time::Duration;

use bytes::Bytes;

use super::super::Flood;
use super::super::target::{Flow, drain};

/// Connections a replica.
const CONNECTIONS: usize = 200;
/// More than a handshake and a hello.
const FAST_BYTES: u64 = 4 << 10;
/// A frame, of which most never comes.
const FRAME_BYTES: usize = 64 << 10;

pub(in super::super) const FLOOD: Flood = Flood::by_client(
    "slow-loris",
    "200 connections a replica, a byte every 200 ms",
    |target| {
        Box::pin(async move {
            target.begin().await;
            let flow =
                Flow { up: FAST_BYTES, trickle: Some(Duration::from_millis(200)), down: u64::MAX };
            let act = move |target: std::sync::Arc<super::super::Target>, replica: usize| async move {
                let Some((send, receive)) = target.dial(replica, flow).await else { return };
                target.did(1);
                if send.send(Bytes::from(vec![1; FRAME_BYTES])).await.is_ok() {
                    drain(receive).await;
                }
            };
            target.swarm(CONNECTIONS, act).await;
        })
    },
);
