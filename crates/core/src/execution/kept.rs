//! What is kept beside the state of an application that outlives the process, so that execution
//! goes on where it stood: height, block, roots, and the session table.
//!
//! To write the whole table with each block would cost more than the blocks do. It is a function
//! of the blocks and of the replies to their commands; so it is written now and then (a *base*),
//! and with each block its replies. From the base, the blocks above it (which the log has) and
//! their replies the table of the last commit follows, and the application executes nothing again.
//!
//! The note, the *head*, integers little-endian: magic 16 ‖ height u64 ‖ block id 32 ‖ height of the base u64 ‖ chunks of
//! the base u32 ‖ entries of records u64.
//!
//! The trail, which begins with a base, and another one with each:
//!
//! | entries | content |
//! |---|---|
//! | the first | the latest roots up to the base's state: count u32, each 32 |
//! | chunks of the base - 1 | the session table |
//! | entries of records | for each block above the base: root of the state before the block 32, length of the replies u32, replies; each cut every [`PART_BYTES`] |
//!
//! What is behind the last record is of no account: of a base that was being written.

use bytes::Bytes;

use super::{Execution, ROOT_WINDOW};
use crate::frame::SharedFrame;
use crate::sessions::{Limits, ReplyCountError, Sessions};
use crate::state_machine::{
    Beside, Committed, KeepError, Keeper, MAX_CHUNK_BYTES, MAX_ENTRY_BYTES, Replies, RestoreError,
    Snapshot as _, StateMachine,
};
use crate::types::{Digest, Height};
use crate::wire::{DecodeError, Encode as _, Reader};

const MAGIC: &[u8; 16] = b"quorate kept  02";
/// Records are cut into entries of this many bytes.
const PART_BYTES: usize = 4 << 20;
/// So many of the latest roots are kept with a base: blocks right above it name states this far
/// below.
const BASE_ROOTS: usize = 64;
/// A base is followed by no more blocks than this, ...
const BLOCKS_ABOVE: u64 = 2048;
/// ... and the trail takes no more bytes than this, ...
const TRAIL_BYTES: u64 = 64 << 20;
/// ... or eight times the base's own (a base keeps whoever decides waiting) up to this, or three times its own.
const TRAIL_BYTES_MOST: u64 = 256 << 20;

const _: () = assert!(PART_BYTES <= MAX_ENTRY_BYTES && MAX_CHUNK_BYTES <= MAX_ENTRY_BYTES);

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
    chunks: u32,
    bytes: u64,
    /// Entries of the records above it.
    records: u64,
    /// What the trail takes, with all that cannot go while it stays.
    trail_bytes: u64,
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
    chunks: u32,
    records: u64,
}

/// A kept state that cannot be gone on from.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResumeError {
    /// It cannot be read.
    #[error(transparent)]
    Kept(#[from] KeepError),
    /// The trail cannot be read; the state itself may be whole.
    #[error("the trail: {0}")]
    Trail(KeepError),
    /// There is nothing that keeps.
    #[error("the application keeps no state")]
    NotKept,
    /// The trail ends early.
    #[error("the trail has {found} entries of {expected}")]
    Short {
        /// How many it should have.
        expected: u64,
        /// How many it has.
        found: u64,
    },
    /// The note, or the roots in the trail, make no sense.
    #[error("{what}: {source}")]
    Read {
        /// Which.
        what: &'static str,
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
        let Some(note) = keeper.note()? else { return Ok(None) };
        Self::decode(note).map(Some).map_err(|source| ResumeError::Read { what: "head", source })
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
            chunks: reader.u32()?,
            records: reader.u64()?,
        };
        reader.finish()?;
        if head.base > head.height || head.chunks == 0 {
            return Err(DecodeError::Invalid { field: "base" });
        }
        Ok(head)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        self.height.encode(&mut bytes);
        self.block_id.encode(&mut bytes);
        self.base.encode(&mut bytes);
        self.chunks.encode(&mut bytes);
        self.records.encode(&mut bytes);
        bytes
    }
}

fn read_roots(entry: Bytes) -> Result<Vec<Digest>, DecodeError> {
    let mut reader = Reader::new(entry);
    let count = reader.u32()?;
    let mut roots = Vec::new();
    for _ in 0..count.min(BASE_ROOTS as u32) {
        roots.push(Digest(reader.array()?));
    }
    reader.finish()?;
    Ok(roots)
}

/// A trail being read, and what has come of it.
struct Reading<'a> {
    head: &'a KeptHead,
    limits: Limits,
    /// Those above the base that are not settled yet.
    blocks: std::slice::Iter<'a, (Digest, &'a [SharedFrame])>,
    height: Height,
    /// How many entries there were.
    entries: u64,
    roots: Vec<Digest>,
    chunks: Vec<Bytes>,
    sessions: Option<Sessions>,
    /// The record of the next block, as far as it has come.
    record: Vec<u8>,
}

impl<'a> Reading<'a> {
    fn new(
        head: &'a KeptHead,
        limits: Limits,
        blocks: &'a [(Digest, &'a [SharedFrame])],
    ) -> Reading<'a> {
        Reading {
            head,
            limits,
            blocks: blocks.iter(),
            height: head.base,
            entries: 0,
            roots: Vec::new(),
            chunks: Vec::new(),
            sessions: None,
            record: Vec::new(),
        }
    }

    /// How many entries count.
    fn expected(&self) -> u64 {
        u64::from(self.head.chunks).saturating_add(self.head.records)
    }

    fn entry(&mut self, entry: &[u8]) -> Result<(), ResumeError> {
        self.entries += 1;
        if self.entries == 1 {
            let read = read_roots(Bytes::copy_from_slice(entry));
            let what = "the roots of the base";
            self.roots = read.map_err(|source| ResumeError::Read { what, source })?;
        } else if self.entries <= u64::from(self.head.chunks) {
            self.chunks.push(Bytes::copy_from_slice(entry));
        } else {
            return self.part(entry);
        }
        if self.entries == u64::from(self.head.chunks) {
            let chunks = std::mem::take(&mut self.chunks);
            self.sessions = Some(Sessions::restore(self.limits, &mut chunks.into_iter())?);
        }
        Ok(())
    }

    /// A part of the next block's record: once that is whole, the replies are brought into the session table.
    fn part(&mut self, part: &[u8]) -> Result<(), ResumeError> {
        let height = self.height.next();
        self.record.extend_from_slice(part);
        let unfit = || ResumeError::Record(height);
        let (root, rest) = self.record.split_first_chunk::<32>().ok_or_else(unfit)?;
        let (length, body) = rest.split_first_chunk::<4>().ok_or_else(unfit)?;
        let (length, root) = (u32::from_le_bytes(*length) as usize, Digest(*root));
        if body.len() < length && part.len() == PART_BYTES {
            return Ok(());
        }
        let replies = Replies::of_body(body.to_vec()).filter(|_| body.len() == length);
        let replies = replies.ok_or_else(unfit)?;
        self.record.clear();
        if height > self.head.base.next() {
            self.roots.push(root);
        } else if self.roots.last() != Some(&root) {
            return Err(unfit());
        }
        let (_, frames) = self.blocks.next().ok_or_else(unfit)?;
        let sessions = self.sessions.as_mut().ok_or_else(unfit)?;
        let plan = sessions.plan(height, frames);
        sessions
            .settle(plan, &replies)
            .map_err(|source| ResumeError::Replies { height, source })?;
        self.height = height;
        Ok(())
    }

    /// The session table at the head's height, and the roots below; the trail was read.
    fn end(mut self) -> Result<(Sessions, Vec<Digest>), ResumeError> {
        let (expected, found) = (self.expected(), self.entries);
        let sessions = self.sessions.filter(|_| found == expected);
        let sessions = sessions.ok_or(ResumeError::Short { expected, found })?;
        let whole = self.record.is_empty() && self.blocks.as_slice().is_empty();
        if !whole || self.height != self.head.height {
            return Err(ResumeError::Record(self.height.next()));
        }
        if self.head.height == self.head.base {
            // The state's own root is computed.
            self.roots.pop();
        }
        Ok((sessions, self.roots))
    }
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
        let keeper: &dyn Keeper = application.keeper().ok_or(ResumeError::NotKept)?;
        if blocks.last().is_some_and(|(id, _)| *id != head.block_id) {
            return Err(ResumeError::Record(head.height));
        }
        let mut reading = Reading::new(head, limits, blocks);
        let mut result = Ok(());
        let read = keeper.trail(&mut |entry| {
            if reading.entries < reading.expected() {
                result = reading.entry(entry);
            }
            result.is_ok() && reading.entries < reading.expected()
        });
        result?;
        read.map_err(ResumeError::Trail)?;
        let (sessions, roots) = reading.end()?;
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
            let many = (8 * base.bytes).min(TRAIL_BYTES_MOST).max(3 * base.bytes);
            let limit = TRAIL_BYTES.max(many);
            self.height.0 - base.height.0 >= BLOCKS_ABOVE || base.trail_bytes > limit
        });
        if !due {
            return Ok(());
        }
        self.keep_base()
    }

    /// Begins a trail with the session table as it is now.
    fn keep_base(&mut self) -> Result<(), KeepError> {
        let roots = self.latest_roots(BASE_ROOTS);
        let Some(keeper) = self.application.keeper() else { return Ok(()) };
        let mut first = Vec::new();
        (roots.len() as u32).encode(&mut first);
        roots.iter().for_each(|root| root.encode(&mut first));
        let (mut bytes, mut chunks) = (first.len() as u64, 1);
        let begun = Beside { entries: &[&[&first]], begins: true, ..Beside::default() };
        let mut result = keeper.commit(&begun).and_then(whole);
        self.sessions.snapshot().chunks(&mut |chunk| {
            if result.is_ok() {
                bytes += chunk.len() as u64;
                chunks += 1;
                let more = Beside { entries: &[&[chunk]], ..Beside::default() };
                result = keeper.commit(&more).and_then(whole);
            }
            result.is_ok()
        });
        result?;
        let (height, block_id) = (self.height, self.block_id);
        let head = KeptHead { height, block_id, base: height, chunks, records: 0 }.encode();
        whole(keeper.commit(&Beside { note: Some(&head), turns: true, ..Beside::default() })?)?;
        self.keeping.base = Some(Base { height, chunks, bytes, records: 0, trail_bytes: bytes });
        Ok(())
    }

    /// Commits the state behind the block that was just executed, and what is needed of the block to bring the session table
    /// there: the root of the state before it, and its replies.
    pub(super) fn keep_block(&mut self, replies: &Replies) -> Result<(), KeepError> {
        let before = self.state_root();
        let (Some(keeper), Some(base)) = (self.application.keeper(), &mut self.keeping.base) else {
            return Ok(());
        };
        let body = replies.body();
        let length = (body.len() as u32).to_le_bytes();
        let in_first = PART_BYTES - before.0.len() - length.len();
        let (first, later) = body.split_at(body.len().min(in_first));
        let first: [&[u8]; 3] = [&before.0, &length, first];
        let later: Vec<[&[u8]; 1]> = later.chunks(PART_BYTES).map(|part| [part]).collect();
        let mut entries: Vec<&[&[u8]]> = vec![&first];
        entries.extend(later.iter().map(<[&[u8]; 1]>::as_slice));
        base.records += entries.len() as u64;
        let head = KeptHead {
            height: self.height,
            block_id: self.block_id,
            base: base.height,
            chunks: base.chunks,
            records: base.records,
        }
        .encode();
        let beside = Beside { note: Some(&head), entries: &entries, ..Beside::default() };
        match keeper.commit(&beside)? {
            Committed::Whole { trail_bytes } => base.trail_bytes = trail_bytes,
            Committed::Anew => self.keeping.base = None,
        }
        Ok(())
    }
}

/// A commit that begins a trail, or goes on with it, is kept as a whole.
fn whole(committed: Committed) -> Result<(), KeepError> {
    match committed {
        Committed::Whole { .. } => Ok(()),
        Committed::Anew => Err(KeepError(
            "the keeper of the application's state says that a trail just begun is gone, which is a fault of the program"
                .to_owned(),
        )),
    }
}

const _: () = assert!(BASE_ROOTS <= ROOT_WINDOW);
