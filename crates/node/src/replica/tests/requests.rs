use std::sync::Arc;

use bytes::Bytes;
use quorate_core::client::message::Request;
use quorate_core::crypto::{ClientSigner as _, Scheme, Signer as _};
use quorate_core::frame::Frame;
use quorate_core::wire::Encode as _;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::{Ed25519, SecretKey};

use crate::replica::archive::Archive;
use crate::replica::desk::Desk;
use crate::replica::inbox::{FromClient, inbox};
use crate::replica::requests::Requests;
use crate::transport::{ClientListener, ConnectionId, Event, Gate, Identity, Limits, inbound};

/// A client that sends and leaves at once: what it sent must not come behind its leaving, or the
/// way to it would be kept for ever.
#[tokio::test]
async fn what_was_sent_comes_before_the_end_of_its_connection() {
    let key = SecretKey::generate().unwrap();
    let chain = Digest::of("test", b"chain");
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (unused, _) = inbound(1, 1);
    let identity = Identity::new(&key).unwrap();
    let gate = Gate { me: ReplicaId(0), chain, identity, limits: Limits::clients() };
    let listener =
        ClientListener::start(gate, socket, unused, Arc::new(|| {}), Arc::default()).unwrap();
    let (_, outside, queues) = inbox();
    let scheme: Arc<dyn Scheme> = Arc::new(Ed25519::new(&[]));
    let (sender, events) = inbound(16, 1 << 20);
    let stage = Requests {
        chain,
        max_frame_commands: 1000,
        max_frame_bytes: 1 << 20,
        scheme,
        listener: Arc::new(listener),
        archive: Archive::new().0,
        outside,
        metrics: Arc::default(),
        events,
        batch: Vec::new(),
        kept: None,
        worked: std::time::Instant::now(),
        over: Arc::new(true.into()),
    };
    for connection in 1..=3 {
        let frame =
            Frame::open(key.public_key(), connection, &chain, |statement| key.sign(statement));
        let request = Request::Submit { relay: false, frame: frame.into() };
        for event in [Event::Opened, Event::Frame(Bytes::from(request.to_bytes())), Event::Closed] {
            sender.try_send((ConnectionId(connection), event), 0).unwrap();
        }
    }
    let desk = Desk::new(stage, Arc::default(), false);
    assert!(desk.run().is_some());
    let mut ended = Vec::new();
    for one in queues.clients.try_iter().flat_map(|batch| batch.doings) {
        match one {
            FromClient::Closed(connection) => ended.push(connection),
            FromClient::Frame { connection, .. } => assert!(!ended.contains(&connection)),
            FromClient::Query(_) | FromClient::Prove(_) | FromClient::Newest { .. } => {
                unreachable!("nobody asked")
            }
        }
    }
    assert_eq!(ended, [ConnectionId(1), ConnectionId(2), ConnectionId(3)]);
}
