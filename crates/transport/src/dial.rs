//! A client's connection to one replica.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use quorate_core::base::crypto::PublicKey;
use quorate_core::{Digest, ReplicaId};

use super::connection::{Connection, connect};
use super::hello::Refusal;
use super::inbound::{Arrivals, inbound};
use super::outbox::{Outbox, SendError};
use super::tls::TlsError;
use super::{Limits, Wake};

/// Received frames that may wait to be taken. Beyond that the socket is not read.
const INBOUND_FRAMES: usize = 1024;
/// The bytes of these frames.
const INBOUND_BYTES: u32 = 32 << 20;

/// The reason why a replica could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The TCP connection failed, or broke during the handshake.
    #[error("replica at {address}: {source}")]
    Io {
        /// The address dialled.
        address: String,
        /// The system's error.
        source: io::Error,
    },
    /// The replica has another key than the expected one.
    #[error("replica at {address}: has another key than expected; compare the cluster file")]
    Key {
        /// The address dialled.
        address: String,
    },
    /// The replica is not the expected one.
    #[error("replica at {address}: {refusal}")]
    Refused {
        /// The address dialled.
        address: String,
        /// What does not match.
        refusal: Refusal,
    },
    /// The handshake took too long.
    #[error("replica at {address}: the handshake did not finish in time")]
    TimedOut {
        /// The address dialled.
        address: String,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// The sending half of a connection. When it is dropped, everything queued is sent and the
/// connection ends.
pub struct SendHalf {
    outbox: Arc<Outbox>,
    replica: ReplicaId,
}

/// The receiving half of a connection. When it is dropped, the connection ends.
pub struct ReceiveHalf {
    frames: Arrivals<Bytes>,
    outbox: Arc<Outbox>,
}

/// Connects to the replica at `address` (`host:port`) that shows `key` and serves `chain`, on the
/// current tokio runtime.
///
/// # Errors
/// [`DialError`] names the problem and the replica.
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn dial(
    address: &str,
    key: PublicKey,
    chain: Digest,
    limits: Limits,
) -> Result<(SendHalf, ReceiveHalf), DialError> {
    let Connection { link, outbox, replica } = connect(address, key, chain, limits).await?;
    let (inbound, frames) = inbound(INBOUND_FRAMES, INBOUND_BYTES);
    let ending = outbox.clone();
    tokio::spawn(async move {
        let nobody: Wake = Arc::new(|| {});
        link.run(&inbound, &nobody, |frame| frame).await;
        ending.fail();
    });
    Ok((SendHalf { outbox: outbox.clone(), replica }, ReceiveHalf { frames, outbox }))
}

impl SendHalf {
    /// The id that the replica has given.
    #[must_use]
    pub fn replica(&self) -> ReplicaId {
        self.replica
    }

    /// Queues `message` if there is room.
    ///
    /// # Errors
    /// [`SendError::Full`] if there is none, [`SendError::Closed`] if the connection has ended.
    pub fn try_send(&self, message: Bytes) -> Result<(), SendError> {
        self.outbox.push(message)
    }

    /// Queues `message`, and waits for room if necessary.
    ///
    /// # Errors
    /// [`SendError::Closed`] if the connection has ended.
    pub async fn send(&self, message: Bytes) -> Result<(), SendError> {
        loop {
            match self.outbox.push(message.clone()) {
                Err(SendError::Full) => {}
                other => return other,
            }
            poll_fn(|cx| match self.outbox.poll_room(&message, cx.waker()) {
                Err(SendError::Full) => Poll::Pending,
                _ => Poll::Ready(()),
            })
            .await;
        }
    }
}

impl Drop for SendHalf {
    fn drop(&mut self) {
        self.outbox.close();
    }
}

impl ReceiveHalf {
    /// The next frame; `None` once the connection has ended.
    pub async fn receive(&mut self) -> Option<Bytes> {
        self.frames.recv().await
    }

    /// The next frame, if it has arrived already.
    pub fn try_receive(&mut self) -> Option<Bytes> {
        self.frames.try_recv().map(|(frame, _)| frame)
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        self.outbox.close();
    }
}
