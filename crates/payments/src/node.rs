//! A node as a process: threads, queues, sockets and a ledger around the pure protocol
//! ([`quorate_core::protocols::snow::avalanche`]).
//!
//! ```text
//!  nodes ───tls──► inspect (decode, verify in batches) ─► ┐
//!                                                         ├─► decide ─► ledger ─► nodes, wallets
//!  wallets ─tls──► attend (verify in batches, read) ────► ┘
//! ```
//!
//! One thread decides: it steps the protocol with all that waits, writes what was accepted with one
//! sync, and then speaks. Signatures are verified before they reach it. Every queue is bounded, and
//! pushes back as far as the socket.

mod attend;
mod behind;
pub mod bench;
mod catch_up;
mod decide;
pub mod frames;
mod http;
mod inspect;
mod keep;
pub mod metrics;
mod past;
mod served;

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::protocols::snow::avalanche::{Message, Vertex, VertexId};
use quorate_core::protocols::snow::parameters::Invalid;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{Ed25519, SecretKey};
use quorate_store::lazy_trie::Durability;
use quorate_transport::{
    ClientListener, ConnectionId, Counters, Gate, Identity, Limits, Member, Mesh, MeshError,
    PeerSocket, Peers, TlsError, TransportName, Versions, Wake, inbound,
};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::ledger::{Ledger, LedgerError};
use crate::network::{Network, NetworkError};
use crate::setup::network_file;
use crate::transaction::TransactionId;
use crate::verify::Signed;
use decide::Decider;
use metrics::Metrics;

/// Deeds that may wait for the deciding thread.
const DEEDS: usize = 1024;
/// Frames of peers that may wait, and their bytes.
const PEER_FRAMES: usize = 1024;
const PEER_BYTES: u32 = 64 << 20;
/// Frames of wallets that may wait, and their bytes.
const CLIENT_FRAMES: usize = 4096;
const CLIENT_BYTES: u32 = 16 << 20;

/// How a node is started.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its home.
    pub home: PathBuf,
    /// What an acceptance waits for before anybody is told.
    pub durability: Durability,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The network's file.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// The transport key.
    #[error(transparent)]
    Key(#[from] KeyFileError),
    /// The key is nobody's.
    #[error("the key in {} is that of no node of the network: restore the node's own", .0.display())]
    Stranger(PathBuf),
    /// The parameters do not fit the number of nodes.
    #[error(transparent)]
    Parameters(#[from] Invalid),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// An address.
    #[error("cannot listen on {address}: {source}; is another process using it?")]
    Listen {
        /// Which.
        address: String,
        /// What the system says.
        source: io::Error,
    },
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The mesh.
    #[error(transparent)]
    Mesh(#[from] MeshError),
    /// The system.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
}

/// What the deciding thread is told.
enum Deed {
    /// A peer's message, with every transaction verified.
    Message(ReplicaId, Message<Signed>),
    /// A peer's page of accepted vertices.
    Page(ReplicaId, u64, Vec<VertexId>),
    /// Vertices that a peer was asked for, verified.
    Fetched(ReplicaId, Vec<Arc<Vertex<Signed>>>),
    /// Transactions of wallets, verified; who wants to know, and by which number.
    Submit(Vec<(ConnectionId, u64, Signed)>),
    /// What is known of a transaction: its state, and why it is pending.
    Why(TransactionId, Asker),
    /// A wallet has gone.
    Gone(ConnectionId),
    /// Stop in good order.
    Stop,
}

/// Who asked why.
enum Asker {
    Wallet(ConnectionId, u64),
    Reader(oneshot::Sender<Known>),
}

/// What is known of a transaction.
#[derive(Clone, Debug)]
pub struct Known {
    /// "accepted", "pending", "rejected" or "unknown".
    pub state: &'static str,
    /// Why it is pending, or was rejected, for people.
    pub why: String,
}

/// How a node ended.
#[derive(Debug)]
pub enum End {
    /// It was told to.
    Stopped,
    /// The ledger failed.
    Ledger(LedgerError),
    /// The network accepted what contradicts this node's ledger.
    Unsafe(String),
    /// A thread panicked.
    Panicked,
}

/// A node that runs.
pub struct Running {
    deeds: SyncSender<Deed>,
    decider: Option<JoinHandle<End>>,
    stopping: Arc<AtomicBool>,
    /// Which node it is.
    pub me: ReplicaId,
    /// For other nodes.
    pub peer_address: SocketAddr,
    /// For wallets.
    pub client_address: SocketAddr,
    /// For status and metrics.
    pub http_address: SocketAddr,
}

/// What all threads of a node share.
struct Shared {
    me: ReplicaId,
    network: Network,
    chain: quorate_core::Digest,
    scheme: Ed25519,
    peers: Peers,
    listener: ClientListener,
    counters: Arc<Counters>,
    metrics: Metrics,
    view: crate::ledger::View,
    stopping: Arc<AtomicBool>,
}

fn key_of(home: &Path) -> Result<SecretKey, KeyFileError> {
    key_file::read(&home.join("config").join("transport.key"))
}

async fn listen(address: &str) -> Result<TcpListener, StartError> {
    let listening = TcpListener::bind(address).await;
    listening.map_err(|source| StartError::Listen { address: address.to_owned(), source })
}

async fn listen_to_peers(address: &str) -> Result<PeerSocket, StartError> {
    let listening = PeerSocket::bind(TransportName::Tcp, address).await;
    listening.map_err(|source| StartError::Listen { address: address.to_owned(), source })
}

/// Who the others of a network are, and how they are reached.
fn mesh(me: ReplicaId, identity: Identity, network: &Network) -> Mesh {
    let member = |node: &crate::network::Node| Member {
        key: node.transport_key,
        former: None,
        address: node.peer_address.clone(),
    };
    Mesh {
        me,
        chain: network.chain(),
        identity,
        members: network.nodes.iter().map(member).map(Some).collect(),
        versions: Versions::PROGRAM,
        limits: Limits::peers(),
        seed: u64::from(me.0),
    }
}

/// Starts the node of a home, on the current tokio runtime.
///
/// # Errors
/// [`StartError`]
pub async fn launch(options: &Options) -> Result<Running, StartError> {
    let network = Network::load(&network_file(&options.home))?;
    let key = key_of(&options.home)?;
    let me = network.node_of(&key.public_key());
    let me = me.ok_or_else(|| StartError::Stranger(options.home.clone()))?;
    let of = network.nodes[me.index()].clone();
    let chain = network.chain();
    let protocol = decide::protocol(&network, me)?;
    let peer_socket = listen_to_peers(&of.peer_address).await?;
    let client_socket = listen(&of.client_address).await?;
    let http_socket = listen(&of.http_address).await?;
    let peer_address = peer_socket.local_addr()?;
    let client_address = client_socket.local_addr()?;
    let http_address = http_socket.local_addr()?;
    // A large network needs a few descriptors for each of its nodes.
    let _ = quorate_node::descriptors::raise();
    let store =
        quorate_store::lazy_trie::Options { durability: options.durability, ..Ledger::options() };
    let ledger = Ledger::open(&options.home.join("data"), store, chain, &network.genesis)?;

    let identity = Identity::new(&key)?;
    let counters = Arc::new(Counters::default());
    let nobody: Wake = Arc::new(|| {});
    let (peer_inbound, peer_arrivals) = inbound(PEER_FRAMES, PEER_BYTES);
    let mesh = mesh(me, identity.clone(), &network);
    let peers =
        Peers::start(mesh, peer_socket, peer_inbound, Arc::clone(&nobody), Arc::clone(&counters))?;
    let (client_inbound, client_events) = inbound(CLIENT_FRAMES, CLIENT_BYTES);
    let (versions, limits) = (Versions::PROGRAM, Limits::clients());
    let gate = Gate { me, chain, identity, versions, limits };
    let listener =
        ClientListener::start(gate, client_socket, client_inbound, nobody, Arc::clone(&counters))?;
    let stopping = Arc::new(AtomicBool::new(false));
    let shared = Arc::new(Shared {
        me,
        chain,
        scheme: Ed25519::default(),
        peers,
        listener,
        counters,
        metrics: Metrics::default(),
        view: ledger.view(),
        stopping: Arc::clone(&stopping),
        network,
    });
    let (deeds, waiting) = sync_channel(DEEDS);
    {
        let (shared, deeds) = (Arc::clone(&shared), deeds.clone());
        spawn("inspect", move || inspect::run(&shared, peer_arrivals, &deeds))?;
    }
    {
        let (shared, deeds) = (Arc::clone(&shared), deeds.clone());
        spawn("attend", move || attend::run(&shared, client_events, &deeds))?;
    }
    tokio::spawn(http::serve(http_socket, Arc::clone(&shared), deeds.clone()));
    let decider = Decider::new(shared, ledger, protocol);
    let decider = std::thread::Builder::new()
        .name("decide".to_owned())
        .spawn(move || decider.run(&waiting))?;
    Ok(Running {
        deeds,
        decider: Some(decider),
        stopping,
        me,
        peer_address,
        client_address,
        http_address,
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

impl Running {
    /// Whether it has ended by itself.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.decider.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Tells it to stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        // A full queue is looked at soon, and then the flag is.
        let _ = self.deeds.try_send(Deed::Stop);
    }

    /// Waits for its end.
    pub fn join(mut self) -> End {
        let joined = self.decider.take().map(JoinHandle::join);
        joined.and_then(Result::ok).unwrap_or(End::Panicked)
    }
}

/// Hands a deed to the deciding thread, and waits while there is no room. Whether there is one.
fn tell(deeds: &SyncSender<Deed>, deed: Deed) -> bool {
    deeds.send(deed).is_ok()
}

/// Bytes of a message, as the mesh takes them.
fn bytes(content: &impl quorate_core::base::wire::Encode) -> Bytes {
    Bytes::from(content.to_bytes())
}

type Deeds = mpsc::Receiver<Deed>;
