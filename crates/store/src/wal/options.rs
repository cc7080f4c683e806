//! How a log is set up.

use super::error::Error;
use super::format::{Geometry, SLOT_HEAD_BYTES};

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

    /// The longest safety record.
    pub(super) fn slot_limit(&self) -> u64 {
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
