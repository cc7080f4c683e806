//! Receives a snapshot, chunk by chunk, in any order.

use super::SnapshotError;
use super::format::{Seal, SnapshotInfo, encode_header};
use super::read::check_content;
use super::write::Unfinished;
use crate::disk::Disk;
use std::sync::Arc;

/// A snapshot being received from peers. It exists once [`SnapshotReceiver::finish`] has returned `Ok`.
pub struct SnapshotReceiver {
    file: Unfinished,
    seal: Seal,
    info: SnapshotInfo,
    /// Which chunks are there.
    present: Vec<bool>,
    missing: u64,
}

impl SnapshotReceiver {
    pub(super) fn create(
        disk: Arc<dyn Disk>,
        identity: [u8; 16],
        name: String,
        info: SnapshotInfo,
    ) -> Result<SnapshotReceiver, SnapshotError> {
        info.check_limits()?;
        let mut file = Unfinished::create(disk, name)?;
        file.write(0, &encode_header(&identity, &info))?;
        // At most 2^28 by the limits of length and chunk size.
        let missing = info.chunks();
        let present = vec![false; usize::try_from(missing).unwrap_or(0)];
        Ok(SnapshotReceiver {
            file,
            seal: Seal::new(&identity, info.number),
            info,
            present,
            missing,
        })
    }

    /// What is being received.
    pub fn info(&self) -> &SnapshotInfo {
        &self.info
    }

    /// Stores chunk `index`; one that is there already is replaced.
    ///
    /// # Errors
    /// [`SnapshotError::Limit`] for the index, [`SnapshotError::ChunkLength`]: nothing was stored. [`SnapshotError::Io`].
    pub fn put(&mut self, index: u64, bytes: &[u8]) -> Result<(), SnapshotError> {
        let limit = self.info.chunks();
        let place = usize::try_from(index).ok().and_then(|index| self.present.get_mut(index));
        let Some(present) = place else {
            return Err(SnapshotError::Limit { what: "chunk index", value: index, limit });
        };
        let (expected, actual) = (self.info.chunk_length(index), bytes.len() as u64);
        if expected != actual {
            return Err(SnapshotError::ChunkLength { index, expected, actual });
        }
        let at = self.info.chunk_at(index);
        let mut frame = Vec::with_capacity(bytes.len() + 8);
        frame.extend_from_slice(&self.seal.chunk_head(index, bytes));
        frame.extend_from_slice(bytes);
        self.file.write(at, &frame)?;
        self.missing -= u64::from(!*present);
        *present = true;
        Ok(())
    }

    /// The indexes of the chunks that are not there, lowest first.
    pub fn missing(&self) -> impl Iterator<Item = u64> {
        (0u64..).zip(&self.present).filter(|(_, present)| !**present).map(|(index, _)| index)
    }

    /// Verifies the whole content against the hash and makes the snapshot durable and visible.
    ///
    /// # Errors
    /// [`SnapshotError::Incomplete`] gives nothing back: ask [`SnapshotReceiver::missing`] before. [`SnapshotError::WrongHash`];
    /// [`SnapshotError::Damaged`], [`SnapshotError::Io`]. Nothing remains of it then.
    pub fn finish(mut self) -> Result<SnapshotInfo, SnapshotError> {
        if let Some(first) = self.missing().next() {
            return Err(SnapshotError::Incomplete { missing: self.missing, first });
        }
        let hash =
            check_content(self.file.file(), &self.file.name(), self.seal, &self.info, |_| Ok(()))?;
        if hash != self.info.hash {
            return Err(SnapshotError::WrongHash { number: self.info.number });
        }
        let trailer = self.seal.encode_trailer(self.info.total_bytes, &hash);
        self.file.write(self.info.trailer_at(), &trailer)?;
        self.file.publish()?;
        Ok(self.info)
    }
}
