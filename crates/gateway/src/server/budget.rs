//! Room for the bytes that connections hold, shared by all of them.
//!
//! Each connection has limits of its own. Ten thousand connections at their limits would still be
//! more than a machine has, so they also share one.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What room is counted in. A holding smaller than that is free.
const UNIT_BYTES: usize = 1 << 10;
/// The gateway's own answers have this part of the room.
const LOCAL_PART: usize = 4;

/// The room.
#[derive(Clone, Debug)]
pub(super) struct Budget {
    room: Arc<Semaphore>,
    units: usize,
    /// For the gateway's own answers, so that those who do not read them keep no commands waiting.
    local: Arc<Semaphore>,
    local_units: usize,
}

impl Budget {
    /// Room for so many bytes.
    pub(super) fn new(bytes: usize) -> Self {
        let all = (bytes / UNIT_BYTES).clamp(2, Semaphore::MAX_PERMITS.min(1 << 30));
        let local_units = (all / LOCAL_PART).max(1);
        let units = all - local_units;
        let room = |units| Arc::new(Semaphore::new(units));
        Self { room: room(units), units, local: room(local_units), local_units }
    }

    /// Waits for room, which is given back when the permit is dropped. More than all there is
    /// counts as all.
    pub(super) async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        take(&self.room, bytes, self.units).await
    }

    /// The same for an answer of the gateway's own.
    pub(super) async fn take_local(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        take(&self.local, bytes, self.local_units).await
    }

    /// Whether little is left: then nobody is waited for long.
    pub(super) fn is_short(&self) -> bool {
        self.room.available_permits() < self.units / 8
            || self.local.available_permits() < self.local_units / 8
    }
}

async fn take(room: &Arc<Semaphore>, bytes: usize, most: usize) -> Option<OwnedSemaphorePermit> {
    let units = u32::try_from((bytes / UNIT_BYTES).min(most)).unwrap_or(u32::MAX);
    Arc::clone(room).acquire_many_owned(units).await.ok()
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn at_once<T>(taking: impl Future<Output = Option<T>>) -> Option<T> {
        match pin!(taking).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => taken,
            Poll::Pending => None,
        }
    }

    #[test]
    fn answers_of_the_gateway_s_own_keep_no_command_waiting() {
        let budget = Budget::new(1 << 20);
        let answers = at_once(budget.take_local(usize::MAX)).expect("nobody has any");
        assert!(at_once(budget.take_local(UNIT_BYTES)).is_none());
        assert!(budget.is_short());
        let commands = at_once(budget.take(usize::MAX)).expect("commands have their own");
        assert!(at_once(budget.take(UNIT_BYTES)).is_none());
        assert_eq!(answers.num_permits() + commands.num_permits(), (1 << 20) / UNIT_BYTES);
        drop((answers, commands));
        assert!(!budget.is_short());
    }
}
