//! A key-value store with Redis's data model: a value is a byte string or a hash of fields.
//!
//! The state is a Merkle map from the hash of a key to the key and its value, so a snapshot takes
//! no time and a root costs what has changed. It is in memory ([`Memory`]) or in a lazy-trie on
//! disk ([`Disk`]): a replica's own choice, since replies, roots and snapshots are the same. What a
//! command answers is worded as Redis words it; where this store has a limit that Redis has not,
//! the error says so.
//!
//! # SCAN
//! Keys are visited in the order of their hashes, and a cursor is the first eight bytes of the
//! hash of the next key (big-endian; 0 begins and ends a scan). A cursor is therefore a place, not
//! a count: writes between two calls do not move it. The guarantee is Redis's: a key that is there
//! from the beginning of the scan to its end is returned; one that comes or goes meanwhile may or
//! may not be. Keys whose hashes share eight bytes are always returned by one call. Unlike in
//! Redis no key is returned twice.
//!
//! A scan whose steps (below) run out returns early, with the cursor to go on from.
//!
//! # What commands may cost
//! A command of a few bytes can ask for a reply of megabytes, or for a pattern to be held against
//! every key. Work that is out of proportion to a command's own bytes is billed in *steps*, before
//! it is done: a step is a byte that is copied or hashed, or one look of a pattern's part at a byte
//! of a key.
//!
//! - A command, or a query, has [`COMMAND_STEPS`]. One that would take more is refused.
//! - The commands of one block share [`BLOCK_STEPS`]. One for which too few are left has no effect
//!   and is answered with `TRYAGAIN`. So is one that might make the replies to one client's frame
//!   too many for one message ([`FRAME_REPLY_BYTES`]): the outcome of the whole frame would be lost
//!   otherwise.
//!
//! Either storage bills the steps of the slower one, so that every replica does the same.
//!
//! # What clients may touch
//! A command of a client whose [grant](quorate_core::ledger::clients::Grant) has prefixes is
//! answered with `NOPERM`, and has no effect, if a key that it names begins with none of them, or
//! if it is about the whole keyspace (`KEYS`, `SCAN`, `DBSIZE`, `FLUSHALL`). Questions, which
//! nobody signs, are not limited.
//!
//! # What the state may take
//! Keys and values together take at most [a limit](KeyValue::limited_to) that the cluster agreed
//! on. A key counts [`KEY_BYTES`] beside its own bytes and those of its value, a field of a hash
//! [`FIELD_BYTES`]: about what they take in memory. A command that writes is refused with `OOM` if
//! the state as it was before the block, all that the block has written so far, and what the
//! command writes come to more. What a block overwrites or removes makes room for the next block,
//! and `FLUSHALL` at once. As in Redis, commands that only remove are always executed, and
//! overwriting counts as writing.
//!
//! A client whose grant has a quota may own a part of the state only; see `kv/quotas.rs`.

pub mod command;
pub mod decimal;
pub mod disk;
pub mod reply;

mod decoded;
mod entry;
pub mod feed;
mod glob;
mod meter;
pub mod proof;
pub mod quotas;
mod read;
mod recorded;
mod snapshot;
mod storage;
mod value;
mod write;

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::DecodeError;
use quorate_core::ledger::clients::Grant;
use quorate_core::ledger::state_machine::{
    Caller, Decided, KeepError, Keeper, Prover, Reader, Replies, RestoreError, Restorer, Snapshot,
    StateMachine, Usage,
};
use quorate_core::{Digest, Height, planted};

pub use command::{Command, Condition, Scan, ValueKind};
pub use disk::Disk;
pub use glob::{Pattern, matches};
pub use reply::{ErrorKind, Reply};
pub use snapshot::TAG as STATE_TAG;
pub use storage::{Memory, Storage};
pub use value::{FIELD_BYTES, KEY_BYTES};

use decoded::Decoded;
use feed::{Block, Feed, Head, List};
use meter::Meter;
use quotas::{Exceeded, Payer, Taken};
use recorded::Recorded;
use snapshot::Taker;

/// Longest key, bytes.
pub const MAX_KEY_BYTES: usize = 64 << 10;
/// Longest value, bytes. For a hash: its fields and their values together, with 8 for each.
pub const MAX_VALUE_BYTES: usize = 1 << 20;
/// Longest glob pattern, bytes.
pub const MAX_PATTERN_BYTES: usize = 1 << 10;
/// Longest reply, bytes. A command that would need a longer one is refused.
pub const MAX_REPLY_BYTES: usize = 4 << 20;
/// Most keys in the store for `KEYS` to be answered.
pub const MAX_KEYS_LISTED: usize = 100_000;
/// Most keys that one `SCAN` looks at.
pub const MAX_SCAN_COUNT: u32 = 10_000;
/// Most steps of one command or query: some hundredths of a second.
pub const COMMAND_STEPS: u64 = 16 << 20;
/// Most steps of the commands of one block.
pub const BLOCK_STEPS: u64 = 64 << 20;
/// So many commands are decoded, and what they look up is asked for, before the first of them is
/// executed.
const AHEAD: usize = 64;
/// Most bytes of replies to as many commands as a frame may hold.
pub const FRAME_REPLY_BYTES: usize = quorate_core::client::message::MAX_REPLY_BYTES;

/// The key-value store, a replicated [`StateMachine`].
pub struct KeyValue<M = Memory> {
    map: M,
    /// Bytes that the state may take.
    limit_bytes: u64,
    /// While a snapshot is taken over.
    taker: Option<Taker>,
    /// The state that was marked: the map as it was, without what was changed since.
    marked: Option<M>,
    told: Told,
}

/// The lists of changes, for those who watch.
#[derive(Default)]
struct Told {
    feed: Option<Arc<Feed>>,
    /// The changes of the block at work, so far.
    list: List,
    /// The block behind the mark, which may never be committed.
    tentative: Option<Block>,
    /// Whether the feed has heard of this store.
    placed: bool,
}

impl Told {
    /// The feed goes on behind this head, unless it knows of a block: the state may have been taken
    /// over.
    fn place(&mut self, head: Head) {
        if let Some(feed) = self.feed.as_ref().filter(|_| !self.placed) {
            feed.begin(head);
        }
        self.placed = true;
    }

    fn committed(&mut self, block: Block) {
        self.placed = true;
        if let Some(feed) = &self.feed {
            feed.committed(block);
        }
    }
}

impl Default for KeyValue {
    fn default() -> Self {
        Self::new()
    }
}

impl KeyValue {
    /// An empty store in memory, without a limit.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Memory::default())
    }
}

impl KeyValue<Disk> {
    /// An empty store that will be on disk, in a folder of `shelf`, without a limit.
    #[must_use]
    pub fn on_disk(shelf: &Arc<disk::Shelf>) -> Self {
        Self::of(Disk::new(shelf))
    }
}

impl<M> KeyValue<M> {
    fn of(map: M) -> Self {
        Self { map, limit_bytes: u64::MAX, taker: None, marked: None, told: Told::default() }
    }
}

impl<M: Storage> KeyValue<M> {
    /// The same store, which tells `feed` what committed blocks change.
    #[must_use]
    pub fn telling(self, feed: &Arc<Feed>) -> Self {
        Self { told: Told { feed: Some(Arc::clone(feed)), ..self.told }, ..self }
    }

    /// The same store with a limit for what its keys and values take; see the [module](self). All
    /// replicas must have the same one.
    #[must_use]
    pub fn limited_to(self, limit_bytes: u64) -> Self {
        Self { limit_bytes, ..self }
    }

    /// Answers a read-only [`Command`], or what [keys have stored](quotas::question), with a
    /// [`Reply`], and says how many steps that took: at most [`COMMAND_STEPS`].
    pub fn billed_query(&self, question: &[u8]) -> (Bytes, u64) {
        let mut out = Vec::new();
        if let Some(keys) = quotas::asked(question) {
            quotas::tell(&mut out, keys, |key| self.state().stored_now(key));
            let steps = out.len() as u64;
            return (out.into(), steps);
        }
        let mut meter = Meter::new(0, 0);
        let Decoded { command, place } = Decoded::of(question);
        let result = match command {
            Err(error) => Err(Refused::Malformed(error)),
            Ok(command) if !command.is_read_only() => Err(Refused::NotReadOnly),
            Ok(command) => read::read(self.state(), &command, &place, &mut meter, &mut out),
        };
        if let Err(refused) = result {
            out.clear();
            refused.answer(&mut out);
        }
        (out.into(), meter.command_steps())
    }

    /// All of a block was executed: what it changed becomes a link of the feed's chain.
    fn changed(&mut self, height: Height, before: Head) {
        let block = Block::new(height, before, self.told.list.take());
        self.map.set_head(block.head());
        match self.marked {
            Some(_) => self.told.tentative = Some(block),
            None => self.told.committed(block),
        }
    }

    /// The state that is not undone: the marked one, if there is one.
    fn state(&self) -> &M {
        self.marked.as_ref().unwrap_or(&self.map)
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.map.count()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.map.count() == 0
    }
}

impl<M: Storage> StateMachine for KeyValue<M> {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        self.map.settle();
        let before = self.map.head().before(block.height);
        let mut meter = Meter::new(self.map.used_bytes(), self.limit_bytes);
        let mut taken = Taken::default();
        let mut decoded = Vec::with_capacity(AHEAD.min(block.commands.len()));
        for (chunk, commands) in block.commands.chunks(AHEAD).enumerate() {
            decoded.clear();
            decoded.extend(commands.iter().map(|command| Decoded::of(command)));
            let callers = block.callers.iter().skip(chunk * AHEAD);
            let is_paid = callers.map(|caller| payer(caller).is_some());
            let is_paid = is_paid.chain(std::iter::repeat(false));
            let looked_at = decoded.iter().zip(is_paid);
            self.map.look_ahead(looked_at.filter_map(|(one, is_paid)| one.looks_at(is_paid)));
            for (at, command) in decoded.iter().enumerate() {
                let caller = block.callers.get(chunk * AHEAD + at);
                let grant = caller.and_then(|caller| caller.grant);
                let (map, list) = (&mut self.map, &mut self.told.list);
                let payer = caller.and_then(payer);
                let mut to = Recorded { map, list, taken: &mut taken, payer };
                replies.push_with(|out| execute(&mut to, command, grant, &mut meter, out));
            }
        }
        self.changed(block.height, before);
    }

    /// Runs a read-only [`Command`]; the answer is a [`Reply`].
    fn query(&self, question: &[u8]) -> Bytes {
        self.billed_query(question).0
    }

    fn reader(&self) -> Option<Box<dyn Reader>> {
        let map = self.state().frozen()?;
        Some(Box::new(Frozen(Self::of(map))))
    }

    fn usage(&self) -> Option<Usage> {
        Some(Usage { used_bytes: self.state().used_bytes(), limit_bytes: self.limit_bytes })
    }

    fn root(&mut self) -> Digest {
        self.told.place(self.marked.as_ref().unwrap_or(&self.map).head());
        proof::root_of(&self.map.root(), &self.map.head())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.state().freeze()
    }

    /// Proves what is under a key, which is the question; see [`proof`].
    fn prover(&self) -> Option<Box<dyn Prover>> {
        self.state().prover()
    }

    fn mark(&mut self) -> bool {
        self.marked = self.map.marked();
        self.marked.is_some()
    }

    fn keep(&mut self) {
        self.marked = None;
        if let Some(block) = self.told.tentative.take() {
            self.told.committed(block);
        }
    }

    fn undo(&mut self) {
        if let Some(marked) = self.marked.take() {
            self.map = marked;
        }
        self.told.tentative = None;
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        self.begin(None)?;
        for chunk in chunks {
            self.take(chunk)?;
        }
        self.finish()
    }

    fn restorer(&mut self) -> Option<&mut dyn Restorer> {
        Some(self)
    }

    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        self.map.keeper()
    }
}

/// A store that nothing is written to.
struct Frozen<M>(KeyValue<M>);

impl<M: Storage> Reader for Frozen<M> {
    fn answer(&self, question: &[u8]) -> Result<Bytes, KeepError> {
        let answer = self.0.query(question);
        self.0.map.failure().map_or(Ok(answer), Err)
    }
}

impl<M: Storage> Restorer for KeyValue<M> {
    fn begin(&mut self, root: Option<Digest>) -> Result<(), RestoreError> {
        let taker = self.taker.insert(Taker::new(root));
        self.map.begin_filling().map_err(|reason| taker.error(&reason))
    }

    fn take(&mut self, chunk: Bytes) -> Result<(), RestoreError> {
        let taker = self.taker.get_or_insert_with(|| Taker::new(None));
        let number = taker.chunks();
        let entries = taker.take(&chunk)?;
        let filled = self.map.fill(&entries);
        filled.map_err(|reason| RestoreError { chunk: number, reason })
    }

    fn finish(&mut self) -> Result<(), RestoreError> {
        let taker = self.taker.take().unwrap_or_else(|| Taker::new(None));
        taker.finish()?;
        self.map.end_filling().map_err(|reason| taker.error(&reason))?;
        self.map.set_head(taker.head());
        Ok(())
    }
}

/// Executes one command and appends its reply to `out`.
fn execute<M: Storage>(
    to: &mut Recorded<'_, M>,
    command: &Decoded<'_>,
    grant: Option<&Grant>,
    meter: &mut Meter,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let at = &command.place;
    meter.begin();
    let result = match &command.command {
        Err(error) => Err(Refused::Malformed(*error)),
        Ok(command) if !may_touch(grant, command) => Err(Refused::OutsidePrefixes),
        Ok(command) if command.is_costly() && !meter.admits_reply() => Err(Refused::BlockSpent),
        Ok(command) if command.is_read_only() => read::read(to.map, command, at, meter, out),
        Ok(command) => write::write(to, command, at, meter, out),
    };
    if let Err(refused) = result {
        out.truncate(start);
        refused.answer(out);
    }
    meter.answered(out.len() - start);
}

/// The sender of a command, if it has a quota.
fn payer<'a>(caller: &Caller<'a>) -> Option<Payer<'a>> {
    let quota = caller.grant?.stored_bytes?.get();
    Some(Payer { key: caller.key, quota })
}

/// Whether a command touches no key that the grant of its client does not cover.
fn may_touch(grant: Option<&Grant>, command: &Command<'_>) -> bool {
    let Some(grant) = grant.filter(|grant| !grant.prefixes.is_empty()) else { return true };
    let is_within = decoded::is_within(command, |key| grant.covers(key));
    planted!("prefixes-not-enforced", true, is_within)
}

/// Why a command was not executed. It then had no effect.
enum Refused {
    Malformed(DecodeError),
    WrongType,
    NotAnInteger,
    FieldNotAnInteger,
    Overflow,
    TextTooLong,
    HashTooLong,
    ReplyTooLong,
    TooManyKeys,
    TooMuchWork,
    BlockSpent,
    StateFull,
    QuotaExceeded(Exceeded),
    NotReadOnly,
    OutsidePrefixes,
}

impl From<Exceeded> for Refused {
    fn from(exceeded: Exceeded) -> Self {
        Self::QuotaExceeded(exceeded)
    }
}

impl From<storage::OtherKind> for Refused {
    fn from(_: storage::OtherKind) -> Self {
        Self::WrongType
    }
}

impl Refused {
    /// The refusal of a `KEYS`: its message names `SCAN`, which does the same in parts.
    fn of_keys(self) -> Self {
        match self {
            Self::TooMuchWork => Self::TooManyKeys,
            other => other,
        }
    }

    fn answer(&self, out: &mut Vec<u8>) {
        let message = match self {
            Self::Malformed(error) => {
                let message = format!("malformed command: {error}");
                return reply::encode::error(out, ErrorKind::General, &message);
            }
            Self::QuotaExceeded(Exceeded { stored, quota }) => {
                let message = format!(
                    "command not allowed: this client stores {stored} bytes of its quota of {quota}; \
                     remove keys that it wrote first"
                );
                return reply::encode::error(out, ErrorKind::OutOfMemory, &message);
            }
            Self::WrongType => "Operation against a key holding the wrong kind of value",
            Self::NotAnInteger => "value is not an integer or out of range",
            Self::FieldNotAnInteger => "hash value is not an integer",
            Self::Overflow => "increment or decrement would overflow",
            Self::TextTooLong => "string exceeds maximum allowed size (1048576 bytes)",
            Self::HashTooLong => "hash exceeds maximum allowed size (1048576 bytes)",
            Self::ReplyTooLong => {
                "the reply would exceed 4194304 bytes: ask for fewer values at a time"
            }
            Self::TooManyKeys => "too many keys for KEYS: use SCAN",
            Self::TooMuchWork => {
                "the command would take too much work: ask for less at a time, or with a shorter pattern"
            }
            Self::StateFull => {
                "command not allowed: the state has reached limits.max_state_bytes; remove keys first"
            }
            Self::BlockSpent => "too much work at a time: send this command again",
            Self::NotReadOnly => "a command that writes must be ordered, not queried",
            Self::OutsidePrefixes => {
                "this client may touch keys with the prefixes of its grant alone; see `quorate client list`"
            }
        };
        let kind = match self {
            Self::WrongType => ErrorKind::WrongType,
            Self::BlockSpent => ErrorKind::TryAgain,
            Self::StateFull => ErrorKind::OutOfMemory,
            Self::OutsidePrefixes => ErrorKind::NoPermission,
            _ => ErrorKind::General,
        };
        reply::encode::error(out, kind, message);
    }
}
