//! The options of a log.

use super::error::Error;
use super::format::{Geometry, PAGE_BYTES, SLOT_HEAD_BYTES};

/// The way in which files of segments are made and retired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// By a thread, beside the log.
    Ahead,
    /// By the caller's thread, within commits. For simulations, which need one order of operations.
    Inline,
}

/// The options of a log. Existing segments keep their sizes; new ones take these.
#[derive(Clone, Debug)]
pub struct Options {
    /// The identity of this log. A folder of another identity is refused.
    pub identity: [u8; 16],
    /// The length of a segment file in bytes.
    pub segment_bytes: u64,
    /// The capacity of each slot in bytes, 24 bytes of head included. A multiple of 4096.
    pub slot_bytes: u32,
    /// The way in which files of segments are made and retired.
    pub preparation: Preparation,
    /// The most spares that are kept for future segments; other retired segments are removed. A new
    /// file has to be written twice, first with zeros.
    pub most_spares: usize,
    /// Whether new segments are filled with zeros, so that their blocks are allocated and written
    /// before a sync. Otherwise blocks are only reserved. Then a sync costs two to five times as
    /// much; commits without a sync lose nothing.
    pub filled: bool,
    /// Whether segments are written through memory if the disk allows it. Then a commit with
    /// [`Durability::Os`](super::Durability::Os) costs no system call. Errors of the disk are
    /// reported by the next sync of the segment.
    pub through_memory: bool,
}

impl Options {
    /// The defaults: segments of 64 MiB, slots of 128 KiB, prepared in advance and filled, two
    /// spares, written by system calls.
    pub fn new(identity: [u8; 16]) -> Options {
        Options {
            identity,
            segment_bytes: 64 << 20,
            slot_bytes: 128 << 10,
            preparation: Preparation::Ahead,
            most_spares: 2,
            filled: true,
            through_memory: false,
        }
    }

    pub(super) fn geometry(&self) -> Geometry {
        Geometry { segment_bytes: self.segment_bytes, slot_bytes: self.slot_bytes }
    }

    /// The same, with room for safety records and other records of these lengths: slots and
    /// segments grow if necessary.
    #[must_use]
    pub fn with_room_for(self, safety_bytes: u64, record_bytes: u64) -> Options {
        let slot = (safety_bytes + SLOT_HEAD_BYTES as u64).next_multiple_of(PAGE_BYTES);
        let slot_bytes = u32::try_from(slot).unwrap_or(!0xFFF).max(self.slot_bytes);
        let least = Geometry { segment_bytes: 0, slot_bytes }.segment_for(record_bytes);
        Options { slot_bytes, segment_bytes: self.segment_bytes.max(least), ..self }
    }

    /// The longest record, whatever the length of the safety record.
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
