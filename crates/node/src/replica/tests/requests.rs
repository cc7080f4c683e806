use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::crypto::{
    Check, ClientSigner as _, Form, Scheme, Share, Signature, Signer as _, Statement,
};
use quorate_core::base::membership::ReplicaKey;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::Request;
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::protocols::hotstuff::Types;
use quorate_core::{Committee, Digest, Epoch, ReplicaId, Sequence, SessionId};
use quorate_crypto::{ConsensusKey, MembersScheme, SchemeName, SecretKey};
use quorate_transport::{
    ClientListener, ConnectionId, Event, Gate, Identity, Inbound, Limits, Versions, inbound,
};

use crate::replica::admission::Admission;
use crate::replica::archive::Archive;
use crate::replica::changes::Approved;
use crate::replica::desk::{Desk, Work as _};
use crate::replica::epochs::Epochs;
use crate::replica::feed::Watchers;
use crate::replica::generating::Board;
use crate::replica::inbox::{Batch, FromClient, Inbox, inbox};
use crate::replica::keyring::Keyring;
use crate::replica::metrics::Metrics;
use crate::replica::refusals::Refusals;
use crate::replica::requests::Requests;
use crate::replica::settled::{Allowance, OLD_A_SECOND, Settled};
use crate::replica::spread::Spread;
use crate::replica::standing::Standings;

pub(super) const CHAIN: Digest = Digest([9; 32]);

/// The stage, with somebody to send to it and the queues behind it.
pub(super) struct Stage {
    pub(super) stage: Requests<Types>,
    pub(super) sender: Inbound<(ConnectionId, Event)>,
    pub(super) queues: Inbox,
    pub(super) metrics: Arc<Metrics>,
    failed: Arc<AtomicUsize>,
    pub(super) checked: Arc<AtomicUsize>,
    pub(super) settled: Arc<Settled>,
    pub(super) epochs: Arc<Epochs>,
}

/// Counts the largest batch that failed, and all checks.
struct Counting {
    scheme: MembersScheme,
    failed: Arc<AtomicUsize>,
    checked: Arc<AtomicUsize>,
}

impl Scheme for Counting {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        let verdicts = self.scheme.verify(checks);
        self.checked.fetch_add(checks.len(), Ordering::Relaxed);
        if verdicts.contains(&false) {
            self.failed.fetch_max(checks.len(), Ordering::Relaxed);
        }
        verdicts
    }

    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        self.scheme.combine(form, shares)
    }
}

async fn stage(key: &SecretKey) -> Stage {
    let keys = (0..4).map(|id| ReplicaKey::from([id; 32])).collect();
    stage_of(key, Committee::new(CHAIN, Epoch(0), keys).unwrap()).await
}

/// The same of a replica in this committee.
pub(super) async fn stage_of(key: &SecretKey, committee: Committee) -> Stage {
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (unused, _) = inbound(1, 1);
    let identity = Identity::new(key).unwrap();
    let (me, versions, limits) = (ReplicaId(0), Versions::PROGRAM, Limits::clients());
    let gate = Gate { me, chain: CHAIN, identity, versions, limits };
    let listener =
        ClientListener::start(gate, socket, unused, Arc::new(|| {}), Arc::default()).unwrap();
    let (_, outside, queues) = inbox();
    let failed = Arc::<AtomicUsize>::default();
    let checked = Arc::<AtomicUsize>::default();
    let scheme = Counting {
        scheme: MembersScheme::default(),
        failed: Arc::clone(&failed),
        checked: Arc::clone(&checked),
    };
    let settled = Arc::<Settled>::default();
    let (sender, events) = inbound(1024, 1 << 20);
    let metrics = Arc::<Metrics>::default();
    let epochs = Arc::new(Epochs::new(committee));
    let own = ConsensusKey::generate(SchemeName::Ed25519).unwrap();
    let keyring = Keyring::new(Path::new("consensus.key"), own);
    // A day ahead: however slow the machine is, an allowance earns nothing on the way.
    let tomorrow = Instant::now() + Duration::from_secs(24 * 3600);
    let stage = Requests {
        chain: CHAIN,
        max_frame_commands: 1000,
        max_frame_bytes: 1 << 20,
        scheme: Arc::new(scheme),
        spread: Spread::start("requests", 1, &outside).unwrap(),
        listener: Arc::new(listener),
        archive: Archive::new().0,
        watchers: Watchers::default(),
        outside,
        metrics: Arc::clone(&metrics),
        received: None,
        events,
        standings: Standings::default(),
        refusals: Refusals::default(),
        settled: Arc::clone(&settled),
        epochs: Arc::clone(&epochs),
        generating: Arc::new(Board::new(ReplicaId(0), Arc::new(keyring))),
        admission: Admission::new(Arc::clone(&epochs)),
        allowance: Allowance::new(tomorrow),
        approved: Approved::new(tomorrow),
        batch: Vec::new(),
        kept: None,
        worked: Instant::now(),
        over: Arc::new(true.into()),
    };
    Stage { stage, sender, queues, metrics, failed, checked, settled, epochs }
}

/// A frame of `key`, signed for `chain`.
fn frame(key: &SecretKey, number: u64, chain: &Digest) -> Event {
    let frame = Frame::open(key.public_key(), number, chain, |statement| key.sign(statement));
    let request = Request::Submit { relay: false, frame: frame.into() };
    Event::Frame(Bytes::from(request.to_bytes()))
}

/// One client that signs badly is answered, verified apart and let go, and the frames of others are
/// never in a batch with its own again.
#[tokio::test]
async fn bad_signatures_cost_their_sender_and_end_its_connection() {
    let key = SecretKey::generate().unwrap();
    let Stage { mut stage, sender, queues, metrics, failed, .. } = stage(&key).await;
    let (good, bad) = (ConnectionId(1), ConnectionId(2));
    let send = |connection, event| sender.try_send((connection, event), 0).unwrap();
    let other = Digest([8; 32]);
    let passed = || -> usize {
        let frames = |batch: Batch| batch.doings.len();
        queues.clients.try_iter().map(frames).sum()
    };
    for number in 1..=100 {
        send(good, frame(&key, number, &CHAIN));
    }
    send(bad, frame(&key, 1, &CHAIN));
    assert!(stage.single_turn().unwrap());
    assert_eq!(passed(), 101);
    // The first may be in the batch of all, as its connection was good.
    for number in 1..=100 {
        send(good, frame(&key, number, &CHAIN));
        if number <= 50 {
            send(bad, frame(&key, number, &other));
        }
    }
    assert!(stage.single_turn().unwrap());
    assert_eq!(passed(), 100);
    assert_eq!(failed.swap(0, Ordering::Relaxed), 101);
    let refused = metrics.refused();
    assert_eq!(refused["client_bad_signatures_ended"], 1);
    assert!(refused["client_bad_signature"] <= 9, "{refused:?}");
    // It does not hear that it is to go: nothing of it is looked at any more.
    for number in 1..=100 {
        send(good, frame(&key, number, &CHAIN));
        send(bad, frame(&key, number, &other));
    }
    assert!(stage.single_turn().unwrap());
    assert_eq!((passed(), failed.load(Ordering::Relaxed)), (100, 0));
    assert_eq!(metrics.refused(), refused);
    // One bad frame of a connection that is new is nobody else's affair.
    for number in 1..=100 {
        send(good, frame(&key, number, &CHAIN));
    }
    send(ConnectionId(3), frame(&key, 1, &other));
    send(ConnectionId(3), frame(&key, 1, &CHAIN));
    assert!(stage.single_turn().unwrap());
    assert_eq!((passed(), failed.load(Ordering::Relaxed)), (101, 2));
    for connection in 1..=3 {
        send(ConnectionId(connection), Event::Closed);
    }
    assert!(stage.single_turn().unwrap());
    assert_eq!(stage.standings.len(), 0);
}

/// A client that sends and leaves at once: what it sent must not come behind its leaving, or the
/// way to it would be kept for ever.
#[tokio::test]
async fn what_was_sent_comes_before_the_end_of_its_connection() {
    let key = SecretKey::generate().unwrap();
    let Stage { stage, sender, queues, .. } = stage(&key).await;
    for connection in 1..=3 {
        for event in [Event::Opened, frame(&key, connection, &CHAIN), Event::Closed] {
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
            FromClient::Query(_)
            | FromClient::Prove(_)
            | FromClient::Newest { .. }
            | FromClient::Ready(_)
            | FromClient::Program { .. } => unreachable!("nobody asked"),
        }
    }
    assert_eq!(ended, [ConnectionId(1), ConnectionId(2), ConnectionId(3)]);
}

/// A frame of one command of `session`, signed for the chain.
fn command(key: &SecretKey, session: u64, number: u64) -> SharedFrame {
    let (session, first) = (SessionId(session), Sequence(number));
    let sign = |statement: &_| key.sign(statement);
    let command: [&[u8]; 1] = [b"set"];
    Frame::build(key.public_key(), session, first, command, &CHAIN, sign).unwrap().into()
}

/// Decided frames are there for everybody to pull. Sent again, they cost no signature's check:
/// those executed lately none, and older ones no more than their allowance.
#[tokio::test]
async fn frames_that_are_sent_again_cost_no_verification() {
    let key = SecretKey::generate().unwrap();
    let Stage { mut stage, sender, queues, metrics, checked, settled, .. } = stage(&key).await;
    let mut round = |frames: &[SharedFrame]| {
        for frame in frames {
            let request = Request::Submit { relay: false, frame: frame.clone() };
            let event = Event::Frame(Bytes::from(request.to_bytes()));
            sender.try_send((ConnectionId(1), event), 0).unwrap();
        }
        while !stage.single_turn().unwrap() {}
        let passed: usize = queues.clients.try_iter().map(|batch| batch.doings.len()).sum();
        (passed, checked.swap(0, Ordering::Relaxed))
    };
    let frames: Vec<_> = (1..=200).map(|number| command(&key, 7, number)).collect();
    assert_eq!(round(&frames), (200, 200));
    let (executed, rest) = frames.split_at(100);
    let next = |_| Some(Sequence(101));
    settled.note(executed, next);
    // A few may have lost their place in the table to another: these are old ones.
    let (passed, displaced) = round(executed);
    assert_eq!(passed, 100);
    assert!(displaced <= 6, "{displaced}");
    // What waits for one before it is not settled, nor what was rejected.
    settled.note(rest, next);
    assert_eq!(round(rest), (100, 100));
    settled.note(&[command(&key, 8, 1)], |_| None);
    assert_eq!(round(&[command(&key, 8, 1)]), (1, 1));

    // The same frame with another signature is another one.
    let other = Digest([8; 32]);
    let sign = |_: &_| key.sign(&Statement::frame(&other, &other));
    let content: [&[u8]; 1] = [b"set"];
    let forged =
        Frame::build(key.public_key(), SessionId(7), Sequence(1), content, &CHAIN, sign).unwrap();
    assert_eq!(forged.id(), executed[0].id());
    let before = metrics.refused().get("client_bad_signature").copied();
    assert_eq!(round(&[forged.into()]), (0, 1));
    assert_ne!(metrics.refused().get("client_bad_signature").copied(), before);

    // Old ones: the session is far beyond them, and they are known by their numbers alone.
    settled.note(&[command(&key, 9, 5000)], |_| Some(Sequence(5001)));
    let old: Vec<_> = (1..=1000).map(|number| command(&key, 9, number)).collect();
    let (passed, checks) = round(&old);
    assert_eq!(passed, checks);
    // Those displaced above, and the forged one, were of the allowance too.
    assert_eq!(checks, OLD_A_SECOND as usize - displaced - 1);
    assert_eq!(metrics.refused()["client_old_frame"], 1000 - checks as u64);
}
