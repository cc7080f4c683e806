//! What the session table may hold.

use crate::base::wire::Encode;
use crate::ledger::frame::MAX_COMMANDS;

/// The bounds of the session table. They decide which frames execute, so all replicas of a chain
/// must have the same: the chain's identity covers their encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most sessions that live at a time.
    pub max_sessions: u32,
    /// How many blocks a session must have been idle before another may take its place.
    pub min_idle_blocks: u64,
    /// Most commands of one session whose replies are kept for retries.
    pub answer_commands: u32,
    /// Most bytes of replies kept for one session, [`ANSWER_OVERHEAD_BYTES`] a frame included.
    pub answer_bytes: u32,
    /// Most frames of one session that wait for a gap in its numbers to close.
    pub window_frames: u32,
    /// How far ahead of the next number a waiting frame may begin, in commands.
    pub window_commands: u64,
    /// Most encoded bytes of the waiting frames of one session.
    pub window_bytes: u32,
}

/// What a kept answer counts beside its replies: its place in the list and its allocation.
pub const ANSWER_OVERHEAD_BYTES: usize = 128;

/// After so many blocks that turned newcomers away, one session that was idle meanwhile gives way.
const TURNED_AWAY: u64 = 8;

/// A limit under which the table could not do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("sessions.{field} must be at least {least}")]
pub struct LimitsError {
    /// The field of [`Limits`].
    pub field: &'static str,
    /// The least value it may have.
    pub least: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_sessions: 1024,
            min_idle_blocks: 10_000,
            answer_commands: 16_384,
            answer_bytes: 1 << 20,
            window_frames: 256,
            window_commands: 65_536,
            window_bytes: 512 << 10,
        }
    }
}

impl Limits {
    /// Whether a table can work under these limits.
    ///
    /// # Errors
    /// [`LimitsError`] names the first field that is too small.
    pub fn check(&self) -> Result<(), LimitsError> {
        let least = [
            ("max_sessions", u64::from(self.max_sessions), 1),
            // A session must not expire in a block that has executed some of it.
            ("min_idle_blocks", self.min_idle_blocks, 1),
            // The answer to any frame fits, as far as its commands go.
            ("answer_commands", u64::from(self.answer_commands), MAX_COMMANDS as u64),
        ];
        match least.into_iter().find(|(_, value, least)| value < least) {
            Some((field, _, least)) => Err(LimitsError { field, least }),
            None => Ok(()),
        }
    }

    /// For how many blocks of idleness a block counts that turns newcomers away: so that a client
    /// which asks again twice a second comes in within seconds. Active clients keep their sessions:
    /// the one that was active longest ago gives way.
    #[must_use]
    pub fn waited_blocks(&self) -> u64 {
        (self.min_idle_blocks / TURNED_AWAY).max(1)
    }

    /// The most bytes of answers and waiting frames that a full table can hold.
    #[must_use]
    pub fn ceiling_bytes(&self) -> u64 {
        let session = u64::from(self.answer_bytes) + u64::from(self.window_bytes);
        u64::from(self.max_sessions).saturating_mul(session)
    }

    /// The most bytes that a full table takes in a snapshot.
    #[must_use]
    pub(crate) fn table_bytes(&self) -> u64 {
        // What stands before a session's answers, and before each waiting frame.
        let heads = 264 + 4 * u64::from(self.window_frames);
        self.ceiling_bytes().saturating_add(heads.saturating_mul(u64::from(self.max_sessions) + 1))
    }
}

impl Encode for Limits {
    fn encode(&self, out: &mut Vec<u8>) {
        self.max_sessions.encode(out);
        self.min_idle_blocks.encode(out);
        self.answer_commands.encode(out);
        self.answer_bytes.encode(out);
        self.window_frames.encode(out);
        self.window_commands.encode(out);
        self.window_bytes.encode(out);
    }
}
