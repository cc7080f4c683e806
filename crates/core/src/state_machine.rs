//! The application's side of replication: a deterministic state machine.
//!
//! Implement [`StateMachine`] and every replica will apply the same commands in the same order.
//! It must be deterministic: no clock, no randomness, no map whose iteration order differs
//! between processes. Each block carries the state root of an earlier one, so a replica that
//! computes another root halts instead of answering.

use bytes::Bytes;

use crate::types::{Digest, Height, View};

/// A block that was decided, as the application sees it.
#[derive(Clone, Debug)]
pub struct Decided<'a> {
    /// Its height in the chain.
    pub height: Height,
    /// The view it was proposed in.
    pub view: View,
    /// The commands to apply, in order. Retries of commands that were already applied are not
    /// among them.
    pub commands: &'a [&'a [u8]],
}

/// A replicated application.
pub trait StateMachine: Send {
    /// Applies a decided block: exactly one reply for each command, in order. A command that makes
    /// no sense gets a reply that says so; it must not panic.
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies);

    /// Answers a question from this replica's state alone, without ordering it: possibly stale,
    /// and believed only by who asks f + 1 replicas or holds a proof.
    fn query(&self, question: &[u8]) -> Bytes;

    /// The digest of the whole state. Its cost may depend on what changed since the last call,
    /// not on the size of the state.
    fn root(&mut self) -> Digest;

    /// The state as it is now, to be written out while the application goes on. Cheap: no copy
    /// of the state.
    fn snapshot(&self) -> Box<dyn Snapshot>;

    /// Replaces the state by what a snapshot's chunks say.
    ///
    /// # Errors
    /// [`RestoreError`] if the chunks are no snapshot of this application; the state is then
    /// unspecified and the replica discards it.
    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError>;

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
}

/// Keeps an application's state beyond the process, and beside it what who executes needs to go on from
/// it, which is no part of the state: a *note*, replaced by the next, and a *trail* of entries, one
/// behind the other, which is read only after a restart.
///
/// Commits are a sequence: after a crash state, note and trail are as of one of them, the last
/// one unless the machine failed as well. What makes commands durable is the replica's log.
pub trait Keeper {
    /// Commits what was applied since the last commit, and `beside`, as one.
    ///
    /// # Errors
    /// [`KeepError`], also of what failed since the last commit. It is final: the state must not be
    /// used any more.
    fn commit(&mut self, beside: &Beside<'_>) -> Result<Committed, KeepError>;

    /// The note, as of the last commit.
    ///
    /// # Errors
    /// [`KeepError`].
    fn note(&self) -> Result<Option<Bytes>, KeepError>;

    /// Calls `each` with the entries of the trail that counts, in order, until it returns `false`.
    ///
    /// # Errors
    /// [`KeepError`].
    fn trail(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), KeepError>;

    /// Turns to the newest state kept by an earlier process that none has turned to yet. `false`
    /// if there is none, and nothing has changed.
    ///
    /// # Errors
    /// [`KeepError`]: there is one, and it cannot be used.
    fn turn_back(&mut self) -> Result<bool, KeepError>;
}

/// What a commit keeps beside the state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// Instead of the last note, if there is one here. At most [`MAX_ENTRY_BYTES`].
    pub note: Option<&'a [u8]>,
    /// Further entries of the trail, each in pieces. At most [`MAX_ENTRY_BYTES`] each.
    pub entries: &'a [&'a [&'a [u8]]],
    /// Another trail begins with this commit; the last one counts until that one does.
    pub begins: bool,
    /// From this commit on the trail that was begun last is the one that counts.
    pub turns: bool,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Committed {
    /// It is kept as a whole.
    Whole {
        /// The bytes that are kept, and read after a restart, for the trail that counts: its entries, and what cannot go
        /// while they stay.
        trail_bytes: u64,
    },
    /// The state is kept anew, and nothing beside it: after a crash what was kept before counts, until another note is
    /// committed, in front of which another trail is to begin.
    Anew,
}

/// Most bytes in an entry of a trail, and in a note.
pub const MAX_ENTRY_BYTES: usize = 8 << 20;

/// The kept state cannot be read or written: which file, why, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeepError(pub String);

/// A frozen state that proves what it holds.
pub trait Prover: Send {
    /// What the state holds in answer to `question`, with its proof under the state's
    /// [root](StateMachine::root), in an encoding of the application's. At most
    /// [`MAX_CONTENT_BYTES`](crate::client::proven::MAX_CONTENT_BYTES).
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
pub const MAX_CHUNK_BYTES: usize = 1 << 20;

/// A snapshot that could not be restored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("snapshot chunk {chunk}: {reason}")]
pub struct RestoreError {
    /// The chunk, from 0.
    pub chunk: usize,
    /// What is wrong with it.
    pub reason: String,
}

/// The replies to a block's commands, gathered in one buffer: each behind its length (u32).
#[derive(Clone, Debug, Default)]
pub struct Replies {
    body: Vec<u8>,
    ends: Vec<usize>,
}

impl Replies {
    /// Adds the reply to the next command.
    pub fn push(&mut self, reply: &[u8]) {
        self.push_with(|out| out.extend_from_slice(reply));
    }

    /// Adds the reply that `write` appends to the buffer it is given.
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.body.len();
        self.body.extend_from_slice(&[0; 4]);
        write(&mut self.body);
        let length = u32::try_from(self.body.len() - start - 4).unwrap_or(u32::MAX);
        self.body[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.ends.push(self.body.len());
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

    /// The replies that a [buffer](Self::body) holds; `None` if it is none.
    #[must_use]
    pub fn of_body(body: Vec<u8>) -> Option<Self> {
        let mut ends = Vec::new();
        let mut at = 0;
        while at < body.len() {
            let length = u32::from_le_bytes(*body.get(at..)?.first_chunk()?);
            at = at.checked_add(4)?.checked_add(length as usize)?;
            if at > body.len() {
                return None;
            }
            ends.push(at);
        }
        Some(Self { body, ends })
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
