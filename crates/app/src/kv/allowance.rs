//! What the commands of one block may cost together.

use std::collections::VecDeque;

use quorate_core::frame::MAX_COMMANDS;

use super::{BLOCK_ALLOWANCE_BYTES, FRAME_REPLY_BYTES, MAX_REPLY_BYTES};

/// Replies up to this length are not counted one by one: [`UNCOUNTED_BYTES`] is set aside for them.
const SMALL_REPLY_BYTES: usize = 240;
/// Room for a whole frame of small replies with their lengths, and for what the longest reply may
/// take beyond its limit: its head, and one key.
const UNCOUNTED_BYTES: usize = MAX_COMMANDS * (SMALL_REPLY_BYTES + 4) + (128 << 10);
/// What large replies may come to among as many commands as a frame may hold, for another one to
/// be begun.
const WINDOW_BYTES: usize = FRAME_REPLY_BYTES - MAX_REPLY_BYTES - UNCOUNTED_BYTES;

/// What is left to a block's costly commands.
///
/// The store does not see where frames begin and end. But a frame's commands stand together in a
/// block, so what holds for every run of [`MAX_COMMANDS`] commands holds for every frame.
pub(super) struct Allowance {
    left_bytes: usize,
    /// How many commands were answered.
    answered: usize,
    /// The large replies among the last commands: which command's, and how long.
    large: VecDeque<(usize, usize)>,
    /// The sum of their lengths.
    large_bytes: usize,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            left_bytes: BLOCK_ALLOWANCE_BYTES,
            answered: 0,
            large: VecDeque::new(),
            large_bytes: 0,
        }
    }
}

impl Allowance {
    /// Whether one more costly command may be executed.
    pub(super) fn admits(&mut self) -> bool {
        while let Some(&(command, bytes)) = self.large.front()
            && command + MAX_COMMANDS <= self.answered
        {
            self.large.pop_front();
            self.large_bytes -= bytes;
        }
        self.left_bytes > 0 && self.large_bytes < WINDOW_BYTES
    }

    /// Counts work that leaves nothing in the reply.
    pub(super) fn spend(&mut self, bytes: usize) {
        self.left_bytes = self.left_bytes.saturating_sub(bytes);
    }

    /// Counts the reply to the next command.
    pub(super) fn answered(&mut self, reply_bytes: usize) {
        self.spend(reply_bytes);
        if reply_bytes > SMALL_REPLY_BYTES {
            self.large.push_back((self.answered, reply_bytes));
            self.large_bytes += reply_bytes;
        }
        self.answered += 1;
    }
}
