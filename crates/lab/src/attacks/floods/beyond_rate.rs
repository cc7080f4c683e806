//! Commands of a listed client, far beyond the rate that it is granted.
//!
//! They are signed, in order and its own, so nothing but the rate keeps them out of blocks. One
//! flood is a client as programs have it, with all that its session takes under way; it comes again
//! when it is told that a replica is busy. The other one is deaf: it sends frame after frame.
//!
//! Answered by a bucket of tokens for each key with a rate: a frame beyond it is turned away at the
//! door, before it is hashed or verified.

use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner as _, Signer as _};
use quorate_core::client::message::Request;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::directive::{Directive, Order, SignedDirective};
use quorate_core::ledger::frame::Frame;
use quorate_core::{Sequence, SessionId};
use quorate_crypto::{SecretKey, key_file};
use quorate_node::client::succession::Following;
use quorate_node::client::{Authenticity, Client, ClientConfig, State, rights};
use quorate_node::config::Cluster;

use super::super::target::{Flow, message};
use super::super::{Doing, Flood, Target};

/// Commands a second that the flood's key may have ordered by each replica.
const RATE: u32 = 100;
/// Commands in a frame of the flood.
const FRAME: usize = 64;
/// Calls under way of the flood that is a client.
const CALLS: usize = 256;
/// Connections a replica of the one that is deaf.
const CONNECTIONS: usize = 2;

pub(in super::super) const CLIENT: Flood =
    Flood::by_client("beyond-rate", "a listed client with more commands than its rate", |target| {
        doing(target, |target, client| async move {
            target.begin().await;
            let call = |_| {
                let (target, client) = (Arc::clone(&target), client.clone());
                tokio::spawn(async move {
                    while client.submit(vec![Bytes::new(); FRAME]).await.is_ok() {
                        target.did(1);
                    }
                })
            };
            let calls: Vec<_> = (0..CALLS).map(call).collect();
            // They end with the runtime.
            for call in calls {
                let _ = call.await;
            }
        })
    })
    .granted_a_rate();

pub(in super::super) const DEAF: Flood =
    Flood::by_client("beyond-rate-deaf", "the same, without a look at the answers", |target| {
        doing(target, |target, client| async move {
            let State::Open(session) = client.state() else { return };
            target.begin().await;
            let act = move |target, replica| flood(target, replica, session);
            target.swarm(CONNECTIONS, act).await;
        })
    })
    .granted_a_rate();

/// A flood that opens a session of its key and hands it to `act`.
fn doing<Acting>(
    target: Arc<Target>,
    act: impl FnOnce(Arc<Target>, Client) -> Acting + Send + 'static,
) -> Doing
where
    Acting: Future<Output = ()> + Send,
{
    Box::pin(async move {
        let mut session = target.session;
        session.frame_commands = FRAME;
        let config = ClientConfig {
            replicas: target.replicas.clone(),
            session,
            give_up_after: None,
            authenticity: Authenticity::Channel,
            incarnation: None,
        };
        // Without a session the flood's process ends, and the attack is told as failed.
        if let Ok(client) = Client::connect(config, Arc::new(key())).await {
            act(target, client).await;
        }
    })
}

async fn flood(target: Arc<Target>, replica: usize, session: SessionId) {
    let Some((send, mut receive)) = target.dial(replica, Flow::FREE).await else { return };
    let (key, chain) = (key(), target.session.chain);
    for number in 0u64.. {
        let first = Sequence(1 + number * FRAME as u64);
        let commands = [&b""[..]; FRAME];
        let frame =
            Frame::build(key.public_key(), session, first, commands, &chain, |it| key.sign(it));
        let Some(frame) = frame.map(Arc::new) else { return };
        if send.send(message(&Request::Submit { relay: true, frame })).await.is_err() {
            return;
        }
        target.did(1);
        while receive.try_receive().is_some() {}
        if number.is_multiple_of(16) {
            tokio::task::yield_now().await;
        }
    }
}

fn key() -> SecretKey {
    SecretKey::from_seed(&[67; 32])
}

/// The administrator, whose key this file holds, grants the flood's key its rate. Why not.
pub(in super::super) async fn grant(
    cluster: &Cluster,
    administrator: &std::path::Path,
) -> Result<(), String> {
    let administrator = key_file::read(administrator).map_err(|error| error.to_string())?;
    let chain = Following::of(cluster).ok_or("the cluster has no administrators")?.begin();
    let committee = chain.committee();
    let clients = rights::list(committee).await.map_err(|error| error.to_string())?;
    let grant = Grant { commands_per_second: NonZeroU32::new(RATE), ..Grant::default() };
    let order = Order::Allow(key().public_key(), grant);
    let directive = Directive { serial: clients.next_serial(), order };
    let mut signed = SignedDirective { directive, approvals: Vec::new() };
    rights::approve(&mut signed, committee, &administrator);
    let submitted = rights::submit(&signed, &clients, cluster, &chain, Arc::new(administrator));
    submitted.await.map_err(|error| error.to_string())
}
