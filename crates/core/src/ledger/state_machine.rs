//! The application's side of replication: a deterministic state machine.
//!
//! Implement [`StateMachine`] and every replica will apply the same commands in the same order.
//! It must be deterministic: no clock, no randomness, no map whose iteration order differs
//! between processes. Each block carries the state root of an earlier one, and a replica votes for
//! a block only if it computed the same root. A replica whose state differs from that of a quorum
//! halts when the quorum's block is committed. Where no quorum agrees on a state, nothing is
//! committed any more; each replica goes on running, and says of every proposal at which height the
//! roots differ.
//!
//! It must not panic, nor reply without bound: a reply has at most [`MAX_COMMAND_REPLY_BYTES`], and
//! those to a block [`MAX_BLOCK_REPLY_BYTES`]. A replica whose application does so while it applies
//! a block stops, and so does every other: they apply the same commands. The message names the
//! command; a restart of all replicas can [skip it](crate::ledger::execution::Execution::skip).
//!
//! One thread calls it at a time, but not always the same one, and in a node it may be one that
//! other work waits for: it must not wait for the network, nor block on an asynchronous runtime.

use std::sync::Arc;

use bytes::Bytes;

use crate::base::crypto::PublicKey;
use crate::base::types::{Digest, Height, View};
use crate::ledger::clients::Grant;
use crate::ledger::progress::Progress;

/// A block that was decided, as the application sees it.
#[derive(Clone, Debug)]
pub struct Decided<'a> {
    /// Its height in the chain.
    pub height: Height,
    /// The view it was proposed in.
    pub view: View,
    /// The rules of the application's that the epoch executes by: from 1 to
    /// [`newest_rules`](StateMachine::newest_rules).
    pub rules: u16,
    /// The commands to apply, in order. Retries of commands that were already applied are not
    /// among them.
    pub commands: &'a [&'a [u8]],
    /// Who sent each of them: as many as there are commands. None where an application is tried out
    /// by itself.
    pub callers: &'a [Caller<'a>],
}

impl<'a> Decided<'a> {
    /// What the sender of the command at a place is granted; `None` if it may do everything.
    #[must_use]
    pub fn grant(&self, at: usize) -> Option<&'a Grant> {
        self.callers.get(at)?.grant
    }
}

/// The client that sent a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Caller<'a> {
    /// Its key, by which its frame was signed.
    pub key: &'a PublicKey,
    /// What the [list of clients](crate::ledger::clients) grants it; `None` if the list does not
    /// name it, and it may do everything. The application refuses commands that touch what the
    /// grant does not [cover](Grant::covers), and answers them with an error.
    pub grant: Option<&'a Grant>,
}

/// A replicated application.
pub trait StateMachine: Send {
    /// Applies a decided block: exactly one reply for each command, in order. A command that makes
    /// no sense gets a reply that says so; it must not panic.
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies);

    /// The newest rules of this application's that it supports; it supports all from 1 on. A new
    /// release that does something else with a command does so from a new number on, as
    /// [`Decided::rules`] says, and is the same under the earlier ones: then it can be put in place
    /// one replica after another, and the new rules be switched on once all have it. Always the
    /// same number.
    fn newest_rules(&self) -> u16 {
        1
    }

    /// Answers a question from this replica's state alone, without ordering it: possibly stale,
    /// and believed only by who asks f + 1 replicas or holds a proof. Anybody may ask, unsigned, so
    /// that the work and the answer must be bounded whatever the question.
    ///
    /// Questions go to a [reader](Self::reader) where there is one; without one, the thread that
    /// decides asks here, and everything else waits for the answer.
    fn query(&self, question: &[u8]) -> Bytes;

    /// The state as it is now, to be asked by another thread while the application goes on. Cheap:
    /// no copy of the state. `None` if this application has no such thing, or not at the moment.
    /// Asked between blocks, the [root](Self::root) being computed.
    fn reader(&self) -> Option<Box<dyn Reader>> {
        None
    }

    /// What the state takes of what it may take, if that is bounded.
    fn usage(&self) -> Option<Usage> {
        None
    }

    /// The digest of the whole state. Its cost may depend on what changed since the last call,
    /// not on the size of the state.
    fn root(&mut self) -> Digest;

    /// The state as it is now, to be written out while the application goes on. Cheap: no copy
    /// of the state. Asked between blocks, the [root](Self::root) being computed.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Replaces the state by what a snapshot's chunks say.
    ///
    /// # Errors
    /// [`RestoreError`] if the chunks are no snapshot of this application; the state is then
    /// unspecified and the replica discards it.
    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError>;

    /// What takes a snapshot over chunk by chunk instead of [`restore`](Self::restore), if
    /// something does: for a state of which parts can be told from forged ones, or that is not to
    /// be in memory as a whole.
    fn restorer(&mut self) -> Option<&mut dyn Restorer> {
        None
    }

    /// The state as it is now, for proofs of what it holds while the application goes on. Cheap: no
    /// copy of the state. `None` if this application makes none. Asked between blocks, the
    /// [root](Self::root) being computed.
    fn prover(&self) -> Option<Box<dyn Prover>> {
        None
    }

    /// What keeps the state beyond the process, if something does.
    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        None
    }

    /// Marks the state as it is now, so that [`undo`](Self::undo) comes back to it. Says whether
    /// the application can do that; one that cannot is never executed tentatively. Cheap: no copy
    /// of the state. Asked between blocks, the [root](Self::root) being computed.
    ///
    /// One block at most is applied behind a mark. Until the mark is [kept](Self::keep) or
    /// [undone](Self::undo), [`query`](Self::query), [`reader`](Self::reader),
    /// [`usage`](Self::usage), [`snapshot`](Self::snapshot) and [`prover`](Self::prover) are of the
    /// state that was marked, and the root is not asked for: the block may never be committed.
    fn mark(&mut self) -> bool {
        false
    }

    /// What was applied behind the mark is committed: forgets the mark.
    fn keep(&mut self) {}

    /// What was applied behind the mark is not committed: comes back to the state that was marked.
    fn undo(&mut self) {}

    /// Why the application cannot go on, if it cannot: an application that is a process of its own
    /// may have ended. The replica stops then. Cheap: asked several times a second.
    fn fault(&self) -> Option<String> {
        None
    }
}

/// Takes a snapshot over chunk by chunk, as its [`Snapshot::chunks`] handed them out, and tells of
/// each whether it is of the state with a root: then a liar is found out by the first chunk that it
/// changed, and not by the last.
pub trait Restorer {
    /// Begins; what was taken before is forgotten. The state is to have this root; `None` if that
    /// is not known.
    ///
    /// # Errors
    /// [`RestoreError`]: nothing can be taken here.
    fn begin(&mut self, root: Option<Digest>) -> Result<(), RestoreError>;

    /// The next chunk.
    ///
    /// # Errors
    /// [`RestoreError`]: it is not of that state, or cannot be taken. The state is unspecified
    /// then, as it is between the chunks.
    fn take(&mut self, chunk: Bytes) -> Result<(), RestoreError>;

    /// All chunks were taken.
    ///
    /// # Errors
    /// [`RestoreError`]: they are not the whole state.
    fn finish(&mut self) -> Result<(), RestoreError>;
}

/// Keeps an application's state beyond the process, as it was at some moments: *checkpoints*, each
/// with a *note* of who executes, which is no part of the state. After a crash the last one that
/// was finished is what there is; what came behind it is executed again, from the replica's log.
pub trait Keeper {
    /// Called behind each block that was applied: says what failed since the last call.
    ///
    /// # Errors
    /// [`KeepError`]. It is final: the state must not be used any more.
    fn check(&mut self) -> Result<(), KeepError>;

    /// Whether it is time for a checkpoint: much has changed since the last.
    fn is_due(&self) -> bool;

    /// Begins a checkpoint of the state as it is now. Cheap: it is written when it is
    /// [finished](Checkpoint::finish), by another thread, while blocks go on. There shall be one at
    /// a time. `note` has at most [`MAX_NOTE_BYTES`].
    ///
    /// # Errors
    /// As [`check`](Self::check).
    fn begin_checkpoint(&mut self, note: &[u8]) -> Result<Box<dyn Checkpoint>, KeepError>;

    /// Turns to the newest checkpoint of an earlier process that none has turned to yet. `None` if
    /// there is none, and nothing has changed.
    ///
    /// # Errors
    /// [`KeepError`]: there is one, and it cannot be used.
    fn turn_back(&mut self) -> Result<Option<Left>, KeepError>;
}

/// What an earlier process left.
pub struct Left {
    /// A checkpoint that was finished.
    pub checkpoint: Box<dyn Checkpoint>,
    /// Its note.
    pub note: Bytes,
}

/// A state at some moment, on its way beyond the process. Dropped before it is finished it never
/// counts, and the state may not be kept any more.
pub trait Checkpoint: Send {
    /// Makes it durable: it is what an earlier process leaves, if nothing follows.
    ///
    /// # Errors
    /// [`KeepError`], which is final.
    fn finish(&mut self) -> Result<(), KeepError>;

    /// The state it is of, once it is finished and as long as no later one is; what was returned by
    /// then stays as it is.
    ///
    /// # Errors
    /// [`KeepError`]: also if a later one has been finished.
    fn snapshot(&self) -> Result<Box<dyn Snapshot>, KeepError>;
}

/// Most bytes in the note of a checkpoint.
pub const MAX_NOTE_BYTES: usize = 1024;

/// The kept state cannot be read or written: which file, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeepError(pub String);

/// A frozen state that answers questions.
pub trait Reader: Send {
    /// What [`StateMachine::query`] would have answered when the state was frozen.
    ///
    /// # Errors
    /// [`KeepError`]: the state cannot be read.
    fn answer(&self, question: &[u8]) -> Result<Bytes, KeepError>;
}

/// What a state takes of what it may take, by the application's own measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// What it takes, bytes.
    pub used_bytes: u64,
    /// What it may take, bytes; beyond this the application refuses commands.
    pub limit_bytes: u64,
}

/// A frozen state that proves what it holds.
pub trait Prover: Send {
    /// What the state holds in answer to `question`, with its proof under the state's
    /// [root](StateMachine::root), in an encoding of the application's. At most
    /// [`MAX_CONTENT_BYTES`](crate::ledger::message::MAX_CONTENT_BYTES).
    ///
    /// # Errors
    /// [`ProveError`].
    fn prove(&mut self, question: &[u8]) -> Result<Bytes, ProveError>;
}

/// Why there is no proof.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProveError {
    /// The application does not understand the question.
    #[error("the application does not understand the question")]
    Question,
    /// The state cannot be read.
    #[error(transparent)]
    Kept(#[from] KeepError),
}

/// A frozen state.
pub trait Snapshot: Send {
    /// Hands out the state in chunks of at most [`MAX_CHUNK_BYTES`], always in the same order
    /// with the same boundaries for the same state. Stops early if `sink` returns `false`.
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool);

    /// Why [`chunks`](Self::chunks) ended before the end of the state, if not for the sink: what
    /// was handed out is then no snapshot.
    fn failure(&self) -> Option<KeepError> {
        None
    }
}

/// Most bytes in a snapshot's chunk.
pub const MAX_CHUNK_BYTES: usize = 2 << 20;

/// A snapshot that could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("snapshot chunk {chunk}: {reason}")]
pub struct RestoreError {
    /// The chunk, from 0.
    pub chunk: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// Most bytes of the reply to a command.
pub const MAX_COMMAND_REPLY_BYTES: usize = 8 << 20;

/// Most bytes of the replies to a block's commands, each with its length. A reply that would make
/// them more is too long as well.
pub const MAX_BLOCK_REPLY_BYTES: usize = 256 << 20;

/// The replies to a block's commands, gathered in one buffer: each behind its length (u32).
#[derive(Clone, Debug, Default)]
pub struct Replies {
    body: Vec<u8>,
    ends: Vec<usize>,
    excess: Option<Excess>,
    progress: Option<Arc<Progress>>,
}

/// A reply that was too long. It is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    /// To which of the commands, from 0.
    pub at: usize,
    /// How long it was, bytes.
    pub bytes: usize,
}

impl Replies {
    /// Replies whose number is told to `progress` as they come.
    pub(crate) fn told_to(progress: Arc<Progress>) -> Self {
        Self { progress: Some(progress), ..Self::default() }
    }

    /// How far the application is; nothing if that is not told.
    #[must_use]
    pub fn progress(&self) -> Option<&Arc<Progress>> {
        self.progress.as_ref()
    }

    /// The first reply that was too long, if one was.
    pub(crate) fn excess(&self) -> Option<Excess> {
        self.excess
    }

    /// How many bytes the next reply may have: what it may, and what is left to the block.
    #[must_use]
    pub fn room(&self) -> usize {
        let left = MAX_BLOCK_REPLY_BYTES.saturating_sub(self.body.len() + 4);
        left.min(MAX_COMMAND_REPLY_BYTES)
    }

    /// Adds the reply to the next command.
    pub fn push(&mut self, reply: &[u8]) {
        self.push_with(|out| out.extend_from_slice(reply));
    }

    /// Adds the reply that `write` appends to the buffer it is given.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let (start, room) = (self.body.len(), self.room());
        self.body.extend_from_slice(&[0; 4]);
        write(&mut self.body);
        let mut bytes = self.body.len() - start - 4;
        if bytes > room {
            self.excess = self.excess.or(Some(Excess { at: self.ends.len(), bytes }));
            self.body.truncate(start + 4);
            self.body.shrink_to(MAX_BLOCK_REPLY_BYTES);
            bytes = 0;
        }
        self.body[start..start + 4].copy_from_slice(&(bytes as u32).to_le_bytes());
        self.ends.push(self.body.len());
        if let Some(progress) = &self.progress {
            progress.note(self.ends.len());
        }
    }

    /// How many replies there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The same replies with others at these places, which ascend and count the added ones.
    #[must_use]
    pub(crate) fn with(&self, others: &[(usize, Vec<u8>)]) -> Self {
        let mut whole = Self::default();
        let mut given = self.iter();
        let mut others = others.iter().peekable();
        loop {
            if let Some((_, reply)) = others.next_if(|(place, _)| *place == whole.len()) {
                whole.push(reply);
            } else if let Some(reply) = given.next() {
                whole.push(reply);
            } else {
                return whole;
            }
        }
    }

    /// The buffer.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.body
    }

    /// The replies, in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.body[start + 4..*end])
    }

    /// Where each reply ends in the buffer.
    #[must_use]
    pub fn ends(&self) -> &[usize] {
        &self.ends
    }
}
