//! The file of the ends of epochs. The log forgets its beginning; how the members changed must
//! never be forgotten, for whoever was away believes a committee because the one before it named
//! it.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::base::wire::{DecodeError, Encode, Reader, put_list};
use quorate_core::protocols::protocol::{Handover, SharedHandover, Types};
use quorate_store::atomic_file;
use quorate_store::disk::Disk;

use super::owner::Owner;

/// The file's name in the folder of the snapshots.
pub const EPOCHS_FILE: &str = "epochs";
/// The most epochs that it holds.
const MAX_EPOCHS: usize = 1 << 16;
const LIMIT_BYTES: u64 = 1 << 30;
const DIGEST_BYTES: usize = 32;

/// The ends of epochs that are on disk.
#[derive(Clone)]
pub(crate) struct Epochs {
    disk: Arc<dyn Disk>,
    identity: [u8; 16],
    /// The encoding of each, from the first.
    ends: Vec<Bytes>,
}

/// Why the file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EpochsError {
    /// It cannot be read or written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its digest is wrong, or it belongs to another replica.
    #[error("it is damaged, or belongs to another replica")]
    Damaged,
    /// It cannot be decoded.
    #[error("{0}; it was written by another version")]
    Decode(DecodeError),
}

impl Epochs {
    /// Reads the file, if there is one.
    pub(crate) fn open<T: Types>(
        disk: Arc<dyn Disk>,
        owner: &Owner<T>,
    ) -> Result<(Self, Vec<SharedHandover<T>>), EpochsError> {
        let mut epochs = Self { disk, identity: owner.identity(), ends: Vec::new() };
        if !epochs.disk.list()?.iter().any(|name| name == EPOCHS_FILE) {
            return Ok((epochs, Vec::new()));
        }
        let bytes = atomic_file::read_from(&*epochs.disk, EPOCHS_FILE, LIMIT_BYTES)?;
        let (digest, content) = bytes.split_at_checked(DIGEST_BYTES).ok_or(EpochsError::Damaged)?;
        if epochs.digest(content).0 != digest {
            return Err(EpochsError::Damaged);
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(content));
        let handovers: Vec<Handover<T>> =
            reader.list("epochs", MAX_EPOCHS).map_err(EpochsError::Decode)?;
        reader.finish().map_err(EpochsError::Decode)?;
        let handovers: Vec<SharedHandover<T>> = handovers.into_iter().map(Arc::new).collect();
        epochs.ends = handovers.iter().map(|end| end.to_bytes().into()).collect();
        Ok((epochs, handovers))
    }

    /// Writes down how all epochs ended that a replica was told of. Durable when this returns.
    pub(crate) fn begin<T: Types>(
        disk: Arc<dyn Disk>,
        owner: &Owner<T>,
        ends: &[SharedHandover<T>],
    ) -> io::Result<()> {
        let mut epochs = Self { disk, identity: owner.identity(), ends: Vec::new() };
        epochs.ends = ends.iter().map(|end| end.to_bytes().into()).collect();
        if epochs.ends.is_empty() { Ok(()) } else { epochs.write() }
    }

    /// How many epochs have ended.
    pub(crate) fn ended(&self) -> u64 {
        self.ends.len() as u64
    }

    /// So many ended, and no more: what else the file says was never come through.
    pub(crate) fn forget_from(&mut self, ended: usize) {
        self.ends.truncate(ended);
    }

    /// Writes down how an epoch ended. Durable when this returns.
    pub(crate) fn add<T: Types>(&mut self, end: &SharedHandover<T>) -> io::Result<()> {
        self.ends.push(end.to_bytes().into());
        self.write()
    }

    fn write(&self) -> io::Result<()> {
        let mut content = Vec::new();
        put_list(&mut content, &self.ends.iter().map(Encoded).collect::<Vec<_>>());
        let mut bytes = self.digest(&content).0.to_vec();
        bytes.extend_from_slice(&content);
        atomic_file::replace(&*self.disk, EPOCHS_FILE, &bytes)
    }

    /// Detects damage. It does not prove who wrote the file.
    fn digest(&self, content: &[u8]) -> Digest {
        let mut bytes = self.identity.to_vec();
        bytes.extend_from_slice(content);
        Digest::of("quorate epochs file", &bytes)
    }
}

/// Something that is encoded already.
struct Encoded<'a>(&'a Bytes);

impl Encode for Encoded<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.0);
    }
}
