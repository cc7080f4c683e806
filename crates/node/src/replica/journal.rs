//! The replica's log: blocks as records, the safety record in the log's slots, one sync a turn.

use std::sync::Arc;

use quorate_core::replica::{Record, drive};
use quorate_core::wire::Encode as _;
use quorate_store::wal::{self, Log, Position};

use super::index::BlockIndex;
use crate::config::Durability;

/// The kind of a block's record: an encoded `FullBlock`.
pub const BLOCK_RECORD: u8 = 1;

/// Where a replica's records become durable.
pub struct Journal {
    log: Log,
    durability: wal::Durability,
    index: Arc<BlockIndex>,
    /// Where the log ended when the last snapshot was begun.
    pub(super) snapshot_begun_at: u64,
}

impl Journal {
    /// A journal in `log`.
    #[must_use]
    pub fn new(log: Log, durability: Durability) -> Self {
        let durability = match durability {
            Durability::Sync => wal::Durability::Sync,
            Durability::Os => wal::Durability::Os,
        };
        let index = Arc::new(BlockIndex::new(log.reader()));
        // What is in the log counts: restarts must not put the next snapshot off for ever.
        let snapshot_begun_at = log.first_position().0;
        Self { log, durability, index, snapshot_begun_at }
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// Where the blocks are in it.
    #[must_use]
    pub fn index(&self) -> &Arc<BlockIndex> {
        &self.index
    }

    /// Retires segments so that the log keeps about `window_bytes`, and nothing that recovery
    /// from a snapshot at or above `needed` would miss.
    ///
    /// # Errors
    /// What the log says; final, like every error of it.
    pub fn retire(&mut self, window_bytes: u64, needed: Position) -> Result<(), wal::Error> {
        let floor = self.log.end().0.saturating_sub(window_bytes);
        self.log.retire_before(Position(floor.min(needed.0)))?;
        self.index.forget_before(self.log.first_position());
        Ok(())
    }
}

impl drive::Journal for Journal {
    type Error = wal::Error;

    fn write(&mut self, records: Vec<Record>) -> Result<(), wal::Error> {
        let mut safety = None;
        for record in records {
            match record {
                Record::Block(full) => {
                    let mut head = full.block.to_bytes();
                    (full.frames.len() as u32).encode(&mut head);
                    let mut parts: Vec<&[u8]> = Vec::with_capacity(1 + full.frames.len());
                    parts.push(&head);
                    parts.extend(full.frames.iter().map(|frame| frame.encoded_bytes().as_ref()));
                    let position = self.log.append(BLOCK_RECORD, &parts)?;
                    self.index.recorded(full.block.id(), full.block.height, position);
                }
                // Only the newest counts, and it covers the older ones.
                Record::Safety(newest) => safety = Some(newest),
            }
        }
        let slot = safety.map(|safety| safety.to_bytes());
        self.log.commit(slot.as_deref(), self.durability)
    }
}
