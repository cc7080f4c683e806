//! Checkpoints: by the thread of the store, or by the writer.

use super::batch::CHECKPOINT;
use super::capture::{Capture, Written};
use super::entry::Address;
use super::error::Error;
use super::head::{Head, HeadFile, LOG_TO_BEGIN};
use super::store::{Shared, lock};
use super::trail::Trails;
use super::writer::Writer;
use crate::disk::{Disk, DiskFile};
use crate::wal::{Durability, Position};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

/// Makes a checkpoint of the last commit.
///
/// # Errors
/// [`Error::Io`], [`Error::Log`], [`Error::LimitReached`], after which nothing is written any more; [`Error::Stopped`].
pub(super) fn run(shared: &Shared) -> Result<(), Error> {
    let _one = lock(&shared.checkpointing);
    shared.wanted.store(false, Ordering::Release);
    let result = make(shared);
    if let Err(error) = &result {
        shared.stop(error);
    }
    let mut signal = lock(&shared.signal);
    signal.ended += 1;
    signal.failed |= result.is_err();
    drop(signal);
    shared.signalled.notify_all();
    result
}

/// What a checkpoint begins with.
struct Begun {
    capture: Capture,
    head: Head,
    /// The files of the head and of the log, to be written and synced without keeping writers waiting.
    head_file: HeadFile,
    log_file: Arc<dyn DiskFile>,
    disk: Arc<dyn Disk>,
}

fn make(shared: &Shared) -> Result<(), Error> {
    let Begun { mut capture, mut head, head_file, log_file, disk } = begin(shared)?;
    // The checkpoint must not know more than the log. Most of the log is written here, beside writers, and then what they add meanwhile: they wait for the rest.
    for _ in 0..2 {
        log_file.sync_data().map_err(Error::io("the log", "sync"))?;
    }
    lock(&shared.log).log.commit(None, Durability::Sync)?;
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
    let needed = head.log_position.min(log.trails.from()).min(head.keeps_from());
    log.log.retire_before(Position(needed))?;
    shared.log_from.store(head.log_position, Ordering::Relaxed);
    let mut writer = shared.writer()?;
    let next = writer.version + 1;
    writer.space.settle(capture, head.version, next);
    let oldest = shared.oldest();
    writer.space.release(oldest);
    shared.shadow_bytes.store(writer.space.shadow_bytes, Ordering::Relaxed);
    shared.counters.checkpoints.fetch_add(1, Ordering::Relaxed);
    shared.counters.space_bytes_written.fetch_add(written.bytes, Ordering::Relaxed);
    Ok(())
}

fn begin(shared: &Shared) -> Result<Begun, Error> {
    let mut log = lock(&shared.log);
    let mut writer = shared.writer()?;
    writer.write_digests()?;
    shared.flush(&mut log, &mut writer, Durability::Os)?;
    let number = log.head.number;
    // Whoever finds this and an older head knows that the newer was lost: the older one's slots may have been taken again since.
    let position = log.log.append(CHECKPOINT, &[&number.to_le_bytes()])?;
    log.log.commit(None, Durability::Os)?;
    let old_ledger = (log.head.ledger_bytes > 0).then_some(Address(log.head.ledger_address));
    let capture = writer.space.capture(old_ledger)?;
    let trail = log.trails.counts;
    let head = Head { trail, ..next_head(&log.head, &writer, capture.region_count(), position) };
    let log_file = log.log.active_file();
    let (head_file, disk) = (log.head_file.clone(), Arc::clone(&writer.space.disk));
    Ok(Begun { capture, head, head_file, log_file, disk })
}

/// The head of a checkpoint of what `writer` has, but for the ledger.
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
    /// The log below is not needed by who begins with this checkpoint.
    fn keeps_from(&self) -> u64 {
        Trails::recovered(self.trail).from().min(self.log_position)
    }

    fn enter(&mut self, written: &Written) {
        self.ledger_address = written.ledger_address.0;
        self.ledger_bytes = written.ledger_bytes;
        self.ledger_checksum = written.ledger_checksum;
    }
}

/// Makes a checkpoint of what was saved of a damaged log, after which another log is to be begun.
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

/// What the thread of a store does.
pub(super) fn work(shared: &Shared) {
    super::open::check_opened(shared);
    loop {
        let mut signal = lock(&shared.signal);
        while !signal.stopping && !shared.wanted.load(Ordering::Acquire) {
            signal = shared.signalled.wait(signal).unwrap_or_else(PoisonError::into_inner);
        }
        if signal.stopping {
            return;
        }
        drop(signal);
        // The writer learns of an error from `stopped`.
        if run(shared).is_err() {
            return;
        }
    }
}
