//! Room for the bytes that connections hold, shared by all of them.
//!
//! Each connection has limits of its own. Ten thousand connections at their limits would still be
//! more than a machine has, so they also share one.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What room is counted in. A holding smaller than that is free.
const UNIT_BYTES: usize = 1 << 10;

/// The room.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    room: Arc<Semaphore>,
    units: usize,
}

impl Budget {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let units = (bytes / UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS.min(1 << 30));
        Self { room: Arc::new(Semaphore::new(units)), units }
    }

    /// Waits for room, which is given back when the permit is dropped. More than all there is
    /// counts as all.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = (bytes / UNIT_BYTES).min(self.units);
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        Arc::clone(&self.room).acquire_many_owned(units).await.ok()
    }

    /// Whether little is left: then nobody is waited for long.
    pub(super) fn is_short(&self) -> bool {
        self.room.available_permits() < self.units / 8
    }
}
