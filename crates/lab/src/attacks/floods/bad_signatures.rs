//! Frames whose signatures do not hold, as fast as they are taken.
//!
//! Each costs a verification, and one among many makes a batch be halved until it is found; whoever
//! sends them pays nothing.
//!
//! Answered by ending the connection after a few, and by verifying a client's frames apart from the
//! others' once it has sent one.

use std::sync::Arc;

use quorate_core::base::crypto::{ClientSigner as _, Signature};
use quorate_core::client::message::Request;
use quorate_core::ledger::frame::Frame;
use quorate_core::{Sequence, SessionId};
use quorate_crypto::SecretKey;

use super::super::target::{Flow, message};
use super::super::{Flood, Target};

/// Connections a replica.
const CONNECTIONS: usize = 4;

pub(in super::super) const FLOOD: Flood =
    Flood::by_client("bad-signatures", "frames whose signatures do not hold", |target| {
        Box::pin(async move {
            target.begin().await;
            target.swarm(CONNECTIONS, flood).await;
        })
    });

async fn flood(target: Arc<Target>, replica: usize) {
    let Some((send, mut receive)) = target.dial(replica, Flow::FREE).await else { return };
    let key = SecretKey::from_seed(&[66; 32]).public_key();
    for number in 1u64.. {
        let command = number.to_le_bytes();
        let (session, first) = (SessionId(number % 16), Sequence(number));
        let sign = |_: &_| Signature::from([7; 64]);
        let commands = [command.as_slice()];
        let chain = &target.session.chain;
        let Some(frame) = Frame::build(key, session, first, commands, chain, sign) else { return };
        let submit = message(&Request::Submit { relay: true, frame: Arc::new(frame) });
        if send.send(submit).await.is_err() {
            return;
        }
        target.did(1);
        // What the replica says is not waited for, and not kept either.
        while receive.try_receive().is_some() {}
        if number.is_multiple_of(64) {
            tokio::task::yield_now().await;
        }
    }
}
