//! The errors of a store, each with its place and its remedy.

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
        /// The operation.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The folder cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The write-ahead log has failed or is damaged.
    #[error("write-ahead log: {0}")]
    Log(#[from] wal::Error),
    /// A file is damaged.
    #[error(
        "{file} is damaged at offset {offset}: {what}; restore the folder from a copy, or copy \
         what can be read into a new store"
    )]
    Damaged {
        /// The file.
        file: String,
        /// The byte offset in the file.
        offset: u64,
        /// The damage.
        what: &'static str,
    },
    /// A file has a name of the store but does not belong to it.
    #[error(
        "{file} is no file of this store ({what}): move it out of the folder, or use another folder"
    )]
    Foreign {
        /// The file.
        file: String,
        /// The sign of that.
        what: &'static str,
    },
    /// The file has another format version.
    #[error(
        "{file} has format version {found}, this program reads {supported}: use the program \
         version that wrote it"
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        found: u32,
        /// The version that this program reads.
        supported: u32,
    },
    /// A file of the store is missing.
    #[error("{file} is missing: restore the folder from a copy{hint}")]
    Missing {
        /// Its name.
        file: String,
        /// Another possible remedy.
        hint: &'static str,
    },
    /// The space cannot grow.
    #[error("the space has {bytes} bytes and may have {limit}: delete items, or raise limit_bytes")]
    LimitReached {
        /// Its size.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A key, a value or a batch exceeds its limit.
    #[error("{what} has {bytes} bytes, the limit is {limit}")]
    TooLarge {
        /// Which of them.
        what: &'static str,
        /// Its length.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A version that is not kept, or does not exist yet.
    #[error(
        "version {version} is not kept: the oldest is {oldest}, the newest {newest}; raise \
         kept_versions, or hold a snapshot"
    )]
    NotKept {
        /// The requested version.
        version: u64,
        /// The oldest version kept.
        oldest: u64,
        /// The newest version.
        newest: u64,
    },
    /// The store has no roots and no proofs.
    #[error("the store is not authenticated: create another with the option authenticated")]
    NotAuthenticated,
    /// The version has a root, but no proofs.
    #[error(
        "this version has its root alone: take a provable_snapshot, or open the store with proofs \
         of each commit"
    )]
    NoProofs,
    /// All places for snapshots are taken.
    #[error("{limit} snapshots are held at once, which is the limit: drop some")]
    TooManySnapshots {
        /// The limit.
        limit: usize,
    },
    /// An earlier write failed, so the store only reads.
    #[error("the store stopped writing at an earlier error and must be opened again: {reason}")]
    Stopped {
        /// The first error.
        reason: String,
    },
    /// An option is out of its range.
    #[error("option {field}: {reason}")]
    Options {
        /// The option.
        field: &'static str,
        /// The problem with it.
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
    /// Wraps the disk's error.
    pub(super) fn io(file: &str, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let file = file.to_string();
        move |source| Error::Io { file, action, source }
    }
}
