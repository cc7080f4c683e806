//! The listener for clients.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::{Digest, ReplicaId, planted};
use tokio::net::TcpListener;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::accept::{HalfOpen, accept_all, closed};
use super::budget::{Budget, Meter, Way};
use super::carrier::Carrier;
use super::counters::{Counters, count};
use super::hello::{Hello, Refusal, Role, Versions};
use super::inbound::Inbound;
use super::link::Link;
use super::outbox::{Outbox, SendError};
use super::pause::Pause;
use super::places::{Caps, Place, Places, Rule};
use super::tcp::Tcp;
use super::tls::{Identity, TlsError};
use super::{Limits, Wake};

/// Identifies a client's connection. It is never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// An event on a client's connection. `Opened` comes first and `Closed` last, once each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client passed the handshake.
    Opened,
    /// The client sent a frame.
    Frame(Bytes),
    /// The connection has ended. Messages sent to it from now on are refused.
    Closed,
}

/// The configuration of a client listener.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The id of this replica.
    pub me: ReplicaId,
    /// The chain that clients must name.
    pub chain: Digest,
    /// The transport key, which clients must have pinned.
    pub identity: Identity,
    /// The versions of the protocol that it speaks; [`Versions::PROGRAM`], but in a laboratory.
    pub versions: Versions,
    /// The limits of each connection.
    pub limits: Limits,
}

/// Accepts clients. Dropping it ends all their connections at once.
pub struct ClientListener {
    shared: Arc<Shared>,
    closing: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

struct Shared {
    hello: Hello,
    limits: Limits,
    counters: Arc<Counters>,
    inbound: Inbound<(ConnectionId, Event)>,
    wake: Wake,
    next: AtomicU64,
    /// The places of connections that passed the handshake.
    places: Places,
    budget: Arc<Budget>,
    connections: RwLock<HashMap<ConnectionId, Contact>>,
}

/// What reaches a connection from outside its task.
struct Contact {
    outbox: Arc<Outbox>,
    pause: Arc<Pause>,
}

impl ClientListener {
    /// Starts to accept clients on `listener`, on the current tokio runtime. Their events go to
    /// `inbound`; while that queue is full their sockets are not read.
    ///
    /// # Errors
    /// [`TlsError`] if the identity cannot be used.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn start(
        gate: Gate,
        listener: TcpListener,
        inbound: Inbound<(ConnectionId, Event)>,
        wake: Wake,
        counters: Arc<Counters>,
    ) -> Result<Self, TlsError> {
        let carrier = Tcp::new(listener, &gate.identity, None)?;
        let limits = gate.limits;
        let shared = Arc::new(Shared {
            hello: Hello {
                versions: gate.versions,
                chain: gate.chain,
                role: Role::Server(gate.me),
            },
            limits,
            counters: counters.clone(),
            inbound,
            wake,
            next: AtomicU64::new(1),
            places: Places::new(
                Caps {
                    all: limits.connections,
                    of_network: planted!(
                        "places-of-an-address-unbounded",
                        limits.connections,
                        limits.connections_per_address,
                    ),
                },
                Rule::HeavierGivesWay,
            ),
            budget: Budget::new(
                planted!("connections-hold-without-end", usize::MAX, limits.held_bytes),
                limits.held_for,
            ),
            connections: RwLock::default(),
        });
        let (closing, closes) = watch::channel(false);
        let serving = shared.clone();
        let serve = {
            let closes = closes.clone();
            move |arrival, place| serving.clone().serve(arrival, place, closes.clone())
        };
        let half_open = HalfOpen::new(&limits, None);
        let stay = limits.connections;
        let accept = accept_all(carrier, half_open, move || stay, counters, closes, serve);
        let accepting = tokio::spawn(accept);
        Ok(Self { shared, closing, accepting })
    }

    /// Sends `message` to a client. Never blocks: the message is queued. A client whose queue is
    /// full is disconnected.
    ///
    /// # Errors
    /// [`SendError::Full`] if the queue was full, [`SendError::Closed`] if there is no such
    /// connection (any more).
    pub fn send(&self, to: ConnectionId, message: Bytes) -> Result<(), SendError> {
        let connections = self.shared.connections.read().unwrap_or_else(PoisonError::into_inner);
        connections.get(&to).ok_or(SendError::Closed)?.outbox.push_or_break(message)
    }

    /// Ends a client's connection once everything queued is sent.
    pub fn disconnect(&self, connection: ConnectionId) {
        let connections = self.shared.connections.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(contact) = connections.get(&connection) {
            contact.outbox.close();
        }
    }

    /// Does not read a client's connection for `time`, and goes on sending to it. Frames that were
    /// read before still come. A client that leaves meanwhile is noticed when a ping cannot be
    /// written, or afterwards.
    pub fn pause(&self, connection: ConnectionId, time: Duration) {
        let connections = self.shared.connections.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(contact) = connections.get(&connection) {
            contact.pause.last(time);
        }
    }

    /// The number of clients connected now.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Bytes that the connections hold now, as [`Limits::held_bytes`] counts them.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.shared.budget.bytes()
    }

    /// Accepts no more connections, sends everything queued, closes the connections, and returns
    /// after five seconds at most.
    pub async fn close(mut self) {
        // It fails if nobody listens any more, which is fine.
        let _ = self.closing.send(true);
        self.shared.close_all();
        // The runtime has reported a panic there. Nothing is left to close.
        let _ = (&mut self.accepting).await;
    }
}

impl Drop for ClientListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    async fn serve(
        self: Arc<Self>,
        arrival: <Tcp as Carrier>::Arrival,
        mut place: Place,
        mut closes: watch::Receiver<bool>,
    ) {
        let established = tokio::select! {
            result = Tcp::receive(arrival, self.hello, self.limits) => result,
            () = place.lost() => return,
            () = closed(&mut closes) => return,
        };
        let established = match established {
            Ok(established) if established.role == Role::Client => established,
            Ok(_) => return Refusal::Role.count(&self.counters),
            Err(error) => return error.count(&self.counters),
        };
        let Some((mut settled, gave_way)) = self.places.take(place.network()) else {
            return count(&self.counters.too_many_connections);
        };
        if gave_way {
            count(&self.counters.gave_way);
        }
        drop(place);
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let (share, holds_too_much) = self.budget.share(settled.network());
        let leaves = Meter::new(Arc::clone(&share), Way::Out);
        let outbox = Arc::new(Outbox::metered(self.limits.room(), leaves));
        let pause = Arc::<Pause>::default();
        let link = Link::new(established, outbox.clone(), &self.limits, self.counters.clone())
            .metered(Meter::new(share, Way::In))
            .pausing(Arc::clone(&pause));
        let contact = Contact { outbox: outbox.clone(), pause };
        self.connections.write().unwrap_or_else(PoisonError::into_inner).insert(id, contact);
        if *closes.borrow() {
            outbox.close();
        }
        if self.tell(id, Event::Opened).await {
            tokio::select! {
                // Who must end is counted as such, even if the queue has overflowed since.
                biased;
                _ = holds_too_much => {
                    count(&self.counters.held_too_much);
                    count(&self.counters.closed);
                }
                () = settled.lost() => count(&self.counters.closed),
                _ = link.letting_go().run(&self.inbound, &self.wake, |frame| {
                    (id, Event::Frame(frame))
                }) => {}
            }
        }
        outbox.fail();
        self.connections.write().unwrap_or_else(PoisonError::into_inner).remove(&id);
        self.tell(id, Event::Closed).await;
    }

    /// Whether the owner of the queue is still there to receive the event.
    async fn tell(&self, id: ConnectionId, event: Event) -> bool {
        let told = match self.inbound.try_send((id, event), 0) {
            Ok(()) => true,
            Err(TrySendError::Closed(_)) => false,
            Err(TrySendError::Full(message)) => {
                (self.wake)();
                let places = self.inbound.reserve(1, 0).await;
                places.map(|mut places| places.put(message, 0)).is_some()
            }
        };
        (self.wake)();
        told
    }

    fn close_all(&self) {
        let connections = self.connections.read().unwrap_or_else(PoisonError::into_inner);
        connections.values().for_each(|contact| contact.outbox.close());
    }
}
