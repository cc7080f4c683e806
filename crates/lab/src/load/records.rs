//! Writes the records that a workload needs.

use std::sync::{Arc, Mutex, PoisonError};

use quorate_core::client::Packed;
use quorate_node::client::Client;
use tokio::task::JoinSet;

use super::{LoadError, Workload};

/// Frames of each session under way.
const OUTSTANDING: usize = 4;

/// Writes them, by all sessions together, and waits until all are there.
pub(super) async fn write(workload: &Workload, clients: &[Client]) -> Result<(), LoadError> {
    let batches = Arc::new(Mutex::new(workload.loading()));
    let mut writers = JoinSet::new();
    for client in clients {
        for _ in 0..OUTSTANDING {
            let (client, batches) = (client.clone(), Arc::clone(&batches));
            writers.spawn(async move {
                loop {
                    let next: Option<Packed> =
                        batches.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(batch) = next else { return Ok(()) };
                    client.submit_packed(batch).await.map_err(|error| error.to_string())?;
                }
            });
        }
    }
    while let Some(written) = writers.join_next().await {
        let written = written.unwrap_or_else(|error| Err(error.to_string()));
        written.map_err(LoadError::Records)?;
    }
    Ok(())
}
