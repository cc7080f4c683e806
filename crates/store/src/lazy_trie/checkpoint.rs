//! Checkpoints, made by the store's thread or by the writer, or begun by the owner and finished by
//! another thread.

use super::batch::CHECKPOINT;
use super::capture::{Capture, Written};
use super::entry::Address;
use super::error::Error;
use super::head::{Head, HeadFile, LOG_TO_BEGIN};
use super::snapshot::{Held, Snapshot};
use super::store::{Shared, Store, lock};
use super::writer::Writer;
use crate::disk::{Disk, DiskFile};
use crate::wal::{Durability, Position};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Makes a checkpoint of the last commit.
///
/// # Errors
/// [`Error::Io`], [`Error::Log`] or [`Error::LimitReached`], after which nothing is written any
/// more; [`Error::Stopped`].
pub(super) fn run(shared: &Shared) -> Result<(), Error> {
    let claim = Claim::new(shared);
    shared.wish.take_back();
    let made = begin(shared).and_then(|begun| finish(shared, begun));
    claim.end(made)
}

/// Waits for the running checkpoint, if there is one. From now on only the caller may run one.
fn claim(shared: &Shared) {
    let mut signal = lock(&shared.signal);
    while signal.under_way {
        signal = shared.signalled.wait(signal).unwrap_or_else(PoisonError::into_inner);
    }
    signal.under_way = true;
}

/// The right to run a checkpoint. If it is dropped before its end, there will be no other
/// checkpoint.
struct Claim<'a> {
    shared: &'a Shared,
    ended: bool,
}

impl<'a> Claim<'a> {
    fn new(shared: &'a Shared) -> Claim<'a> {
        claim(shared);
        Claim { shared, ended: false }
    }

    fn end<T>(mut self, result: Result<T, Error>) -> Result<T, Error> {
        self.ended = true;
        end(self.shared, result)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.ended {
            // A bug in the program: the waiting threads must not wait without end.
            let reason = "the thread that made a checkpoint panicked".to_owned();
            let _ = end::<()>(self.shared, Err(Error::Stopped { reason }));
        }
    }
}

/// Prevents checkpoints until it is dropped.
pub(super) struct Pause<'a>(&'a Shared);

impl<'a> Pause<'a> {
    pub(super) fn new(shared: &'a Shared) -> Pause<'a> {
        claim(shared);
        Pause(shared)
    }
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        lock(&self.0.signal).under_way = false;
        self.0.signalled.notify_all();
    }
}

/// Tells all waiting threads that the running checkpoint has ended.
fn end<T>(shared: &Shared, result: Result<T, Error>) -> Result<T, Error> {
    if let Err(error) = &result {
        shared.stop(error);
    }
    let mut signal = lock(&shared.signal);
    signal.under_way = false;
    signal.ended += 1;
    signal.failed |= result.is_err();
    drop(signal);
    shared.signalled.notify_all();
    result
}

/// A checkpoint that was begun; its commit is fixed. It counts once it is [finished](Self::finish).
/// No other one can begin before that. If it is dropped unfinished, the store accepts no further
/// commit.
#[must_use]
pub struct Checkpoint {
    store: Arc<Store>,
    begun: Option<Begun>,
}

impl Store {
    /// Writes all changes to the space, so that the next start has nothing to replay.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Log`], [`Error::LimitReached`], [`Error::Stopped`].
    pub fn checkpoint(&self) -> Result<(), Error> {
        run(&self.shared)
    }

    /// Begins a checkpoint of the last commit. Another thread finishes it while commits go on.
    /// Waits for a running one. So the caller must finish a checkpoint before the same thread
    /// begins another one or calls [`Store::checkpoint`] or [`Store::check`].
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn begin_checkpoint(self: &Arc<Self>) -> Result<Checkpoint, Error> {
        let mut claim = Claim::new(&self.shared);
        match begin(&self.shared) {
            Ok(begun) => {
                claim.ended = true;
                Ok(Checkpoint { store: Arc::clone(self), begun: Some(begun) })
            }
            Err(error) => claim.end(Err(error)),
        }
    }

    /// Whether a checkpoint is due. If commits are not logged
    /// ([`Options::log_commits`](super::Options::log_commits)), the owner has to make it.
    #[must_use]
    pub fn checkpoint_is_due(&self) -> bool {
        let shared = &self.shared;
        if shared.options.log_commits {
            return !shared.is_short();
        }
        shared.gathered.changed_bytes.load(Ordering::Relaxed) >= shared.options.checkpoint_bytes
            || shared.gathered.shadow_bytes.load(Ordering::Relaxed)
                >= shared.options.write_buffer_bytes / 2
    }

    /// A view of the last checkpoint that counts: the state after a crash, without the log. Its
    /// data exists as long as the checkpoint counts, and longer while the view exists.
    ///
    /// # Errors
    /// As [`Store::snapshot`].
    pub fn checkpointed(self: &Arc<Self>) -> Result<Snapshot<'static>, Error> {
        // Both locks are held when another checkpoint begins to count, and when slots of this one
        // are released.
        let log = lock(&self.shared.log);
        let _writer = lock(&self.shared.writer);
        Snapshot::checkpointed(Held::Shared(Arc::clone(self)), &log.head)
    }
}

impl Checkpoint {
    /// Makes the checkpoint durable.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn finish(mut self) -> Result<(), Error> {
        let claim = Claim { shared: &self.store.shared, ended: false };
        let finished = self.begun.take().map_or(Ok(()), |begun| finish(claim.shared, begun));
        claim.end(finished)
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        if self.begun.take().is_some() {
            let reason = "a checkpoint was begun and not finished".to_owned();
            // The next call of a writer reports it.
            let _ = end::<()>(&self.store.shared, Err(Error::Stopped { reason }));
        }
    }
}

/// The first step of a checkpoint.
struct Begun {
    capture: Capture,
    head: Head,
    /// The files of the head and of the log, which are written and synced while writers go on.
    head_file: HeadFile,
    log_file: Arc<dyn DiskFile>,
    disk: Arc<dyn Disk>,
}

fn finish(shared: &Shared, begun: Begun) -> Result<(), Error> {
    let Begun { mut capture, mut head, head_file, log_file, disk } = begun;
    // The checkpoint must not be ahead of the log. Most of the log is written here, beside writers,
    // and then the records that they add meanwhile. They wait only for the rest.
    for _ in 0..2 {
        log_file.sync_data().map_err(Error::io("the log", "sync"))?;
    }
    lock(&shared.log).sync()?;
    let classes = super::classes::Classes::new(shared.memory.slab_bytes() as u32);
    let old_regions = lock(&shared.log).head.regions as usize;
    let written = capture.write_out(&shared.memory, &classes, old_regions)?;
    if capture.region_count() != old_regions {
        disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    }
    head.enter(&written);
    head_file.write(&head)?;
    let mut log = lock(&shared.log);
    log.head = head;
    log.log.retire_before(Position(head.log_position))?;
    shared.gathered.log_from.store(head.log_position, Ordering::Relaxed);
    let mut writer = shared.writer()?;
    // The writer does not know the versions of commits side by side.
    let next = writer.version.max(log.settled) + 1;
    writer.space.settle(capture, head.version, next);
    let oldest = shared.oldest();
    writer.space.release(oldest, log.settled);
    shared.tell_shadows(&writer);
    shared.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
    shared.counters.space_bytes_written.fetch_add(written.bytes, Ordering::Relaxed);
    Ok(())
}

fn begin(shared: &Shared) -> Result<Begun, Error> {
    let mut alone = shared.alone();
    let mut log = lock(&shared.log);
    let mut writer = shared.writer()?;
    shared.unite(&mut alone, &mut writer)?;
    writer.write_digests()?;
    shared.flush(&mut log, &mut writer, Durability::Os)?;
    let number = log.head.number;
    // This record with an older head proves that the newer head was lost. Slots of the older one
    // may have been reused since.
    let position = log.log.append(CHECKPOINT, &[&number.to_le_bytes()])?;
    log.log.commit(None, Durability::Os)?;
    let old_ledger = (log.head.ledger_bytes > 0).then_some(Address(log.head.ledger_address));
    let capture = writer.space.capture(old_ledger)?;
    shared.gathered.changed_bytes.store(0, Ordering::Relaxed);
    let head = next_head(&log.head, &writer, capture.region_count(), position);
    let log_file = log.log.reopened_file()?;
    let (head_file, disk) = (log.head_file.clone(), Arc::clone(&writer.space.disk));
    Ok(Begun { capture, head, head_file, log_file, disk })
}

/// The head of a checkpoint of `writer`'s state, without the ledger.
fn next_head(last: &Head, writer: &Writer, regions: usize, position: Position) -> Head {
    Head {
        number: last.number + 1,
        regions: regions as u32,
        version: writer.version,
        root: writer.shown(),
        items: writer.totals.items,
        key_bytes: writer.totals.key_bytes,
        value_bytes: writer.totals.value_bytes,
        log_generation: last.log_generation,
        log_position: position.0,
        ..Head::default()
    }
}

impl Head {
    fn enter(&mut self, written: &Written) {
        self.ledger_address = written.ledger_address.0;
        self.ledger_bytes = written.ledger_bytes;
        self.ledger_checksum = written.ledger_checksum;
    }
}

/// Makes a checkpoint of the state that was saved from a damaged log. Then a new log is begun.
///
/// # Errors
/// [`Error::Io`], [`Error::LimitReached`].
pub(super) fn without_log(
    writer: &mut Writer,
    head_file: &HeadFile,
    last: &Head,
) -> Result<Head, Error> {
    let old_ledger = (last.ledger_bytes > 0).then_some(Address(last.ledger_address));
    let mut capture = writer.space.capture(old_ledger)?;
    let mut head = next_head(last, writer, capture.region_count(), Position(LOG_TO_BEGIN));
    head.log_generation += 1;
    let old_regions = last.regions as usize;
    let written = capture.write_out(&writer.space.memory, &writer.space.classes, old_regions)?;
    writer.space.disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
    head.enter(&written);
    head_file.write(&head)?;
    writer.space.settle(capture, head.version, head.version + 1);
    Ok(head)
}

/// The work of a store's thread.
pub(super) fn work(shared: &Shared) {
    super::open::check_opened(shared);
    loop {
        let mut signal = lock(&shared.signal);
        // The owner's checkpoint may be running, which is enough.
        while !signal.stopping && (signal.under_way || !shared.wish.is_there()) {
            signal = shared.signalled.wait(signal).unwrap_or_else(PoisonError::into_inner);
        }
        if signal.stopping {
            return;
        }
        shared.wish.take_back();
        if shared.is_short() {
            // Writers request checkpoints until the running one has ended. Another one right after
            // it would write the same again. A waiting writer finds room.
            drop(signal);
            shared.signalled.notify_all();
            continue;
        }
        drop(signal);
        // The writer learns of an error from `stopped`.
        if run(shared).is_err() {
            return;
        }
    }
}
