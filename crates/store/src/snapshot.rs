//! Snapshots: a large state written once, as a stream, and read in verified chunks.
//!
//! # File
//! `<number, 20 digits>.snapshot`, or of another kind; the number is the caller's (a height), a higher one is newer. Integers are little-endian.
//! ```text
//! header   0 magic "QRSNAP\0\0" | 8 version u32 = 1 | 12 identity [16] | 28 number u64 | 36 chunk size u32
//!          | 40 metadata length u32 | 44 metadata | CRC-32C of all of it
//! chunks   each: length u32 | CRC-32C of identity ‖ number ‖ index u64 ‖ bytes | bytes. All but the last have the chunk size, so
//!          chunk i stands at header + i · (8 + chunk size). An empty state has no chunk.
//! trailer  magic "QRSNEND\0" | total length u64 | BLAKE3 of the content [32] | CRC-32C of identity ‖ number ‖ the 48 bytes
//! ```
//! It is written as `<name>.tmp`, synced, renamed, and the folder is synced: a file of the final name is whole, unless the disk
//! damaged it. The checksums find damage; they prove nothing about a peer. Whether a content is *right* is for the caller to decide, by
//! the hash or by what the metadata says.

mod format;
mod read;
mod write;

pub use format::{METADATA_LIMIT_BYTES, MOST_CHUNK_BYTES, SnapshotInfo, TOTAL_LIMIT_BYTES};
pub use read::SnapshotReader;
pub use write::SnapshotWriter;

use crate::disk::Disk;
use format::{TEMPORARY, snapshot_name, snapshot_number};
use std::io;
use std::sync::Arc;

/// An error of a snapshot.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The disk refused an operation.
    #[error("cannot {action} {file}: {source}")]
    Io {
        /// The file, or "the folder".
        file: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not what was written.
    #[error(
        "{file} is damaged at offset {offset}: {what}; remove it: an older snapshot or a peer's replaces it"
    )]
    Damaged {
        /// The snapshot.
        file: String,
        /// Byte offset in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// No snapshot of this log: another format, version or identity.
    #[error("{file} cannot be used: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// Why.
        what: String,
    },
    /// Something given exceeds its limit.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The limit.
        limit: u64,
    },
}

impl SnapshotError {
    fn io(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> SnapshotError {
        let file = file.to_string();
        move |source| SnapshotError::Io { file, action, source }
    }
}

/// The snapshots of one log in one folder.
#[derive(Clone)]
pub struct Snapshots {
    disk: Arc<dyn Disk>,
    identity: [u8; 16],
    /// What their names end with.
    kind: &'static str,
}

/// The newest snapshot that is whole, and what had to be passed over.
pub struct Newest {
    /// It, if there is one.
    pub reader: Option<SnapshotReader>,
    /// The newer ones that are not, each named in its error.
    pub damaged: Vec<SnapshotError>,
}

impl Snapshots {
    /// Opens a folder, which must be locked by this process: unfinished files of an earlier run are removed.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn open(disk: Arc<dyn Disk>, identity: [u8; 16]) -> Result<Snapshots, SnapshotError> {
        Snapshots::open_kind(disk, identity, "snapshot")
    }

    /// The same for files of another kind, whose names end with it: one folder may have several kinds.
    ///
    /// # Errors
    /// As [`Snapshots::open`].
    pub fn open_kind(
        disk: Arc<dyn Disk>,
        identity: [u8; 16],
        kind: &'static str,
    ) -> Result<Snapshots, SnapshotError> {
        for name in disk.list().map_err(SnapshotError::io("the folder", "list"))? {
            let number = |name| snapshot_number(name, kind);
            if name.strip_suffix(TEMPORARY).and_then(number).is_some() {
                disk.remove(&name).map_err(SnapshotError::io(&name, "remove"))?;
            }
        }
        Ok(Snapshots { disk, identity, kind })
    }

    /// The numbers of all snapshots, newest first, whether whole or not.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn numbers(&self) -> Result<Vec<u64>, SnapshotError> {
        let names = self.disk.list().map_err(SnapshotError::io("the folder", "list"))?;
        let mut numbers: Vec<u64> =
            names.iter().filter_map(|name| snapshot_number(name, self.kind)).collect();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        Ok(numbers)
    }

    /// Begins snapshot `number` with chunks of `chunk_bytes` (4 KiB to 16 MiB). One of the same number is replaced at the end.
    ///
    /// # Errors
    /// [`SnapshotError::Limit`] for the metadata or the chunk size; [`SnapshotError::Io`].
    pub fn write(
        &self,
        number: u64,
        metadata: &[u8],
        chunk_bytes: u32,
    ) -> Result<SnapshotWriter, SnapshotError> {
        let name = self.name(number);
        let disk = self.disk.clone();
        SnapshotWriter::create(disk, self.identity, name, number, metadata, chunk_bytes)
    }

    /// Opens snapshot `number`; header, trailer and length are checked, chunks when they are read.
    ///
    /// # Errors
    /// [`SnapshotError::Io`], [`SnapshotError::Foreign`], [`SnapshotError::Damaged`].
    pub fn read(&self, number: u64) -> Result<SnapshotReader, SnapshotError> {
        SnapshotReader::open(&*self.disk, &self.identity, &self.name(number), number)
    }

    /// The newest snapshot that is whole: every chunk and the hash are verified, which reads it once.
    ///
    /// # Errors
    /// [`SnapshotError::Io`] of the folder. Whatever is wrong with a file makes it be passed over.
    pub fn newest(&self) -> Result<Newest, SnapshotError> {
        let mut damaged = Vec::new();
        for number in self.numbers()? {
            match self.read(number).and_then(|reader| reader.verify().map(|()| reader)) {
                Ok(reader) => {
                    return Ok(Newest { reader: Some(reader), damaged });
                }
                Err(error) => damaged.push(error),
            }
        }
        Ok(Newest { reader: None, damaged })
    }

    fn name(&self, number: u64) -> String {
        snapshot_name(number, self.kind)
    }

    /// Removes all but the `count` newest snapshots, whole or not: call it after one was written or verified.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn keep_newest(&self, count: usize) -> Result<(), SnapshotError> {
        let mut numbers = self.numbers()?;
        let old = numbers.split_off(count.min(numbers.len()));
        for number in &old {
            let name = self.name(*number);
            self.disk.remove(&name).map_err(SnapshotError::io(&name, "remove"))?;
        }
        if old.is_empty() {
            return Ok(());
        }
        self.disk.sync_dir().map_err(SnapshotError::io("the folder", "sync"))
    }
}
