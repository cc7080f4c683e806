//! What commands may cost: steps, bytes of replies, and room in the state.
//!
//! A *step* is about a nanosecond of work: a byte that is copied or hashed, or one look of a
//! pattern's part at a byte. Work that is in proportion to the command's own bytes is not billed:
//! limits of frames and blocks bound it. All other work is billed before it is done, by what it
//! costs in the slower of the two storages, so that replicas with either do the same.

use std::collections::{BTreeSet, VecDeque};

use quorate_core::ledger::frame::MAX_COMMANDS;
use quorate_merkle::Hash;

use super::{BLOCK_STEPS, COMMAND_STEPS, FRAME_REPLY_BYTES, MAX_REPLY_BYTES, Refused};

/// Looking up one of several keys or fields, beside its bytes.
pub(super) const LOOK_STEPS: usize = 32;
/// Bytes of a written hash that are passed in one step, on the way to a field.
const WALK_BYTES: usize = 4;
/// To read a hash as a whole, to write it again and to hash it: steps a byte.
const REWRITE_HASH_STEPS: usize = 8;
/// The same for a string.
const REWRITE_TEXT_STEPS: usize = 2;

/// Replies up to this length are not counted one by one: [`UNCOUNTED_BYTES`] is set aside for them.
const SMALL_REPLY_BYTES: usize = 240;
/// Room for a whole frame of small replies with their lengths, and for what the longest reply may
/// take beyond its limit: its head, and one key.
const UNCOUNTED_BYTES: usize = MAX_COMMANDS * (SMALL_REPLY_BYTES + 4) + (128 << 10);
/// What large replies may come to among as many commands as a frame may hold, for another one to
/// be begun.
const WINDOW_BYTES: usize = FRAME_REPLY_BYTES - MAX_REPLY_BYTES - UNCOUNTED_BYTES;

/// The steps that remain to a block's commands, or to a query.
///
/// The store does not see where frames begin and end. But a frame's commands stand together in a
/// block, so what holds for every run of [`MAX_COMMANDS`] commands holds for every frame.
pub(super) struct Meter {
    /// Steps left to the block.
    left: u64,
    /// Steps left to the command at work.
    command_left: u64,
    /// Bytes that the state may take.
    limit_bytes: u64,
    /// Bytes that may be added to it.
    room_bytes: u64,
    /// How many keys were written in this block, each as often as it was.
    written: usize,
    /// Keys whose values have been made ready to be changed in this block.
    touched: BTreeSet<Hash>,
    /// How many commands were answered.
    answered: usize,
    /// The large replies among the last commands: which command's, and how long.
    large: VecDeque<(usize, usize)>,
    /// The sum of their lengths.
    large_bytes: usize,
}

impl Meter {
    /// Before a block, or a query. The state takes `used_bytes` of `limit_bytes`.
    pub(super) fn new(used_bytes: u64, limit_bytes: u64) -> Self {
        Self {
            left: BLOCK_STEPS,
            command_left: COMMAND_STEPS,
            limit_bytes,
            room_bytes: limit_bytes.saturating_sub(used_bytes),
            written: 0,
            touched: BTreeSet::new(),
            answered: 0,
            large: VecDeque::new(),
            large_bytes: 0,
        }
    }

    /// Begins the next command.
    pub(super) fn begin(&mut self) {
        self.command_left = COMMAND_STEPS;
    }

    /// How much the command at work has taken.
    pub(super) fn command_steps(&self) -> u64 {
        COMMAND_STEPS - self.command_left
    }

    /// Whether the replies so far leave room for one more large one in its frame.
    pub(super) fn admits_reply(&mut self) -> bool {
        while let Some(&(command, bytes)) = self.large.front()
            && command + MAX_COMMANDS <= self.answered
        {
            self.large.pop_front();
            self.large_bytes -= bytes;
        }
        self.large_bytes < WINDOW_BYTES
    }

    /// Takes these steps, before they are made.
    pub(super) fn spend(&mut self, steps: usize) -> Result<(), Refused> {
        let steps = steps as u64;
        if steps > self.command_left {
            return Err(Refused::TooMuchWork);
        }
        if steps > self.left {
            return Err(Refused::BlockSpent);
        }
        self.command_left -= steps;
        self.left -= steps;
        Ok(())
    }

    /// Lets `work` take steps one by one; it says so if there were too few.
    pub(super) fn spend_in<T>(
        &mut self,
        work: impl FnOnce(&mut u64) -> Option<T>,
    ) -> Result<T, Refused> {
        let affordable = self.command_left.min(self.left);
        let mut steps = affordable;
        let done = work(&mut steps);
        let taken = affordable - steps;
        self.command_left -= taken;
        self.left -= taken;
        let short = if self.left == 0 { Refused::BlockSpent } else { Refused::TooMuchWork };
        done.ok_or(short)
    }

    /// So many of several keys or fields are about to be looked up.
    pub(super) fn look_up(&mut self, count: usize) -> Result<(), Refused> {
        self.spend(count.saturating_mul(LOOK_STEPS))
    }

    /// A field of a hash of so many bytes is about to be looked for.
    pub(super) fn walk(&mut self, hash_bytes: usize) -> Result<(), Refused> {
        self.spend(hash_bytes / WALK_BYTES)
    }

    /// A hash of so many bytes is about to be read as a whole.
    pub(super) fn read_hash(&mut self, hash_bytes: usize) -> Result<(), Refused> {
        self.spend(hash_bytes.saturating_mul(REWRITE_HASH_STEPS))
    }

    /// The hash of so many bytes there is about to be changed. Costs once a block.
    pub(super) fn change_hash(&mut self, place: &Hash, hash_bytes: usize) -> Result<(), Refused> {
        self.touch(place, hash_bytes.saturating_mul(REWRITE_HASH_STEPS))
    }

    /// The same for a string.
    pub(super) fn change_text(&mut self, place: &Hash, text_bytes: usize) -> Result<(), Refused> {
        self.touch(place, text_bytes.saturating_mul(REWRITE_TEXT_STEPS))
    }

    fn touch(&mut self, place: &Hash, steps: usize) -> Result<(), Refused> {
        if !self.touched.contains(place) {
            self.spend(steps)?;
            self.touched.insert(*place);
        }
        Ok(())
    }

    /// The keys are about to be counted: there may have to be a look at each that was written.
    pub(super) fn count_keys(&mut self) -> Result<(), Refused> {
        self.look_up(1 + self.written)
    }

    /// So many keys were written.
    pub(super) fn wrote(&mut self, keys: usize) {
        self.written += keys;
    }

    /// Takes `bytes` of room, which the state is about to take up. Bytes that this block frees make
    /// room for the next block.
    pub(super) fn grow(&mut self, bytes: u64) -> Result<(), Refused> {
        self.room_bytes = self.room_bytes.checked_sub(bytes).ok_or(Refused::StateFull)?;
        Ok(())
    }

    /// Everything was removed from the state.
    pub(super) fn empty_state(&mut self) {
        self.room_bytes = self.limit_bytes;
    }

    /// Counts the reply to the next command.
    pub(super) fn answered(&mut self, reply_bytes: usize) {
        if reply_bytes > SMALL_REPLY_BYTES {
            self.large.push_back((self.answered, reply_bytes));
            self.large_bytes += reply_bytes;
        }
        self.answered += 1;
    }
}
