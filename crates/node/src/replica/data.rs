//! The data folder: what survives, and what is refused.
//!
//! ```text
//! data/lock                    one process at a time
//! data/wal/…                   blocks and the safety record (quorate-store's log)
//! data/snapshots/…             the replicated state at some heights; if it is on disk, what is beside it
//! data/state/…                 the state, if it is on disk
//! ```
//!
//! The log is begun once, by [`create`], when the replica's home is made; [`open`] never begins
//! one. A folder that was lost is therefore noticed: without its safety record a replica could
//! vote against what it voted before, and is refused unless it rejoins explicitly.

use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use quorate_app::kv::KeyValue;
use quorate_app::kv::disk::{FileFolders, Shelf};

use quorate_core::base::wire::DecodeError;
use quorate_core::ledger::execution::SnapshotError as StateError;
use quorate_core::ledger::state_machine::{KeepError, StateMachine};
use quorate_core::protocols::protocol::Types;
use quorate_core::{Digest, ledger::sessions, limits};
pub use quorate_journal::Owner;
use quorate_journal::{Disks, OpenError, Opened};
use quorate_store::disk::FileDisk;
use quorate_store::lazy_trie;
use quorate_store::lock::{FILE as LOCK, FolderLock, LockError};
use quorate_store::snapshot::SnapshotError;
use quorate_store::wal;

use crate::config::Durability;
use crate::written::empty_but_for;

/// Why a data folder could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Another process has it.
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The log is damaged, foreign, or cannot be read.
    #[error("{folder}: {source}", folder = folder.display())]
    Log {
        /// The log's folder.
        folder: PathBuf,
        /// What is wrong.
        source: wal::Error,
    },
    /// A snapshot is damaged, foreign, or cannot be read.
    #[error("{folder}: {source}", folder = folder.display())]
    Snapshot {
        /// The snapshots' folder.
        folder: PathBuf,
        /// What is wrong.
        source: SnapshotError,
    },
    /// There is no safety record.
    #[error(
        "{folder}: there is no safety record here, so it is not known what this replica voted for. \
         If its data was lost, start it once with --rejoin-after-data-loss: it then abstains until \
         the others have moved on", folder = .0.display()
    )]
    Missing(PathBuf),
    /// A record that passed its checksum makes no sense.
    #[error("{folder}: record at {position}: {source}; it was written by another version", folder = folder.display())]
    Record {
        /// The log's folder.
        folder: PathBuf,
        /// The record.
        position: u64,
        /// What is wrong.
        source: DecodeError,
    },
    /// A snapshot that passed its checksums is of no use.
    #[error(
        "{folder}: newest snapshot: {source}. If there is no room for it, make some; if another version wrote it, start that one; if neither, keep the data as evidence, and start \
         without it once with --rejoin-after-data-loss", folder = folder.display()
    )]
    State {
        /// The snapshots' folder.
        folder: PathBuf,
        /// What is wrong.
        source: StateError,
    },
    /// There is data where a replica without data was to rejoin.
    #[error(
        "{folder}: --rejoin-after-data-loss is for a replica whose data is gone, and there is data \
         here. Start without the flag; if this data is not to be trusted, move it away first",
        folder = .0.display()
    )]
    NotLost(PathBuf),
    /// A restore from a backup did not come to its end.
    #[error(
        "{folder}: a restore from a backup was cut short here; run `quorate restore` again",
        folder = .0.display()
    )]
    HalfRestored(PathBuf),
    /// The data folder was not made to its end.
    #[error("{}: `quorate init` was cut short here; run it again", .0.display())]
    HalfBegun(PathBuf),
    /// The chain begins with a state from a backup, and another one is here.
    #[error(
        "{folder}: this chain begins with a state restored from a backup (`restored` in \
         cluster.toml, root {expected}), and here is one of root {found}; put it there with `quorate \
         restore BACKUP --home HOME`, from that backup or from a later one of this chain",
        folder = folder.display()
    )]
    OtherBeginning {
        /// The data folder's part.
        folder: PathBuf,
        /// The application's root that the chain begins with.
        expected: Digest,
        /// The one that is here.
        found: Digest,
    },
    /// The state that is on disk cannot be used.
    #[error(transparent)]
    Kept(#[from] KeepError),
    /// The folder cannot be made or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// An open data folder.
pub struct Data<T: Types, S> {
    /// What is in it.
    pub opened: Opened<T, S>,
    lock: FolderLock,
}

impl<T: Types, S> Data<T, S> {
    /// The parts, for the threads that own them; the lock is held as long as its part lives.
    pub(super) fn into_parts(self) -> (Opened<T, S>, FolderLock) {
        (self.opened, self.lock)
    }
}

/// For its owner alone, whatever the umask.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

fn make(folder: &Path) -> Result<FileDisk, DataError> {
    make_folder(folder)
        .and_then(|()| FileDisk::open(folder))
        .map_err(|source| DataError::Io { path: folder.to_owned(), source })
}

fn log_error(folder: &Path) -> impl FnOnce(wal::Error) -> DataError {
    move |source| DataError::Log { folder: folder.to_owned(), source }
}

fn is_blank(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none()) || !folder.exists()
}

/// Whether a process has the folder: asked before ports are, so that who starts a replica twice
/// hears of the folder rather than of an address.
///
/// # Errors
/// [`DataError::Locked`].
pub fn check_free(folder: &Path) -> Result<(), DataError> {
    if folder.exists() {
        FolderLock::acquire(folder)?;
    }
    Ok(())
}

/// What the folder of a state that is in memory now is called while it is removed: such ones are
/// gone when this returns.
fn sweep(folder: &Path) -> Result<PathBuf, DataError> {
    let gone = folder.join("state.gone");
    if gone.exists() {
        let removed = std::fs::remove_dir_all(&gone);
        removed.map_err(|source| DataError::Io { path: gone.clone(), source })?;
    }
    Ok(gone)
}

/// Where the key-value application's state is in a data folder, if it is on disk.
///
/// # Errors
/// [`DataError::Kept`] if it cannot be listed.
pub fn state_shelf(folder: &Path) -> Result<Arc<Shelf>, DataError> {
    sweep(folder)?;
    let folders = FileFolders::new(&folder.join("state"));
    Ok(Shelf::open(folders, lazy_trie::Options::default())?)
}

/// The state was on disk and is to be in memory: what is newer in the state's folder than the
/// newest snapshot becomes one; then the folder goes. What an operator may want to know of that.
///
/// # Errors
/// [`DataError`], with the remedy; both are as they were.
pub fn bring_into_memory<T: Types>(
    folder: &Path,
    owner: &Owner<T>,
    sessions: sessions::Limits,
) -> Result<Vec<String>, DataError> {
    let (wal, shelf, state) = (folder.join("wal"), folder.join("snapshots"), folder.join("state"));
    let gone = sweep(folder)?;
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| DataError::Io { path, source }
    };
    let mut notes = Vec::new();
    if is_blank(&state) {
        return Ok(notes);
    }
    let _lock = FolderLock::acquire(folder)?;
    let disks = Disks { log: Arc::new(make(&wal)?), states: Arc::new(make(&shelf)?) };
    let written = {
        let kept = state_shelf(folder)?;
        let fresh = || KeyValue::on_disk(&kept);
        quorate_journal::write_whole(&disks, owner, sessions, &fresh, &mut notes)
            .map_err(|error| placed(error, wal, shelf))?
    };
    if let Some(height) = written {
        notes.push(format!("the state was on disk, and is in memory from height {height} on"));
        std::fs::rename(&state, &gone).map_err(io(&state))?;
        std::fs::remove_dir_all(&gone).map_err(io(&gone))?;
    }
    Ok(notes)
}

/// Empties a data folder, but for its lock.
///
/// # Errors
/// [`DataError`], also if a process has it.
pub fn clear(folder: &Path) -> Result<(), DataError> {
    let _lock = FolderLock::acquire(folder)?;
    empty_but_for(folder, LOCK).map_err(|source| DataError::Io { path: folder.to_owned(), source })
}

/// Begins the data folder of a replica that never ran.
///
/// # Errors
/// [`DataError`]; what is there already is never written over.
pub fn create<T: Types>(folder: &Path, owner: &Owner<T>) -> Result<(), DataError> {
    let wal = folder.join("wal");
    if !is_blank(&wal) {
        return Err(DataError::NotLost(wal));
    }
    make_folder(folder).map_err(|source| DataError::Io { path: folder.to_owned(), source })?;
    let _lock = FolderLock::acquire(folder)?;
    let disk = Arc::new(make(&wal)?);
    quorate_journal::create(disk, log_options(owner, 0), owner).map_err(log_error(&wal))
}

/// The layout of a log that may take `window_bytes`: segments small enough that a few of them are
/// little beside the window, and large enough for any record. A snapshot retires a quarter of the
/// window, and its files are used again until the next one.
#[must_use]
pub fn log_options<T: Types>(owner: &Owner<T>, window_bytes: u64) -> wal::Options {
    let segment_bytes = (window_bytes / 16).clamp(16 << 20, 64 << 20) & !0xFFF;
    let usual = wal::Options::new(owner.identity());
    let quarter = usize::try_from(window_bytes / 4 / segment_bytes).unwrap_or(usize::MAX);
    let log = wal::Options { segment_bytes, most_spares: usual.most_spares.max(quarter), ..usual };
    let replicas = owner.origin.committee.most_replicas();
    owner.log_options(log, limits::full_block_bytes(replicas, limits::MAX_BATCH_BYTES))
}

/// How a data folder is opened.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// How far a commit of the log goes.
    pub durability: Durability,
    /// The replica's data is gone, and the operator knows it.
    pub rejoin: bool,
    /// Bytes that the log may take on disk.
    pub log_window_bytes: u64,
    /// The cluster's limits of sessions.
    pub sessions: sessions::Limits,
}

/// Opens a data folder and recovers what it holds.
///
/// # Errors
/// [`DataError`], with the remedy.
pub fn open<T: Types, S: StateMachine>(
    folder: &Path,
    owner: &Owner<T>,
    options: OpenOptions,
    fresh: &dyn Fn() -> S,
) -> Result<Data<T, S>, DataError> {
    let (wal, shelf) = (folder.join("wal"), folder.join("snapshots"));
    if !options.rejoin && is_blank(&wal) {
        return Err(DataError::Missing(wal));
    }
    make_folder(folder).map_err(|source| DataError::Io { path: folder.to_owned(), source })?;
    let lock = FolderLock::acquire(folder)?;
    let disks = Disks { log: Arc::new(make(&wal)?), states: Arc::new(make(&shelf)?) };
    let durability = match options.durability {
        Durability::Sync => wal::Durability::Sync,
        Durability::Os => wal::Durability::Os,
    };
    let options = quorate_journal::OpenOptions {
        // What no commit syncs need not be made ready for syncs.
        log: wal::Options {
            filled: options.durability == Durability::Sync,
            ..log_options(owner, options.log_window_bytes)
        },
        durability,
        rejoin: options.rejoin,
        sessions: options.sessions,
    };
    let opened = quorate_journal::open(&disks, owner, options, fresh)
        .map_err(|error| placed(error, wal, shelf))?;
    Ok(Data { opened, lock })
}

/// An error with the folder that it is about.
fn placed(error: OpenError, wal: PathBuf, shelf: PathBuf) -> DataError {
    let unfit = |path, what: String| {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
        DataError::Io { path, source }
    };
    match error {
        OpenError::Log(source) => DataError::Log { folder: wal, source },
        OpenError::Snapshot(source) => DataError::Snapshot { folder: shelf, source },
        OpenError::List(source) => DataError::Io { path: wal, source },
        OpenError::Missing => DataError::Missing(wal),
        OpenError::NotLost { snapshots } => DataError::NotLost(if snapshots { shelf } else { wal }),
        OpenError::Record { position, source } => {
            DataError::Record { folder: wal, position, source }
        }
        OpenError::State(source) => DataError::State { folder: shelf, source },
        OpenError::Kept(source) => DataError::Kept(source),
        OpenError::HalfRestored => DataError::HalfRestored(shelf),
        OpenError::OtherBeginning { expected, found } => {
            DataError::OtherBeginning { folder: shelf, expected, found }
        }
        OpenError::Description(_)
        | OpenError::Limits(_)
        | OpenError::Write(_)
        | OpenError::Epochs(_) => unfit(shelf, error.to_string()),
    }
}
