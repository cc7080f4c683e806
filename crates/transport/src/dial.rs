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

/// Frames received and not yet asked for; the socket is not read beyond that.
const INBOUND_FRAMES: usize = 1024;
/// Their bytes.
const INBOUND_BYTES: u32 = 32 << 20;

/// Why a replica could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// No TCP connection, or it broke in the handshake.
    #[error("replica at {address}: {source}")]
    Io {
        /// Whom.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// The replica has another key than the one given.
    #[error("replica at {address}: has not the expected key; compare it with the cluster file")]
    Key {
        /// Whom.
        address: String,
    },
    /// It is not what was expected.
    #[error("replica at {address}: {refusal}")]
    Refused {
        /// Whom.
        address: String,
        /// What is wrong.
        refusal: Refusal,
    },
    /// It took too long.
    #[error("replica at {address}: no answer in time")]
    TimedOut {
        /// Whom.
        address: String,
    },
    /// TLS could not be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// Sends to the replica. When it is dropped, what is queued is sent and the connection ends.
pub struct SendHalf {
    outbox: Arc<Outbox>,
    replica: ReplicaId,
}

/// Receives from the replica. When it is dropped, the connection ends.
pub struct ReceiveHalf {
    frames: Arrivals<Bytes>,
    outbox: Arc<Outbox>,
}

/// Connects to the replica at `address` (`host:port`) that shows `key` and serves `chain`, on the
/// current tokio runtime.
///
/// # Errors
/// [`DialError`] says what is wrong, and with whom.
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
    /// Who the replica says it is.
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

    /// Queues `message`, waiting for room.
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

    /// The next frame if it is there already.
    pub fn try_receive(&mut self) -> Option<Bytes> {
        self.frames.try_recv().map(|(frame, _)| frame)
    }
}

impl Drop for ReceiveHalf {
    fn drop(&mut self) {
        self.outbox.close();
    }
}
