//! A client's connection without a task of its own. Its owner polls it, so that a replica's answers
//! reach the owner without a switch between tasks.

use std::fmt;
use std::io::ErrorKind;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::{Digest, ReplicaId};

use super::Limits;
use super::carrier::Carrier as _;
use super::counters::Counters;
use super::dial::DialError;
use super::handshake::HandshakeError;
use super::hello::{Hello, Refusal, Role, Versions};
use super::link::Link;
use super::outbox::{Outbox, SendError};
use super::tcp::{self, Tcp};
use super::tls::client_config;

/// A connection that makes progress only while it is polled. Dropping it ends it.
pub struct Connection {
    pub(super) link: Link<tcp::Stream>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) replica: ReplicaId,
}

/// Connects to the replica at `address` (`host:port`) that shows `key` and serves `chain`.
///
/// # Errors
/// [`DialError`] names the problem and the replica.
pub async fn connect(
    address: &str,
    key: PublicKey,
    chain: Digest,
    limits: Limits,
) -> Result<Connection, DialError> {
    reach(address, Some(key), chain, limits).await
}

/// Connects to the replica at `address` that serves `chain`, whoever it is. What comes this way is
/// anybody's word: ask for nothing but what proves itself.
///
/// # Errors
/// [`DialError`] names the problem.
pub async fn connect_to_anybody(
    address: &str,
    chain: Digest,
    limits: Limits,
) -> Result<Connection, DialError> {
    reach(address, None, chain, limits).await
}

async fn reach(
    address: &str,
    key: Option<PublicKey>,
    chain: Digest,
    limits: Limits,
) -> Result<Connection, DialError> {
    let way = Arc::new(client_config(None, key.as_ref().map(std::slice::from_ref))?);
    let hello = Hello { versions: Versions::PROGRAM, chain, role: Role::Client };
    let established = Tcp::dial(&way, address, hello, limits).await.map_err(|error| {
        let address = address.to_owned();
        match error {
            HandshakeError::Unreachable(source) if source.kind() == ErrorKind::TimedOut => {
                DialError::TimedOut { address }
            }
            HandshakeError::Unreachable(source) | HandshakeError::Io(source) => {
                DialError::Io { address, source }
            }
            HandshakeError::Key => DialError::Key { address },
            HandshakeError::Refused(refusal, _) => DialError::Refused { address, refusal },
            HandshakeError::TimedOut => DialError::TimedOut { address },
        }
    })?;
    let Role::Server(replica) = established.role else {
        return Err(DialError::Refused { address: address.to_owned(), refusal: Refusal::Role });
    };
    let outbox = Arc::new(Outbox::new(limits.room()));
    let link = Link::new(established, outbox.clone(), &limits, Arc::<Counters>::default());
    Ok(Connection { link, outbox, replica })
}

impl Connection {
    /// The id that the replica has given.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// The version of the protocol that both sides agreed on.
    #[must_use]
    pub fn version(&self) -> u16 {
        self.link.version()
    }

    /// Queues `message`. The next poll of the connection writes it; this call wakes no task. If
    /// there is no room for the message, the connection ends.
    ///
    /// # Errors
    /// [`SendError::Full`] if there was no room, [`SendError::Closed`] if the connection had ended
    /// before.
    pub fn push(&mut self, message: Bytes) -> Result<(), SendError> {
        self.outbox.put_or_break(message)
    }

    /// Writes what is queued, as far as the socket takes it. [`poll_receive`](Self::poll_receive)
    /// reports the end of the connection.
    pub fn write(&mut self, cx: &mut Context<'_>) {
        let _ = self.link.poll_write(cx);
    }

    /// Writes what is queued, then reads. Returns the next frame, or `None` once the connection has
    /// ended.
    pub fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(ready!(self.link.poll_frame(cx)).ok())
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "connection to {:?}", self.replica)
    }
}
