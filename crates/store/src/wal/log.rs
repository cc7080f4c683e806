//! The log, for its writer.

use super::error::Error;
use super::format::{
    END_MARK, Header, PAGE_BYTES, Position, RECORD_HEAD_BYTES, SAFETY_KIND, SAFETY_NUMBER_BYTES,
    SLOT_HEAD_BYTES, Seal, Side, encode_mark, encode_slot, put_record,
};
use super::options::Options;
use super::reader::{LogReader, Shared};
use super::recover::{self, Recovered};
use super::segment::{Safety, Segment, activate};
use super::spares::Spares;
use crate::disk::{Disk, DiskFile};
use std::sync::Arc;
use std::time::Instant;

/// A write buffer that grew beyond this is freed after the write.
const BUFFER_KEPT_BYTES: usize = 4 << 20;

/// The bytes that the system is told to write out at a time, beside commits.
const PIECE_BYTES: u64 = 4 << 20;
/// The last bytes of the log that stay in memory.
const KEPT_BYTES: u64 = 8 << 20;

/// The beginning of the page that contains an offset.
fn page_of(offset: u64) -> u64 {
    offset - offset % PAGE_BYTES
}

/// The durability of a commit when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// It survives a power failure: fdatasync.
    Sync,
    /// It survives the end of the process: the operating system has it.
    Os,
}

/// Counters since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Commits that returned `Ok`.
    pub commits: u64,
    /// Syncs of a segment or of the folder, by the caller's thread.
    pub syncs: u64,
    /// Time in syncs of the active segment, in nanoseconds.
    pub sync_ns: u64,
    /// Bytes written, padding of pages included, preparation of zeros excluded.
    pub bytes_written: u64,
    /// Segments begun.
    pub rotations: u64,
}

/// The write-ahead log. See the [module](super) for format and guarantees.
pub struct Log {
    disk: Arc<dyn Disk>,
    options: Options,
    seal: Seal,
    shared: Arc<Shared>,
    active: Segment,
    /// The offset behind the written records in the active file.
    written: u64,
    /// The offset up to which the system was told to write out, at the beginning of a page, ...
    written_out: u64,
    /// ... and the offset up to which memory was released.
    forgotten: u64,
    /// Records that were appended and not yet written.
    buffer: Vec<u8>,
    /// The number of the newest safety record in a slot of the active segment.
    slot_number: u64,
    safety: Safety,
    slots: Sides,
    marks: Sides,
    /// A sync has made everything below this position durable.
    durable: u64,
    /// The highest watermark written.
    watermark: u64,
    /// Whether the active file was written to since its last sync.
    unsynced: bool,
    spares: Spares,
    statistics: Statistics,
    poison: Option<String>,
}

/// Decides which of two alternating places comes next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    /// The side with the newest durable content, which must not be written.
    pub(super) durable: Side,
    /// Whether the other side was written since the last sync.
    pub(super) written: bool,
}

impl Sides {
    pub(super) fn new(durable: Side) -> Sides {
        Sides { durable, written: false }
    }

    fn write(&mut self) -> Side {
        self.written = true;
        self.durable.other()
    }

    fn synced(&mut self) {
        if std::mem::take(&mut self.written) {
            self.durable = self.durable.other();
        }
    }
}

/// The result of recovery, with which a [`Log`] starts.
pub(super) struct Start {
    pub(super) segments: Vec<Segment>,
    pub(super) active: Segment,
    /// Offset behind the last valid record of the active segment.
    pub(super) written: u64,
    pub(super) safety: Safety,
    pub(super) slots: Sides,
    pub(super) marks: Sides,
    pub(super) watermark: u64,
    /// Number of the newest safety record in a slot of the active segment.
    pub(super) slot_number: u64,
    /// Number of the newest safety record among its records.
    pub(super) copy_number: u64,
    pub(super) spares: Spares,
}

impl Log {
    /// Opens the log in a folder, or creates one if the folder has no segment (see
    /// [`Recovered::created`]). Everything recovered is durable when this returns.
    ///
    /// # Errors
    /// [`Error::Options`]; [`Error::Io`]; or an unusable folder: [`Error::Damaged`],
    /// [`Error::Foreign`], [`Error::Version`], [`Error::Identity`], [`Error::MissingSegment`],
    /// [`Error::MissingSafetyRecord`].
    pub fn open(disk: Arc<dyn Disk>, options: Options) -> Result<(Log, Recovered), Error> {
        options.check()?;
        let (start, recovered) = recover::recover(&disk, &options)?;
        let copy_missing = start.copy_number < start.safety.number;
        let start = Start { active: start.active.writable(&options)?, ..start };
        let mut log = Log::start(disk, options, start);
        log.mend(copy_missing)?;
        Ok((log, recovered))
    }

    fn start(disk: Arc<dyn Disk>, options: Options, start: Start) -> Log {
        let seal = Seal::new(&options.identity);
        let end = start.active.first + start.written;
        let forgotten = start.active.geometry.records_at();
        Log {
            disk,
            seal,
            shared: Arc::new(Shared::new(seal, start.segments, end)),
            active: start.active,
            written: start.written,
            written_out: page_of(start.written),
            forgotten,
            buffer: Vec::new(),
            slot_number: start.slot_number,
            safety: start.safety,
            slots: start.slots,
            marks: start.marks,
            durable: end,
            watermark: start.watermark,
            unsynced: false,
            spares: start.spares,
            statistics: Statistics::default(),
            poison: None,
            options,
        }
    }

    /// Appends a record to the next commit. `parts` are its payload, one after the other; `kind` is
    /// 1 to
    /// 255. The position is final. The record cannot be read before the commit. A full segment is
    ///      written out and synced here.
    ///
    /// # Errors
    /// [`Error::ReservedKind`] and [`Error::RecordTooLarge`], which leave the log usable;
    /// [`Error::Io`], [`Error::Poisoned`].
    pub fn append(&mut self, kind: u8, parts: &[&[u8]]) -> Result<Position, Error> {
        if kind == SAFETY_KIND {
            return Err(Error::ReservedKind);
        }
        let bytes: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let limit = self.record_limit();
        if bytes > limit {
            return Err(Error::RecordTooLarge { bytes, limit });
        }
        self.guarded(|log| log.put(kind, parts, bytes))
    }

    /// Exchanges the memory in which records are collected, if it has none. Threads that write in
    /// turn bring their own, and do not fetch it from each other's processors.
    pub(crate) fn exchange_memory(&mut self, memory: &mut Vec<u8>) {
        if self.buffer.is_empty() {
            memory.clear();
            std::mem::swap(&mut self.buffer, memory);
        }
    }

    /// Commits all appended records, and `slot` as the new safety record if given.
    ///
    /// # Errors
    /// [`Error::SlotTooLarge`], which leaves the log usable; [`Error::Io`], [`Error::Poisoned`].
    /// After an error, any part of the commit may exist when the log is opened again.
    pub fn commit(&mut self, slot: Option<&[u8]>, durability: Durability) -> Result<(), Error> {
        let bytes = slot.map_or(0, |slot| slot.len() as u64);
        let limit = self.options.slot_limit();
        if bytes > limit {
            return Err(Error::SlotTooLarge { bytes, limit });
        }
        self.guarded(|log| log.commit_now(slot, durability))
    }

    /// Retires the segments whose records are all below `position`. Their files become spares or
    /// are removed, beside the log with [`Preparation::Ahead`](super::Preparation::Ahead): a crash
    /// may bring back the newest of them. The active segment always stays.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Poisoned`]. An error beside the log is returned by the next call.
    pub fn retire_before(&mut self, position: Position) -> Result<(), Error> {
        self.guarded(|log| log.retire_now(position))
    }

    /// A reader for other threads.
    pub fn reader(&self) -> LogReader {
        LogReader::new(self.shared.clone())
    }

    /// See [`LogReader::read`].
    ///
    /// # Errors
    /// As there.
    pub fn read(&self, position: Position) -> Result<(u8, Vec<u8>), Error> {
        self.reader().read(position)
    }

    /// See [`LogReader::replay`].
    ///
    /// # Errors
    /// As there.
    pub fn replay<E: From<Error>>(
        &self,
        from: Position,
        each: impl FnMut(Position, u8, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.reader().replay(from, each)
    }

    /// The position of the oldest record.
    pub fn first_position(&self) -> Position {
        self.reader().first_position()
    }

    /// The position behind the last appended record, committed or not. The next record may be
    /// further on, in a new segment.
    pub fn end(&self) -> Position {
        Position(self.active.first + self.written + self.buffer.len() as u64)
    }

    /// The bytes of records that still fit the active segment. To begin a new one takes longer.
    pub fn room_in_segment(&self) -> u64 {
        let taken = self.written + self.buffer.len() as u64;
        self.active.geometry.segment_bytes.saturating_sub(taken)
    }

    /// The newest safety record, committed or recovered.
    pub fn slot(&self) -> Option<&[u8]> {
        (self.safety.number > 0).then_some(self.safety.payload.as_slice())
    }

    /// The longest payload of a record, in bytes.
    pub fn record_limit(&self) -> u64 {
        self.options.geometry().record_limit()
    }

    /// The size of the log on disk: segments, those being retired, and spares that are ready.
    pub fn bytes(&self) -> u64 {
        let segments: u64 =
            self.shared.segments().iter().map(|segment| segment.geometry.segment_bytes).sum();
        segments + self.spares.bytes()
    }

    /// The active file, opened again. A sync of it beside the log makes the next
    /// [`Durability::Sync`] quick; it promises nothing itself. The system reports an error of the
    /// disk once for each open file. So an error found here must be passed on to the log.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn reopened_file(&self) -> Result<Arc<dyn DiskFile>, Error> {
        self.disk.open(&self.active.name).map_err(Error::io(&self.active.name, "open"))
    }

    /// Counters since the log was opened.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Runs a writing action. Its first error ends the log.
    fn guarded<T>(&mut self, act: impl FnOnce(&mut Log) -> Result<T, Error>) -> Result<T, Error> {
        if let Some(reason) = &self.poison {
            return Err(Error::Poisoned { reason: reason.clone() });
        }
        let result = act(self);
        if let Err(error) = &result {
            self.poison = Some(error.to_string());
        }
        result
    }

    fn put(&mut self, kind: u8, parts: &[&[u8]], bytes: u64) -> Result<Position, Error> {
        let needed = RECORD_HEAD_BYTES as u64 + bytes;
        if self.written + self.buffer.len() as u64 + needed > self.active.geometry.segment_bytes {
            self.rotate()?;
        }
        let position = self.end();
        put_record(&mut self.buffer, self.seal, position.0, kind, parts);
        Ok(position)
    }

    /// Writes the second copy of the safety record.
    fn put_safety(&mut self) -> Result<(), Error> {
        let length = self.safety.payload.len() as u64;
        let geometry = self.active.geometry;
        let position = self.end().0;
        let record = (RECORD_HEAD_BYTES + SAFETY_NUMBER_BYTES) as u64 + length;
        if SLOT_HEAD_BYTES as u64 + length > u64::from(geometry.slot_bytes)
            || position - self.active.first + record > geometry.segment_bytes
        {
            // The new segment starts with both copies.
            return self.rotate();
        }
        let parts: [&[u8]; 2] = [&self.safety.number.to_le_bytes(), &self.safety.payload];
        put_record(&mut self.buffer, self.seal, position, SAFETY_KIND, &parts);
        Ok(())
    }

    fn commit_now(&mut self, slot: Option<&[u8]>, durability: Durability) -> Result<(), Error> {
        if let Some(slot) = slot {
            self.safety.number += 1;
            self.safety.payload.clear();
            self.safety.payload.extend_from_slice(slot);
            self.put_safety()?;
        }
        // Records first: if the process ends between the two writes, the copy among the records is
        // complete.
        self.write_out()?;
        if self.slot_number < self.safety.number {
            self.write_slot()?;
        } else if self.watermark < self.durable {
            self.write_mark()?;
        }
        if durability == Durability::Sync {
            self.sync()?;
        }
        self.shared.publish_end(self.active.first + self.written);
        self.statistics.commits += 1;
        self.spares.check()
    }

    fn write_out(&mut self) -> Result<(), Error> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let length = self.buffer.len();
        let end = self.written + length as u64;
        let filled = usize::try_from(self.padded(end) - end).unwrap_or(END_MARK.len());
        self.buffer.resize(length + filled, 0);
        let buffer = std::mem::take(&mut self.buffer);
        self.write(self.written, &buffer)?;
        self.written = end;
        self.spares.written(end);
        self.write_behind();
        if buffer.capacity() <= BUFFER_KEPT_BYTES {
            self.buffer = buffer;
            self.buffer.clear();
        }
        Ok(())
    }

    /// Tells the system to write out records piece by piece; otherwise the next sync would wait for
    /// all commits without one. Also releases the memory of written records, which would grow to
    /// the length of the log. Later reads, at a restart or for a replica that is behind, come from
    /// the disk. A log [through memory](Options::through_memory) only releases its map.
    fn write_behind(&mut self) {
        while self.written - self.written_out >= PIECE_BYTES {
            let from = self.written_out;
            self.written_out += PIECE_BYTES;
            self.active.file.begin_to_write_out(from..self.written_out);
            self.forget_before(self.written_out);
        }
    }

    /// Releases the memory of records, except the last ones before `offset`. Slots and marks stay:
    /// they are rewritten often, in this use of the file and, a part of a page each, in the next.
    fn forget_before(&mut self, offset: u64) {
        let end = offset.saturating_sub(KEPT_BYTES);
        if end > self.forgotten {
            self.active.file.forget(self.forgotten..end);
            self.forgotten = end;
        }
    }

    /// The end of a write of records up to `end`: behind the end mark, or at the end of the page if
    /// that is a new page for this file. A page that is written as a whole need not be read first,
    /// which matters for a recycled file that is not in memory.
    fn padded(&self, end: u64) -> u64 {
        let marked = end + END_MARK.len() as u64;
        let reached = self.written + END_MARK.len() as u64;
        let padded = if marked.div_ceil(PAGE_BYTES) > reached.div_ceil(PAGE_BYTES) {
            marked.next_multiple_of(PAGE_BYTES)
        } else {
            marked
        };
        padded.min(self.active.geometry.segment_bytes)
    }

    fn write_slot(&mut self) -> Result<(), Error> {
        let at = self.active.geometry.slot_at(self.slots.write());
        let position = self.active.first + at;
        let slot = encode_slot(
            self.seal,
            position,
            self.safety.number,
            self.durable,
            &self.safety.payload,
        );
        self.write(at, &slot)?;
        self.slot_number = self.safety.number;
        self.watermark = self.durable;
        Ok(())
    }

    fn write_mark(&mut self) -> Result<(), Error> {
        let at = self.active.geometry.mark_at(self.marks.write());
        let mark = encode_mark(self.seal, self.active.first + at, self.durable);
        self.write(at, &mark)?;
        self.watermark = self.durable;
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.active.file.write_at(offset, bytes).map_err(Error::io(&self.active.name, "write"))?;
        self.unsynced = true;
        self.statistics.bytes_written += bytes.len() as u64;
        Ok(())
    }

    /// Makes everything written to the active segment durable.
    fn sync(&mut self) -> Result<(), Error> {
        if self.unsynced {
            let begun = Instant::now();
            self.active.file.sync_data().map_err(Error::io(&self.active.name, "sync"))?;
            self.statistics.sync_ns +=
                u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.statistics.syncs += 1;
            self.unsynced = false;
        }
        self.durable = self.active.first + self.written;
        self.slots.synced();
        self.marks.synced();
        Ok(())
    }

    fn rotate(&mut self) -> Result<(), Error> {
        self.write_out()?;
        self.sync()?;
        self.forget_before(self.written);
        let spare = self.spares.take()?;
        let header = Header {
            identity: self.options.identity,
            sequence: self.active.sequence + 1,
            first: self.active.first + self.active.geometry.segment_bytes,
            previous_end: self.active.first + self.written,
            geometry: self.options.geometry(),
        };
        let (written, bytes) = activate(&*self.disk, self.seal, &header, &self.safety, &spare)?;
        self.statistics.bytes_written += bytes;
        self.statistics.syncs += 2;
        self.statistics.rotations += 1;
        self.active = Segment::new(&header, spare.file).writable(&self.options)?;
        self.written = written;
        self.written_out = page_of(written);
        self.forgotten = self.active.geometry.records_at();
        self.slot_number = self.safety.number;
        self.slots = Sides::new(Side::A);
        self.marks = Sides::new(Side::A);
        self.durable = header.first + written;
        self.watermark = self.durable;
        {
            let mut segments = self.shared.segments_mut();
            if let Some(last) = segments.last_mut() {
                last.end = Some(header.previous_end);
            }
            segments.push(self.active.clone());
            self.shared.publish_end(self.durable);
        }
        self.spares.written(written);
        Ok(())
    }

    fn retire_now(&mut self, position: Position) -> Result<(), Error> {
        loop {
            let oldest = {
                let mut segments = self.shared.segments_mut();
                match segments.first().and_then(|segment| segment.end) {
                    Some(end) if end <= position.0 => segments.remove(0),
                    _ => return Ok(()),
                }
            };
            self.statistics.syncs += self.spares.retire(oldest)?;
        }
    }

    /// The end of recovery: makes recovered data durable, writes the missing copy of the safety
    /// record again, and moves the watermark to the end.
    fn mend(&mut self, copy_missing: bool) -> Result<(), Error> {
        self.spares.written(self.written);
        // Data that was read may be in the page cache only: from a commit without a sync, or from a
        // rename.
        self.unsynced = true;
        self.sync()?;
        self.disk.sync_dir().map_err(Error::io("the folder", "sync"))?;
        self.statistics.syncs += 1;
        if copy_missing {
            self.put_safety()?;
            self.write_out()?;
        }
        if self.slot_number < self.safety.number {
            self.write_slot()?;
        } else if self.watermark < self.durable {
            self.write_mark()?;
        }
        self.sync()?;
        self.shared.publish_end(self.durable);
        self.spares.check()
    }
}
