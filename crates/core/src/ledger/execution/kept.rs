//! A state that outlives the process, where the application [keeps](Keeper) its own: a *checkpoint*
//! of the application, and *beside* it what else belongs to the state: height, block and session
//! table, in the chunks that a snapshot would begin with.
//!
//! Both are written for the same block, first what is beside, then the checkpoint, whose note says
//! which block that is: a restart goes on from the checkpoint there is, with what was written
//! beside it, and executes the blocks of the log above.
//!
//! The note, integers little-endian: magic 16 ‖ height u64 ‖ block id 32.

use bytes::Bytes;

use super::members::Members;
use super::{BESIDE_TAG, Execution, ExecutionError, Header, Part, SnapshotHandle, panics};
use crate::base::format::Tag;
use crate::base::types::{Digest, Height};
use crate::base::wire::{DecodeError, Encode as _, Reader};
use crate::ledger::sessions::{Limits, Sessions};
use crate::ledger::state_machine::{
    Checkpoint, KeepError, Keeper, RestoreError, Snapshot, StateMachine,
};

/// What the note begins with.
pub const NOTE_TAG: &Tag = b"quorate kept  04";
/// A checkpoint is due when blocks of so many bytes were executed since the last: a million small
/// commands, or a second of execution.
const EXECUTED_BYTES: u64 = 64 << 20;

/// Which state a checkpoint is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptNote {
    /// The height of the state.
    pub height: Height,
    /// The block behind which it stands.
    pub block_id: Digest,
}

/// A checkpoint that cannot be gone on from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// What is beside it has no header.
    #[error("header of what is beside it: {0}")]
    Header(DecodeError),
    /// What is beside it is of another block.
    #[error("what is beside it is of height {found}")]
    Other {
        /// Of which.
        found: Height,
    },
    /// The session table could not be read.
    #[error("sessions: {0}")]
    Sessions(#[from] RestoreError),
    /// It is well formed, and another state.
    #[error("it has root {found}, and had {expected} when it was begun")]
    Root {
        /// The root it should have.
        expected: Digest,
        /// The root it has.
        found: Digest,
    },
}

impl KeptNote {
    /// What a note says.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(note: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(note);
        reader.tag(NOTE_TAG)?;
        let note = Self { height: Height(reader.u64()?), block_id: Digest(reader.array()?) };
        reader.finish()?;
        Ok(note)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = NOTE_TAG.to_vec();
        self.height.encode(&mut bytes);
        self.block_id.encode(&mut bytes);
        bytes
    }
}

impl<S: StateMachine> Execution<S> {
    /// Goes on from the checkpoint that `application` has turned to, whose note is `note`. `beside`
    /// are the chunks that were written beside it, and `expected` is the root that the state had.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub fn resume(
        application: S,
        limits: Limits,
        note: &KeptNote,
        beside: &mut dyn Iterator<Item = Bytes>,
        expected: Digest,
    ) -> Result<Self, ResumeError> {
        let header = beside.next().unwrap_or_default();
        let header = Header::decode(header, BESIDE_TAG).map_err(ResumeError::Header)?;
        if (header.summary.height, header.summary.block_id) != (note.height, note.block_id) {
            return Err(ResumeError::Other { found: header.summary.height });
        }
        let sessions = Sessions::restore(limits, beside)?.with_rights(header.clients, None);
        let place = (note.height, note.block_id);
        let members = Members::with(header.committee, header.generations);
        let state = Self::at(application, sessions, place, members);
        match state.state_root() {
            found if found == expected => Ok(state),
            found => Err(ResumeError::Root { expected, found }),
        }
    }

    /// Whether it is time for a checkpoint, if the application keeps any: it says so, or a restart
    /// would have much to execute again.
    pub fn checkpoint_is_due(&mut self) -> bool {
        let much = self.executed_bytes >= EXECUTED_BYTES;
        self.application.keeper().is_some_and(|keeper| much || keeper.is_due())
    }

    /// The latest state, to be written out while execution goes on, so that it outlives the
    /// process: as a checkpoint, if the application keeps its own. Copies nothing.
    ///
    /// # Errors
    /// [`ExecutionError`], which is final.
    pub fn freeze(&mut self) -> Result<SnapshotHandle, ExecutionError> {
        let (height, block_id) = (self.height, self.block_id);
        self.executed_bytes = 0;
        let application = &mut self.application;
        let frozen = panics::guarded(|| match application.keeper() {
            Some(keeper) => {
                keeper.begin_checkpoint(&KeptNote { height, block_id }.encode()).map(Part::Kept)
            }
            None => Ok(Part::Whole(application.snapshot())),
        });
        let frozen = frozen.map_err(|message| self.halt_panicked(height, None, message))?;
        let application = frozen.map_err(|source| self.halt_unkept(height, source))?;
        Ok(self.handle(application))
    }

    /// What was applied is kept, or not to be believed.
    pub(super) fn check_kept(&mut self) -> Result<(), KeepError> {
        self.application.keeper().map_or(Ok(()), Keeper::check)
    }
}

/// What a peer is sent of a checkpoint: the chunks of a snapshot of its state, put together from
/// what is beside it and from `application`.
///
/// # Errors
/// [`DecodeError`]: what is beside it has no header.
pub fn whole(
    beside: Vec<Bytes>,
    application: &dyn Snapshot,
    sink: &mut dyn FnMut(Bytes) -> bool,
) -> Result<(), DecodeError> {
    let mut beside = beside.into_iter();
    let header = Header::decode(beside.next().unwrap_or_default(), BESIDE_TAG)?;
    if std::iter::once(header.to_bytes()).chain(beside).all(&mut *sink) {
        application.chunks(&mut |chunk| sink(Bytes::copy_from_slice(chunk)));
    }
    Ok(())
}

impl SnapshotHandle {
    /// Whether its chunks are all of the state, and not what is beside a checkpoint of the
    /// application's.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(self.application, Part::Whole(_))
    }

    /// Makes the checkpoint durable, if there is one; the [chunks](Snapshot::chunks) must be by
    /// now. It can be read from then on.
    ///
    /// # Errors
    /// [`KeepError`], which is final.
    pub fn finish(self) -> Result<Option<Box<dyn Checkpoint>>, KeepError> {
        match self.application {
            Part::Whole(_) => Ok(None),
            Part::Kept(mut checkpoint) => {
                checkpoint.finish()?;
                Ok(Some(checkpoint))
            }
        }
    }
}
