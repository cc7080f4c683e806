//! What a flood attacks, and the tools that floods share.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::SessionConfig;
use quorate_core::client::message::Request;
use quorate_node::client::ReplicaAddress;
use quorate_transport::{Limits, ReceiveHalf, SendHalf};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The address that floods come from: one of the loopback interface's that nobody else uses, so
/// that a bound by address is a bound on the attacker.
pub const SOURCE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);
/// Pause before a connection that ended is made again.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connection may take to be made.
const WITHIN: Duration = Duration::from_secs(5);
/// How long a relay that passes nothing on is kept.
const KEPT: Duration = Duration::from_secs(60);

/// A cluster under attack.
pub struct Target {
    /// The replicas, as clients reach them.
    pub replicas: Vec<ReplicaAddress>,
    /// Where replicas reach each other.
    pub peers: Vec<String>,
    /// Where they tell their status.
    pub http: Vec<String>,
    /// The gateway, if there is one.
    pub gateway: Option<String>,
    /// How a session goes.
    pub session: SessionConfig,
    done: AtomicU64,
    prepared: Semaphore,
    begun: Semaphore,
}

impl Target {
    /// A cluster that is not attacked yet.
    #[must_use]
    pub fn new(
        replicas: Vec<ReplicaAddress>,
        peers: Vec<String>,
        http: Vec<String>,
        gateway: Option<String>,
        session: SessionConfig,
    ) -> Self {
        let (done, prepared, begun) = (AtomicU64::new(0), Semaphore::new(0), Semaphore::new(0));
        Self { replicas, peers, http, gateway, session, done, prepared, begun }
    }

    /// Says that everything is prepared, and waits until the flood is to begin. Every flood calls
    /// it once.
    pub(super) async fn begin(&self) {
        self.prepared.add_permits(1);
        // An error means that the semaphore is closed, which nobody does.
        let _ = self.begun.acquire().await;
    }

    /// Waits until the flood has prepared what it needs.
    pub async fn prepared(&self) {
        let _ = self.prepared.acquire().await;
    }

    /// Lets it begin.
    pub fn let_go(&self) {
        self.begun.add_permits(1);
    }

    /// Counts what was done to the target.
    pub(super) fn did(&self, count: u64) {
        self.done.fetch_add(count, Ordering::Relaxed);
    }

    /// How much was done: connections, messages or requests, as the flood counts.
    #[must_use]
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// A client's connection to `replica`, as far as `flow` lets bytes pass.
    pub(super) async fn dial(&self, replica: usize, flow: Flow) -> Option<(SendHalf, ReceiveHalf)> {
        let at = self.replicas.get(replica)?;
        let front = relay(at.address.clone(), flow).await.ok()?;
        // Little is queued here: what a flood counts has left, but for so many messages a
        // connection.
        let limits = Limits { frame_bytes: 32 << 20, queue_messages: 64, ..Limits::clients() };
        quorate_transport::dial(&front.to_string(), at.key, self.session.chain, limits).await.ok()
    }

    /// Floods every replica with `count` connections each, over which `act` does what it wants.
    /// What ends is made again.
    pub(super) async fn swarm<Acting>(
        self: Arc<Self>,
        count: usize,
        act: impl Fn(Arc<Self>, usize) -> Acting,
    ) where
        Acting: Future<Output = ()> + Send + 'static,
    {
        let mut lives = JoinSet::new();
        for replica in 0..self.replicas.len() {
            for _ in 0..count {
                let acting = act(Arc::clone(&self), replica);
                lives.spawn(async move {
                    acting.await;
                    replica
                });
            }
        }
        while let Some(ended) = lives.join_next().await {
            let Ok(replica) = ended else { continue };
            let acting = act(Arc::clone(&self), replica);
            lives.spawn(async move {
                tokio::time::sleep(PAUSE).await;
                acting.await;
                replica
            });
        }
    }
}

/// A request as it is sent.
pub(super) fn message(request: &Request) -> Bytes {
    request.to_bytes().into()
}

/// Takes whatever arrives, until the connection ends.
pub(super) async fn drain(mut receive: ReceiveHalf) {
    while receive.receive().await.is_some() {}
}

/// A TCP connection from the attacker's address.
pub(super) async fn connect(address: &str) -> io::Result<TcpStream> {
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let socket = TcpSocket::new_v4()?;
    socket.bind(SocketAddr::new(IpAddr::V4(SOURCE), 0))?;
    let connected = tokio::time::timeout(WITHIN, socket.connect(address)).await;
    connected.map_err(|_| io::ErrorKind::TimedOut)?
}

/// Waits until the other side ends the connection; what it sends is passed over.
pub(super) async fn until_ended(stream: &mut TcpStream) {
    let mut passed = [0; 4096];
    while stream.read(&mut passed).await.is_ok_and(|count| count > 0) {}
}

/// What a relay lets pass. A relay stands between TLS and the network: so what is cut off, or comes
/// byte by byte, is a good connection's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Bytes that reach the replica; none come behind them.
    pub(super) up: u64,
    /// How long each byte behind those takes instead.
    pub(super) trickle: Option<Duration>,
    /// Bytes that are read of what the replica sends.
    pub(super) down: u64,
}

impl Flow {
    /// Everything passes.
    pub(super) const FREE: Self = Self { up: u64::MAX, trickle: None, down: u64::MAX };
}

/// Listens for one connection, and passes its bytes on to `to`. Where it listens.
async fn relay(to: String, flow: Flow) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let front = listener.local_addr()?;
    tokio::spawn(async move {
        let (accepted, onward) =
            tokio::join!(tokio::time::timeout(WITHIN, listener.accept()), connect(&to));
        let (Ok(Ok((near, _))), Ok(far)) = (accepted, onward) else { return };
        let (mut near_read, mut near_write) = near.into_split();
        let (mut far_read, mut far_write) = far.into_split();
        let up = async {
            let mut left = flow.up;
            let mut part = vec![0; 64 << 10];
            loop {
                let most = usize::try_from(left).unwrap_or(usize::MAX).min(part.len());
                let most = match (most, flow.trickle) {
                    (0, None) => return std::future::pending().await,
                    (0, Some(pause)) => {
                        tokio::time::sleep(pause).await;
                        1
                    }
                    (most, _) => most,
                };
                let Some(room) = part.get_mut(..most) else { return };
                let Ok(count @ 1..) = near_read.read(room).await else { return };
                if far_write.write_all(part.get(..count).unwrap_or_default()).await.is_err() {
                    return;
                }
                left = left.saturating_sub(count as u64);
            }
        };
        let down = async {
            let mut left = flow.down;
            let mut part = vec![0; 64 << 10];
            while left > 0 {
                let Ok(count @ 1..) = far_read.read(&mut part).await else { return };
                if near_write.write_all(part.get(..count).unwrap_or_default()).await.is_err() {
                    return;
                }
                left = left.saturating_sub(count as u64);
            }
            tokio::time::sleep(KEPT).await;
        };
        tokio::select! {
            () = up => {}
            () = down => {}
        }
    });
    Ok(front)
}
