//! The folder of states: snapshots of the replicated state, the parts beside checkpoints, and the
//! newest offer.
//!
//! A state is written as a whole (`….snapshot`). If the application keeps checkpoints of its own,
//! the state is written without the application's part (`….beside`).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::membership::MAX_REPLICAS;
use quorate_core::base::wire::{Decode as _, DecodeError, Encode as _};
use quorate_core::ledger::execution::SnapshotHandle;
use quorate_core::ledger::state_machine::{Checkpoint, KeepError, MAX_CHUNK_BYTES, Snapshot as _};
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::Offer;
use quorate_core::{Digest, Height, limits, planted};
use quorate_store::atomic_file;
use quorate_store::disk::Disk;
use quorate_store::snapshot::{Newest, SnapshotError, SnapshotReader, SnapshotWriter, Snapshots};

use crate::Spool;

/// The file of the newest offer, which follows its digest.
pub const OFFER_FILE: &str = "offer";
/// The limit of that file's length.
pub const OFFER_LIMIT_BYTES: u64 = (DIGEST_BYTES + limits::offer_bytes(MAX_REPLICAS)) as u64;
const DIGEST_BYTES: usize = 32;

/// The reason why something was not written. Like every error of the storage it is final: the
/// replica must stop.
#[derive(Debug, thiserror::Error)]
pub enum StatesError {
    /// The offer could not be written.
    #[error("offer: {0}")]
    Offer(#[from] io::Error),
    /// A snapshot could not be written.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The chunks of a snapshot that is restored could not be read.
    #[error("the chunks to restore: {0}")]
    Source(io::Error),
    /// The application's checkpoint could not be finished.
    #[error(transparent)]
    Checkpoint(#[from] KeepError),
    /// The application gave a chunk that no replica would take.
    #[error("a chunk of the application's snapshot has {bytes} bytes, more than {MAX_CHUNK_BYTES}")]
    Chunk {
        /// Its length.
        bytes: usize,
    },
}

/// Hands out the chunks of a snapshot until no more are wanted.
pub type Chunks<'a> = &'a mut dyn FnMut(&mut dyn FnMut(&[u8]) -> bool) -> io::Result<()>;

/// What was written.
pub struct Written {
    /// What a snapshot of the whole state takes; `None`: it is but beside a checkpoint.
    pub whole_bytes: Option<u64>,
    /// The checkpoint, if the application keeps its state as such. It can be read until another
    /// one is finished.
    pub checkpoint: Option<Box<dyn Checkpoint>>,
}

/// The folder of the snapshots. Clones share it.
#[derive(Clone)]
pub struct States {
    disk: Arc<dyn Disk>,
    snapshots: Snapshots,
    beside: Snapshots,
    identity: [u8; 16],
}

impl States {
    /// Opens the folder and removes unfinished files of an earlier run.
    ///
    /// # Errors
    /// The disk's error.
    pub fn open(disk: Arc<dyn Disk>, identity: [u8; 16]) -> Result<Self, SnapshotError> {
        let snapshots = Snapshots::open(Arc::clone(&disk), identity)?;
        let beside = Snapshots::open_kind(Arc::clone(&disk), identity, "beside")?;
        Ok(Self { disk, snapshots, beside, identity })
    }

    /// Writes a snapshot, or the part beside a checkpoint, and then finishes the checkpoint. All is
    /// durable when this returns.
    ///
    /// # Errors
    /// [`StatesError`].
    pub fn write<T: Types>(
        &self,
        meta: &SnapshotMeta<T>,
        handle: SnapshotHandle,
    ) -> Result<Written, StatesError> {
        let number = meta.block.height().0;
        let is_whole = handle.is_whole();
        let files = if is_whole { &self.snapshots } else { &self.beside };
        let writer = files.write(number, &meta.to_bytes(), MAX_CHUNK_BYTES as u32)?;
        let bytes = Self::write_chunks(writer, &handle)?;
        Ok(Written { whole_bytes: is_whole.then_some(bytes), checkpoint: handle.finish()? })
    }

    /// Writes a whole snapshot whose chunks come from elsewhere. Durable when this returns.
    pub(crate) fn write_whole<T: Types>(
        &self,
        meta: &SnapshotMeta<T>,
        chunks: Chunks<'_>,
    ) -> Result<(), StatesError> {
        let number = meta.block.height().0;
        let mut writer = self.snapshots.write(number, &meta.to_bytes(), MAX_CHUNK_BYTES as u32)?;
        let mut result = Ok(());
        let handed_out = chunks(&mut |chunk| {
            result = Self::write_chunk(&mut writer, chunk);
            result.is_ok()
        });
        result?;
        handed_out.map_err(StatesError::Source)?;
        writer.finish()?;
        Ok(())
    }

    fn write_chunk(writer: &mut SnapshotWriter, chunk: &[u8]) -> Result<(), StatesError> {
        let bytes = chunk.len();
        if bytes > MAX_CHUNK_BYTES {
            return Err(StatesError::Chunk { bytes });
        }
        writer.write(&(bytes as u32).to_le_bytes())?;
        Ok(writer.write(chunk)?)
    }

    /// Returns what they take on disk, each behind its length.
    fn write_chunks(
        mut writer: SnapshotWriter,
        handle: &SnapshotHandle,
    ) -> Result<u64, StatesError> {
        let (mut result, mut bytes) = (Ok(()), 0);
        handle.chunks(&mut |chunk| {
            bytes += 4 + chunk.len() as u64;
            result = Self::write_chunk(&mut writer, chunk);
            result.is_ok()
        });
        result?;
        if let Some(KeepError(reason)) = handle.failure() {
            let (file, source) = ("the kept state".to_owned(), io::Error::other(reason));
            return Err(SnapshotError::Io { file, action: "read", source }.into());
        }
        writer.finish()?;
        Ok(bytes)
    }

    /// Opens the whole snapshot at a height.
    ///
    /// # Errors
    /// [`SnapshotError`] if it does not exist or is no snapshot.
    pub fn whole(&self, height: Height) -> Result<Whole, SnapshotError> {
        self.snapshots.read(height.0).map(Whole)
    }

    /// Creates a [`Spool`] in this folder, for newly made chunks.
    ///
    /// # Errors
    /// The disk's error.
    pub fn spool(&self) -> io::Result<Spool> {
        Spool::begin(&*self.disk)
    }

    /// The chunks beside the checkpoint at a height.
    ///
    /// # Errors
    /// As [`whole`](Self::whole).
    pub fn chunks_beside(&self, height: Height) -> Result<Vec<Bytes>, SnapshotError> {
        chunks_of(&self.beside.read(height.0)?)
    }

    /// The heights of the whole snapshots, newest first.
    pub(crate) fn heights(&self) -> Result<Vec<u64>, SnapshotError> {
        self.snapshots.numbers()
    }

    /// Removes the whole snapshot at a height.
    pub(crate) fn remove(&self, height: u64) -> Result<(), SnapshotError> {
        self.snapshots.remove(height)
    }

    /// The heights of the parts beside checkpoints.
    pub(crate) fn beside(&self) -> Result<Vec<u64>, SnapshotError> {
        self.beside.numbers()
    }

    /// Reads the part beside the checkpoint at a height, if it exists.
    pub(crate) fn read_beside<T: Types>(
        &self,
        height: Height,
    ) -> Result<Option<Described<T>>, SnapshotError> {
        if !self.beside()?.contains(&height.0) {
            return Ok(None);
        }
        let reader = self.beside.read(height.0)?;
        reader.verify()?;
        let meta = SnapshotMeta::from_bytes(Bytes::copy_from_slice(&reader.info().metadata));
        Ok(Some(Described { meta, chunks: chunks_of(&reader)? }))
    }

    /// Finds the newest whole snapshot.
    pub(crate) fn newest(&self) -> Result<Newest, SnapshotError> {
        self.snapshots.newest()
    }

    /// Stores an offer and keeps its snapshot, or the part beside its checkpoint. Removes older
    /// ones.
    ///
    /// # Errors
    /// [`StatesError`].
    pub fn keep_offer<T: Types>(&self, offer: &Offer<T>) -> Result<(), StatesError> {
        let offered = offer.to_bytes();
        let mut bytes = self.digest(&offered).0.to_vec();
        bytes.extend_from_slice(&offered);
        atomic_file::replace(self.disk.as_ref(), OFFER_FILE, &bytes)?;
        let kinds = [&self.snapshots, &self.beside];
        let mut kept = [0; 2];
        for (files, kept) in kinds.iter().zip(&mut kept) {
            let mut numbers = files.numbers()?;
            numbers.retain(|number| *number >= offer.block.height().0);
            *kept = numbers.len();
        }
        if kept != [0; 2] {
            // Of the kind that is no longer written, all files are removed.
            kinds.iter().zip(kept).try_for_each(|(files, kept)| files.keep_newest(kept))?;
        }
        Ok(())
    }

    /// The newest stored offer. A damaged one counts as none: the replica makes another when the
    /// next snapshot is attested.
    #[must_use]
    pub fn offer<T: Types>(&self) -> Option<Offer<T>> {
        let bytes = atomic_file::read_from(&*self.disk, OFFER_FILE, OFFER_LIMIT_BYTES).ok()?;
        let (digest, offered) = bytes.split_at_checked(DIGEST_BYTES)?;
        if planted!("damaged-offer-believed", false, self.digest(offered).0 != digest) {
            return None;
        }
        Offer::from_bytes(Bytes::copy_from_slice(offered)).ok()
    }

    /// Whether peers can be served from an offer: its snapshot exists, or it is the recovered
    /// state.
    pub(crate) fn serves<T: Types>(
        &self,
        offer: &Offer<T>,
        recovered: Option<&SnapshotMeta<T>>,
    ) -> bool {
        let offered = offer.block.height();
        recovered.is_some_and(|meta| meta.block.height() == offered)
            || self.snapshots.numbers().is_ok_and(|numbers| numbers.contains(&offered.0))
    }

    /// Detects damage. It does not prove who wrote the file.
    fn digest(&self, offered: &[u8]) -> Digest {
        let mut bytes = self.identity.to_vec();
        bytes.extend_from_slice(offered);
        Digest::of("quorate offer file", &bytes)
    }
}

/// The part beside a checkpoint.
pub(crate) struct Described<T: Types> {
    pub(crate) meta: Result<SnapshotMeta<T>, DecodeError>,
    pub(crate) chunks: Vec<Bytes>,
}

/// A whole snapshot on disk. It stays readable after a newer one replaced it.
pub struct Whole(SnapshotReader);

impl Whole {
    /// Passes its chunks to `sink`, as the state machine gave them, until `sink` returns `false`.
    ///
    /// # Errors
    /// [`SnapshotError`] if it is damaged or cannot be read.
    pub fn stream(&self, sink: &mut dyn FnMut(Bytes) -> bool) -> Result<(), SnapshotError> {
        let streamed =
            each_chunk(&self.0, |chunk| if sink(chunk) { Ok(()) } else { Err(Ended::Enough) });
        match streamed {
            Ok(()) | Err(Ended::Enough) => Ok(()),
            Err(Ended::Failed(error)) => Err(error),
        }
    }

    /// A spool of its chunks, which stay where they are.
    #[must_use]
    pub fn spool(&self) -> Spool {
        Spool::of(self.0.clone())
    }
}

/// The reason why the reading of a snapshot ended.
enum Ended {
    Enough,
    Failed(SnapshotError),
}

impl From<SnapshotError> for Ended {
    fn from(error: SnapshotError) -> Self {
        Self::Failed(error)
    }
}

/// All chunks of the state in a snapshot.
pub(crate) fn chunks_of(reader: &SnapshotReader) -> Result<Vec<Bytes>, SnapshotError> {
    let mut chunks = Vec::new();
    each_chunk::<SnapshotError>(reader, |chunk| {
        chunks.push(chunk);
        Ok(())
    })?;
    Ok(chunks)
}

/// Passes on the chunks of the state in a snapshot, one by one. On disk each follows its length
/// (u32).
pub(crate) fn each_chunk<E: From<SnapshotError>>(
    reader: &SnapshotReader,
    mut each: impl FnMut(Bytes) -> Result<(), E>,
) -> Result<(), E> {
    let mut pending: Vec<u8> = Vec::new();
    reader.stream::<E>(|bytes| {
        pending.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = pending.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            let length = u32::from_le_bytes(*head) as usize;
            let Some(chunk) = pending.get(at + 4..at + 4 + length) else { break };
            each(Bytes::copy_from_slice(chunk))?;
            at += 4 + length;
        }
        pending.drain(..at);
        Ok(())
    })
}
