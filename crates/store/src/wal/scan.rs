//! The scan of one segment: it reads the records in order, through a window, and trusts nothing.

use super::error::Damage;
use super::format::{RECORD_HEAD_BYTES, Seal};
use crate::bytes::u32_at;
use crate::disk::DiskFile;
use std::io;
use std::sync::Arc;

/// The largest window.
const WINDOW_BYTES: u64 = 256 << 10;
/// The first window. It doubles each time it is too small.
const FIRST_WINDOW_BYTES: u64 = 4 << 10;

/// The content at the next offset.
pub(super) enum Step<'a> {
    /// A valid record.
    Record {
        /// The offset in the file.
        offset: u64,
        kind: u8,
        payload: &'a [u8],
    },
    /// The limit is reached, or there is an end mark.
    End,
    /// Neither a record nor an end mark.
    Broken(Damage),
}

/// A cursor over the records of one segment.
pub(super) struct Scan {
    file: Arc<dyn DiskFile>,
    seal: Seal,
    first: u64,
    next: u64,
    limit: u64,
    window: Vec<u8>,
    window_at: u64,
}

impl Scan {
    /// Reads from `offset` to `limit` (offsets in the file) of the segment whose first position is
    /// `first`.
    pub(super) fn new(
        file: Arc<dyn DiskFile>,
        seal: Seal,
        first: u64,
        offset: u64,
        limit: u64,
    ) -> Scan {
        Scan { file, seal, first, next: offset, limit, window: Vec::new(), window_at: offset }
    }

    /// The offset behind the last record read.
    pub(super) fn offset(&self) -> u64 {
        self.next
    }

    /// The next record. After `End` or `Broken` it returns the same again.
    pub(super) fn step(&mut self) -> io::Result<Step<'_>> {
        let room = self.limit.saturating_sub(self.next);
        if room < RECORD_HEAD_BYTES as u64 {
            if room >= 4 && u32_at(self.bytes(4)?, 0) != Some(0) {
                return Ok(Step::Broken(Damage::Length { length: RECORD_HEAD_BYTES as u64, room }));
            }
            return Ok(Step::End);
        }
        let head = self.bytes(RECORD_HEAD_BYTES)?;
        let length = u32_at(head, 0).unwrap_or(0);
        let actual = u32_at(head, 4).unwrap_or(0);
        if length == 0 {
            return Ok(Step::End);
        }
        let room = room - 8;
        if u64::from(length) > room {
            return Ok(Step::Broken(Damage::Length { length: u64::from(length), room }));
        }
        let total = 8 + length as usize;
        let (seal, first, offset) = (self.seal, self.first, self.next);
        let record = self.bytes(total)?;
        let expected = seal.record(first + offset, record[8], &record[RECORD_HEAD_BYTES..]);
        if expected != actual {
            return Ok(Step::Broken(Damage::Checksum { expected, actual }));
        }
        self.next += total as u64;
        let start = usize::try_from(offset - self.window_at).unwrap_or(usize::MAX);
        let record = &self.window[start..start + total];
        Ok(Step::Record { offset, kind: record[8], payload: &record[RECORD_HEAD_BYTES..] })
    }

    /// The `count` bytes at the cursor. The caller has checked that they end at or below the limit.
    fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        let start = usize::try_from(self.next - self.window_at).unwrap_or(usize::MAX);
        if start.saturating_add(count) > self.window.len() {
            let window = (2 * self.window.len() as u64).clamp(FIRST_WINDOW_BYTES, WINDOW_BYTES);
            let length = (count as u64).max(window.min(self.limit - self.next));
            self.window.resize(usize::try_from(length).unwrap_or(count), 0);
            self.window_at = self.next;
            self.file.read_at(self.next, &mut self.window)?;
            return Ok(&self.window[..count]);
        }
        Ok(&self.window[start..start + count])
    }
}
