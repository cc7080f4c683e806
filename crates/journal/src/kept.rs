//! Restart from a checkpoint that the application keeps itself
//! (`quorate_core::ledger::state_machine::Keeper`), with the session table written beside it.
//!
//! Such a checkpoint is a snapshot whose larger part is in the application's own store. It belongs
//! to one block. It is durable before the log below that block is retired, and blocks above it are
//! executed again. The checkpoint is useless without the part beside it, and the reverse. If either
//! is missing, that is noted, and the replica takes the state from the other replicas, since the
//! log below is gone.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::DecodeError;
use quorate_core::ledger::execution::{Execution, KeptNote, ResumeError};
use quorate_core::ledger::sessions;
use quorate_core::ledger::state_machine::{Checkpoint, KeepError, Left, StateMachine};
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::SnapshotMeta;
use quorate_core::{Digest, Height, planted};
use quorate_store::snapshot::SnapshotError;

use super::open::{Disks, OpenError, newest_of};
use super::owner::Owner;
use super::states::States;

/// A state from which the replica continues.
pub(super) struct Resumed<T: Types, S> {
    pub(super) meta: SnapshotMeta<T>,
    pub(super) execution: Execution<S>,
    pub(super) checkpoint: Box<dyn Checkpoint>,
}

/// The reason why a checkpoint cannot be used.
#[derive(Debug, thiserror::Error)]
enum Unfit {
    #[error("its note: {0}; it was written by another version")]
    Note(DecodeError),
    #[error("it is of height {height}, below the snapshot at {snapshot}")]
    Below { height: Height, snapshot: Height },
    #[error("the session table that belongs to height {0} is not there")]
    Alone(Height),
    #[error("beside it: {0}")]
    Beside(#[from] SnapshotError),
    #[error("what is beside it is not described: {0}; it was written by another version")]
    Description(DecodeError),
    #[error("what is beside it belongs to block {0}")]
    Block(Digest),
    #[error(transparent)]
    Resume(#[from] ResumeError),
}

impl Unfit {
    fn is_of_another_version(&self) -> bool {
        matches!(self, Self::Note(_) | Self::Description(_) | Self::Resume(ResumeError::Header(_)))
    }
}

/// Resumes from the newest usable checkpoint, unless the newest whole snapshot is above it.
pub(super) fn resume<T: Types, S: StateMachine>(
    fresh: &dyn Fn() -> S,
    states: &States,
    limits: sessions::Limits,
    snapshot: Option<Height>,
    notes: &mut Vec<String>,
) -> Result<Option<Resumed<T, S>>, OpenError> {
    loop {
        let mut application = fresh();
        let Some(keeper) = application.keeper() else { return Ok(None) };
        let Some(Left { checkpoint, note }) = keeper.turn_back()? else { break };
        match read(application, checkpoint, note, (states, limits, snapshot)) {
            Ok(resumed) => return Ok(Some(resumed)),
            // The data may be intact: the system failed to read it.
            Err(Unfit::Beside(error @ SnapshotError::Io { .. }))
                if planted!("read-error-as-damage", false, true) =>
            {
                return Err(error.into());
            }
            // This state may be the only one. The version that wrote it can resume from it.
            Err(unfit) if unfit.is_of_another_version() => {
                return Err(KeepError(format!(
                    "{unfit}. Start the version that wrote it; or, if other replicas have \
                     the state, remove data/state and data/snapshots/*.beside to fetch it from them"
                ))
                .into());
            }
            Err(Unfit::Below { height, snapshot }) => notes.push(format!(
                "the kept state is of height {height}, below the snapshot at {snapshot}: \
                 it is built again from the snapshot"
            )),
            Err(unfit) => notes.push(format!("the kept state is of no use: {unfit}")),
        }
    }
    Ok(None)
}

fn read<T: Types, S: StateMachine>(
    application: S,
    checkpoint: Box<dyn Checkpoint>,
    note: Bytes,
    (states, limits, snapshot): (&States, sessions::Limits, Option<Height>),
) -> Result<Resumed<T, S>, Unfit> {
    let note = KeptNote::decode(note).map_err(Unfit::Note)?;
    if let Some(snapshot) = snapshot.filter(|snapshot| *snapshot > note.height) {
        return Err(Unfit::Below { height: note.height, snapshot });
    }
    let described = states.read_beside(note.height)?.ok_or(Unfit::Alone(note.height))?;
    let meta: SnapshotMeta<T> = described.meta.map_err(Unfit::Description)?;
    if meta.block.id() != note.block_id {
        return Err(Unfit::Block(meta.block.id()));
    }
    let root = meta.roots.last().copied().unwrap_or_default();
    let mut chunks = described.chunks.into_iter();
    let execution = Execution::resume(application, limits, &note, &mut chunks, root)?;
    Ok(Resumed { meta, execution, checkpoint })
}

/// Writes the state of the newest checkpoint as a whole snapshot, unless a snapshot of at least
/// that height exists. This prepares a replica to hold its state in memory from now on. `fresh`
/// creates applications of the kind that keeps its own checkpoints. Returns the height of a
/// snapshot that replaces the checkpoint. Returns `None` if the checkpoint cannot be used, and
/// notes the reason.
///
/// # Errors
/// [`OpenError`].
pub fn write_whole<T: Types, S: StateMachine>(
    disks: &Disks,
    owner: &Owner<T>,
    limits: sessions::Limits,
    fresh: &dyn Fn() -> S,
    notes: &mut Vec<String>,
) -> Result<Option<Height>, OpenError> {
    let states = States::open(Arc::clone(&disks.states), owner.identity())?;
    let newest = newest_of::<T>(&states, notes)?.map(|(meta, _)| meta.block.height());
    let Some(kept) = resume::<T, S>(fresh, &states, limits, None, notes)? else { return Ok(None) };
    let height = kept.meta.block.height();
    if newest >= Some(height) {
        return Ok(newest);
    }
    states.write(&kept.meta, kept.execution.snapshot())?;
    Ok(Some(height))
}
