//! Verified reads against replicas whose answers come late, or to questions of earlier reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Request, Response, Unproven};
use quorate_core::client::proven::Newest;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::block::Block;
use quorate_core::protocols::hotstuff::certificate::Qc;
use quorate_core::protocols::protocol::Shown;
use quorate_crypto::SecretKey;
use quorate_node::client::ReplicaAddress;
use quorate_node::client::verified::{AskError, ReadError, VerifiedReader};
use quorate_node::config::Cluster;
use quorate_node::testnet::{self, Options};
use quorate_transport::{
    ClientListener, ConnectionId, Event, Gate, Identity, Limits, Versions, inbound,
};
use tokio::net::TcpListener;
use tokio::sync::Notify;

const DEADLINE: Duration = Duration::from_secs(60);

/// What a replica says to a request that came through this connection.
type Say = Arc<dyn Fn(&Speaker, ConnectionId, Request) + Send + Sync>;

/// A replica that answers as it is told to.
#[derive(Clone)]
struct Speaker {
    listener: Arc<ClientListener>,
    genesis: Bytes,
}

impl Speaker {
    fn send(&self, to: ConnectionId, response: &Response) {
        // The reader may be gone.
        let _ = self.listener.send(to, response.to_bytes().into());
    }

    /// The newest block is genesis, which is certified without signatures.
    fn newest(&self, to: ConnectionId, id: u64) {
        self.send(to, &Response::Newest { id, newest: self.genesis.clone() });
    }

    fn busy(&self, to: ConnectionId, id: u64) {
        self.send(to, &Response::Unproven { id, reason: Unproven::Busy });
    }
}

fn transport_key(replica: usize) -> SecretKey {
    SecretKey::from_seed(&[50 + replica as u8; 32])
}

fn genesis(cluster: &Cluster) -> Bytes {
    let chain = cluster.chain_digest();
    let epoch = cluster.committee().unwrap().epoch();
    let block = Arc::new(Block::genesis(chain, epoch));
    let evidence = Qc::genesis(block.id());
    Newest::<Types> { chain, newest: Shown { block, evidence } }.to_bytes().into()
}

async fn replica(cluster: &Cluster, id: usize, say: Say) -> ReplicaAddress {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap().to_string();
    let gate = Gate {
        me: ReplicaId(id as u16),
        chain: cluster.chain_digest(),
        identity: Identity::new(&transport_key(id)).unwrap(),
        versions: Versions::PROGRAM,
        limits: Limits::clients(),
    };
    let (sender, mut events) = inbound(64, 1 << 20);
    let listener =
        ClientListener::start(gate, socket, sender, Arc::new(|| {}), Arc::default()).unwrap();
    let speaker = Speaker { listener: Arc::new(listener), genesis: genesis(cluster) };
    tokio::spawn(async move {
        while let Some((connection, event)) = events.recv().await {
            if let Event::Frame(bytes) = event {
                say(&speaker, connection, Request::from_bytes(bytes).unwrap());
            }
        }
    });
    ReplicaAddress { address, key: transport_key(id).public_key() }
}

/// A reader of four replicas that say these things.
async fn reader(says: [Say; 4]) -> VerifiedReader {
    let folder = tempfile::tempdir().unwrap();
    let cluster = testnet::init(folder.path(), 4, &Options::default()).unwrap().cluster;
    let mut addresses = Vec::new();
    for (id, say) in says.into_iter().enumerate() {
        addresses.push(replica(&cluster, id, say).await);
    }
    VerifiedReader::new(addresses, &cluster, 0).unwrap()
}

async fn refused(reader: &mut VerifiedReader) -> ReadError {
    let read = tokio::time::timeout(DEADLINE, reader.get(b"key", 9)).await;
    read.expect("it comes to an end").unwrap_err()
}

/// Answers to another question come before the one that was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_to_other_questions_are_passed_over() {
    let say: Say = Arc::new(|replica, connection, request| match request {
        Request::Newest { id } => {
            let newest = Bytes::from_static(b"garbage");
            replica.send(connection, &Response::Newest { id: id - 1, newest });
            replica.busy(connection, id + 1);
            replica.newest(connection, id);
        }
        Request::Prove { id, .. } => {
            let answer = Bytes::from_static(b"garbage");
            replica.send(connection, &Response::Proven { id: id - 1, answer });
            replica.newest(connection, id);
            replica.busy(connection, id);
        }
        other => panic!("{other:?}"),
    });
    let mut reader = reader([(); 4].map(|()| Arc::clone(&say))).await;
    for _ in 0..3 {
        let ReadError::NotBelieved(replicas) = refused(&mut reader).await else {
            panic!("a quorum says what is newest");
        };
        assert_eq!(replicas.len(), 4);
        for (_, why) in replicas {
            assert_eq!(why, AskError::Unproven(Unproven::Busy));
        }
    }
}

/// A replica answers one read late: when the next one waits for the last answer of a quorum. What
/// was newest before that read began may be too old for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_newest_for_an_earlier_read_does_not_count() {
    let prompt: Say = Arc::new(|replica, connection, request| match request {
        Request::Newest { id } => replica.newest(connection, id),
        Request::Prove { id, .. } => replica.busy(connection, id),
        other => panic!("{other:?}"),
    });
    // It answers the first read alone, and tells when the second has begun.
    let begun = Arc::new(Notify::new());
    let tells = Arc::clone(&begun);
    let once: Say = Arc::new(move |replica, connection, request| match request {
        Request::Newest { id: 1 } => replica.newest(connection, 1),
        Request::Newest { .. } => {
            replica.listener.disconnect(connection);
            tells.notify_one();
        }
        Request::Prove { id, .. } => replica.busy(connection, id),
        other => panic!("{other:?}"),
    });
    let answered = Arc::new(AtomicBool::new(false));
    let says = Arc::clone(&answered);
    let late: Say = Arc::new(move |replica, connection, request| match request {
        Request::Newest { id: 1 } => {
            let (replica, begun, says) = (replica.clone(), begun.clone(), says.clone());
            tokio::spawn(async move {
                begun.notified().await;
                says.store(true, Ordering::Release);
                replica.newest(connection, 1);
            });
        }
        Request::Newest { .. } => replica.listener.disconnect(connection),
        Request::Prove { id, .. } => replica.busy(connection, id),
        other => panic!("{other:?}"),
    });
    let mut reader = reader([prompt.clone(), prompt, once, late]).await;
    let first = refused(&mut reader).await;
    assert!(matches!(first, ReadError::NotBelieved(_)), "{first}");
    assert!(!answered.load(Ordering::Acquire));
    let second = refused(&mut reader).await;
    assert!(answered.load(Ordering::Acquire), "its late answer came");
    assert!(matches!(second, ReadError::TooFew { answered: 2, needed: 3, .. }), "{second}");
}
