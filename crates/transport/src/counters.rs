//! What the transport refused, dropped or closed, by reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::measure::Measure;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start, by reason. Shared by everything that belongs to one listener
        /// or mesh; each is a plain atomic.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// What connections' tasks do to take frames from their sockets: reading, opening TLS's
            /// records, cutting. Of QUIC and UDP only what the connection's task does, not what its
            /// socket's does.
            pub receive: Arc<Measure>,
            /// What they do to bring frames to their sockets: sealing, writing.
            pub send: Arc<Measure>,
        }

        impl Counters {
            /// Every counter with its name, in the order of declaration.
            #[must_use]
            pub fn all(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counters! {
    /// Connections that passed the handshake and the hello.
    opened,
    /// Those of them that have ended since, for whatever reason.
    closed,
    /// Frames received, pings aside.
    frames_in,
    /// Bytes of those frames.
    bytes_in,
    /// Frames handed to the socket, pings aside.
    frames_out,
    /// Bytes of those frames.
    bytes_out,
    /// A length above the cap was announced.
    oversized_frame,
    /// The TLS handshake or the hello failed: no TLS, no common version, garbage, hung up.
    bad_handshake,
    /// The handshake or the hello took longer than allowed.
    handshake_timeout,
    /// The other side has no key or not the one it should have.
    wrong_key,
    /// The other side belongs to another chain.
    wrong_chain,
    /// The other side speaks another version of the protocol.
    wrong_version,
    /// The other side is no such participant: a client where a replica is due, another replica.
    wrong_role,
    /// No whole frame arrived for too long.
    idle,
    /// A connection was turned away because there are too many, in all or from its address.
    too_many_connections,
    /// A connection gave way to a newer one: it was the oldest in the handshake, or the oldest of
    /// the address that has the most.
    gave_way,
    /// Accepting a connection failed: mostly, no file descriptors are left.
    accept_failed,
    /// Dialling a peer failed before the handshake: it is down or cannot be reached.
    dial_failed,
    /// Messages dropped because a peer's queue was full or the peer was not connected.
    dropped_outbound,
    /// Connections of clients ended because all together held too much: they held most, or kept
    /// what they held for too long while others waited.
    held_too_much,
    /// Long frames of clients that had to wait until there was room for them.
    waited_for_room,
    /// Connections closed because their queue was full or the other side stopped reading.
    slow_client,
    /// Connections given up for a newer one of the same peer.
    replaced,
}

pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
