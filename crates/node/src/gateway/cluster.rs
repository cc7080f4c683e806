//! The gateway's cluster: one replicated session that all its connections share.

use bytes::Bytes;
use quorate_core::client::{ClientError, NotExecuted};

use super::{Cluster, ClusterError, Submission};
use crate::client::Client;

impl Cluster for Client {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        // It takes its place in the session here, before anything is awaited.
        let replies = Self::submit(self, commands);
        Box::pin(async move { replies.await.map_err(cluster_error) })
    }
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
