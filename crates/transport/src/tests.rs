//! Tests with real sockets on the loopback interface. They do not measure time: a test waits for an
//! event, and fails if it never comes.

/// Runs the same tests over each transport.
macro_rules! over_each_transport {
    ($($name:ident),* $(,)?) => {
        mod tcp {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::TransportName::Tcp).await;
            })*
        }

        mod quic {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::TransportName::Quic).await;
            })*
        }

        mod udp {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                super::$name(super::TransportName::Udp).await;
            })*
        }
    };
}

mod clients;
mod frames;
mod hostile;
mod hostile_peers;
mod members;
mod pauses;
mod peers;
mod quic;
mod reached;
mod udp;
mod versions;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::SecretKey;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::hello::{Hello, Role};
use super::*;
use crate::TransportName;

const CHAIN: Digest = Digest([7; 32]);
const PATIENCE: Duration = Duration::from_secs(60);

fn identity(number: u8) -> Identity {
    Identity::new(&SecretKey::from_seed(&[number; 32])).unwrap()
}

fn silent() -> Wake {
    Arc::new(|| {})
}

fn value(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never: {what}"));
}

async fn next<T>(receiver: &mut Arrivals<T>) -> T {
    tokio::time::timeout(PATIENCE, receiver.recv()).await.expect("never received").expect("closed")
}

/// A replica of a mesh under test.
struct Node {
    peers: Peers,
    inbound: Arrivals<(ReplicaId, Bytes)>,
    counters: Arc<Counters>,
}

/// The configuration of a mesh's replicas. It can start them more than once.
struct Plan {
    members: Vec<Member>,
    /// Kept open over restarts, so that no other program gets the port in between.
    sockets: Vec<Kept>,
    limits: Limits,
    inbound: usize,
    inbound_bytes: u32,
}

/// A socket of replicas that survives restarts.
enum Kept {
    Tcp(std::net::TcpListener),
    Quic(std::net::UdpSocket),
    Udp(std::net::UdpSocket),
}

impl Kept {
    fn new(transport: TransportName) -> (Self, SocketAddr) {
        match transport {
            TransportName::Tcp => {
                let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
                listener.set_nonblocking(true).unwrap();
                let address = listener.local_addr().unwrap();
                (Self::Tcp(listener), address)
            }
            TransportName::Quic => {
                let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                let address = socket.local_addr().unwrap();
                (Self::Quic(socket), address)
            }
            TransportName::Udp => {
                let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
                let address = socket.local_addr().unwrap();
                (Self::Udp(socket), address)
            }
        }
    }

    fn socket(&self) -> PeerSocket {
        match self {
            Self::Tcp(listener) => {
                PeerSocket::Tcp(TcpListener::from_std(listener.try_clone().unwrap()).unwrap())
            }
            Self::Quic(socket) => PeerSocket::Quic(socket.try_clone().unwrap()),
            Self::Udp(socket) => PeerSocket::Udp(socket.try_clone().unwrap()),
        }
    }
}

impl Plan {
    fn new(transport: TransportName, size: u8) -> Self {
        let (mut members, mut sockets) = (Vec::new(), Vec::new());
        for number in 0..size {
            let (socket, address) = Kept::new(transport);
            let address = address.to_string();
            members.push(Member { key: identity(number).key(), former: None, address });
            sockets.push(socket);
        }
        Self { members, sockets, limits: Limits::peers(), inbound: 1024, inbound_bytes: 64 << 20 }
    }

    fn start(&self, number: u8) -> Node {
        self.start_as(number, identity(number), CHAIN)
    }

    fn start_as(&self, number: u8, identity: Identity, chain: Digest) -> Node {
        self.start_speaking(number, identity, chain, Versions::PROGRAM)
    }

    fn start_speaking(
        &self,
        number: u8,
        identity: Identity,
        chain: Digest,
        versions: Versions,
    ) -> Node {
        let place = usize::from(number);
        let socket = self.sockets[place].socket();
        let (sender, inbound) = inbound(self.inbound, self.inbound_bytes);
        let counters = Arc::new(Counters::default());
        let mesh = Mesh {
            me: ReplicaId(u16::from(number)),
            chain,
            identity,
            members: self.members.iter().cloned().map(Some).collect(),
            versions,
            limits: self.limits,
            seed: 1,
        };
        let peers = Peers::start(mesh, socket, sender, silent(), counters.clone()).unwrap();
        Node { peers, inbound, counters }
    }
}

/// A replica's listener for clients under test.
struct Door {
    listener: ClientListener,
    inbound: Arrivals<(ConnectionId, Event)>,
    counters: Arc<Counters>,
    address: SocketAddr,
}

async fn door(limits: Limits) -> Door {
    door_speaking(Versions::PROGRAM, limits).await
}

async fn door_speaking(versions: Versions, limits: Limits) -> Door {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, inbound) = inbound(1024, 64 << 20);
    let counters = Arc::new(Counters::default());
    let (me, identity) = (ReplicaId(3), identity(3));
    let gate = Gate { me, chain: CHAIN, identity, versions, limits };
    let listener =
        ClientListener::start(gate, listener, sender, silent(), counters.clone()).unwrap();
    Door { listener, inbound, counters, address }
}

impl Door {
    async fn dial(&self) -> (SendHalf, ReceiveHalf) {
        dial(&self.address.to_string(), identity(3).key(), CHAIN, Limits::clients()).await.unwrap()
    }

    /// Dials, and waits until the connection has its place: the replica takes one for it, and gives
    /// that of the handshake back, a moment after the client has heard its hello.
    async fn dial_in(&mut self) -> (SendHalf, ReceiveHalf) {
        let halves = self.dial().await;
        assert_eq!(next(&mut self.inbound).await.1, Event::Opened);
        halves
    }

    /// A client connects, exchanges messages and leaves.
    async fn serves_somebody(&mut self) {
        let (sender, mut receiver) = self.dial().await;
        let mut id = None;
        sender.try_send(Bytes::from_static(b"anybody there?")).unwrap();
        while id.is_none() {
            if let (from, Event::Frame(frame)) = next(&mut self.inbound).await {
                assert_eq!(frame, "anybody there?");
                id = Some(from);
            }
        }
        self.listener.send(id.unwrap(), Bytes::from_static(b"yes")).unwrap();
        assert_eq!(receiver.receive().await.unwrap(), "yes");
    }
}

/// A bare TLS connection, for tests that misbehave.
async fn raw(address: &str, server: PublicKey, identity: Option<Identity>) -> TlsStream<TcpStream> {
    let config = Arc::new(tls::client_config(identity.as_ref(), Some(&[server])).unwrap());
    let tcp = TcpStream::connect(address).await.unwrap();
    TlsConnector::from(config).connect(tls::no_name(), tcp).await.unwrap()
}

trait Bytewise: AsyncRead + AsyncWrite + Send + Unpin {}
impl<S: AsyncRead + AsyncWrite + Send + Unpin> Bytewise for S {}

/// The same, as a replica to replica `server`, and over any transport.
async fn raw_peer(plan: &Plan, server: u8, me: u8) -> Box<dyn Bytewise> {
    let place = usize::from(server);
    let (address, key) = (&plan.members[place].address, plan.members[place].key);
    match plan.sockets[place] {
        Kept::Tcp(_) => Box::new(raw(address, key, Some(identity(me))).await),
        Kept::Quic(_) => {
            Box::new(super::quic::raw(address, &identity(me), key, &plan.limits).await.unwrap())
        }
        Kept::Udp(_) => {
            Box::new(super::udp::raw(address, &identity(me), key, &plan.limits).await.unwrap())
        }
    }
}

async fn raw_hello(stream: &mut (impl AsyncWrite + Unpin), role: Role) {
    let hello = Hello::of(CHAIN, role);
    stream.write_all(&handshake::framed(hello.encode())).await.unwrap();
}

/// Reads until the other side ends the connection in any way.
async fn until_hung_up(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut bytes = Vec::new();
    let reading = async {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = stream.read(&mut chunk).await {
            bytes.extend_from_slice(&chunk[..count]);
        }
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("never hung up");
    bytes
}
