//! The gateway's cluster: one replicated session that all its connections share.

use bytes::Bytes;
use quorate_core::client::{ClientError, NotExecuted};
use quorate_core::frame::{MAX_BODY_BYTES, MAX_COMMANDS};

use super::{Cluster, ClusterError, Submission};
use crate::client::Client;

impl Cluster for Client {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        // Each part takes its place in the session here, before anything is awaited.
        let parts: Vec<_> =
            frames(commands).into_iter().map(|part| Self::submit(self, part)).collect();
        Box::pin(async move {
            let mut replies = Vec::new();
            for part in parts {
                replies.extend(part.await.map_err(cluster_error)?);
            }
            Ok(replies)
        })
    }
}

/// The commands in groups that fit a frame each.
fn frames(commands: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut bytes = 0;
    for command in commands {
        let length = 4 + command.len();
        if part.len() == MAX_COMMANDS || bytes + length > MAX_BODY_BYTES && !part.is_empty() {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += length;
        part.push(command);
    }
    parts.push(part);
    parts
}

fn cluster_error(error: ClientError) -> ClusterError {
    match error {
        ClientError::Retryable(NotExecuted::Backlog | NotExecuted::NoRoomForSession) => {
            ClusterError::Busy
        }
        ClientError::Retryable(_) | ClientError::Fatal(_) => ClusterError::Unavailable,
        ClientError::Ambiguous(_) => ClusterError::Unknown,
    }
}
