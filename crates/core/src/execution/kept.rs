//! What is kept beside the state of an application that outlives the process, so that execution
//! goes on where it stood: height, block, roots, and the session table.
//!
//! To write the whole table with each block would cost more than the blocks do. It is a function
//! of the blocks and of the replies to their commands; so it is written now and then (a *base*),
//! and with each block its replies. From the base, the blocks above it (which the log has) and
//! their replies the table of the last commit follows, and the application executes nothing again.
//!
//! Notes, integers little-endian:
//!
//! | number | content |
//! |---|---|
//! | 0 | head: magic 16, height u64, block id 32, height of the base u64, bank u8, chunks of the base u32, notes of records u64 |
//! | 2³² · (1 + bank) + i | chunk i of the base: i = 0 the latest roots up to its state, then the session table |
//! | 2³² · 3 + i | the records of the blocks above the base: root of the state before the block 32, length of the replies u32, replies; each cut every [`PART_BYTES`] |
//!
//! A base goes to the bank that the head does not name, and becomes the base when the head does.
//! What is behind the last record and the last chunk is left of earlier ones.

use bytes::Bytes;

use super::{Execution, ROOT_WINDOW};
use crate::frame::SharedFrame;
use crate::sessions::{Limits, ReplyCountError, Sessions};
use crate::state_machine::{
    KeepError, Keeper, MAX_NOTE_BYTES, Replies, RestoreError, Snapshot as _, StateMachine,
};
use crate::types::{Digest, Height};
use crate::wire::{DecodeError, Encode as _, Reader};

const MAGIC: &[u8; 16] = b"quorate kept  01";
const HEAD: u64 = 0;
const BANK: u64 = 1 << 32;
const RECORDS: u64 = 3 << 32;
/// Records are cut into notes of this many bytes.
const PART_BYTES: usize = 4 << 20;
/// So many chunks of a base are committed together.
const CHUNKS_AT_ONCE: usize = 16;
/// So many of the latest roots are kept with a base: blocks right above it name states this far
/// below.
const BASE_ROOTS: usize = 64;
/// A base is followed by no more blocks than this, ...
const BLOCKS_ABOVE: u64 = 2048;
/// ... and by no more bytes of records than this, ...
const RECORD_BYTES_ABOVE: u64 = 4 << 20;
/// ... or eight times its own bytes (a base keeps whoever decides waiting) up to this, or twice its own bytes.
const RECORD_BYTES_ABOVE_MOST: u64 = 256 << 20;

const _: () = assert!(PART_BYTES <= MAX_NOTE_BYTES);

/// Where keeping stands.
#[derive(Debug, Default)]
pub(super) struct Keeping {
    /// The last base, once there is one.
    base: Option<Base>,
}

/// The last base, and what has come above it.
#[derive(Debug)]
struct Base {
    height: Height,
    bank: u8,
    chunks: u32,
    bytes: u64,
    /// Notes of the records above it, and their bytes.
    records: u64,
    record_bytes: u64,
}

/// What a kept state says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptHead {
    /// The height of the state.
    pub height: Height,
    /// The block behind which it stands.
    pub block_id: Digest,
    /// The frames of the blocks above this height, up to its own, are needed to go on from it.
    pub base: Height,
    bank: u8,
    chunks: u32,
    records: u64,
}

/// A kept state that cannot be gone on from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// It cannot be read.
    #[error(transparent)]
    Kept(#[from] KeepError),
    /// A note is gone.
    #[error("note {0} is missing")]
    Missing(u64),
    /// A note makes no sense.
    #[error("{note}: {source}")]
    Note {
        /// Which.
        note: &'static str,
        /// What is wrong.
        source: DecodeError,
    },
    /// The session table could not be read.
    #[error("sessions: {0}")]
    Sessions(#[from] RestoreError),
    /// The records are not those of the blocks.
    #[error("record of the block at height {0}: it does not fit the block")]
    Record(Height),
    /// The replies are not those of the blocks.
    #[error("record of the block at height {height}: {source}")]
    Replies {
        /// The block's height.
        height: Height,
        /// What is wrong.
        source: ReplyCountError,
    },
}

impl KeptHead {
    /// What the state that `keeper` has turned to says of itself; nothing if it is not whole.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub fn read(keeper: &dyn Keeper) -> Result<Option<Self>, ResumeError> {
        let Some(note) = keeper.note(HEAD)? else { return Ok(None) };
        Self::decode(note).map(Some).map_err(|source| ResumeError::Note { note: "head", source })
    }

    fn decode(note: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(note);
        if reader.array()? != *MAGIC {
            return Err(DecodeError::Invalid { field: "magic" });
        }
        let head = Self {
            height: Height(reader.u64()?),
            block_id: Digest(reader.array()?),
            base: Height(reader.u64()?),
            bank: reader.u8()?,
            chunks: reader.u32()?,
            records: reader.u64()?,
        };
        reader.finish()?;
        if head.base > head.height || head.bank > 1 || head.chunks == 0 {
            return Err(DecodeError::Invalid { field: "base" });
        }
        Ok(head)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        self.height.encode(&mut bytes);
        self.block_id.encode(&mut bytes);
        self.base.encode(&mut bytes);
        bytes.push(self.bank);
        self.chunks.encode(&mut bytes);
        self.records.encode(&mut bytes);
        bytes
    }

    /// The base's roots.
    fn roots(&self, keeper: &dyn Keeper) -> Result<Vec<Digest>, ResumeError> {
        let number = chunk_number(self.bank, 0);
        let note = keeper.note(number)?.ok_or(ResumeError::Missing(number))?;
        let wrong = |source| ResumeError::Note { note: "roots of the base", source };
        let mut reader = Reader::new(note);
        let count = reader.u32().map_err(wrong)?;
        let mut roots = Vec::new();
        for _ in 0..count.min(BASE_ROOTS as u32) {
            roots.push(Digest(reader.array().map_err(wrong)?));
        }
        reader.finish().map_err(wrong)?;
        Ok(roots)
    }

    fn sessions(&self, keeper: &dyn Keeper, limits: Limits) -> Result<Sessions, ResumeError> {
        let mut failed = None;
        let mut chunks = (1..self.chunks).map_while(|index| {
            let number = chunk_number(self.bank, index);
            match keeper.note(number) {
                Ok(Some(chunk)) => Some(chunk),
                Ok(None) => None,
                Err(error) => {
                    failed = Some(error);
                    None
                }
            }
        });
        let sessions = Sessions::restore(limits, &mut chunks);
        match failed {
            Some(error) => Err(error.into()),
            None => Ok(sessions?),
        }
    }
}

/// The records of the blocks above a base.
struct Records<'a> {
    keeper: &'a dyn Keeper,
    next: u64,
    end: u64,
}

impl Records<'_> {
    fn note(&mut self, height: Height) -> Result<Bytes, ResumeError> {
        if self.next >= self.end {
            return Err(ResumeError::Record(height));
        }
        let number = RECORDS + self.next;
        self.next += 1;
        self.keeper.note(number)?.ok_or(ResumeError::Missing(number))
    }

    /// The root of the state before the next block, and the replies to its commands.
    fn next(&mut self, height: Height) -> Result<(Digest, Replies), ResumeError> {
        let unfit = |_| ResumeError::Record(height);
        let mut reader = Reader::new(self.note(height)?);
        let root = Digest(reader.array().map_err(unfit)?);
        let length = reader.u32().map_err(unfit)? as usize;
        let mut body = reader.rest().to_vec();
        while body.len() < length {
            let more = self.note(height)?;
            if more.is_empty() {
                break;
            }
            body.extend_from_slice(&more);
        }
        let replies = Replies::of_body(body).filter(|replies| replies.body().len() == length);
        Ok((root, replies.ok_or(ResumeError::Record(height))?))
    }
}

fn chunk_number(bank: u8, index: u32) -> u64 {
    BANK * (1 + u64::from(bank)) + u64::from(index)
}

impl<S: StateMachine> Execution<S> {
    /// Goes on from the state that `application` has turned to, whose head is `head`. `blocks` are
    /// ids and frames of the blocks above its base, up to its own, in order.
    ///
    /// # Errors
    /// [`ResumeError`].
    pub fn resume(
        mut application: S,
        limits: Limits,
        head: &KeptHead,
        blocks: &[(Digest, &[SharedFrame])],
    ) -> Result<Self, ResumeError> {
        let keeper: &dyn Keeper = application.keeper().ok_or(ResumeError::Missing(HEAD))?;
        let mut sessions = head.sessions(keeper, limits)?;
        let mut roots = head.roots(keeper)?;
        let mut records = Records { keeper, next: 0, end: head.records };
        let mut height = head.base;
        for (_, frames) in blocks {
            height = height.next();
            let (before, replies) = records.next(height)?;
            if height == head.base.next() && roots.last() != Some(&before) {
                return Err(ResumeError::Record(height));
            }
            if height > head.base.next() {
                roots.push(before);
            }
            let plan = sessions.plan(height, frames);
            sessions
                .settle(plan, replies)
                .map_err(|source| ResumeError::Replies { height, source })?;
        }
        let last = blocks.last().map_or(head.block_id, |(id, _)| *id);
        if height != head.height || last != head.block_id || records.next != records.end {
            return Err(ResumeError::Record(height));
        }
        if head.height == head.base {
            // The state's own root is computed.
            roots.pop();
        }
        let mut state = Self::at(application, sessions, head.height, head.block_id);
        state.recall_roots(&roots);
        Ok(state)
    }

    /// The next block begins with a base: its height is that of a snapshot, below which the log
    /// may go.
    pub fn renew_base(&mut self) {
        self.keeping.base = None;
    }

    /// Writes a base, if the last one has too much above it.
    pub(super) fn keep_base_if_due(&mut self) -> Result<(), KeepError> {
        if self.application.keeper().is_none() {
            return Ok(());
        }
        let due = self.keeping.base.as_ref().is_none_or(|base| {
            let many = (8 * base.bytes).min(RECORD_BYTES_ABOVE_MOST).max(2 * base.bytes);
            let limit = RECORD_BYTES_ABOVE.max(many);
            self.height.0 - base.height.0 >= BLOCKS_ABOVE || base.record_bytes > limit
        });
        if !due {
            return Ok(());
        }
        let roots = self.latest_roots(BASE_ROOTS);
        let Some(keeper) = self.application.keeper() else { return Ok(()) };
        // Another bank than that of the base that counts, which may be one of an earlier process.
        let head = KeptHead::read(keeper).map_err(|error| KeepError(error.to_string()))?;
        let bank = head.map_or(0, |head| 1 - head.bank);
        let mut first = Vec::new();
        (roots.len() as u32).encode(&mut first);
        roots.iter().for_each(|root| root.encode(&mut first));
        let mut bytes = first.len() as u64;
        let mut waiting = vec![(chunk_number(bank, 0), first)];
        let (mut chunks, mut result) = (1, Ok(()));
        self.sessions.snapshot().chunks(&mut |chunk| {
            bytes += chunk.len() as u64;
            waiting.push((chunk_number(bank, chunks), chunk.to_vec()));
            chunks += 1;
            if waiting.len() >= CHUNKS_AT_ONCE {
                result = commit(keeper, &waiting);
                waiting.clear();
            }
            result.is_ok()
        });
        result?;
        let (height, block_id) = (self.height, self.block_id);
        let head = KeptHead { height, block_id, base: height, bank, chunks, records: 0 };
        waiting.push((HEAD, head.encode()));
        commit(keeper, &waiting)?;
        let base = Base { height, bank, chunks, bytes, records: 0, record_bytes: 0 };
        self.keeping.base = Some(base);
        Ok(())
    }

    /// What is to be kept of the block that has these replies, if anything is kept.
    pub(super) fn record_of(&mut self, replies: &Replies) -> Option<Vec<u8>> {
        self.application.keeper()?;
        let mut record = Vec::with_capacity(36 + replies.body().len());
        self.state_root().encode(&mut record);
        (replies.body().len() as u32).encode(&mut record);
        record.extend_from_slice(replies.body());
        Some(record)
    }

    /// Commits the state behind the block that was just executed, and the block's record.
    pub(super) fn keep_block(&mut self, record: &[u8]) -> Result<(), KeepError> {
        let (Some(keeper), Some(base)) = (self.application.keeper(), &mut self.keeping.base) else {
            return Ok(());
        };
        let first = base.records;
        let parts = record.chunks(PART_BYTES);
        base.records += parts.len() as u64;
        base.record_bytes += record.len() as u64;
        let head = KeptHead {
            height: self.height,
            block_id: self.block_id,
            base: base.height,
            bank: base.bank,
            chunks: base.chunks,
            records: base.records,
        }
        .encode();
        let mut notes: Vec<(u64, &[u8])> = vec![(HEAD, &head)];
        notes.extend((RECORDS + first..).zip(parts));
        keeper.commit(&notes)
    }
}

fn commit(keeper: &mut dyn Keeper, notes: &[(u64, Vec<u8>)]) -> Result<(), KeepError> {
    let notes: Vec<(u64, &[u8])> = notes.iter().map(|(n, note)| (*n, note.as_slice())).collect();
    keeper.commit(&notes)
}

const _: () = assert!(BASE_ROOTS <= ROOT_WINDOW);
