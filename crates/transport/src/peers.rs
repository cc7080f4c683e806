//! The mesh: the connections between replicas.

use std::collections::BTreeMap;
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
use super::hello::{Hello, Refusal, Role, Versions};
use super::inbound::Inbound;
use super::link::{FAREWELL, Link};
use super::outbox::Outbox;
use super::places::{Network, Place};
use super::quic::Quic;
use super::socket::PeerSocket;
use super::tcp::Tcp;
use super::tls::{Allowed, Identity};
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
    /// The key that it had before, as long as that is accepted as well: while a member goes over to
    /// another key, some have heard of it and others have not.
    pub former: Option<PublicKey>,
    /// `host:port`, resolved again for each attempt to dial.
    pub address: String,
}

impl Member {
    /// The keys that are accepted of it, the current one first.
    fn keys(&self) -> Vec<PublicKey> {
        [self.key].into_iter().chain(self.former).collect()
    }

    fn accepts(&self, key: PublicKey) -> bool {
        self.key == key || self.former == Some(key)
    }

    /// Whether every connection that `before` may have is one that this member may have.
    fn keeps(&self, before: &Self) -> bool {
        before.keys().into_iter().all(|key| self.accepts(key))
    }
}

/// The configuration of a mesh.
#[derive(Clone, Debug)]
pub struct Mesh {
    /// The id of this replica.
    pub me: ReplicaId,
    /// The chain all members belong to.
    pub chain: Digest,
    /// This replica's transport key.
    pub identity: Identity,
    /// All replicas, by their ids; `None`: vacant. This one need not be among them.
    pub members: Vec<Option<Member>>,
    /// The versions of the protocol that it speaks; [`Versions::PROGRAM`], but in a laboratory.
    pub versions: Versions,
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
    roster: watch::Sender<Arc<Roster>>,
    allowed: Allowed,
    changes: Arc<AtomicU64>,
    counters: Arc<Counters>,
    /// The warnings about those that dial this replica and are refused.
    turned_away: Mutex<BTreeMap<ReplicaId, Unreached>>,
    inbound: Inbound<(ReplicaId, Bytes)>,
    wake: Wake,
}

/// The members at a time, and what waits to be sent to each.
struct Roster {
    members: Vec<Option<Member>>,
    /// By id, at least as many. A member that is replaced leaves its outbox, which is closed.
    outboxes: Vec<Arc<Outbox>>,
}

impl Roster {
    fn member(&self, id: ReplicaId) -> Option<&Member> {
        self.members.get(id.index())?.as_ref()
    }

    /// The members on one side of `me`, with their ids.
    fn beside(
        &self,
        is_there: impl Fn(ReplicaId) -> bool,
    ) -> impl Iterator<Item = (ReplicaId, &Member)> {
        let members = self.members.iter().enumerate();
        let members = members.filter_map(|(id, it)| Some((ReplicaId(id as u16), it.as_ref()?)));
        members.filter(move |(id, _)| is_there(*id))
    }

    /// The keys of those that dial `me`.
    fn keys_below(&self, me: ReplicaId) -> Vec<PublicKey> {
        self.beside(|id| id < me).flat_map(|(_, member)| member.keys()).collect()
    }
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
        let Mesh { me, chain, identity, members, versions, limits, seed } = mesh;
        let changes = Arc::new(AtomicU64::new(0));
        let outbox = |_| Arc::new(Outbox::telling(limits.room(), Arc::clone(&changes)));
        let outboxes = members.iter().map(outbox).collect();
        let roster = Roster { members, outboxes };
        let allowed = Allowed::new(roster.keys_below(me));
        let lower = allowed.clone();
        let hello = Hello { versions, chain, role: Role::Peer(me) };
        let transport = socket.transport();
        let shared = Arc::new(Shared {
            me,
            transport,
            hello,
            limits,
            roster: watch::Sender::new(Arc::new(roster)),
            allowed,
            changes,
            counters,
            turned_away: Mutex::default(),
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

    /// From now on these are the members. New ones are dialled, or may dial. Whoever is none any
    /// more, or has a key fewer, gets what is queued for it; then its connection ends. A key that
    /// is not accepted any more is refused.
    pub fn change_members(&self, members: Vec<Option<Member>>) {
        self.shared.change_members(members);
    }

    /// Sends `message` to replica `to`. Never blocks: the message is queued. If there is no room,
    /// the oldest messages for `to` are dropped and counted. While `to` is not connected, only the
    /// newest few are kept. Messages to this replica itself are dropped.
    pub fn send(&self, to: ReplicaId, message: Bytes) {
        self.shared.send(&self.shared.roster.borrow(), to, message, false);
    }

    /// Sends `message` to all other replicas. It is shared, not copied. The replica halfway around
    /// the ring of ids gets it first, so that no replica is the first of every sender. Replicas
    /// that share this one's cores (`cores = "share"`) cannot read it yet, so they are not first
    /// either.
    pub fn broadcast(&self, message: &Bytes) {
        self.send_to_all(message, false);
    }

    /// The same, behind all other messages: a connection sends it when nothing else waits and the
    /// system has taken what was sent before.
    pub fn broadcast_behind(&self, message: &Bytes) {
        self.send_to_all(message, true);
    }

    fn send_to_all(&self, message: &Bytes, behind: bool) {
        let roster = self.shared.roster.borrow();
        let size = roster.members.len();
        let opposite = self.shared.me.index() + size / 2;
        // The runtime runs the task woken last before the others.
        for step in 1..=size {
            let id = ReplicaId(((opposite + step) % size) as u16);
            if id != self.shared.me && roster.member(id).is_some() {
                self.shared.send(&roster, id, message.clone(), behind);
            }
        }
    }

    /// Sends `message` to those other replicas with whom at least this version is spoken.
    pub fn broadcast_since(&self, version: u16, message: &Bytes) {
        let roster = self.shared.roster.borrow();
        for (id, outbox) in roster.outboxes.iter().enumerate() {
            if outbox.version() >= Some(version) {
                self.shared.send(&roster, ReplicaId(id as u16), message.clone(), false);
            }
        }
    }

    /// Whether `replica` is connected now.
    #[must_use]
    pub fn is_connected(&self, replica: ReplicaId) -> bool {
        let roster = self.shared.roster.borrow();
        roster.outboxes.get(replica.index()).is_some_and(|outbox| outbox.is_connected())
    }

    /// The version of the protocol that is spoken with `replica`, if it is connected now.
    #[must_use]
    pub fn version(&self, replica: ReplicaId) -> Option<u16> {
        let roster = self.shared.roster.borrow();
        roster.outboxes.get(replica.index())?.version()
    }

    /// The versions that this replica speaks.
    #[must_use]
    pub fn versions(&self) -> Versions {
        self.shared.hello.versions
    }

    /// The number of times that connections have opened or closed. While it stays the same, so do
    /// [`connected`](Self::connected) and [`connections`](Self::connections).
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.shared.changes.load(Ordering::Acquire)
    }

    /// The other replicas that are connected now, ascending.
    #[must_use]
    pub fn connected(&self) -> Vec<ReplicaId> {
        let roster = self.shared.roster.borrow();
        let outboxes = roster.outboxes.iter().enumerate();
        let connected = outboxes.filter(|(_, outbox)| outbox.is_connected());
        connected.map(|(id, _)| ReplicaId(id as u16)).collect()
    }

    /// The same replicas, each with the number of its connection. A later connection to the same
    /// replica has another number: what was sent over the earlier one may be lost.
    #[must_use]
    pub fn connections(&self) -> Vec<(ReplicaId, u64)> {
        let roster = self.shared.roster.borrow();
        let outboxes = roster.outboxes.iter().enumerate();
        outboxes
            .filter_map(|(id, outbox)| Some((ReplicaId(id as u16), outbox.connection()?)))
            .collect()
    }

    /// Accepts and dials no more, sends everything queued, closes the connections, and returns
    /// after about five seconds at most.
    pub async fn close(self) {
        // It fails if nobody listens any more, which is fine.
        let _ = self.closing.send(true);
        self.shared.roster.borrow().outboxes.iter().for_each(|outbox| outbox.close());
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
        let dials = self.clone().keep_dialling::<C>(identity.clone(), seed, closes.clone());
        tasks.spawn(dials);
        let serve = {
            let (shared, closes) = (self.clone(), closes.clone());
            move |arrival, place| shared.clone().serve::<C>(arrival, place, closes.clone())
        };
        let familiar = Familiar::default();
        tasks.spawn(self.clone().look_up(Arc::clone(&familiar), closes.clone()));
        let half_open = HalfOpen::new(&self.limits, Some(familiar));
        // One connection for each other replica, and one that it replaces.
        let members = self.clone();
        let stay = move || 2 * members.roster.borrow().members.len();
        tasks.spawn(accept_all(carrier, half_open, stay, self.counters.clone(), closes, serve));
        Ok(Peers { shared: self, closing, tasks: Mutex::new(tasks) })
    }

    fn send(&self, roster: &Roster, to: ReplicaId, message: Bytes, behind: bool) {
        let dropped = match roster.outboxes.get(to.index()) {
            Some(outbox) if to != self.me => outbox.push_dropping(message, behind),
            _ => 1,
        };
        if dropped > 0 {
            add(&self.counters.dropped_outbound, dropped);
        }
    }

    fn change_members(&self, members: Vec<Option<Member>>) {
        let before = Arc::clone(&self.roster.borrow());
        let new = || Arc::new(Outbox::telling(self.limits.room(), Arc::clone(&self.changes)));
        let mut outboxes = before.outboxes.clone();
        outboxes.resize_with(members.len().max(outboxes.len()), new);
        let member = |members: &[Option<Member>], id: usize| members.get(id).cloned().flatten();
        let mut left = Vec::new();
        for (id, outbox) in outboxes.iter_mut().enumerate() {
            let stays = match (member(&before.members, id), member(&members, id)) {
                (Some(before), Some(now)) => now.keeps(&before),
                (before, now) => before == now,
            };
            if !stays {
                left.push(std::mem::replace(outbox, new()));
            }
        }
        let roster = Arc::new(Roster { members, outboxes });
        // First nobody is let in any more, then those who are in must leave.
        self.allowed.set(roster.keys_below(self.me));
        self.roster.send_replace(roster);
        left.iter().for_each(|outbox| outbox.close());
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Dials the members above this one, whoever they are.
    async fn keep_dialling<C: Carrier>(
        self: Arc<Self>,
        identity: Identity,
        seed: u64,
        mut closes: watch::Receiver<bool>,
    ) {
        let mut roster = self.roster.subscribe();
        let mut dialled: BTreeMap<ReplicaId, Member> = BTreeMap::new();
        let mut tasks = JoinSet::new();
        while !*closes.borrow() {
            let now = Arc::clone(&roster.borrow_and_update());
            dialled.retain(|id, member| now.member(*id) == Some(member));
            for (id, member) in now.beside(|id| id > self.me) {
                if dialled.contains_key(&id) {
                    continue;
                }
                let Ok(way) = C::way(&identity, &member.keys()) else {
                    tracing::warn!("replica {id} is not dialled: its transport key is none");
                    continue;
                };
                dialled.insert(id, member.clone());
                let jitter = Jitter(seed ^ (u64::from(self.me.0) << 32 | u64::from(id.0)));
                let shared = self.clone();
                tasks.spawn(shared.dial_on::<C>(id, member.clone(), way, jitter, closes.clone()));
            }
            tokio::select! {
                changed = roster.changed() => if changed.is_err() { break },
                Some(_) = tasks.join_next() => {}
                () = closed(&mut closes) => break,
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// Keeps the networks of the replicas that dial this one in `familiar`.
    async fn look_up(self: Arc<Self>, familiar: Familiar, mut closes: watch::Receiver<bool>) {
        let mut roster = self.roster.subscribe();
        loop {
            let now = Arc::clone(&roster.borrow_and_update());
            for (_, member) in now.beside(|id| id < self.me) {
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
                changed = roster.changed() => if changed.is_err() { return },
                () = closed(&mut closes) => return,
            }
        }
    }

    /// Keeps a connection to `peer` until the mesh closes, or `peer` is somebody else.
    async fn dial_on<C: Carrier>(
        self: Arc<Self>,
        peer: ReplicaId,
        member: Member,
        way: C::Way,
        mut jitter: Jitter,
        mut closes: watch::Receiver<bool>,
    ) {
        let mut unreached = Unreached::new(peer, &member.address, self.transport);
        let mut pause = FIRST_PAUSE;
        while !*closes.borrow() && self.roster.borrow().member(peer) == Some(&member) {
            let start = Instant::now();
            let dialled = tokio::select! {
                dialled = self.dial::<C>(peer, &member, &way) => dialled,
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
            _ => Err(HandshakeError::Refused(Refusal::Role, established.key)),
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
                Role::Peer(peer) if established.key.is_some_and(|key| self.is(peer, key)) => {
                    self.warn_of(peer, Unreached::reached);
                    self.run(peer, established).await;
                }
                _ => Refusal::Role.count(&self.counters),
            },
            Err(error) => {
                error.count(&self.counters);
                self.turn_away(&error);
            }
        }
    }

    /// Warns of a member that dialled and was refused for what its hello says.
    fn turn_away(&self, error: &HandshakeError) {
        let HandshakeError::Refused(_, Some(key)) = error else { return };
        let dials = {
            let roster = self.roster.borrow();
            roster
                .beside(|id| id < self.me)
                .find(|(_, member)| member.accepts(*key))
                .map(|(id, _)| id)
        };
        if let Some(peer) = dials {
            self.warn_of(peer, |warnings| warnings.failed(error));
        }
    }

    fn warn_of(&self, peer: ReplicaId, warn: impl FnOnce(&mut Unreached)) {
        let roster = Arc::clone(&self.roster.borrow());
        let Some(member) = roster.member(peer) else { return };
        let new = || Unreached::new(peer, &member.address, self.transport);
        let mut turned_away = self.turned_away.lock().unwrap_or_else(PoisonError::into_inner);
        warn(turned_away.entry(peer).or_insert_with(new));
    }

    /// Whether `shown` is `peer`'s key, and `peer` is a replica that dials this one.
    fn is(&self, peer: ReplicaId, shown: PublicKey) -> bool {
        let roster = self.roster.borrow();
        peer < self.me && roster.member(peer).is_some_and(|member| member.accepts(shown))
    }

    /// Runs a connection, if the key that the other side showed is `peer`'s still: the members may
    /// have changed since it showed it.
    async fn run<S: Stream>(&self, peer: ReplicaId, established: Established<S>) {
        let outbox = {
            let roster = self.roster.borrow();
            let accepted = |member: &Member| established.key.is_some_and(|key| member.accepts(key));
            let is_member = roster.member(peer).is_some_and(accepted);
            roster.outboxes.get(peer.index()).filter(|_| is_member).cloned()
        };
        let Some(outbox) = outbox else { return };
        let link = Link::new(established, outbox, &self.limits, self.counters.clone());
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
