//! The replica's log: blocks as records and the protocol's memory in the log's slots, with one sync
//! a turn.

use std::sync::Arc;

use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::{Record, drive};
use quorate_core::{Height, planted};
use quorate_store::wal::{self, Durability, Log, Position};

use super::epochs::{EPOCHS_FILE, Epochs};
use super::index::BlockIndex;
/// The kind of a block's record: an encoded `FullBlock`.
pub const BLOCK_RECORD: u8 = 1;

/// The log that makes a replica's records durable.
pub struct Journal {
    log: Log,
    durability: Durability,
    index: Arc<BlockIndex>,
    /// `None`: of a log whose members are fixed.
    epochs: Option<Epochs>,
    /// The end of the log when the last snapshot was begun.
    pub snapshot_begun_at: u64,
    /// The buffer for encoding, kept to reuse its memory.
    encoded: Vec<u8>,
}

impl Journal {
    /// A journal on `log`. Its commits are as durable as `durability` says.
    /// It can write down no handover.
    #[must_use]
    pub fn new(log: Log, durability: Durability) -> Self {
        let index = Arc::new(BlockIndex::new(log.reader()));
        // The log's content counts: otherwise restarts could put off the next snapshot without end.
        let snapshot_begun_at = log.first_position().0;
        Self { log, durability, index, epochs: None, snapshot_begun_at, encoded: Vec::new() }
    }

    /// The same, with the file of the epochs.
    pub(crate) fn with_epochs(self, epochs: Epochs) -> Self {
        Self { epochs: Some(epochs), ..self }
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// The index of the blocks in the log.
    #[must_use]
    pub fn index(&self) -> &Arc<BlockIndex> {
        &self.index
    }

    /// Retires segments, so that the log keeps about `window_bytes` and everything that recovery
    /// from a snapshot at `height` needs.
    ///
    /// # Errors
    /// The log's error. Like every error of the log, it is final.
    pub fn retire(&mut self, window_bytes: u64, height: Height) -> Result<(), wal::Error> {
        let end = self.log.end();
        let needed = self.index.needed_above(height).unwrap_or(end);
        let floor = end.0.saturating_sub(window_bytes);
        let end = planted!("log-cut-at-its-window", floor, floor.min(needed.0));
        self.log.retire_before(Position(end))?;
        self.index.forget_before(self.log.first_position());
        Ok(())
    }
}

impl<T: Types> drive::Journal<T> for Journal {
    type Error = wal::Error;

    fn write(&mut self, records: Vec<Record<T>>) -> Result<(), wal::Error> {
        let mut slot: Option<Slot<T>> = None;
        for record in records {
            match record {
                Record::Block(full) => {
                    self.encoded.clear();
                    full.block.encode(&mut self.encoded);
                    (full.frames.len() as u32).encode(&mut self.encoded);
                    let mut parts: Vec<&[u8]> = Vec::with_capacity(1 + full.frames.len());
                    parts.push(&self.encoded);
                    parts.extend(full.frames.iter().map(|frame| frame.encoded_bytes().as_ref()));
                    let position = self.log.append(BLOCK_RECORD, &parts)?;
                    self.index.recorded(full.block.id(), full.block.height(), position);
                }
                // Only the newest memory counts: it covers the older ones.
                Record::Memory(newest) => slot = Some(Slot::Memory(newest)),
                Record::Amnesia => slot = Some(Slot::Amnesia),
                Record::Handover(end) => {
                    // What the ending epoch's protocol had to remember, it need not any more.
                    slot.take_if(|slot| matches!(slot, Slot::Memory(_)));
                    let epochs = self.epochs.as_mut().ok_or_else(|| wal::Error::Poisoned {
                        reason: "this log keeps no epochs".to_owned(),
                    })?;
                    if end.ended().0 < epochs.ended() {
                        // A replica that had taken over a state, and lost it, comes to it again.
                        continue;
                    }
                    // A restart executes up to the sealing block: the file of the epochs must not
                    // survive a power failure that the log's blocks do not. Nor must it survive one
                    // that the word does by which nothing is remembered of the next epoch.
                    let slot =
                        slot.as_ref().map(|slot| slot.encode(&mut self.encoded, epochs.ended()));
                    self.log.commit(slot, Durability::Sync)?;
                    let (file, action) = (EPOCHS_FILE.to_owned(), "write");
                    epochs.add(&end).map_err(|source| wal::Error::Io { file, action, source })?;
                }
            }
        }
        let ended = self.epochs.as_ref().map_or(0, Epochs::ended);
        let slot = slot.as_ref().map(|slot| slot.encode(&mut self.encoded, ended));
        self.log.commit(slot, self.durability)
    }
}

/// What the slot of the log is to hold.
enum Slot<T: Types> {
    Memory(Arc<T::Memory>),
    Amnesia,
}

impl<T: Types> Slot<T> {
    /// The encoding, behind the number of epochs that have ended: of amnesia there is nothing more.
    fn encode<'a>(&self, buffer: &'a mut Vec<u8>, ended: u64) -> &'a [u8] {
        buffer.clear();
        ended.encode(buffer);
        if let Self::Memory(memory) = self {
            memory.encode(buffer);
        }
        buffer.as_slice()
    }
}
