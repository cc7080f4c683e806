//! The mesh: the connections between replicas.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::{Digest, ReplicaId};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::TransportName;

use super::accept::{Familiar, HalfOpen, accept_all, closed};
use super::carrier::{Carrier, Stream};
use super::counters::{Counters, add};
use super::handshake::{Established, HandshakeError};
use super::hello::{Hello, Refusal, Role};
use super::inbound::Inbound;
use super::link::{FAREWELL, Link};
use super::outbox::Outbox;
use super::places::{Network, Place};
use super::quic::Quic;
use super::socket::PeerSocket;
use super::tcp::Tcp;
use super::tls::Identity;
use super::udp::Udp;
use super::unreached::Unreached;
use super::{Limits, MeshError, Wake};

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// After a connection of this duration, dialling starts again with the shortest pause.
const GOOD: Duration = Duration::from_secs(1);
/// The interval at which the names of the replicas that dial this one are resolved.
const LOOK_UP_EVERY: Duration = Duration::from_secs(60);

/// A replica as the others know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its transport key.
    pub key: PublicKey,
    /// `host:port`, resolved again for each attempt to dial.
    pub address: String,
}

/// The configuration of a mesh.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// The id of this replica.
    pub me: ReplicaId,
    /// The chain all members belong to.
    pub chain: Digest,
    /// This replica's transport key. Its public half is the key of `members[me]`.
    pub identity: Identity,
    /// All replicas, this one included, in the order of their ids.
    pub members: Vec<Member>,
    /// The limits of each connection.
    pub limits: Limits,
    /// Seeds the jitter of the pauses between attempts, so that replicas do not dial in step.
    pub seed: u64,
}

/// The connections to all other replicas. Dropping it ends them at once.
pub struct Peers {
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    tasks: Mutex<JoinSet<()>>,
}

struct Shared {
    me: ReplicaId,
    transport: TransportName,
    hello: Hello,
    limits: Limits,
    members: Vec<Member>,
    outboxes: Vec<Arc<Outbox>>,
    changes: Arc<AtomicU64>,
    counters: Arc<Counters>,
    inbound: Inbound<(ReplicaId, Bytes)>,
    wake: Wake,
}

impl Peers {
    /// Starts to accept at `socket` and to dial over its transport, on the current tokio runtime.
    /// Messages of other replicas go to `inbound`; while that is full their sockets are not read.
    ///
    /// # Errors
    /// [`MeshError`] if the identity or the socket cannot be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(
        mesh: Mesh,
        socket: PeerSocket,
        inbound: Inbound<(ReplicaId, Bytes)>,
        wake: Wake,
        counters: Arc<Counters>,
    ) -> Result<Self, MeshError> {
        let Mesh { me, chain, identity, members, limits, seed } = mesh;
        let lower = members.iter().take(me.index()).map(|member| member.key).collect();
        let changes = Arc::new(AtomicU64::new(0));
        let outbox = |_| Arc::new(Outbox::telling(limits.room(), Arc::clone(&changes)));
        let outboxes = members.iter().map(outbox).collect();
        let hello = Hello::peer(chain, me);
        let transport = socket.transport();
        let shared = Arc::new(Shared {
            me,
            transport,
            hello,
            limits,
            members,
            outboxes,
            changes,
            counters,
            inbound,
            wake,
        });
        match socket {
            PeerSocket::Tcp(listener) => {
                let carrier = Tcp::new(listener, &identity, Some(lower))?;
                shared.start(carrier, &identity, seed)
            }
            PeerSocket::Quic(socket) => {
                let carrier = Quic::new(socket, &identity, lower, &limits)?;
                shared.start(carrier, &identity, seed)
            }
            PeerSocket::Udp(socket) => {
                let carrier = Udp::new(socket, &identity, lower, &limits)?;
                shared.start(carrier, &identity, seed)
            }
        }
    }

    /// Sends `message` to replica `to`. Never blocks: the message is queued. If there is no room,
    /// the oldest messages for `to` are dropped and counted. While `to` is not connected, only the
    /// newest few are kept. Messages to this replica itself are dropped.
    pub fn send(&self, to: ReplicaId, message: Bytes) {
        let dropped = match self.shared.outboxes.get(to.index()) {
            Some(outbox) if to != self.shared.me => outbox.push_dropping(message),
            _ => 1,
        };
        if dropped > 0 {
            add(&self.shared.counters.dropped_outbound, dropped);
        }
    }

    /// Sends `message` to all other replicas. It is shared, not copied. The replica halfway around
    /// the ring of ids gets it first, so that no replica is the first of every sender. Replicas
    /// that share this one's cores (`cores = "share"`) cannot read it yet, so they are not first
    /// either.
    pub fn broadcast(&self, message: &Bytes) {
        let size = self.shared.outboxes.len();
        let opposite = self.shared.me.index() + size / 2;
        // The runtime runs the task woken last before the others.
        for step in 1..=size {
            let index = (opposite + step) % size;
            if index != self.shared.me.index() {
                self.send(ReplicaId(index as u16), message.clone());
            }
        }
    }

    /// Whether `replica` is connected now.
    #[must_use]
    pub fn is_connected(&self, replica: ReplicaId) -> bool {
        self.shared.outboxes.get(replica.index()).is_some_and(|outbox| outbox.is_connected())
    }

    /// The number of times that connections have opened or closed. While it stays the same, so does
    /// [`connected`](Self::connected).
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// The other replicas that are connected now, ascending.
    #[must_use]
    pub fn connected(&self) -> Vec<ReplicaId> {
        let ids = (0..self.shared.outboxes.len()).map(|index| ReplicaId(index as u16));
        ids.filter(|id| self.is_connected(*id)).collect()
    }

    /// Accepts and dials no more, sends everything queued, closes the connections, and returns
    /// after about five seconds at most.
    pub async fn close(self) {
        // It fails if nobody listens any more, which is fine.
        let _ = self.closing.send(true);
        self.shared.outboxes.iter().for_each(|outbox| outbox.close());
        let mut tasks =
            std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
        let all = async { while tasks.join_next().await.is_some() {} };
        // Dropping the set ends the connections that are left by then.
        let _ = tokio::time::timeout(FAREWELL + FIRST_PAUSE, all).await;
    }
}

impl Shared {
    fn start<C: Carrier>(
        self: Arc<Self>,
        carrier: C,
        identity: &Identity,
        seed: u64,
    ) -> Result<Peers, MeshError> {
        let (closing, closes) = watch::channel(false);
        let mut tasks = JoinSet::new();
        for (index, member) in self.members.iter().enumerate().skip(self.me.index() + 1) {
            let way = C::way(identity, member.key)?;
            let id = ReplicaId(index as u16);
            let jitter = Jitter(seed ^ (u64::from(self.me.0) << 32 | u64::from(id.0)));
            tasks.spawn(self.clone().dial_forever::<C>(id, way, jitter, closes.clone()));
        }
        let serve = {
            let (shared, closes) = (self.clone(), closes.clone());
            move |arrival, place| shared.clone().serve::<C>(arrival, place, closes.clone())
        };
        let familiar = Familiar::default();
        tasks.spawn(self.clone().look_up(Arc::clone(&familiar), closes.clone()));
        let half_open = HalfOpen::new(&self.limits, Some(familiar));
        // One connection for each other replica, and one that it replaces.
        let stay = 2 * self.members.len();
        tasks.spawn(accept_all(carrier, half_open, stay, self.counters.clone(), closes, serve));
        Ok(Peers { shared: self, closing, tasks: Mutex::new(tasks) })
    }

    /// Keeps the networks of the replicas that dial this one in `familiar`.
    async fn look_up(self: Arc<Self>, familiar: Familiar, mut closes: watch::Receiver<bool>) {
        loop {
            for member in self.members.iter().take(self.me.index()) {
                let found = tokio::select! {
                    found = tokio::net::lookup_host(&member.address) => found,
                    () = closed(&mut closes) => return,
                };
                // A name that cannot be resolved now keeps its previous networks.
                let networks =
                    found.into_iter().flatten().map(|address| Network::from(address.ip()));
                familiar.write().unwrap_or_else(PoisonError::into_inner).extend(networks);
            }
            tokio::select! {
                () = tokio::time::sleep(LOOK_UP_EVERY) => {}
                () = closed(&mut closes) => return,
            }
        }
    }

    /// Keeps a connection to `peer` until the mesh closes.
    async fn dial_forever<C: Carrier>(
        self: Arc<Self>,
        peer: ReplicaId,
        way: C::Way,
        mut jitter: Jitter,
        mut closes: watch::Receiver<bool>,
    ) {
        let Some(member) = self.members.get(peer.index()) else { return };
        let mut unreached = Unreached::new(peer, &member.address, self.transport);
        let mut pause = FIRST_PAUSE;
        while !*closes.borrow() {
            let start = Instant::now();
            let dialled = tokio::select! {
                dialled = self.dial::<C>(peer, member, &way) => dialled,
                () = closed(&mut closes) => return,
            };
            match dialled {
                Ok(established) => {
                    unreached.reached();
                    self.run(peer, established).await;
                    if start.elapsed() > GOOD {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(error) => {
                    error.count(&self.counters);
                    unreached.failed(&error);
                }
            }
            tokio::select! {
                () = tokio::time::sleep(jitter.spread(pause)) => {}
                () = closed(&mut closes) => return,
            }
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    async fn dial<C: Carrier>(
        &self,
        peer: ReplicaId,
        member: &Member,
        way: &C::Way,
    ) -> Result<Established<C::Stream>, HandshakeError> {
        let established = C::dial(way, &member.address, self.hello, self.limits).await?;
        match established.role {
            Role::Peer(id) if id == peer => Ok(established),
            _ => Err(HandshakeError::Refused(Refusal::Role)),
        }
    }

    async fn serve<C: Carrier>(
        self: Arc<Self>,
        arrival: C::Arrival,
        mut place: Place,
        mut closes: watch::Receiver<bool>,
    ) {
        let established = tokio::select! {
            result = C::receive(arrival, self.hello, self.limits) => result,
            () = place.lost() => return,
            () = closed(&mut closes) => return,
        };
        drop(place);
        match established {
            Ok(established) => match established.role {
                Role::Peer(peer) if self.is(peer, established.key) => {
                    self.run(peer, established).await;
                }
                _ => Refusal::Role.count(&self.counters),
            },
            Err(error) => error.count(&self.counters),
        }
    }

    /// Whether `shown` is `peer`'s key, and `peer` is a replica that dials this one.
    fn is(&self, peer: ReplicaId, shown: Option<PublicKey>) -> bool {
        let member = self.members.get(peer.index());
        peer < self.me && shown.is_some() && shown == member.map(|member| member.key)
    }

    async fn run<S: Stream>(&self, peer: ReplicaId, established: Established<S>) {
        let Some(outbox) = self.outboxes.get(peer.index()) else { return };
        let link = Link::new(established, outbox.clone(), &self.limits, self.counters.clone());
        (self.wake)();
        link.run(&self.inbound, &self.wake, |frame| (peer, frame)).await;
        (self.wake)();
    }
}

/// SplitMix64, which is good enough to keep replicas from dialling in step.
struct Jitter(u64);

impl Jitter {
    /// A duration between half of `pause` and all of it.
    fn spread(&mut self, pause: Duration) -> Duration {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let fraction = (z ^ (z >> 31)) as u32;
        pause / 2 + (pause / 2).mul_f64(f64::from(fraction) / f64::from(u32::MAX))
    }
}
