//! What can go wrong, where, and what to do about it.

use crate::lock::LockError;
use crate::wal;
use std::io;

/// An error of a store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The disk refused an operation.
    #[error("cannot {action} {file}: {source}{}", remedy(source))]
    Io {
        /// The file, or "the folder".
        file: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The folder cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The write-ahead log is at fault.
    #[error("write-ahead log: {0}")]
    Log(#[from] wal::Error),
    /// A file is not what was written.
    #[error(
        "{file} is damaged at offset {offset}: {what}; restore the folder from a copy, or copy what can be read into a new store"
    )]
    Damaged {
        /// The file.
        file: String,
        /// Byte offset in it.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A file with a name of the store is none of its files.
    #[error(
        "{file} is no file of this store ({what}): move it out of the folder, or use another folder"
    )]
    Foreign {
        /// The file.
        file: String,
        /// How that shows.
        what: &'static str,
    },
    /// Another format version.
    #[error(
        "{file} has format version {found}, this program reads {supported}: use the program version that wrote it"
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The one version read.
        supported: u32,
    },
    /// A file of the store is gone.
    #[error("{file} is missing: restore the folder from a copy{hint}")]
    Missing {
        /// Its name.
        file: String,
        /// What else could be done.
        hint: &'static str,
    },
    /// The space cannot grow.
    #[error("the space has {bytes} bytes and may have {limit}: delete items, or raise limit_bytes")]
    LimitReached {
        /// What it has.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A key, a value or a batch longer than it may be.
    #[error("{what} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Which.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A version that is not kept, or is not there yet.
    #[error(
        "version {version} is not kept: the oldest is {oldest}, the newest {newest}; raise kept_versions, or hold a snapshot"
    )]
    NotKept {
        /// The version asked for.
        version: u64,
        /// The oldest there is.
        oldest: u64,
        /// The newest there is.
        newest: u64,
    },
    /// A root or a proof of a store that has none.
    #[error("the store is not authenticated: create another with the option authenticated")]
    NotAuthenticated,
    /// A proof of a version that has its root alone.
    #[error(
        "this version has its root alone: take a provable_snapshot, or open the store with proofs of each commit"
    )]
    NoProofs,
    /// All places for snapshots are taken.
    #[error("{limit} snapshots are held at once, which is the limit: drop some")]
    TooManySnapshots {
        /// How many there may be.
        limit: usize,
    },
    /// An earlier write failed; the store only reads.
    #[error("the store stopped writing at an earlier error and must be opened again: {reason}")]
    Stopped {
        /// The first error.
        reason: String,
    },
    /// An option out of its range.
    #[error("option {field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// What is wrong with it.
        reason: String,
    },
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ": free some space, then try again"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            ": make the folder writable for this user"
        }
        io::ErrorKind::OutOfMemory => {
            ": raise the limits on maps and virtual memory (vm.max_map_count, ulimit -v)"
        }
        _ => "",
    }
}

impl Error {
    /// Wraps what the disk said.
    pub(super) fn io(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_string();
        move |source| Error::Io { file, action, source }
    }
}
