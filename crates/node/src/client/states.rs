//! Snapshots, as replicas send them to whoever asks. What arrives is for the caller to check.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Request, Response, Unproven};
use quorate_core::{Digest, Height, ReplicaId};
use quorate_transport::Connection;

use super::ReplicaAddress;
use super::pull::dial;
use super::verified::AskError;

/// How long a replica may take to answer. What clients are sent is paced.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);
/// How often a chunk is asked for that is still being made, or while the replica is busy, ...
const ATTEMPTS: u32 = 100;
/// ... and how long apart.
const PAUSE: Duration = Duration::from_millis(100);

/// A replica that is asked for its newest snapshot.
pub struct SnapshotSource {
    connection: Connection,
    /// Numbers the questions.
    asked: u64,
}

impl SnapshotSource {
    /// Connects to a replica.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn dial(
        replica: ReplicaId,
        address: ReplicaAddress,
        chain: Digest,
    ) -> Result<Self, AskError> {
        let dialled = tokio::time::timeout(ANSWER_WITHIN, dial(replica, address, chain)).await;
        let connection = dialled.map_err(|_| AskError::Silent)?;
        let connection = connection.map_err(|error| AskError::Dial(error.to_string()))?;
        Ok(Self { connection, asked: 0 })
    }

    /// The encoded offer of its newest snapshot; empty: it has none.
    ///
    /// # Errors
    /// [`AskError`].
    pub async fn offer(&mut self) -> Result<Bytes, AskError> {
        match self.answer(|id| Request::Offer { id }).await? {
            Response::Offer { offer, .. } => Ok(offer),
            _ => Err(AskError::Closed),
        }
    }

    /// A chunk of the snapshot at a height, and whether it is the last.
    ///
    /// # Errors
    /// [`AskError::Replaced`] if another snapshot took its place; others.
    pub async fn chunk(&mut self, height: Height, chunk: u32) -> Result<(Bytes, bool), AskError> {
        match self.answer(|id| Request::Chunk { id, height, chunk }).await? {
            Response::Chunk { bytes, last, .. } => Ok((bytes, last)),
            Response::Offer { .. } => Err(AskError::Replaced),
            _ => Err(AskError::Closed),
        }
    }

    /// The answer to a question, which is asked again while the replica has none yet.
    async fn answer(&mut self, request: impl Fn(u64) -> Request) -> Result<Response, AskError> {
        let mut last = Unproven::Unavailable;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(PAUSE).await;
            }
            match tokio::time::timeout(ANSWER_WITHIN, self.ask(&request)).await {
                Ok(Err(AskError::Unproven(reason))) => last = reason,
                Ok(answered) => return answered,
                Err(_) => return Err(AskError::Silent),
            }
        }
        Err(AskError::Unproven(last))
    }

    async fn ask(&mut self, request: impl Fn(u64) -> Request) -> Result<Response, AskError> {
        self.asked += 1;
        let asked = self.asked;
        let request = request(asked).to_bytes().into();
        self.connection.push(request).map_err(|_| AskError::Closed)?;
        while let Some(message) = poll_fn(|cx| self.connection.poll_receive(cx)).await {
            let response = Response::from_bytes(message).map_err(AskError::Garbage)?;
            match response {
                Response::Offer { id, .. } | Response::Chunk { id, .. } if id == asked => {
                    return Ok(response);
                }
                Response::Unproven { id, reason } if id == asked => {
                    return Err(AskError::Unproven(reason));
                }
                _ => {}
            }
        }
        Err(AskError::Closed)
    }
}
