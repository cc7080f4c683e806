//! A simulated machine: its folders share the power and the injected faults.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// No fault is requested.
const NEVER: u64 = u64::MAX;

/// One machine. It counts the operations of all its folders together, and its power fails for all
/// of them at once. Clones share it.
#[derive(Clone)]
pub struct Machine {
    shared: Arc<Shared>,
}

struct Shared {
    /// The number of operations issued.
    operations: AtomicU64,
    /// The power fails right after this operation.
    cut_at: AtomicU64,
    is_off: AtomicBool,
    /// Nothing is written from this operation on.
    full_at: AtomicU64,
    /// Counts down to the sync that fails; 0: none.
    sync_fails_in: AtomicU64,
    fired: Counters,
}

#[derive(Default)]
struct Counters {
    syncs_failed: AtomicU64,
    writes_refused: AtomicU64,
    writes_lost: AtomicU64,
    writes_misdirected: AtomicU64,
}

/// The number of injected faults that have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// Syncs that returned an error.
    pub syncs_failed: u64,
    /// Writes and creations refused because the disk was full.
    pub writes_refused: u64,
    /// Writes that were reported as done and never happened.
    pub writes_lost: u64,
    /// Writes that were reported as done and went elsewhere.
    pub writes_misdirected: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// A machine whose power is on.
    #[must_use]
    pub fn new() -> Machine {
        Machine {
            shared: Arc::new(Shared {
                operations: AtomicU64::new(0),
                cut_at: AtomicU64::new(NEVER),
                is_off: AtomicBool::new(false),
                full_at: AtomicU64::new(NEVER),
                sync_fails_in: AtomicU64::new(0),
                fired: Counters::default(),
            }),
        }
    }

    /// The number of operations issued: creations, writes, renames, removals and syncs of all
    /// folders. Reads do not count.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.shared.operations.load(Relaxed)
    }

    /// The power fails right after the `n`-th operation from now (1: the next one). That one and
    /// all later ones return an error.
    pub fn cut_power_in(&self, n: u64) {
        self.shared.cut_at.store(self.operations() + n.max(1), Relaxed);
    }

    /// The power fails now.
    pub fn cut_power(&self) {
        self.shared.is_off.store(true, Relaxed);
    }

    /// Whether the power is off.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.shared.is_off.load(Relaxed)
    }

    /// The power is back. Before that, [`PowerDisk::lose`](super::PowerDisk::lose) decides which
    /// content of the folders is left.
    pub fn power_on(&self) {
        self.shared.is_off.store(false, Relaxed);
        self.shared.cut_at.store(NEVER, Relaxed);
    }

    /// The `n`-th sync from now (1: the next one) fails with `EIO`. Later ones succeed, as on
    /// Linux.
    pub fn fail_sync_in(&self, n: u64) {
        self.shared.sync_fails_in.store(n.max(1), Relaxed);
    }

    /// The disk is full after `n` more operations. Then writes and creations fail with
    /// `StorageFull`, even if they overwrite (some file systems never write in place).
    pub fn fill_in(&self, n: u64) {
        self.shared.full_at.store(self.operations() + n, Relaxed);
    }

    /// There is room again.
    pub fn free(&self) {
        self.shared.full_at.store(NEVER, Relaxed);
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.operations() >= self.shared.full_at.load(Relaxed)
    }

    /// Cancels the requested faults that have not happened: power, syncs, room.
    pub fn heal(&self) {
        self.shared.cut_at.store(NEVER, Relaxed);
        self.shared.sync_fails_in.store(0, Relaxed);
        self.free();
    }

    /// The number of faults that have happened.
    #[must_use]
    pub fn fired(&self) -> Fired {
        let fired = &self.shared.fired;
        Fired {
            syncs_failed: fired.syncs_failed.load(Relaxed),
            writes_refused: fired.writes_refused.load(Relaxed),
            writes_lost: fired.writes_lost.load(Relaxed),
            writes_misdirected: fired.writes_misdirected.load(Relaxed),
        }
    }

    /// Begins an operation. Returns its number, from 1.
    pub(super) fn begin(&self) -> io::Result<u64> {
        if self.is_off() {
            return Err(io::Error::other("injected power failure: the power is off"));
        }
        Ok(self.shared.operations.fetch_add(1, Relaxed) + 1)
    }

    /// Ends an operation.
    pub(super) fn end(&self, number: u64) -> io::Result<()> {
        if number >= self.shared.cut_at.load(Relaxed) {
            self.cut_power();
            return Err(io::Error::other("injected power failure"));
        }
        Ok(())
    }

    /// Whether operation `number` has room to write.
    pub(super) fn room(&self, number: u64) -> io::Result<()> {
        if number > self.shared.full_at.load(Relaxed) {
            self.shared.fired.writes_refused.fetch_add(1, Relaxed);
            return Err(io::Error::new(io::ErrorKind::StorageFull, "injected full disk"));
        }
        Ok(())
    }

    /// Whether this sync fails.
    pub(super) fn sync_fails(&self) -> bool {
        let left = self.shared.sync_fails_in.load(Relaxed);
        if left == 0 {
            return false;
        }
        self.shared.sync_fails_in.store(left - 1, Relaxed);
        if left == 1 {
            self.shared.fired.syncs_failed.fetch_add(1, Relaxed);
        }
        left == 1
    }

    pub(super) fn note_stray(&self, lost: bool) {
        let fired = &self.shared.fired;
        let counter = if lost { &fired.writes_lost } else { &fired.writes_misdirected };
        counter.fetch_add(1, Relaxed);
    }
}
