//! Snapshots of the replicated state, what is beside checkpoints, and the newest offer, in one folder.
//!
//! A state is written as a whole (`….snapshot`), or without the application's part, where that keeps checkpoints of its own (`….beside`).

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

/// The file, beside the snapshots, that holds the newest offer behind its digest.
pub const OFFER_FILE: &str = "offer";
/// The longest such file.
pub const OFFER_LIMIT_BYTES: u64 = (DIGEST_BYTES + limits::offer_bytes(MAX_REPLICAS)) as u64;
const DIGEST_BYTES: usize = 32;

/// Why something was not kept. Final, like every error of the storage: the replica must stop.
#[derive(Debug, thiserror::Error)]
pub enum StatesError {
    /// Of the offer.
    #[error("offer: {0}")]
    Offer(#[from] io::Error),
    /// Of a snapshot.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// Of the application's checkpoint.
    #[error(transparent)]
    Checkpoint(#[from] KeepError),
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
    /// Opens the folder: what an earlier run left unfinished is removed.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open(disk: Arc<dyn Disk>, identity: [u8; 16]) -> Result<Self, SnapshotError> {
        let snapshots = Snapshots::open(Arc::clone(&disk), identity)?;
        let beside = Snapshots::open_kind(Arc::clone(&disk), identity, "beside")?;
        Ok(Self { disk, snapshots, beside, identity })
    }

    /// Writes a snapshot, or what is beside a checkpoint and then finishes that; it is durable when this returns. The checkpoint can be read as long as
    /// no other is finished.
    ///
    /// # Errors
    /// [`StatesError`].
    pub fn write<T: Types>(
        &self,
        meta: &SnapshotMeta<T>,
        handle: SnapshotHandle,
    ) -> Result<Option<Box<dyn Checkpoint>>, StatesError> {
        let number = meta.block.height().0;
        let files = if handle.is_whole() { &self.snapshots } else { &self.beside };
        let writer = files.write(number, &meta.to_bytes(), MAX_CHUNK_BYTES as u32)?;
        Self::write_chunks(writer, &handle)?;
        Ok(handle.finish()?)
    }

    fn write_chunks(
        mut writer: SnapshotWriter,
        handle: &SnapshotHandle,
    ) -> Result<(), SnapshotError> {
        let mut result = Ok(());
        handle.chunks(&mut |chunk| {
            let length = u32::try_from(chunk.len()).unwrap_or(u32::MAX);
            result = writer.write(&length.to_le_bytes()).and_then(|()| writer.write(chunk));
            result.is_ok()
        });
        result?;
        if let Some(KeepError(reason)) = handle.failure() {
            let (file, source) = ("the kept state".to_owned(), io::Error::other(reason));
            return Err(SnapshotError::Io { file, action: "read", source });
        }
        writer.finish().map(|_| ())
    }

    /// The whole snapshot at a height.
    ///
    /// # Errors
    /// [`SnapshotError`]: it is not there, or no snapshot.
    pub fn whole(&self, height: Height) -> Result<Whole, SnapshotError> {
        self.snapshots.read(height.0).map(Whole)
    }

    /// A [`Spool`] for chunks that are made, in this folder.
    ///
    /// # Errors
    /// What the disk says.
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

    /// The numbers of what is beside checkpoints.
    pub(crate) fn beside(&self) -> Result<Vec<u64>, SnapshotError> {
        self.beside.numbers()
    }

    /// What is beside the checkpoint at a height, if anything is.
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

    /// The newest whole snapshot.
    pub(crate) fn newest(&self) -> Result<Newest, SnapshotError> {
        self.snapshots.newest()
    }

    /// Keeps an offer and its snapshot, or what is beside its checkpoint; older ones go.
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
            // Of the kind that is not written any more, all.
            kinds.iter().zip(kept).try_for_each(|(files, kept)| files.keep_newest(kept))?;
        }
        Ok(())
    }

    /// The newest offer, if one was kept. A damaged one is as good as none: another is made when the next snapshot is
    /// attested.
    #[must_use]
    pub fn offer<T: Types>(&self) -> Option<Offer<T>> {
        let bytes = atomic_file::read_from(&*self.disk, OFFER_FILE, OFFER_LIMIT_BYTES).ok()?;
        let (digest, offered) = bytes.split_at_checked(DIGEST_BYTES)?;
        if planted!("damaged-offer-believed", false, self.digest(offered).0 != digest) {
            return None;
        }
        Offer::from_bytes(Bytes::copy_from_slice(offered)).ok()
    }

    /// Whether peers can be sent what is offered: there is a snapshot, or it is the state that was recovered.
    pub(crate) fn serves<T: Types>(
        &self,
        offer: &Offer<T>,
        recovered: Option<&SnapshotMeta<T>>,
    ) -> bool {
        let offered = offer.block.height();
        recovered.is_some_and(|meta| meta.block.height() == offered)
            || self.snapshots.numbers().is_ok_and(|numbers| numbers.contains(&offered.0))
    }

    /// Finds damage; proves nothing about who wrote it.
    fn digest(&self, offered: &[u8]) -> Digest {
        let mut bytes = self.identity.to_vec();
        bytes.extend_from_slice(offered);
        Digest::of("quorate offer file", &bytes)
    }
}

/// What is beside a checkpoint.
pub(crate) struct Described<T: Types> {
    pub(crate) meta: Result<SnapshotMeta<T>, DecodeError>,
    pub(crate) chunks: Vec<Bytes>,
}

/// A whole snapshot on disk, which stays readable when it is superseded.
pub struct Whole(SnapshotReader);

impl Whole {
    /// Its chunks, as the state machine gave them, until `sink` wants no more.
    ///
    /// # Errors
    /// [`SnapshotError`]: it is damaged, or cannot be read.
    pub fn stream(&self, sink: &mut dyn FnMut(Bytes) -> bool) -> Result<(), SnapshotError> {
        let streamed =
            each_chunk(&self.0, |chunk| if sink(chunk) { Ok(()) } else { Err(Ended::Enough) });
        match streamed {
            Ok(()) | Err(Ended::Enough) => Ok(()),
            Err(Ended::Failed(error)) => Err(error),
        }
    }

    /// For its chunks, which are where they are.
    #[must_use]
    pub fn spool(&self) -> Spool {
        Spool::of(self.0.clone())
    }
}

/// Why a snapshot is not read any further.
enum Ended {
    Enough,
    Failed(SnapshotError),
}

impl From<SnapshotError> for Ended {
    fn from(error: SnapshotError) -> Self {
        Self::Failed(error)
    }
}

/// All of the state's chunks of a snapshot.
pub(crate) fn chunks_of(reader: &SnapshotReader) -> Result<Vec<Bytes>, SnapshotError> {
    let mut chunks = Vec::new();
    each_chunk::<SnapshotError>(reader, |chunk| {
        chunks.push(chunk);
        Ok(())
    })?;
    Ok(chunks)
}

/// The state's chunks of a snapshot, one by one: on disk each stands behind its length (u32).
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
