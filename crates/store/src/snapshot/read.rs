//! The reader of a snapshot in verified chunks.

use super::SnapshotError;
use super::format::{
    CHUNK_HEAD_BYTES, HEADER_FIXED_BYTES, METADATA_LIMIT_BYTES, Seal, SnapshotInfo, TRAILER_BYTES,
    decode_fixed,
};
use crate::bytes::u32_at;
use crate::disk::{Disk, DiskFile};
use std::sync::Arc;

/// A readable snapshot. Clones are cheap. It stays readable after its file was removed.
#[derive(Clone)]
pub struct SnapshotReader {
    file: Arc<dyn DiskFile>,
    name: String,
    seal: Seal,
    info: Arc<SnapshotInfo>,
}

impl SnapshotReader {
    pub(super) fn open(
        disk: &dyn Disk,
        identity: &[u8; 16],
        name: &str,
        number: u64,
    ) -> Result<SnapshotReader, SnapshotError> {
        let file = disk.open(name).map_err(SnapshotError::io(name, "open"))?;
        let size = file.size().map_err(SnapshotError::io(name, "measure"))?;
        let damaged =
            |offset, what| SnapshotError::Damaged { file: name.to_string(), offset, what };
        if size < HEADER_FIXED_BYTES as u64 + 4 + TRAILER_BYTES {
            return Err(damaged(size, "the file ends early"));
        }
        let mut header = vec![0; HEADER_FIXED_BYTES];
        file.read_at(0, &mut header).map_err(SnapshotError::io(name, "read"))?;
        let fixed = decode_fixed(&header, name)?;
        let metadata_bytes = u64::from(fixed.metadata_bytes);
        if metadata_bytes > METADATA_LIMIT_BYTES || metadata_bytes > size - TRAILER_BYTES - 4 {
            return Err(damaged(40, "the metadata length is impossible"));
        }
        let covered = HEADER_FIXED_BYTES + fixed.metadata_bytes as usize;
        header.resize(covered + 4, 0);
        file.read_at(0, &mut header).map_err(SnapshotError::io(name, "read"))?;
        let (covered, checksum) = header.split_at(covered);
        if u32_at(checksum, 0) != Some(crc32c::crc32c(covered)) {
            return Err(damaged(0, "the header's checksum does not match"));
        }
        if fixed.identity != *identity {
            let what = "it belongs to another log".to_string();
            return Err(SnapshotError::Foreign { file: name.to_string(), what });
        }
        if fixed.number != number {
            return Err(damaged(28, "the number is not the name's"));
        }
        let seal = Seal::new(identity, number);
        let mut trailer = [0; TRAILER_BYTES as usize];
        let trailer_at = size - TRAILER_BYTES;
        file.read_at(trailer_at, &mut trailer).map_err(SnapshotError::io(name, "read"))?;
        let Some((total_bytes, hash)) = seal.decode_trailer(&trailer) else {
            return Err(damaged(trailer_at, "the trailer is not valid"));
        };
        let metadata = covered[HEADER_FIXED_BYTES..].to_vec();
        let info =
            SnapshotInfo { number, metadata, chunk_bytes: fixed.chunk_bytes, total_bytes, hash };
        if info.check_limits().is_err() || info.trailer_at() != trailer_at {
            return Err(damaged(trailer_at, "the total length is not the file's"));
        }
        Ok(SnapshotReader { file, name: name.to_string(), seal, info: Arc::new(info) })
    }

    /// The description of the snapshot.
    pub fn info(&self) -> &SnapshotInfo {
        &self.info
    }

    /// Chunk `index`, verified.
    ///
    /// # Errors
    /// [`SnapshotError::Limit`] for the index; [`SnapshotError::Damaged`], [`SnapshotError::Io`].
    pub fn read_chunk(&self, index: u64) -> Result<Vec<u8>, SnapshotError> {
        let mut bytes = Vec::new();
        read_chunk(&*self.file, &self.name, self.seal, &self.info, index, &mut bytes)?;
        bytes.drain(..CHUNK_HEAD_BYTES as usize);
        Ok(bytes)
    }

    /// Reads `length` bytes of the content from `offset` on, and verifies the chunks that contain
    /// them.
    ///
    /// # Errors
    /// As [`SnapshotReader::read_chunk`].
    pub fn read_range(&self, offset: u64, length: u64) -> Result<Vec<u8>, SnapshotError> {
        let chunk_bytes = u64::from(self.info.chunk_bytes);
        let end = offset.saturating_add(length);
        if end > self.info.total_bytes {
            let (what, limit) = ("end of the range", self.info.total_bytes);
            return Err(SnapshotError::Limit { what, value: end, limit });
        }
        let mut bytes = Vec::new();
        let mut at = offset;
        while at < end {
            let chunk = self.read_chunk(at / chunk_bytes)?;
            let from = (at % chunk_bytes) as usize;
            let to = chunk.len().min(from + (end - at) as usize);
            bytes.extend_from_slice(chunk.get(from..to).unwrap_or(&[]));
            at += (to - from) as u64;
        }
        Ok(bytes)
    }

    /// Passes all chunks in order to `each`, verified one by one, and checks the hash at the end.
    ///
    /// # Errors
    /// [`SnapshotError::Damaged`], [`SnapshotError::Io`], or the first error of `each`.
    pub fn stream<E: From<SnapshotError>>(
        &self,
        each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let hash = check_content(&*self.file, &self.name, self.seal, &self.info, each)?;
        if hash != self.info.hash {
            let what = "the content does not have the trailer's hash";
            let offset = self.info.trailer_at();
            return Err(SnapshotError::Damaged { file: self.name.clone(), offset, what }.into());
        }
        Ok(())
    }

    /// Verifies everything.
    ///
    /// # Errors
    /// As [`SnapshotReader::stream`].
    pub fn verify(&self) -> Result<(), SnapshotError> {
        self.stream(|_| Ok(()))
    }
}

/// Reads all chunks, passes them to `each`, and returns the hash of the content.
pub(super) fn check_content<E: From<SnapshotError>>(
    file: &dyn DiskFile,
    name: &str,
    seal: Seal,
    info: &SnapshotInfo,
    mut each: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<[u8; 32], E> {
    let mut hasher = blake3::Hasher::new();
    let mut frame = Vec::new();
    for index in 0..info.chunks() {
        read_chunk(file, name, seal, info, index, &mut frame)?;
        let bytes = &frame[CHUNK_HEAD_BYTES as usize..];
        hasher.update(bytes);
        each(bytes)?;
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Reads a chunk with its head into `frame`.
fn read_chunk(
    file: &dyn DiskFile,
    name: &str,
    seal: Seal,
    info: &SnapshotInfo,
    index: u64,
    frame: &mut Vec<u8>,
) -> Result<(), SnapshotError> {
    if index >= info.chunks() {
        return Err(SnapshotError::Limit {
            what: "chunk index",
            value: index,
            limit: info.chunks(),
        });
    }
    let length = info.chunk_length(index);
    frame.resize(usize::try_from(CHUNK_HEAD_BYTES + length).unwrap_or(0), 0);
    let offset = info.chunk_at(index);
    file.read_at(offset, frame).map_err(SnapshotError::io(name, "read"))?;
    let (head, bytes) = frame.split_at(CHUNK_HEAD_BYTES as usize);
    if u32_at(head, 0).map(u64::from) != Some(length)
        || u32_at(head, 4) != Some(seal.chunk(index, bytes))
    {
        let what = "the checksum of a chunk does not match";
        return Err(SnapshotError::Damaged { file: name.to_string(), offset, what });
    }
    Ok(())
}
