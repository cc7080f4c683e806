//! Room in the log and in memory: writers wait for it, and request the checkpoints that make it.

use super::checkpoint;
use super::error::Error;
use super::options::WriteOut;
use super::store::{Shared, Store, lock};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Writers wait when the log exceeds a checkpoint's share by this factor.
const LOG_STALL: u64 = 4;

impl Store {
    /// Waits while the log is too long, or too many pages wait to be written out. If the owner
    /// makes the checkpoints, it waits only for a running one.
    pub(super) fn wait_for_room(&self) -> Result<(), Error> {
        let shared = &*self.shared;
        if shared.has_room() {
            return Ok(());
        }
        let logs = shared.options.log_commits;
        if shared.options.write_out == WriteOut::Inline {
            // Otherwise the owner, which is this thread, must begin it.
            return if logs { checkpoint::run(shared) } else { Ok(()) };
        }
        let begun = std::time::Instant::now();
        // The count is read and the request made under one lock. So a checkpoint that serves this
        // request ends after `before`.
        let mut signal = lock(&shared.signal);
        if !logs && !signal.under_way {
            // The owner must begin one.
            return Ok(());
        }
        let before = signal.ended;
        shared.counters.stalls.fetch_add(1, Ordering::Relaxed);
        // Without a log the running checkpoint may end without making room, and the owner must
        // begin the next.
        while signal.ended == before
            && (logs || signal.under_way)
            && !shared.has_room()
            && !signal.failed
        {
            // The thread may have withdrawn the request while there was room.
            if logs && shared.wish.utter() {
                shared.signalled.notify_all();
            }
            signal = shared.signalled.wait(signal).unwrap_or_else(PoisonError::into_inner);
        }
        drop(signal);
        let waited = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        shared.counters.stall_ns.fetch_add(waited, Ordering::Relaxed);
        Ok(())
    }
}

impl Shared {
    /// After a commit: makes or requests a checkpoint if one is due.
    pub(super) fn ask_for_checkpoint(&self) -> Result<(), Error> {
        if self.options.log_commits && !self.is_short() {
            match self.options.write_out {
                WriteOut::Inline => checkpoint::run(self)?,
                WriteOut::Background => self.want_checkpoint(),
            }
        }
        Ok(())
    }

    fn log_bytes(&self) -> u64 {
        self.gathered
            .log_to
            .load(Ordering::Relaxed)
            .saturating_sub(self.gathered.log_from.load(Ordering::Relaxed))
    }

    /// Whether no checkpoint is due.
    pub(super) fn is_short(&self) -> bool {
        self.log_bytes() < self.options.checkpoint_bytes
            && self.gathered.shadow_bytes.load(Ordering::Relaxed)
                < self.options.write_buffer_bytes / 2
    }

    pub(super) fn has_room(&self) -> bool {
        let short = self.log_bytes() < LOG_STALL.saturating_mul(self.options.checkpoint_bytes);
        (short || !self.options.log_commits)
            && self.gathered.shadow_bytes.load(Ordering::Relaxed) < self.options.write_buffer_bytes
    }

    fn want_checkpoint(&self) {
        if self.wish.utter() {
            let _signal = lock(&self.signal);
            self.signalled.notify_all();
        }
    }
}
