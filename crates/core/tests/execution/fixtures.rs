//! Frames, and an application that shows what was applied.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::crypto::{PublicKey, Signature};
use quorate_core::client::message::{Outcome, Rejection};
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::execution::{Executed, Execution};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::sessions::Limits;
use quorate_core::ledger::state_machine::{
    Decided, MAX_CHUNK_BYTES, Replies, RestoreError, Snapshot, StateMachine,
};
use quorate_core::{Digest, Sequence, SessionId, View};

pub const CHAIN: Digest = Digest([7; 32]);

pub fn key(client: u8) -> PublicKey {
    PublicKey([client; 32])
}

/// A frame; `signature` tells apart replicas that got it under different signatures.
pub fn signed_frame(
    client: u8,
    session: u64,
    first: u64,
    commands: &[Vec<u8>],
    signature: u8,
) -> SharedFrame {
    let commands = commands.iter().map(Vec::as_slice);
    let sign = |_: &_| Signature::from([signature; 64]);
    let frame =
        Frame::build(key(client), SessionId(session), Sequence(first), commands, &CHAIN, sign);
    Arc::new(frame.expect("within the limits of a frame"))
}

pub fn frame(client: u8, session: u64, first: u64, commands: &[&str]) -> SharedFrame {
    let commands: Vec<_> = commands.iter().map(|command| command.as_bytes().to_vec()).collect();
    signed_frame(client, session, first, &commands, 0)
}

pub fn open(client: u8, incarnation: u64) -> SharedFrame {
    Arc::new(Frame::open(key(client), incarnation, &CHAIN, |_| Signature::from([0; 64])))
}

/// Keeps every command it applied. Replies with how many there were before, and the command,
/// which makes every reply different; a command `big N` gets N more bytes. Panics at `poison`.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    pub commands: Vec<Vec<u8>>,
    /// Who sent them, and what they were granted.
    pub callers: Vec<(PublicKey, Option<Grant>)>,
    /// Gives one reply too few (-1) or too many (1).
    pub miscount: i8,
    /// How many commands there were when the state was marked.
    pub marked: Option<usize>,
    /// Marks nothing.
    pub is_final: bool,
}

pub fn journal_reply(before: usize, command: &[u8]) -> Vec<u8> {
    let mut reply = (before as u64).to_le_bytes().to_vec();
    reply.extend_from_slice(command);
    let text = std::str::from_utf8(command).unwrap_or_default();
    if let Some(count) = text.strip_prefix("big ").and_then(|count| count.parse::<usize>().ok()) {
        reply.resize(reply.len() + count, b'.');
    }
    reply
}

impl StateMachine for Journal {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        assert_eq!(block.callers.len(), block.commands.len());
        let callers = block.callers.iter();
        self.callers.extend(callers.map(|caller| (*caller.key, caller.grant.cloned())));
        for command in block.commands {
            assert_ne!(*command, b"poison", "not digested");
            replies.push(&journal_reply(self.commands.len(), command));
            self.commands.push(command.to_vec());
        }
        if self.miscount > 0 {
            replies.push(b"one too many");
        }
        if self.miscount < 0 {
            let whole = std::mem::take(replies);
            for reply in whole.iter().take(whole.len().saturating_sub(1)) {
                replies.push(reply);
            }
        }
    }

    fn query(&self, question: &[u8]) -> Bytes {
        [question, b" of ", self.kept().len().to_string().as_bytes()].concat().into()
    }

    fn root(&mut self) -> Digest {
        Digest::of("test journal", &self.spelled())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Spelled(self.spelled()))
    }

    fn mark(&mut self) -> bool {
        self.marked = (!self.is_final).then_some(self.commands.len());
        self.marked.is_some()
    }

    fn keep(&mut self) {
        self.marked = None;
    }

    fn undo(&mut self) {
        self.commands.truncate(self.marked.take().expect("the state was marked"));
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        let spelled: Vec<u8> = chunks.flatten().collect();
        self.commands.clear();
        let mut rest = &spelled[..];
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let Some((command, after)) =
                after.split_at_checked(u32::from_le_bytes(*length) as usize)
            else {
                break;
            };
            self.commands.push(command.to_vec());
            rest = after;
        }
        match rest {
            [] => Ok(()),
            _ => Err(RestoreError { chunk: 0, reason: "a command is cut off".into() }),
        }
    }
}

impl Journal {
    fn kept(&self) -> &[Vec<u8>] {
        &self.commands[..self.marked.unwrap_or(self.commands.len())]
    }

    fn spelled(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for command in self.kept() {
            out.extend_from_slice(&(command.len() as u32).to_le_bytes());
            out.extend_from_slice(command);
        }
        out
    }
}

struct Spelled(Vec<u8>);

impl Snapshot for Spelled {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        self.0.chunks(MAX_CHUNK_BYTES).all(sink);
    }
}

pub const GENESIS: Digest = Digest([1; 32]);

pub fn state(limits: Limits) -> Execution<Journal> {
    Execution::new(Journal::default(), limits, GENESIS).expect("limits of use")
}

/// Executes `frames` as the next block.
pub fn execute(state: &mut Execution<Journal>, frames: &[SharedFrame]) -> Executed {
    let height = state.height().next();
    let id = Digest::of("test block", &height.0.to_le_bytes());
    state.execute(height, View(height.0), id, frames).expect("the journal counts right")
}

/// The outcomes of executing `frames` as the next block.
pub fn outcomes(state: &mut Execution<Journal>, frames: &[SharedFrame]) -> Vec<Outcome> {
    execute(state, frames).outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

pub fn opened(incarnation: u64, session: u64) -> Outcome {
    Outcome::Opened { incarnation, session: SessionId(session) }
}

pub fn rejected(session: u64, first: u64, reason: Rejection) -> Outcome {
    Outcome::Rejected { session: SessionId(session), first: Sequence(first), reason }
}

/// The outcome of commands that were the journal's `at`-th and following.
pub fn executed(session: u64, first: u64, at: usize, commands: &[&str]) -> Outcome {
    let mut replies = Vec::new();
    for (i, command) in commands.iter().enumerate() {
        let reply = journal_reply(at + i, command.as_bytes());
        replies.extend_from_slice(&(reply.len() as u32).to_le_bytes());
        replies.extend_from_slice(&reply);
    }
    Outcome::Executed {
        session: SessionId(session),
        first: Sequence(first),
        count: commands.len() as u32,
        replies: replies.into(),
    }
}

pub fn chunks_of(snapshot: &dyn Snapshot) -> Vec<Bytes> {
    let mut chunks = Vec::new();
    snapshot.chunks(&mut |chunk| {
        chunks.push(Bytes::copy_from_slice(chunk));
        true
    });
    chunks
}
