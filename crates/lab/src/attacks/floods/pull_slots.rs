//! Pulls of everything there is, by many connections that read slowly.
//!
//! Each takes one of the places for pulls, and the disk: executors that want decided blocks wait.
//!
//! Answered by places by connection and in turn, and answers of 4 MiB at most.

use std::sync::Arc;

use quorate_core::Height;
use quorate_core::client::message::Request;

use super::super::target::{Flow, message};
use super::super::{Flood, Target, Trial};

/// Connections a replica.
const CONNECTIONS: usize = 64;
/// Pulls of a connection under way.
const UNDER_WAY: usize = 16;

pub(in super::super) const FLOOD: Flood =
    Flood::by_client("pull-slots", "64 connections a replica, 16 pulls under way each", |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    })
    .with(Trial::Pull);

async fn flood(target: Arc<Target>, replica: usize) {
    let Some((send, mut receive)) = target.dial(replica, Flow::FREE).await else { return };
    let pull = message(&Request::Pull { from: Height(1), budget_bytes: u32::MAX });
    for number in 0.. {
        if send.send(pull.clone()).await.is_err() {
            return;
        }
        target.did(1);
        if number >= UNDER_WAY && receive.receive().await.is_none() {
            return;
        }
    }
}
