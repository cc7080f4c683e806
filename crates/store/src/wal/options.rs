//! How a log is set up.

use super::error::Error;
use super::format::{Geometry, PAGE_BYTES, SLOT_HEAD_BYTES};

/// How the next segment's file is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// By a thread, ahead of time.
    Ahead,
    /// When it is needed, by the caller's thread: for simulations, which want one order of operations.
    Inline,
}

/// How a log is set up. Segments keep the sizes they were made with; new ones take these.
#[derive(Clone, Debug)]
pub struct Options {
    /// What tells this log from others. A folder of another identity is refused.
    pub identity: [u8; 16],
    /// Length of a segment file in bytes.
    pub segment_bytes: u64,
    /// Capacity of each safety slot in bytes, 24 bytes of head included. A multiple of 4096.
    pub slot_bytes: u32,
    /// How the next segment's file is made.
    pub preparation: Preparation,
    /// New segments are filled with zeros, so that a sync finds their blocks allocated and written. Without, their blocks are
    /// reserved, which costs a sync two to five times as much, and nothing where commits are not synced.
    pub filled: bool,
    /// Segments are written through memory where the disk can: a commit with [`Durability::Os`](super::Durability::Os) then
    /// costs no call of the system. Errors of the disk show when a segment is synced.
    pub through_memory: bool,
}

impl Options {
    /// The defaults: segments of 64 MiB, slots of 128 KiB, prepared ahead and filled, written by calls.
    pub fn new(identity: [u8; 16]) -> Options {
        Options {
            identity,
            segment_bytes: 64 << 20,
            slot_bytes: 128 << 10,
            preparation: Preparation::Ahead,
            filled: true,
            through_memory: false,
        }
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry { segment_bytes: self.segment_bytes, slot_bytes: self.slot_bytes }
    }

    /// The same with room for safety records and for other records of so many bytes: slots and
    /// segments become larger where they have to.
    #[must_use]
    pub fn with_room_for(self, safety_bytes: u64, record_bytes: u64) -> Options {
        let slot = (safety_bytes + SLOT_HEAD_BYTES as u64).next_multiple_of(PAGE_BYTES);
        let slot_bytes = u32::try_from(slot).unwrap_or(!0xFFF).max(self.slot_bytes);
        let least = Geometry { segment_bytes: 0, slot_bytes }.segment_for(record_bytes);
        Options { slot_bytes, segment_bytes: self.segment_bytes.max(least), ..self }
    }

    /// The longest record, whatever the safety record is.
    pub fn record_limit(&self) -> u64 {
        self.geometry().record_limit()
    }

    /// The longest safety record.
    pub fn slot_limit(&self) -> u64 {
        u64::from(self.slot_bytes).saturating_sub(SLOT_HEAD_BYTES as u64)
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        if self.slot_bytes == 0 || !self.slot_bytes.is_multiple_of(4096) {
            let reason = format!("{} is not a positive multiple of 4096", self.slot_bytes);
            return Err(Error::Options { field: "slot_bytes", reason });
        }
        let least = Geometry { segment_bytes: 0, slot_bytes: self.slot_bytes }.records_at()
            + 2 * (u64::from(self.slot_bytes) + 4096);
        // A record's length is a u32.
        if self.segment_bytes < least || self.segment_bytes > 1 << 31 {
            let reason = format!("{} is not within {least} ..= {}", self.segment_bytes, 1u64 << 31);
            return Err(Error::Options { field: "segment_bytes", reason });
        }
        Ok(())
    }
}
