//! Messages between replicas and with clients: length-prefixed frames, over TLS 1.3 on TCP, or,
//! between replicas, over QUIC or over DTLS 1.3 on UDP where the cluster file says so.
//!
//! * **Identity.** Each replica has an Ed25519 transport key, apart from the key it votes with.
//!   TLS shows the key itself (RFC 7250), over UDP a proof does, and the other side compares it
//!   with the one in the cluster file. Replicas authenticate each other; a client authenticates the replica, and what
//!   it asks for is signed with its own key anyway.
//! * **Hello.** The first frame each way says version, chain and role. Whoever does not fit is
//!   refused, and [`Counters`] says why.
//! * **One connection a pair.** The replica with the lower id dials and dials again, 50 ms to 2 s
//!   apart; the other accepts. A newer connection of the same peer takes the older one's place.
//! * **Sending never blocks.** A message is queued and the connection's task, which both reads and
//!   writes, is woken; it writes all that is queued at once. A queue is bounded: towards a peer
//!   the oldest message gives way (what matters is sent again by the protocol), a client that
//!   does not read is let go.
//! * **Receiving pushes back.** While the [queue](inbound()) is full, of messages or of bytes, the socket is not read.
//! * **Nothing announced is believed.** Memory grows with what arrived. Handshake and hello have a
//!   deadline; so has the next whole frame, pings included; all clients' connections share one
//!   budget of memory, and a long frame waits for room in it; connections are capped, in all and by
//!   address, apart from each other while they are in the handshake and once they are known.

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
pub use connection::{Connection, connect};
pub use counters::Counters;
pub use dial::{DialError, ReceiveHalf, SendHalf, dial};
pub use door::Door;
pub use hello::{PROTOCOL_VERSION, Refusal};
pub use inbound::{Arrivals, Inbound, Room, inbound};
pub use name::TransportName;
pub use outbox::SendError;
pub use peers::{Member, Mesh, Peers};
pub use places::Network;
pub use socket::PeerSocket;
pub use tls::{Identity, TlsError};

/// Called after messages were put into an inbound channel, or a connection came or went: wakes
/// the thread that decides.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Why a mesh was not started.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// The transport key.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The socket for other replicas.
    #[error("the socket for other replicas: {0}")]
    Socket(#[from] std::io::Error),
}

/// Bytes that connections of clients may hold together, unless somebody says otherwise.
pub const CLIENTS_HELD_BYTES: usize = 96 << 20;

/// What a connection may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest frame accepted, in bytes.
    pub frame_bytes: usize,
    /// Bytes that may wait to be sent to one other side. As many as are being written come on top.
    pub queue_bytes: usize,
    /// Messages that may wait to be sent to one other side.
    pub queue_messages: usize,
    /// Time for TLS and hello together, and as much before it for TCP, QUIC or UDP.
    pub handshake: Duration,
    /// A connection on which no whole frame (pings count) arrived for so long is closed; one that
    /// could not be written to for so long as well.
    pub idle: Duration,
    /// A ping is sent when nothing else was for so long. Less than half of the other side's `idle`.
    pub ping_every: Duration,
    /// Connections that are in the handshake, so that nobody knows yet whose they are. When there
    /// are so many, the oldest gives way. Those from addresses of replicas have as many places of
    /// their own.
    pub half_open: usize,
    /// The same from one address.
    pub half_open_per_address: usize,
    /// Connections of clients that passed the handshake.
    pub connections: usize,
    /// The same from one address.
    pub connections_per_address: usize,
    /// Bytes that connections of clients may hold together, of frames that have not arrived whole
    /// and of messages that have not left. Long frames wait for room; beyond it, those that hold
    /// most end.
    pub held_bytes: usize,
    /// How long a connection of a client may keep what it holds, and give nothing back, while
    /// others wait for room.
    pub held_for: Duration,
}

impl Limits {
    /// For the mesh: frames to 16 MiB, 64 MiB queued a peer.
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
        }
    }

    /// For clients: frames to 5 MiB (the longest request frame is 4 MiB and a little), 8 MiB
    /// queued a client.
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
        }
    }

    fn room(&self) -> outbox::Room {
        outbox::Room { bytes: self.queue_bytes, messages: self.queue_messages }
    }
}
