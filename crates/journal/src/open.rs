//! Creation of a replica's data, and recovery after a restart.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::{Decode as _, DecodeError, Encode as _, Reader};
use quorate_core::ledger::block::BlockId;
use quorate_core::ledger::execution::{Execution, Restoring, SnapshotError as StateError};
use quorate_core::ledger::sessions;
use quorate_core::ledger::state_machine::{Checkpoint, KeepError, StateMachine};
use quorate_core::protocols::protocol::{BlockOf, FullBlockOf, SharedHandover, Types};
use quorate_core::replica::{Recovery, SnapshotMeta};
use quorate_core::{Digest, Epoch, Height};
use quorate_store::disk::Disk;
use quorate_store::snapshot::{SnapshotError, SnapshotReader};
use quorate_store::wal::{self, Durability, Log, Position};

use super::epochs::{EPOCHS_FILE, Epochs, EpochsError};
use super::index::BlockIndex;
use super::journal::{BLOCK_RECORD, Journal};
use super::kept::{self, Resumed};
use super::owner::Owner;
use super::restored;
use super::states::{States, StatesError, each_chunk};

/// The folders of a replica.
#[derive(Clone)]
pub struct Disks {
    /// The folder of the log.
    pub log: Arc<dyn Disk>,
    /// The folder of the snapshots and the offer.
    pub states: Arc<dyn Disk>,
}

/// The options for opening data.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// The log's layout. Its identity is the [owner's](Owner::identity).
    pub log: wal::Options,
    /// How durable a commit of the log is.
    pub durability: Durability,
    /// Whether the replica rejoins after a loss of its data.
    pub rejoin: bool,
    /// The cluster's limits of sessions.
    pub sessions: sessions::Limits,
}

/// The reason why data cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The log is damaged, belongs to another owner, or cannot be read.
    #[error("log: {0}")]
    Log(#[from] wal::Error),
    /// The folder of the snapshots cannot be read.
    #[error("snapshots: {0}")]
    Snapshot(#[from] SnapshotError),
    /// A folder cannot be listed.
    #[error("cannot list the folder: {0}")]
    List(io::Error),
    /// There is no safety record: the votes of this replica are unknown.
    #[error("there is no safety record")]
    Missing,
    /// The replica was told that its data is lost, but there is data: in the log or, if
    /// `snapshots`, among the snapshots.
    #[error("refusing to rejoin: the data folder is not empty")]
    NotLost {
        /// Whether the data is in the folder of the snapshots.
        snapshots: bool,
    },
    /// A state was to be restored from a backup, and that was cut short.
    #[error("a restore from a backup was cut short here: do it again")]
    HalfRestored,
    /// The chain begins with a state that was restored from a backup, and it is not here.
    #[error(
        "this chain begins with an application of root {expected}, restored from a backup, and here \
         is one of root {found}"
    )]
    OtherBeginning {
        /// The root of the application that the chain begins with.
        expected: Digest,
        /// The root of the one that is here.
        found: Digest,
    },
    /// A record passed its checksum but cannot be decoded.
    #[error("record at {position}: {source}; it was written by another version")]
    Record {
        /// The record; 0 for the safety record.
        position: u64,
        /// The error of decoding.
        source: DecodeError,
    },
    /// A snapshot passed its checksums but its description cannot be decoded.
    #[error("newest snapshot: {0}; it was written by another version")]
    Description(DecodeError),
    /// A snapshot passed its checksums but cannot be used.
    #[error("newest snapshot: {0}")]
    State(#[from] StateError),
    /// A state cannot be written.
    #[error(transparent)]
    Write(#[from] StatesError),
    /// The kept state cannot be used.
    #[error("kept state: {0}")]
    Kept(#[from] KeepError),
    /// The file of the epochs cannot be used.
    #[error("the file snapshots/{EPOCHS_FILE}: {0}")]
    Epochs(#[from] EpochsError),
    /// The limits of sessions are impossible.
    #[error(transparent)]
    Limits(#[from] sessions::LimitsError),
}

impl OpenError {
    /// The system's error, if that is the cause. The data may then be intact.
    #[must_use]
    pub fn io(&self) -> Option<&io::Error> {
        match self {
            Self::List(source) | Self::Epochs(EpochsError::Io(source)) => Some(source),
            Self::Log(wal::Error::Io { source, .. })
            | Self::Snapshot(SnapshotError::Io { source, .. }) => Some(source),
            _ => None,
        }
    }
}

/// Opened data.
pub struct Opened<T: Types, S> {
    /// The log.
    pub journal: Journal,
    /// The snapshots.
    pub states: States,
    /// The newest state: of a checkpoint, or of the newest snapshot.
    pub execution: Execution<S>,
    /// The checkpoint, if the state comes from one.
    pub checkpoint: Option<Box<dyn Checkpoint>>,
    /// The recovered state to start the replica with; `None` if it has to rejoin, or was stopped
    /// while it did.
    pub recovery: Option<Recovery<T>>,
    /// What a replica that has to rejoin has besides: a state that was restored from a backup, or
    /// what it had when it was stopped. At first [nothing](Recovery::nothing) as a rule.
    pub restored: Recovery<T>,
    /// What the snapshot takes that the state comes from; 0 if it comes from none.
    pub snapshot_bytes: u64,
    /// Notes on the recovery for the operator.
    pub notes: Vec<String>,
}

/// Creates the log of a replica that never ran. The safety record says that it signed nothing.
///
/// # Errors
/// The log's error.
pub fn create<T: Types>(
    log: Arc<dyn Disk>,
    options: wal::Options,
    owner: &Owner<T>,
) -> Result<(), wal::Error> {
    let (mut log, _) = Log::open(log, options)?;
    log.commit(Some(&Remembered::<T>::first(&owner.origin.memory)), Durability::Sync)
}

/// Opens data and recovers it. Creates none, except for a replica that rejoins.
///
/// # Errors
/// [`OpenError`].
pub fn open<T: Types, S: StateMachine>(
    disks: &Disks,
    owner: &Owner<T>,
    options: OpenOptions,
    fresh: &dyn Fn() -> S,
) -> Result<Opened<T, S>, OpenError> {
    let OpenOptions { log, durability, rejoin, sessions } = options;
    let mark = look_first(disks, owner, rejoin, fresh)?;
    let (log, recovered) = Log::open(Arc::clone(&disks.log), log)?;
    let mut notes = notes_of(&recovered);
    let states = States::open(Arc::clone(&disks.states), owner.identity())?;
    let remembered = match recovered.slot {
        // Nothing was recorded: the log was created just now.
        None if rejoin => None,
        None => return Err(OpenError::Missing),
        Some(bytes) => Some(
            Remembered::<T>::from_bytes(bytes.into())
                .map_err(|source| OpenError::Record { position: 0, source })?,
        ),
    };
    let is_first = remembered.is_none();
    let memory = remembered.and_then(|Remembered { epoch, memory }| Some((epoch, memory?)));
    if rejoin && memory.is_some() {
        return Err(OpenError::NotLost { snapshots: false });
    }
    let (mut epochs, mut handovers) = Epochs::open(Arc::clone(&disks.states), owner)?;
    let newest = newest_of::<T>(&states, &mut notes)?;
    let snapshot = newest.as_ref().map(|(meta, _)| meta.block.height());
    if is_first {
        check_mark(mark, snapshot)?;
    }
    // Kept state is useless without a log that continues it.
    let kept = match is_first {
        true => None,
        false => kept::resume(fresh, &states, sessions, snapshot, &mut notes)?,
    };
    let mut snapshot_bytes = 0;
    let (snapshot, execution, checkpoint) = match (kept, newest) {
        (Some(Resumed { meta, execution, checkpoint }), _) => {
            (Some(meta), execution, Some(checkpoint))
        }
        (None, newest) => {
            let execution = restore(newest.as_ref(), owner, sessions, fresh)?;
            snapshot_bytes = newest.as_ref().map_or(0, |(_, reader)| reader.info().total_bytes);
            (newest.map(|(meta, _)| meta), execution, None)
        }
    };
    check_beginning(owner, execution.summary().application, execution.height())?;
    let head = snapshot.as_ref().map_or_else(|| owner.genesis(), |meta| Arc::clone(&meta.block));
    let journal = Journal::new(log, durability);
    let blocks = replay::<T>(&journal, &head)?;
    if snapshot.is_none() && !states.beside()?.is_empty() {
        let then = match goes_on::<T>(&head, &blocks) {
            true => "the blocks of the log are executed again from the first one on",
            false => "missing blocks are fetched from the other replicas",
        };
        notes.push(format!("there is no kept state, and no snapshot to build it from: {then}"));
    }
    if let Some((epoch, _)) = &memory {
        handovers.truncate(reached(&handovers, *epoch, &head, &blocks));
        epochs.forget_from(handovers.len());
    }
    index_ended(&journal, &handovers, (&head, &blocks));
    // Of an epoch that has ended, nothing need be remembered.
    let ended = epochs.ended();
    let journal = journal.with_epochs(epochs);
    // Nothing is left of an older state, so an offer of it cannot be served.
    let offer = states.offer().filter(|offer| states.serves(offer, snapshot.as_ref()));
    let found = Recovery { handovers, memory: None, snapshot, offer, blocks };
    let (recovery, restored) = match memory {
        Some((epoch, memory)) => {
            let memory = (epoch == Epoch(ended)).then_some(memory);
            (Some(Recovery { memory, ..found }), Recovery::nothing())
        }
        None => (None, found),
    };
    Ok(Opened { journal, states, execution, checkpoint, recovery, restored, snapshot_bytes, notes })
}

/// Whether the log has the block above `head`. It has all of them if the replica was killed before
/// it kept its first state.
fn goes_on<T: Types>(head: &BlockOf<T>, blocks: &[FullBlockOf<T>]) -> bool {
    blocks.iter().any(|full| full.block.parent() == head.id())
}

/// Refuses folders that are not what they should be, before there is a log. For a replica that
/// rejoins, the height of the state that was to be restored, if one was. A log may be that of a
/// replica that was stopped while it rejoined.
fn look_first<T: Types, S: StateMachine>(
    disks: &Disks,
    owner: &Owner<T>,
    rejoin: bool,
    fresh: &dyn Fn() -> S,
) -> Result<Option<Height>, OpenError> {
    let is_blank = disks.log.list().map_err(OpenError::List)?.is_empty();
    if !rejoin {
        return if is_blank { Err(OpenError::Missing) } else { Ok(None) };
    }
    let mark = restored::mark(&*disks.states)?;
    if mark.is_none() && is_blank {
        if !restored::is_blank(&*disks.states)? {
            return Err(OpenError::NotLost { snapshots: true });
        }
        if owner.first_state.is_some() {
            check_beginning(owner, fresh().root(), Height(0))?;
        }
    }
    Ok(mark)
}

/// The state that was to be restored is there, and no later one: then the log was lost later.
fn check_mark(mark: Option<Height>, snapshot: Option<Height>) -> Result<(), OpenError> {
    match (mark, snapshot) {
        (Some(_), None) => Err(OpenError::HalfRestored),
        (Some(mark), Some(snapshot)) if snapshot != mark => {
            Err(OpenError::NotLost { snapshots: true })
        }
        _ => Ok(()),
    }
}

/// A replica of a chain that begins with a restored state must not begin with another: it would
/// compute other roots than the rest.
fn check_beginning<T: Types>(
    owner: &Owner<T>,
    found: Digest,
    height: Height,
) -> Result<(), OpenError> {
    match owner.first_state {
        Some(expected) if height == Height(0) && found != expected => {
            Err(OpenError::OtherBeginning { expected, found })
        }
        _ => Ok(()),
    }
}

/// How many ends of epochs this replica came through. It may have written down later ones in the
/// turn in which it took over a state of a later epoch, and been stopped before that state was
/// durable, and before it remembered anything of that epoch: then it is where it was. If it
/// remembers that epoch, it keeps the ends, and the replica comes to them again.
fn reached<T: Types>(
    handovers: &[SharedHandover<T>],
    remembers: Epoch,
    head: &BlockOf<T>,
    blocks: &[FullBlockOf<T>],
) -> usize {
    let is_here = |end: &SharedHandover<T>| {
        end.ended() < remembers
            || end.state.height <= head.height()
            || blocks.iter().any(|full| full.block.id() == end.state.block_id)
    };
    handovers.iter().take_while(|end| is_here(end)).count()
}

/// Indexes the blocks above the recovered state that belong to epochs which have ended: a protocol
/// that starts in a later epoch does not commit them again, and peers that are behind need them.
fn index_ended<T: Types>(
    journal: &Journal,
    handovers: &[SharedHandover<T>],
    (head, blocks): (&BlockOf<T>, &[FullBlockOf<T>]),
) {
    let known: BTreeMap<BlockId, &BlockOf<T>> =
        blocks.iter().map(|full| (full.block.id(), &full.block)).collect();
    let mut next = head.height().next();
    for end in handovers.iter().filter(|end| end.state.height > head.height()) {
        let sealing = known.get(&end.state.block_id);
        let below = |block: &&BlockOf<T>| known.get(&block.parent()).copied();
        let path = std::iter::successors(sealing.copied(), below);
        let mut path: Vec<_> = path.cloned().collect();
        path.reverse();
        // An epoch's genesis is in no log. What stands on other blocks that are not here is of a
        // state that was taken over and not durable.
        let follows = |first: &BlockOf<T>| first.height() <= next;
        if !path.first().is_some_and(follows) {
            return;
        }
        next = end.state.height.plus(2);
        journal.index().committed(&path);
    }
}

/// What the slot of the log holds: a memory, behind its epoch. `None`: it was lost, and the replica
/// rejoins.
struct Remembered<T: Types> {
    epoch: Epoch,
    memory: Option<T::Memory>,
}

impl<T: Types> Remembered<T> {
    /// The slot of a replica that never said anything.
    fn first(memory: &T::Memory) -> Vec<u8> {
        let mut bytes = Epoch(0).to_bytes();
        memory.encode(&mut bytes);
        bytes
    }

    fn from_bytes(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        let epoch = Epoch::decode(&mut reader)?;
        let memory = match reader.remaining() {
            0 => None,
            _ => Some(T::Memory::decode(&mut reader)?),
        };
        reader.finish()?;
        Ok(Self { epoch, memory })
    }
}

fn notes_of(recovered: &wal::Recovered) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(cut) = &recovered.cut {
        notes.push(format!("a torn write at the end of {} was cut off", cut.file));
    }
    if recovered.repaired {
        notes.push(
            "one of the two copies of the safety record was damaged, and was repaired".into(),
        );
    }
    notes
}

/// The newest whole snapshot, if there is one.
pub(super) fn newest_of<T: Types>(
    states: &States,
    notes: &mut Vec<String>,
) -> Result<Option<(SnapshotMeta<T>, SnapshotReader)>, OpenError> {
    let newest = states.newest()?;
    notes.extend(newest.damaged.iter().map(|error| format!("a snapshot was ignored: {error}")));
    let Some(reader) = newest.reader else { return Ok(None) };
    let meta = SnapshotMeta::from_bytes(Bytes::copy_from_slice(&reader.info().metadata))
        .map_err(OpenError::Description)?;
    Ok(Some((meta, reader)))
}

/// The state of a snapshot, or the initial state.
fn restore<T: Types, S: StateMachine>(
    newest: Option<&(SnapshotMeta<T>, SnapshotReader)>,
    owner: &Owner<T>,
    limits: sessions::Limits,
    fresh: &dyn Fn() -> S,
) -> Result<Execution<S>, OpenError> {
    let Some((meta, reader)) = newest else {
        let execution = Execution::new(fresh(), limits, owner.genesis().id())?;
        let execution = execution.governed_by(&owner.origin.committee);
        return Ok(execution.serving(Arc::clone(&owner.clients)));
    };
    let root = meta.roots.last().copied().unwrap_or_default();
    let mut restoring = Restoring::new(fresh(), limits, root);
    each_chunk::<OpenError>(reader, |chunk| Ok(restoring.take(chunk)?))?;
    Ok(restoring.finish()?)
}

/// Reads the recorded blocks above the recovered state (`head`) in the order of recording. Indexes
/// all blocks of the log. Blocks below `head` are committed if they are its ancestors; peers that
/// are behind may need them.
fn replay<T: Types>(
    journal: &Journal,
    head: &BlockOf<T>,
) -> Result<Vec<FullBlockOf<T>>, OpenError> {
    let mut above = Vec::new();
    let mut below: BTreeMap<BlockId, (Position, BlockId)> = BTreeMap::new();
    let index: &BlockIndex = journal.index();
    let log = journal.log();
    log.replay::<OpenError>(log.first_position(), |position, kind, payload| {
        if kind == BLOCK_RECORD {
            let full = FullBlockOf::<T>::from_bytes(Bytes::copy_from_slice(payload))
                .map_err(|source| OpenError::Record { position: position.0, source })?;
            let (id, height) = (full.block.id(), full.block.height());
            if height > head.height() {
                index.recorded(id, height, position);
                above.push(full);
            } else {
                below.insert(id, (position, full.block.parent()));
            }
        }
        Ok(())
    })?;
    let mut committed = VecDeque::new();
    let mut next = Some(head.id());
    while let Some((position, parent)) = next.and_then(|id| below.remove(&id)) {
        committed.push_front(position);
        next = Some(parent);
    }
    index.recovered(head.height(), committed);
    Ok(above)
}
