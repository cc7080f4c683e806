//! The transport of Quorate: length-prefixed frames between replicas and with clients. Clients
//! connect over TLS 1.3 on TCP. Replicas use the same, or QUIC or DTLS 1.3 on UDP if the cluster
//! file says so.
//!
//! * **Identity.** Each replica has an Ed25519 transport key, separate from the key it votes with.
//!   TLS shows the key itself (RFC 7250); over UDP a signed proof shows it. The other side compares
//!   it with the key in the cluster file. Replicas authenticate each other. A client authenticates
//!   the replica, and signs its own requests.
//! * **Hello.** The first frame in each direction names the versions that its sender speaks, chain
//!   and role. Both sides speak the highest common version. A participant that does not match is
//!   refused, and [`Counters`] counts the reason.
//! * **One connection for each pair.** The replica with the lower id dials, with pauses of 50 ms to
//!   2 s between attempts; the other one accepts. A newer connection of a peer replaces the older
//!   one.
//! * **Sending never blocks.** A message is queued and wakes the connection's task, which both
//!   reads and writes. The task writes everything queued at once. Queues are bounded. If a peer's
//!   queue is full, the oldest message is dropped; the protocol sends again whatever matters. A
//!   client that does not read is disconnected.
//! * **Receiving pushes back.** While the [queue](inbound()) is full, in messages or in bytes, the
//!   socket is not read. A replica can also pause one client's connection
//!   ([`ClientListener::pause`]).
//! * **Announced lengths are not believed.** Memory grows only with the bytes that arrived.
//!   Handshake and hello have a deadline, and so has the next whole frame (pings count). All client
//!   connections share one memory budget, and a long frame waits for room in it. Connections are
//!   bounded in number, in all and by address. Connections in the handshake have bounds of their
//!   own.

#![forbid(unsafe_code)]

mod accept;
mod budget;
mod carrier;
mod clients;
mod connection;
mod counters;
mod dial;
mod door;
mod framing;
#[doc(hidden)]
pub mod fuzz;
mod handshake;
mod hello;
mod inbound;
mod link;
pub mod measure;
mod name;
mod outbox;
mod pause;
mod peers;
pub mod places;
mod quic;
mod socket;
mod tcp;
mod tls;
mod udp;
mod unreached;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use quorate_core::limits::MAX_PEER_MESSAGE_BYTES;

pub use accept::LEAVING;
pub use clients::{ClientListener, ConnectionId, Event, Gate};
pub use connection::{Connection, connect, connect_to_anybody};
pub use counters::Counters;
pub use dial::{DialError, ReceiveHalf, SendHalf, dial};
pub use door::Door;
pub use hello::{NoVersions, Refusal, Versions};
pub use inbound::{Arrivals, Inbound, Room, inbound};
pub use name::TransportName;
pub use outbox::SendError;
pub use peers::{Member, Mesh, Peers};
pub use places::Network;
pub use socket::PeerSocket;
pub use tls::{Identity, TlsError};

/// A function called after messages were put into an inbound queue, or a connection came or went.
/// It wakes the deciding thread.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// The reason why a mesh was not started.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The transport key cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket for other replicas cannot be used.
    #[error("the socket for other replicas cannot be used: {0}")]
    Socket(#[from] std::io::Error),
}

/// The default for the bytes that client connections may hold together.
pub const CLIENTS_HELD_BYTES: usize = 96 << 20;

/// The limits of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame accepted, in bytes.
    pub frame_bytes: usize,
    /// Bytes that may wait to be sent to one other side. Bytes that are being written come on top.
    pub queue_bytes: usize,
    /// Messages that may wait to be sent to one other side.
    pub queue_messages: usize,
    /// The time for TLS and hello together. Setting up TCP, QUIC or UDP before it has the same time
    /// again.
    pub handshake: Duration,
    /// A connection is closed if no whole frame arrived for this long (pings count), or if nothing
    /// could be written for this long.
    pub idle: Duration,
    /// A ping is sent when nothing else was sent for this long. Less than half of the other side's
    /// `idle`.
    pub ping_every: Duration,
    /// Connections in the handshake, whose other side is not known yet. At this number the oldest
    /// one gives way. Connections from addresses of replicas have the same number of places of
    /// their own.
    pub half_open: usize,
    /// The same, from one address.
    pub half_open_per_address: usize,
    /// Connections of clients that passed the handshake.
    pub connections: usize,
    /// The same, from one address.
    pub connections_per_address: usize,
    /// Bytes that client connections may hold together: frames that have not arrived completely,
    /// and messages that have not been sent. Long frames wait for room. Beyond the limit, the
    /// connections that hold most end.
    pub held_bytes: usize,
    /// The time for which a client's connection may keep what it holds, and release nothing, while
    /// others wait for room.
    pub held_for: Duration,
    /// Bytes that the system may hold over TCP that it has not sent, if there is a bound (on
    /// Linux). Messages cannot go before what it holds: see [`Peers::broadcast_behind`].
    pub not_sent_bytes: Option<u32>,
    /// Whether UDP sends lost packets again, as it does but in a laboratory. Both ends must agree.
    pub retransmission: bool,
}

impl Limits {
    /// The limits of the mesh: frames up to 16 MiB, 64 MiB queued for each peer.
    #[must_use]
    pub fn peers() -> Self {
        Self {
            frame_bytes: MAX_PEER_MESSAGE_BYTES,
            queue_bytes: 64 << 20,
            queue_messages: 65_536,
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(10),
            ping_every: Duration::from_secs(2),
            half_open: 512,
            half_open_per_address: 64,
            connections: 1024,
            connections_per_address: 1024,
            held_bytes: usize::MAX,
            held_for: Duration::from_secs(2),
            not_sent_bytes: None,
            retransmission: true,
        }
    }

    /// The limits of clients: frames up to 5 MiB (the longest request frame is a little over 4
    /// MiB), 8 MiB queued for each client.
    #[must_use]
    pub fn clients() -> Self {
        Self {
            frame_bytes: 5 << 20,
            queue_bytes: 8 << 20,
            queue_messages: 65_536,
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(30),
            ping_every: Duration::from_secs(5),
            half_open: 1024,
            half_open_per_address: 256,
            connections: 8192,
            connections_per_address: 4096,
            held_bytes: CLIENTS_HELD_BYTES,
            held_for: Duration::from_secs(2),
            not_sent_bytes: None,
            retransmission: true,
        }
    }

    fn room(&self) -> outbox::Room {
        outbox::Room { bytes: self.queue_bytes, messages: self.queue_messages }
    }
}
