//! The data folder: what survives, and what is refused.
//!
//! ```text
//! data/lock                    one process at a time
//! data/wal/…                   blocks and the safety record (quorate-store's log)
//! data/snapshots/…             the replicated state at some heights
//! ```
//!
//! The log is begun once, by [`create`], when the replica's home is made; [`open`] never begins
//! one. A folder that was lost is therefore noticed: without its safety record a replica could
//! vote against what it voted before, and is refused unless it rejoins explicitly.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::block::{Block, SharedBlock};
use quorate_core::certificate::Domain;
use quorate_core::committee::ReplicaKey;
use quorate_core::execution::{Execution, SnapshotError as StateError};
use quorate_core::protocol::Safety;
use quorate_core::replica::message::{FullBlock, Offer};
use quorate_core::replica::{Recovery, SnapshotMeta};
use quorate_core::sessions;
use quorate_core::state_machine::StateMachine;
use quorate_core::wire::{Decode, DecodeError};
use quorate_core::{Digest, Height};
use quorate_store::atomic_file;
use quorate_store::disk::{Disk, FileDisk};
use quorate_store::lock::{FolderLock, LockError};
use quorate_store::snapshot::{SnapshotError, SnapshotReader, Snapshots};
use quorate_store::wal;

use super::archive::OFFER_FILE;
use super::journal::{BLOCK_RECORD, Journal};
use crate::config::Durability;

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
    #[error("{folder}: newest snapshot: {source}", folder = folder.display())]
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
    /// The folder cannot be made or read.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// What.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

impl DataError {
    /// Whether the data is held by another process.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked(_))
    }
}

/// Who a data folder belongs to.
#[derive(Clone, Debug)]
pub struct Owner {
    /// What the replica's signatures are bound to.
    pub domain: Domain,
    /// Its consensus key: the folder holds what this key has signed.
    pub key: ReplicaKey,
}

impl Owner {
    /// The replica whose signatures are bound to `domain` and whose consensus key is `key`.
    #[must_use]
    pub fn new(domain: Domain, key: ReplicaKey) -> Self {
        Self { domain, key }
    }

    /// What the folder's files are marked with.
    fn identity(&self) -> [u8; 16] {
        let mut bytes = self.domain.committee().chain().0.to_vec();
        bytes.extend_from_slice(self.key.as_bytes());
        let digest = Digest::of("quorate data folder", &bytes);
        let mut identity = [0; 16];
        identity.copy_from_slice(&digest.0[..16]);
        identity
    }

    fn genesis(&self) -> SharedBlock {
        let committee = self.domain.committee();
        Arc::new(Block::genesis(committee.chain(), committee.epoch()))
    }
}

/// An open data folder.
pub struct Data<S> {
    /// Where records become durable.
    pub journal: Journal,
    /// The state of the newest snapshot.
    pub execution: Execution<S>,
    /// What to start the replica with; `None` if it has to rejoin.
    pub recovery: Option<Recovery>,
    /// The snapshots.
    pub snapshots: Snapshots,
    shelf_disk: Arc<dyn Disk>,
    /// What an operator may want to know of the recovery.
    pub notes: Vec<String>,
    lock: FolderLock,
}

impl<S> Data<S> {
    /// The parts, for the threads that own them; the lock is held as long as its part lives.
    pub(super) fn into_parts(
        self,
    ) -> (Journal, Execution<S>, Option<Recovery>, Snapshots, Arc<dyn Disk>, FolderLock) {
        (self.journal, self.execution, self.recovery, self.snapshots, self.shelf_disk, self.lock)
    }
}

fn make(folder: &Path) -> Result<FileDisk, DataError> {
    std::fs::create_dir_all(folder)
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

/// Begins the data folder of a replica that never ran.
///
/// # Errors
/// [`DataError`]; what is there already is never written over.
pub fn create(folder: &Path, owner: &Owner) -> Result<(), DataError> {
    let wal = folder.join("wal");
    if !is_blank(&wal) {
        return Err(DataError::NotLost(wal));
    }
    std::fs::create_dir_all(folder)
        .map_err(|source| DataError::Io { path: folder.to_owned(), source })?;
    let _lock = FolderLock::acquire(folder)?;
    let disk = Arc::new(make(&wal)?);
    let (mut log, _) = wal::Log::open(disk, log_options(owner, 0)).map_err(log_error(&wal))?;
    let safety = quorate_core::wire::Encode::to_bytes(&Safety::new(owner.genesis().id()));
    log.commit(Some(&safety), wal::Durability::Sync).map_err(log_error(&wal))
}

/// Segments small enough that a few of them are little beside the window, and large enough for
/// any record.
fn log_options(owner: &Owner, window_bytes: u64) -> wal::Options {
    let segment_bytes = (window_bytes / 16).clamp(16 << 20, 64 << 20) & !0xFFF;
    wal::Options { segment_bytes, ..wal::Options::new(owner.identity()) }
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
pub fn open<S: StateMachine>(
    folder: &Path,
    owner: &Owner,
    options: OpenOptions,
    fresh: &dyn Fn() -> S,
) -> Result<Data<S>, DataError> {
    let (wal, shelf) = (folder.join("wal"), folder.join("snapshots"));
    if !options.rejoin && is_blank(&wal) {
        return Err(DataError::Missing(wal));
    }
    if options.rejoin && !is_blank(&shelf) {
        return Err(DataError::NotLost(shelf));
    }
    std::fs::create_dir_all(folder)
        .map_err(|source| DataError::Io { path: folder.to_owned(), source })?;
    let lock = FolderLock::acquire(folder)?;
    let disk = Arc::new(make(&wal)?);
    let (log, recovered) = wal::Log::open(disk, log_options(owner, options.log_window_bytes))
        .map_err(log_error(&wal))?;
    let mut notes = Vec::new();
    if let Some(cut) = &recovered.cut {
        notes.push(format!("a torn write at the end of {} was cut off", cut.file));
    }
    if recovered.repaired {
        notes.push(
            "one of the two copies of the safety record was damaged, and written again".into(),
        );
    }
    let shelf_disk: Arc<dyn Disk> = Arc::new(make(&shelf)?);
    let snapshots = Snapshots::open(Arc::clone(&shelf_disk), owner.identity())
        .map_err(|source| DataError::Snapshot { folder: shelf.clone(), source })?;
    let (execution, snapshot) =
        restore(&shelf, &snapshots, owner, options.sessions, fresh, &mut notes)?;
    let safety =
        match recovered.slot {
            // Nothing was recorded: the log was begun just now, or by a rejoin that was cut short.
            None if options.rejoin => None,
            None => return Err(DataError::Missing(wal)),
            Some(_) if options.rejoin => return Err(DataError::NotLost(wal)),
            Some(bytes) => Some(Safety::from_bytes(bytes.into()).map_err(|source| {
                DataError::Record { folder: wal.clone(), position: 0, source }
            })?),
        };
    let mut journal = Journal::new(log, options.durability);
    let floor = snapshot.as_ref().map_or(Height(0), |meta| meta.block.height);
    let blocks = replay(&wal, &mut journal, floor)?;
    let offer = read_offer(&shelf);
    let recovery = safety.map(|safety| Recovery { safety: Some(safety), snapshot, offer, blocks });
    Ok(Data { journal, execution, recovery, snapshots, shelf_disk, notes, lock })
}

/// The state of the newest whole snapshot, or the one behind genesis.
fn restore<S: StateMachine>(
    folder: &Path,
    snapshots: &Snapshots,
    owner: &Owner,
    limits: sessions::Limits,
    fresh: &dyn Fn() -> S,
    notes: &mut Vec<String>,
) -> Result<(Execution<S>, Option<SnapshotMeta>), DataError> {
    let shelf = |source| DataError::Snapshot { folder: folder.to_owned(), source };
    let newest = snapshots.newest().map_err(shelf)?;
    notes.extend(newest.damaged.iter().map(|error| format!("a snapshot was passed over: {error}")));
    let Some(reader) = newest.reader else {
        let execution = Execution::new(fresh(), limits, owner.genesis().id())
            .map_err(|error| unfit(folder, error.to_string()))?;
        return Ok((execution, None));
    };
    let meta = SnapshotMeta::from_bytes(Bytes::copy_from_slice(&reader.info().metadata))
        .map_err(|error| unfit(folder, error.to_string()))?;
    let root = meta.roots.last().copied().unwrap_or_default();
    let chunks = chunks_of(&reader).map_err(shelf)?;
    let execution = Execution::restore(fresh(), limits, &mut chunks.into_iter(), root)
        .map_err(|source| DataError::State { folder: folder.to_owned(), source })?;
    Ok((execution, Some(meta)))
}

/// The newest offer, if one was kept. A damaged one is as good as none: it is made anew when the
/// next snapshot is attested.
fn read_offer(folder: &Path) -> Option<Offer> {
    let bytes = atomic_file::read(&folder.join(OFFER_FILE), OFFER_LIMIT_BYTES).ok()?;
    Offer::from_bytes(bytes.into()).ok()
}

/// More than an offer can have: a few blocks without bodies, and a certificate.
const OFFER_LIMIT_BYTES: u64 = 4 << 20;

fn unfit(folder: &Path, what: String) -> DataError {
    let source = std::io::Error::new(std::io::ErrorKind::InvalidData, what);
    DataError::Io { path: folder.to_owned(), source }
}

/// The state's chunks of a snapshot: on disk each stands behind its length (u32).
pub(super) fn chunks_of(reader: &SnapshotReader) -> Result<Vec<Bytes>, SnapshotError> {
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

/// Reads the recorded blocks above `floor`, and indexes all.
fn replay(
    folder: &Path,
    journal: &mut Journal,
    floor: Height,
) -> Result<Vec<FullBlock>, DataError> {
    enum Failure {
        Log(wal::Error),
        Record(u64, DecodeError),
    }
    impl From<wal::Error> for Failure {
        fn from(error: wal::Error) -> Self {
            Self::Log(error)
        }
    }
    let mut blocks = Vec::new();
    let mut found = Vec::new();
    let result = journal.log().replay(journal.log().first_position(), |position, kind, payload| {
        if kind == BLOCK_RECORD {
            let full = FullBlock::from_bytes(Bytes::copy_from_slice(payload))
                .map_err(|source| Failure::Record(position.0, source))?;
            found.push((full.block.id(), full.block.height, position));
            if full.block.height > floor {
                blocks.push(full);
            }
        }
        Ok(())
    });
    match result {
        Ok(()) => {}
        Err(Failure::Log(source)) => return Err(log_error(folder)(source)),
        Err(Failure::Record(position, source)) => {
            return Err(DataError::Record { folder: folder.to_owned(), position, source });
        }
    }
    for (id, height, position) in found {
        journal.index().recorded(id, height, position);
    }
    Ok(blocks)
}
