//! Counters of frames and connections, and of what the transport refused, dropped or closed, by
//! reason.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::measure::Measure;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start, by reason. All parts of one listener or mesh share them. Each is
        /// a plain atomic.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
            /// The work of the connections' tasks to take frames from their sockets: read, open TLS
            /// records, cut frames. For QUIC and UDP the work of the socket's own task is not
            /// included.
            pub receive: Arc<Measure>,
            /// The work of the same tasks to bring frames to their sockets: seal and write.
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
    /// Of these, the connections that have ended, for any reason.
    closed,
    /// Frames received, without pings.
    frames_in,
    /// Bytes of those frames.
    bytes_in,
    /// Frames handed to the socket, without pings.
    frames_out,
    /// Bytes of those frames.
    bytes_out,
    /// A frame announced a length above the limit.
    oversized_frame,
    /// The TLS handshake or the hello failed: no TLS, no common version, malformed, or the other
    /// side hung up.
    bad_handshake,
    /// The handshake or the hello took longer than allowed.
    handshake_timeout,
    /// The other side has no key, or not the expected one.
    wrong_key,
    /// The other side belongs to another chain.
    wrong_chain,
    /// The other side speaks no version of the protocol that this one speaks.
    wrong_version,
    /// The other side is another participant than expected: a client instead of a replica, or
    /// another replica.
    wrong_role,
    /// No whole frame arrived within the idle time.
    idle,
    /// A connection was refused because there are too many, in all or from its address.
    too_many_connections,
    /// A connection gave way to a newer one: it was the oldest in the handshake, or the oldest of
    /// the address that has the most.
    gave_way,
    /// Accepting a connection failed, usually because no file descriptor was left.
    accept_failed,
    /// Dialling a peer failed before the handshake: the peer is down or cannot be reached.
    dial_failed,
    /// Messages dropped because a peer's queue was full or the peer was not connected.
    dropped_outbound,
    /// Client connections that ended because all together held too much memory: they held most, or
    /// kept what they held for too long while others waited.
    held_too_much,
    /// Long frames of clients that had to wait for room.
    waited_for_room,
    /// Connections closed because their queue was full or the other side stopped reading.
    slow_client,
    /// Connections that a newer one of the same peer replaced.
    replaced,
}

pub(super) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

pub(super) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}
