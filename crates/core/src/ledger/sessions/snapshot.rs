//! The session table as a stream of chunks, and back.
//!
//! The stream: next id u64, turned away u64, sessions u32, then each session in the order of its
//! place in the map: id u64, key 32, incarnation u64, next u64, active u64, anchor 32, answers u32,
//! each as first u64, count u32, length u32 and replies; waiting frames u32, each as length u32 and
//! encoding without signature. It is cut every [`MAX_CHUNK_BYTES`].

use bytes::Bytes;

use super::answers::{Answers, skip};
use super::limits::Limits;
use super::session::{Session, unsigned_bytes, without_signature};
use super::{LimitsError, Sessions};
use crate::base::crypto::PublicKey;
use crate::base::types::{Digest, Height, Sequence, SessionId};
use crate::base::wire::{Encode, put_bytes};
use crate::ledger::frame::{MAX_BODY_BYTES, MAX_COMMANDS, OVERHEAD_BYTES};
use crate::ledger::state_machine::{MAX_CHUNK_BYTES, RestoreError, Snapshot};
use quorate_merkle::MerkleMap;

/// A frozen session table.
#[derive(Debug)]
pub struct SessionsSnapshot {
    next: SessionId,
    turned_away: u64,
    live: MerkleMap<Session>,
}

impl Sessions {
    /// The table as it is now. Copies nothing.
    #[must_use]
    pub fn snapshot(&self) -> SessionsSnapshot {
        let (next, turned_away) = (self.next, self.turned_away);
        SessionsSnapshot { next, turned_away, live: self.live.clone() }
    }

    /// The table that `chunks` begin with: takes no more chunks than the table fills. The caller
    /// compares the [root](Sessions::root); everything but the order of sessions, their numbers
    /// and the limits rests on that.
    ///
    /// # Errors
    /// [`RestoreError`] if the chunks are no snapshot of a table under these limits.
    pub fn restore(
        limits: Limits,
        chunks: &mut dyn Iterator<Item = Bytes>,
    ) -> Result<Self, RestoreError> {
        let mut input = Input { chunks, current: Bytes::new(), taken: 0 };
        let mut table =
            Self::new(limits).map_err(|error: LimitsError| input.refuse(&error.to_string()))?;
        table.next = SessionId(input.u64()?);
        table.turned_away = input.u64()?;
        let count = input.u32()?;
        if count > limits.max_sessions {
            return Err(input.refuse("more sessions than the limits allow"));
        }
        let mut last = None;
        for _ in 0..count {
            let session = input.session(&limits)?;
            let place = Session::place(session.id);
            if last >= Some(place) || session.id >= table.next || session.id == SessionId(0) {
                return Err(input.refuse("sessions are out of order or not numbered yet"));
            }
            last = Some(place);
            table.by_activity.insert((session.active, session.id));
            if table.by_key.insert(session.key, session.id).is_some() {
                return Err(input.refuse("two sessions of one key"));
            }
            table.live.insert(place, session);
        }
        if !input.current.is_empty() {
            return Err(input.refuse("bytes are left over after the sessions"));
        }
        Ok(table)
    }
}

impl Snapshot for SessionsSnapshot {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        let mut output = Output { chunk: Vec::with_capacity(MAX_CHUNK_BYTES), sink };
        // Only a sink that wants no more ends this early.
        let _ = self.write(&mut output);
    }
}

impl SessionsSnapshot {
    fn write(&self, output: &mut Output<'_>) -> Option<()> {
        let mut head = Vec::new();
        self.next.encode(&mut head);
        self.turned_away.encode(&mut head);
        (self.live.len() as u32).encode(&mut head);
        output.write(&head)?;
        for (_, session) in &self.live {
            session.write(output)?;
        }
        output.flush()
    }
}

impl Session {
    fn write(&self, output: &mut Output<'_>) -> Option<()> {
        let mut head = Vec::new();
        self.id.encode(&mut head);
        self.key.encode(&mut head);
        self.incarnation.encode(&mut head);
        self.next.encode(&mut head);
        self.active.encode(&mut head);
        self.answers.anchor().encode(&mut head);
        (self.answers.len() as u32).encode(&mut head);
        output.write(&head)?;
        for answer in self.answers.iter() {
            head.clear();
            answer.first.encode(&mut head);
            answer.count.encode(&mut head);
            put_bytes(&mut head, &answer.replies);
            output.write(&head)?;
        }
        let frames = self.waiting.frames();
        output.write(&(frames.len() as u32).to_le_bytes())?;
        for frame in frames {
            head.clear();
            put_bytes(&mut head, unsigned_bytes(frame));
            output.write(&head)?;
        }
        Some(())
    }
}

/// Cuts a stream into chunks. `None` from its functions: the sink wants no more.
struct Output<'a> {
    chunk: Vec<u8>,
    sink: &'a mut dyn FnMut(&[u8]) -> bool,
}

impl Output<'_> {
    fn write(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let room = MAX_CHUNK_BYTES - self.chunk.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            if self.chunk.len() == MAX_CHUNK_BYTES {
                self.flush()?;
            }
            bytes = later;
        }
        Some(())
    }

    fn flush(&mut self) -> Option<()> {
        let wants_more = self.chunk.is_empty() || (self.sink)(&self.chunk);
        self.chunk.clear();
        wants_more.then_some(())
    }
}

/// Reads a stream out of chunks that are not trusted.
struct Input<'a> {
    chunks: &'a mut dyn Iterator<Item = Bytes>,
    /// What is left of the chunk at hand.
    current: Bytes,
    taken: usize,
}

impl Input<'_> {
    fn refuse(&self, reason: &str) -> RestoreError {
        RestoreError { chunk: self.taken.saturating_sub(1), reason: reason.to_owned() }
    }

    /// Fills `out`, chunk after chunk.
    fn fill(&mut self, mut out: &mut [u8]) -> Result<(), RestoreError> {
        while !out.is_empty() {
            if self.current.is_empty() {
                let next = self.chunks.next();
                self.current = next.ok_or_else(|| self.refuse("the sessions end early"))?;
                self.taken += 1;
                if self.current.is_empty() || self.current.len() > MAX_CHUNK_BYTES {
                    return Err(self.refuse("a chunk is empty or too large"));
                }
            }
            let now = self.current.split_to(out.len().min(self.current.len()));
            let (filled, rest) = out.split_at_mut(now.len());
            filled.copy_from_slice(&now);
            out = rest;
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let mut array = [0; N];
        self.fill(&mut array)?;
        Ok(array)
    }

    fn u64(&mut self) -> Result<u64, RestoreError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    fn u32(&mut self) -> Result<u32, RestoreError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// A byte string behind its length, in a buffer of its own.
    fn byte_string(&mut self, cap: usize) -> Result<Bytes, RestoreError> {
        let length = self.u32()? as usize;
        if length > cap {
            return Err(self.refuse("a length is above its cap"));
        }
        let mut bytes = vec![0; length];
        self.fill(&mut bytes)?;
        Ok(bytes.into())
    }

    fn session(&mut self, limits: &Limits) -> Result<Session, RestoreError> {
        let (id, key) = (SessionId(self.u64()?), PublicKey(self.array()?));
        let incarnation = self.u64()?;
        let next = Sequence(self.u64()?);
        let mut session = Session::new(id, key, incarnation, Height(self.u64()?));
        session.next = next;
        session.answers = self.answers(next, limits)?;
        for _ in 0..self.u32()? {
            let bytes = self.byte_string(MAX_BODY_BYTES + OVERHEAD_BYTES)?;
            let frame =
                without_signature(&bytes).map_err(|error| self.refuse(&error.to_string()))?;
            let fits = frame.session() == id && frame.key() == key && frame.first() > next;
            if !fits || session.waiting.insert(&frame, next, limits) != Some(true) {
                return Err(self.refuse("a waiting frame is not one of its session"));
            }
        }
        Ok(session)
    }

    /// Answers without gaps that end at `next` and are no more than the limits let a session keep.
    fn answers(&mut self, next: Sequence, limits: &Limits) -> Result<Answers, RestoreError> {
        let mut answers = Answers::starting_at(Digest(self.array()?));
        let expected = self.u32()?;
        let mut end = None;
        for _ in 0..expected {
            let (first, count) = (Sequence(self.u64()?), self.u32()?);
            let replies = self.byte_string(limits.answer_bytes as usize)?;
            let sound = (1..=MAX_COMMANDS as u32).contains(&count)
                && end.is_none_or(|end| end == first)
                && skip(&replies, 0, u64::from(count)) == Some(replies.len());
            if !sound {
                return Err(self.refuse("an answer does not fit the one before"));
            }
            end = Some(first.plus(u64::from(count)));
            answers.push(first, count, replies, limits);
        }
        if answers.len() != expected as usize || end.is_some_and(|end| end != next) {
            return Err(self.refuse("answers are missing or too many"));
        }
        Ok(answers)
    }
}
