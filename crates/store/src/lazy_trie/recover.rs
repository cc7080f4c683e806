//! Recovery from the last checkpoint to the last commit, with the readable part of the log.

use super::batch::{CHECKPOINT, FIRST, LAST, MIDDLE, WHOLE};
use super::checkpoint;
use super::error::Error;
use super::head::{HEAD_NAME, Head, HeadFile, LOG_TO_BEGIN, log_identity};
use super::log_side::LogSide;
use super::memory::Memory;
use super::open::{Recovered, open_space};
use super::options::{Options, Recovery, WriteOut};
use super::writer::{Totals, Writer, hashed};
use crate::disk::Disk;
use crate::wal::{self, Durability, Log, Position, Preparation};
use std::sync::Arc;

/// The name of the log in errors.
const LOG_NAME: &str = "the write-ahead log";

/// The recovered parts of a store.
pub(super) struct Start {
    pub(super) memory: Arc<Memory>,
    pub(super) writer: Writer,
    pub(super) log: LogSide,
}

/// Opens the space and the log.
pub(super) fn recover(
    disk: &Arc<dyn Disk>,
    options: &Options,
    head_file: HeadFile,
    mut head: Head,
    recovered: &mut Recovered,
) -> Result<Start, Error> {
    let (memory, mut writer) = open_writer(disk, options, &head_file, &head)?;
    let opened = open_log(disk, options, &head_file, &mut head)
        .and_then(|log| Ok((replay(&log, &head, &mut writer)?, log)));
    let error = match opened {
        Ok((batches, log)) => {
            recovered.replayed_batches = batches;
            let settled = writer.version;
            return Ok(Start { memory, writer, log: LogSide::new(log, head_file, head, settled) });
        }
        Err(error) => error,
    };
    if options.recovery == Recovery::Strict || !is_damage_of_log(&error) {
        return Err(error);
    }
    drop((memory, writer));
    let (memory, mut writer) = open_writer(disk, options, &head_file, &head)?;
    recovered.replayed_batches = salvage(&**disk, &head_file, &head, &mut writer)?;
    recovered.lost = Some(error.to_string());
    let mut head = checkpoint::without_log(&mut writer, &head_file, &head)?;
    let log = open_log(disk, options, &head_file, &mut head)?;
    let settled = writer.version;
    Ok(Start { memory, writer, log: LogSide::new(log, head_file, head, settled) })
}

/// Opens the last checkpoint.
fn open_writer(
    disk: &Arc<dyn Disk>,
    options: &Options,
    head_file: &HeadFile,
    head: &Head,
) -> Result<(Arc<Memory>, Writer), Error> {
    let (memory, space) = open_space(disk, &head_file.geometry, head, options)?;
    let totals =
        Totals { items: head.items, key_bytes: head.key_bytes, value_bytes: head.value_bytes };
    let writer = Writer::new(space, head, totals, options)?;
    Ok((memory, writer))
}

/// Whether the error is damage for which the end of the log can be given up.
fn is_damage_of_log(error: &Error) -> bool {
    match error {
        Error::Log(error) => matches!(
            error,
            wal::Error::Damaged { .. }
                | wal::Error::MissingSegment { .. }
                | wal::Error::MissingSafetyRecord { .. }
                | wal::Error::PastEnd { .. }
        ),
        Error::Damaged { file, .. } | Error::Missing { file, .. } => file == LOG_NAME,
        _ => false,
    }
}

/// Opens the log, or begins the one that the head announces.
fn open_log(
    disk: &Arc<dyn Disk>,
    options: &Options,
    head_file: &HeadFile,
    head: &mut Head,
) -> Result<Log, Error> {
    let preparation = match options.write_out {
        WriteOut::Background => Preparation::Ahead,
        WriteOut::Inline => Preparation::Inline,
    };
    let identity = log_identity(&head_file.geometry.identity, head.log_generation);
    let log_options = wal::Options {
        segment_bytes: options.segment_bytes,
        slot_bytes: 4096,
        preparation,
        through_memory: options.log_through_memory,
        filled: options.log_through_memory || options.durability == Durability::Sync,
        ..wal::Options::new(identity)
    };
    if head.log_position == LOG_TO_BEGIN {
        wal::set_aside(&**disk, &identity)?;
        let (log, _) = Log::open(Arc::clone(disk), log_options)?;
        let begun = Head { number: head.number + 1, log_position: Position::START.0, ..*head };
        head_file.write(&begun)?;
        *head = begun;
        return Ok(log);
    }
    // A missing log must not be taken for an empty one.
    let names = disk.list().map_err(Error::io("the folder", "list"))?;
    if !names.iter().any(|name| name.ends_with(".wal")) {
        let hint = "; or open with best-effort recovery, which goes back to the last checkpoint";
        return Err(Error::Missing { file: LOG_NAME.to_string(), hint });
    }
    Ok(Log::open(Arc::clone(disk), log_options)?.0)
}

/// Applies the batches of the log after a checkpoint. Returns their number.
fn replay(log: &Log, head: &Head, writer: &mut Writer) -> Result<u64, Error> {
    let mut replay = Replay { head, writer, parts: None, batches: 0 };
    let from = Position(head.log_position);
    match log.replay(from, |position, kind, payload| replay.record(position, kind, payload)) {
        Err(Error::Log(wal::Error::Retired { position, .. })) => Err(Error::Damaged {
            file: LOG_NAME.to_string(),
            offset: position.0,
            what: "it begins behind the last sound checkpoint: a segment is gone, or the page of \
                   a newer checkpoint in store.head is not sound",
        }),
        Err(error) => Err(error),
        Ok(()) => replay.end(),
    }
}

/// The same for a damaged log, up to the damage.
fn salvage(
    disk: &dyn Disk,
    head_file: &HeadFile,
    head: &Head,
    writer: &mut Writer,
) -> Result<u64, Error> {
    let identity = log_identity(&head_file.geometry.identity, head.log_generation);
    let from = Position(head.log_position);
    let mut replay = Replay { head, writer, parts: None, batches: 0 };
    let mut going = true;
    let mut failed = None;
    wal::salvage(disk, &identity, from, |record| {
        if record.kind != CHECKPOINT && !(going && record.follows) {
            return;
        }
        // Checkpoint records are searched everywhere: one that is newer than the head forbids its
        // use.
        if let Err(error) = replay.record(record.position, record.kind, record.payload) {
            going = false;
            if !is_damage_of_log(&error) {
                failed.get_or_insert(error);
            }
        }
    })?;
    match failed {
        Some(error) => Err(error),
        None => replay.end(),
    }
}

struct Replay<'a> {
    head: &'a Head,
    writer: &'a mut Writer,
    /// The parts of an incomplete batch.
    parts: Option<(Position, Vec<u8>)>,
    batches: u64,
}

impl Replay<'_> {
    fn record(&mut self, position: Position, kind: u8, payload: &[u8]) -> Result<(), Error> {
        match kind {
            WHOLE => {
                self.parts = None;
                self.batch(position, payload)
            }
            FIRST => {
                self.parts = Some((position, payload.to_vec()));
                Ok(())
            }
            // Parts without a first one belong to a batch from before the checkpoint.
            MIDDLE => {
                if let Some((_, parts)) = &mut self.parts {
                    parts.extend_from_slice(payload);
                }
                Ok(())
            }
            LAST => {
                let Some((first, mut parts)) = self.parts.take() else { return Ok(()) };
                parts.extend_from_slice(payload);
                self.batch(first, &parts)
            }
            CHECKPOINT => {
                let number = payload.first_chunk().copied().map_or(u64::MAX, u64::from_le_bytes);
                if number <= self.head.number {
                    return Ok(());
                }
                Err(newest_head_lost())
            }
            _ => Err(unknown(position)),
        }
    }

    fn batch(&mut self, position: Position, payload: &[u8]) -> Result<(), Error> {
        let (version, changes) = payload.split_first_chunk().ok_or_else(|| unknown(position))?;
        let version = u64::from_le_bytes(*version);
        if version <= self.head.version {
            return Ok(());
        }
        if version != self.writer.version + 1 {
            return Err(unknown(position));
        }
        let changes = hashed(changes, self.writer.hashing).map_err(|_| unknown(position))?;
        // The nodes of all batches have one version, so that they are changed in place: there are
        // no readers yet.
        self.writer.replay(self.head.version + 1, version, &changes)?;
        self.batches += 1;
        Ok(())
    }

    /// Completes all changes. Returns the number of batches.
    fn end(self) -> Result<u64, Error> {
        self.writer.end_replay()?;
        Ok(self.batches)
    }
}

fn newest_head_lost() -> Error {
    Error::Damaged {
        file: HEAD_NAME.to_string(),
        offset: 0,
        what: "the page of the newest checkpoint is not sound, and the one before does not count \
               any more",
    }
}

fn unknown(position: Position) -> Error {
    Error::Damaged {
        file: LOG_NAME.to_string(),
        offset: position.0,
        what: "a record that no store writes there",
    }
}
