//! The writer of a snapshot from a stream.

use super::SnapshotError;
use super::format::{
    CHUNK_HEAD_BYTES, Seal, SnapshotInfo, TEMPORARY, TOTAL_LIMIT_BYTES, encode_header,
};
use crate::disk::{Disk, DiskFile, SYNC_EVERY_BYTES};
use std::io;
use std::sync::Arc;

/// A file that will become a snapshot. If it is dropped unfinished, it is removed.
pub(super) struct Unfinished {
    disk: Arc<dyn Disk>,
    file: Arc<dyn DiskFile>,
    name: String,
    unsynced_bytes: u64,
    finished: bool,
}

impl Unfinished {
    /// Creates the file; `name` is its final name.
    pub(super) fn create(disk: Arc<dyn Disk>, name: String) -> Result<Unfinished, SnapshotError> {
        let temporary = format!("{name}{TEMPORARY}");
        match disk.remove(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(SnapshotError::io(&temporary, "remove")(error));
            }
            _ => {}
        }
        let file = disk.create(&temporary, 0).map_err(SnapshotError::io(&temporary, "create"))?;
        Ok(Unfinished { disk, file, name, unsynced_bytes: 0, finished: false })
    }

    pub(super) fn name(&self) -> String {
        format!("{}{TEMPORARY}", self.name)
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<(), SnapshotError> {
        self.file
            .write_at(offset, bytes)
            .map_err(|error| SnapshotError::io(&self.name(), "write")(error))?;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SYNC_EVERY_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), SnapshotError> {
        self.unsynced_bytes = 0;
        self.file.sync_data().map_err(|error| SnapshotError::io(&self.name(), "sync")(error))
    }

    /// Makes it durable under its final name.
    pub(super) fn publish(mut self) -> Result<(), SnapshotError> {
        self.sync()?;
        let temporary = self.name();
        self.disk
            .rename(&temporary, &self.name)
            .map_err(SnapshotError::io(&temporary, "rename"))?;
        self.finished = true;
        self.disk.sync_dir().map_err(SnapshotError::io("the folder", "sync"))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.finished {
            // If this fails, the next start removes it.
            let _ = self.disk.remove(&self.name());
        }
    }
}

/// Writes a snapshot from a stream. It exists once [`SnapshotWriter::finish`] has returned `Ok`.
pub struct SnapshotWriter {
    file: Unfinished,
    seal: Seal,
    info: SnapshotInfo,
    hasher: blake3::Hasher,
    /// The current chunk, behind room for its head.
    chunk: Vec<u8>,
    index: u64,
}

impl SnapshotWriter {
    pub(super) fn create(
        disk: Arc<dyn Disk>,
        identity: [u8; 16],
        name: String,
        number: u64,
        metadata: &[u8],
        chunk_bytes: u32,
    ) -> Result<SnapshotWriter, SnapshotError> {
        let info = SnapshotInfo {
            number,
            metadata: metadata.to_vec(),
            chunk_bytes,
            total_bytes: 0,
            hash: [0; 32],
        };
        info.check_limits()?;
        let mut file = Unfinished::create(disk, name)?;
        file.write(0, &encode_header(&identity, &info))?;
        let chunk = Vec::with_capacity(CHUNK_HEAD_BYTES as usize + chunk_bytes as usize);
        let seal = Seal::new(&identity, number);
        let mut writer =
            SnapshotWriter { file, seal, info, hasher: blake3::Hasher::new(), chunk, index: 0 };
        writer.begin_chunk();
        Ok(writer)
    }

    /// Adds to the content.
    ///
    /// # Errors
    /// [`SnapshotError::Limit`] beyond [`TOTAL_LIMIT_BYTES`]; [`SnapshotError::Io`]. In both cases
    /// the snapshot must be abandoned.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        let total = self.info.total_bytes.saturating_add(bytes.len() as u64);
        if total > TOTAL_LIMIT_BYTES {
            return Err(SnapshotError::Limit {
                what: "total length",
                value: total,
                limit: TOTAL_LIMIT_BYTES,
            });
        }
        self.info.total_bytes = total;
        self.hasher.update(bytes);
        let full = CHUNK_HEAD_BYTES as usize + self.info.chunk_bytes as usize;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(full - self.chunk.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() == full {
                self.end_chunk()?;
            }
        }
        Ok(())
    }

    /// Makes the snapshot durable and visible.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn finish(mut self) -> Result<SnapshotInfo, SnapshotError> {
        if self.chunk.len() > CHUNK_HEAD_BYTES as usize {
            self.end_chunk()?;
        }
        self.info.hash = *self.hasher.finalize().as_bytes();
        let trailer = self.seal.encode_trailer(self.info.total_bytes, &self.info.hash);
        self.file.write(self.info.trailer_at(), &trailer)?;
        self.file.publish()?;
        Ok(self.info)
    }

    fn begin_chunk(&mut self) {
        self.chunk.clear();
        self.chunk.resize(CHUNK_HEAD_BYTES as usize, 0);
    }

    fn end_chunk(&mut self) -> Result<(), SnapshotError> {
        let (head, bytes) = self.chunk.split_at_mut(CHUNK_HEAD_BYTES as usize);
        head.copy_from_slice(&self.seal.chunk_head(self.index, bytes));
        self.file.write(self.info.chunk_at(self.index), &self.chunk)?;
        self.index += 1;
        self.begin_chunk();
        Ok(())
    }
}
