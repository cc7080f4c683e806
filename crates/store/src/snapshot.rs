//! Snapshots: a large state written once, as a stream, and read in verified chunks.
//!
//! # File
//! `<number, 20 digits>.snapshot`, or another suffix for other kinds. The number is the caller's (a
//! height); a higher one is newer. Integers are little-endian.
//! ```text
//! header   0 magic "QRSNAP\0\0" | 8 version u32 = 1 | 12 identity [16] | 28 number u64
//!          | 36 chunk size u32 | 40 metadata length u32 | 44 metadata | CRC-32C of all of it
//! chunks   each: length u32 | CRC-32C of identity ‖ number ‖ index u64 ‖ bytes | bytes.
//!          All but the last have the chunk size, so chunk i is at header + i · (8 + chunk size).
//!          An empty state has no chunk.
//! trailer  magic "QRSNEND\0" | total length u64 | BLAKE3 of the content [32]
//!          | CRC-32C of identity ‖ number ‖ the 48 bytes
//! ```
//! The file is written as `<name>.tmp`, synced and renamed, and the folder is synced. So a file
//! with the final name is complete, unless the disk damaged it. The checksums detect damage; they
//! prove nothing about a peer. The caller decides whether a content is *right*, by the hash or by
//! the metadata.

mod format;
mod read;
mod write;

pub use format::{
    METADATA_LIMIT_BYTES, MOST_CHUNK_BYTES, SnapshotInfo, TOTAL_LIMIT_BYTES,
    VERSION as FORMAT_VERSION,
};
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
        /// The operation.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The file is damaged.
    #[error(
        "{file} is damaged at offset {offset}: {what}; remove it: an older snapshot or a peer's \
         replaces it"
    )]
    Damaged {
        /// The snapshot.
        file: String,
        /// The byte offset in the file.
        offset: u64,
        /// The damage.
        what: &'static str,
    },
    /// Not a snapshot of this log: another format, version or identity.
    #[error("{file} cannot be used: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// The reason.
        what: String,
    },
    /// A value exceeds its limit.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// Which one.
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
    /// The suffix of their names.
    kind: &'static str,
}

/// The newest valid snapshot, and newer invalid ones.
pub struct Newest {
    /// The newest valid one, if it exists.
    pub reader: Option<SnapshotReader>,
    /// The errors of the newer ones, which name them.
    pub damaged: Vec<SnapshotError>,
}

impl Snapshots {
    /// Opens a folder, which this process must have locked. Removes unfinished files of an earlier
    /// run.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn open(disk: Arc<dyn Disk>, identity: [u8; 16]) -> Result<Snapshots, SnapshotError> {
        Snapshots::open_kind(disk, identity, "snapshot")
    }

    /// The same for files of another kind, with their own suffix. One folder may have several
    /// kinds.
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

    /// The same for a reader, who removes nothing and needs no lock.
    #[must_use]
    pub fn reading(disk: Arc<dyn Disk>, identity: [u8; 16], kind: &'static str) -> Snapshots {
        Snapshots { disk, identity, kind }
    }

    /// The numbers of all snapshots, valid or not, newest first.
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

    /// Begins snapshot `number` with chunks of `chunk_bytes` (4 KiB to 16 MiB). At its end it
    /// replaces one of the same number.
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

    /// Opens snapshot `number`. It checks header, trailer and length; chunks are checked when read.
    ///
    /// # Errors
    /// [`SnapshotError::Io`], [`SnapshotError::Foreign`], [`SnapshotError::Damaged`].
    pub fn read(&self, number: u64) -> Result<SnapshotReader, SnapshotError> {
        SnapshotReader::open(&*self.disk, &self.identity, &self.name(number), number)
    }

    /// The newest valid snapshot. It verifies every chunk and the hash, so it reads the file once.
    ///
    /// # Errors
    /// [`SnapshotError::Io`] of the folder. Invalid files are skipped.
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

    /// Removes snapshot `number`.
    ///
    /// # Errors
    /// [`SnapshotError::Io`].
    pub fn remove(&self, number: u64) -> Result<(), SnapshotError> {
        let name = self.name(number);
        self.disk.remove(&name).map_err(SnapshotError::io(&name, "remove"))?;
        self.disk.sync_dir().map_err(SnapshotError::io("the folder", "sync"))
    }

    /// Removes all but the `count` newest snapshots, valid or not. Call it after one was written or
    /// verified.
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
