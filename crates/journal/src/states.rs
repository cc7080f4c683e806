//! Snapshots of the replicated state, and the newest offer, in one folder.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::execution::SnapshotHandle;
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::Offer;
use quorate_core::state_machine::{KeepError, MAX_CHUNK_BYTES, Snapshot as _};
use quorate_core::wire::{Decode as _, Encode as _};
use quorate_core::{Digest, Height};
use quorate_store::atomic_file;
use quorate_store::disk::Disk;
use quorate_store::snapshot::{Newest, SnapshotError, SnapshotReader, Snapshots};

/// The file, beside the snapshots, that holds the newest offer behind its digest.
pub const OFFER_FILE: &str = "offer";
/// More than an offer can have: a few blocks without bodies, and a certificate.
const OFFER_LIMIT_BYTES: u64 = 4 << 20;
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
}

/// The folder of the snapshots. Clones share it.
#[derive(Clone)]
pub struct States {
    disk: Arc<dyn Disk>,
    snapshots: Snapshots,
    identity: [u8; 16],
}

impl States {
    /// Opens the folder: what an earlier run left unfinished is removed.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open(disk: Arc<dyn Disk>, identity: [u8; 16]) -> Result<Self, SnapshotError> {
        let snapshots = Snapshots::open(Arc::clone(&disk), identity)?;
        Ok(Self { disk, snapshots, identity })
    }

    /// Writes a snapshot; it is durable when this returns.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn write(&self, meta: &SnapshotMeta, handle: &SnapshotHandle) -> Result<(), SnapshotError> {
        let number = meta.block.height.0;
        let mut writer = self.snapshots.write(number, &meta.to_bytes(), MAX_CHUNK_BYTES as u32)?;
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

    /// The chunks of the snapshot at a height, as the state machine gave them.
    ///
    /// # Errors
    /// [`SnapshotError`]: it is not there, or damaged.
    pub fn chunks(&self, height: Height) -> Result<Vec<Bytes>, SnapshotError> {
        chunks_of(&self.snapshots.read(height.0)?)
    }

    /// The newest whole snapshot.
    pub(crate) fn newest(&self) -> Result<Newest, SnapshotError> {
        self.snapshots.newest()
    }

    /// Keeps an offer and its snapshot; older snapshots go.
    ///
    /// # Errors
    /// [`StatesError`].
    pub fn keep_offer(&self, offer: &Offer) -> Result<(), StatesError> {
        let offered = offer.to_bytes();
        let mut bytes = self.digest(&offered).0.to_vec();
        bytes.extend_from_slice(&offered);
        atomic_file::replace(self.disk.as_ref(), OFFER_FILE, &bytes)?;
        let numbers = self.snapshots.numbers()?;
        let kept = numbers.iter().filter(|number| **number >= offer.block.height.0).count();
        Ok(self.snapshots.keep_newest(kept.max(1))?)
    }

    /// The newest offer, if one was kept. A damaged one is as good as none: another is made when the next snapshot is
    /// attested.
    #[must_use]
    pub fn offer(&self) -> Option<Offer> {
        let bytes = atomic_file::read_from(&*self.disk, OFFER_FILE, OFFER_LIMIT_BYTES).ok()?;
        let (digest, offered) = bytes.split_at_checked(DIGEST_BYTES)?;
        if self.digest(offered).0 != digest {
            return None;
        }
        Offer::from_bytes(Bytes::copy_from_slice(offered)).ok()
    }

    /// Finds damage; proves nothing about who wrote it.
    fn digest(&self, offered: &[u8]) -> Digest {
        let mut bytes = self.identity.to_vec();
        bytes.extend_from_slice(offered);
        Digest::of("quorate offer file", &bytes)
    }
}

/// The state's chunks of a snapshot: on disk each stands behind its length (u32).
pub(crate) fn chunks_of(reader: &SnapshotReader) -> Result<Vec<Bytes>, SnapshotError> {
    let mut chunks = Vec::new();
    let mut pending: Vec<u8> = Vec::new();
    reader.stream::<SnapshotError>(|bytes| {
        pending.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = pending.get(at..).and_then(<[u8]>::first_chunk::<4>) {
            let length = u32::from_le_bytes(*head) as usize;
            let Some(chunk) = pending.get(at + 4..at + 4 + length) else { break };
            chunks.push(Bytes::copy_from_slice(chunk));
            at += 4 + length;
        }
        pending.drain(..at);
        Ok(())
    })?;
    Ok(chunks)
}
