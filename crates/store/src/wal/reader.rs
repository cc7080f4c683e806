//! The reader of committed records, usable from any thread while the log appends.

use super::error::{Damage, Error};
use super::format::{Position, RECORD_HEAD_BYTES, SAFETY_KIND, Seal};
use super::scan::{Scan, Step};
use super::segment::Segment;
use crate::bytes::u32_at;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Reads committed records, from any thread, while the log appends. Clones are cheap.
#[derive(Clone)]
pub struct LogReader {
    shared: Arc<Shared>,
}

/// The state that the log shares with its readers.
pub(super) struct Shared {
    pub(super) seal: Seal,
    segments: RwLock<Vec<Segment>>,
    /// The position behind the last committed record.
    end: AtomicU64,
}

impl Shared {
    pub(super) fn new(seal: Seal, segments: Vec<Segment>, end: u64) -> Shared {
        Shared { seal, segments: RwLock::new(segments), end: AtomicU64::new(end) }
    }

    pub(super) fn segments(&self) -> RwLockReadGuard<'_, Vec<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn segments_mut(&self) -> RwLockWriteGuard<'_, Vec<Segment>> {
        self.segments.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn publish_end(&self, end: u64) {
        self.end.store(end, Ordering::Release);
    }
}

impl LogReader {
    pub(super) fn new(shared: Arc<Shared>) -> LogReader {
        LogReader { shared }
    }

    /// The position of the oldest record.
    pub fn first_position(&self) -> Position {
        Position(self.shared.segments().first().map_or(0, Segment::records_from))
    }

    /// The position behind the last committed record.
    pub fn end(&self) -> Position {
        Position(self.shared.end.load(Ordering::Acquire))
    }

    /// The record at a position that `append` or `replay` returned: its kind and payload, verified.
    ///
    /// # Errors
    /// [`Error::Retired`], [`Error::PastEnd`], [`Error::Damaged`] (also for a position at which no
    /// record starts), or [`Error::Io`].
    pub fn read(&self, position: Position) -> Result<(u8, Vec<u8>), Error> {
        let (segment, end) = {
            let segments = self.shared.segments();
            let end = self.shared.end.load(Ordering::Acquire);
            let index = segments.partition_point(|segment| segment.records_from() <= position.0);
            let Some(segment) = index.checked_sub(1).and_then(|index| segments.get(index)) else {
                drop(segments);
                return Err(Error::Retired { position, first: self.first_position() });
            };
            (segment.clone(), segment.end.unwrap_or(end))
        };
        if position.0 >= end {
            return Err(Error::PastEnd { position, end: Position(end) });
        }
        self.read_in(&segment, position, end).map_err(|error| self.unless_retired(error, position))
    }

    fn read_in(
        &self,
        segment: &Segment,
        position: Position,
        end: u64,
    ) -> Result<(u8, Vec<u8>), Error> {
        let offset = position.0 - segment.first;
        let damaged = |damage| Error::Damaged { file: segment.name.clone(), offset, damage };
        let room = (end - position.0).saturating_sub(8);
        let mut head = [0; RECORD_HEAD_BYTES];
        if room == 0 {
            return Err(damaged(Damage::Length { length: 0, room }));
        }
        segment.file.read_at(offset, &mut head).map_err(Error::io(&segment.name, "read"))?;
        let length = u64::from(u32_at(&head, 0).unwrap_or(0));
        let actual = u32_at(&head, 4).unwrap_or(0);
        let kind = head[RECORD_HEAD_BYTES - 1];
        if length == 0 || length > room {
            return Err(damaged(Damage::Length { length, room }));
        }
        let mut payload = vec![0; usize::try_from(length - 1).unwrap_or(0)];
        let at = offset + RECORD_HEAD_BYTES as u64;
        segment.file.read_at(at, &mut payload).map_err(Error::io(&segment.name, "read"))?;
        let expected = self.shared.seal.record(position.0, kind, &payload);
        if expected != actual {
            return Err(damaged(Damage::Checksum { expected, actual }));
        }
        Ok((kind, payload))
    }

    /// Calls `each` with the position, kind and payload of every committed record at or above
    /// `from`, oldest first. `from` is [`Position::START`], or a position that `append`, `replay`
    /// or `end` returned.
    ///
    /// # Errors
    /// [`Error::Retired`], [`Error::PastEnd`], [`Error::Damaged`], [`Error::Io`], or the first
    /// error of `each`.
    pub fn replay<E: From<Error>>(
        &self,
        from: Position,
        mut each: impl FnMut(Position, u8, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let (segments, end) = {
            let segments = self.shared.segments();
            (segments.clone(), self.shared.end.load(Ordering::Acquire))
        };
        let first = Position(segments.first().map_or(0, |segment| segment.first));
        if from != Position::START && from < first {
            return Err(Error::Retired { position: from, first: self.first_position() }.into());
        }
        if from.0 > end {
            return Err(Error::PastEnd { position: from, end: Position(end) }.into());
        }
        for segment in &segments {
            let end = segment.end.unwrap_or(end);
            let start = from.0.max(segment.records_from());
            if start >= end {
                continue;
            }
            self.replay_in(segment, start, end, &mut each)?;
        }
        Ok(())
    }

    fn replay_in<E: From<Error>>(
        &self,
        segment: &Segment,
        start: u64,
        end: u64,
        each: &mut impl FnMut(Position, u8, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let limit = end - segment.first;
        let mut scan = Scan::new(
            segment.file.clone(),
            self.shared.seal,
            segment.first,
            start - segment.first,
            limit,
        );
        loop {
            let at = scan.offset();
            if at == limit {
                return Ok(());
            }
            let damage = match scan.step().map_err(Error::io(&segment.name, "read"))? {
                Step::Record { kind: SAFETY_KIND, .. } => continue,
                Step::Record { offset, kind, payload } => {
                    each(Position(segment.first + offset), kind, payload)?;
                    continue;
                }
                Step::End => Damage::Length { length: 0, room: limit - at },
                Step::Broken(damage) => damage,
            };
            let error = Error::Damaged { file: segment.name.clone(), offset: at, damage };
            return Err(self.unless_retired(error, Position(segment.first + at)).into());
        }
    }

    /// A segment may be retired, and its file reused, between the look-up and the read.
    fn unless_retired(&self, error: Error, position: Position) -> Error {
        let first = self.first_position();
        if position < first { Error::Retired { position, first } } else { error }
    }
}
