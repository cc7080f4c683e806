//! When to ask, and when to propose.

use crate::base::types::{Duration, Time};
use crate::ledger::block::BlockId;
use crate::protocols::snow::random::Random;

/// After an unsuccessful poll the next begins so much later ...
const PAUSE: Duration = Duration::from_millis(4);
/// ... and after each further one twice as late, so often.
const MAX_DOUBLINGS: u32 = 6;

/// When the next poll may begin.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    /// The next poll begins then at the earliest.
    pub next: Time,
    /// Unsuccessful polls in a row.
    failures: u32,
}

impl Pace {
    /// There is something new to ask about.
    pub fn hurry(&mut self) {
        *self = Self::default();
    }

    /// No poll before this instant.
    pub fn wait_until(&mut self, time: Time) {
        self.next = self.next.max(time);
    }

    /// A poll has ended.
    pub fn ended(&mut self, now: Time, successful: bool, random: &mut Random) {
        if successful {
            self.failures = 0;
            return;
        }
        let pause = PAUSE * (1 << self.failures.min(MAX_DOUBLINGS));
        let jitter = random.below(pause.as_nanos() as u64 + 1);
        self.failures = self.failures.saturating_add(1);
        self.wait_until(Time(now.after(pause / 2).0.saturating_add(jitter)));
    }
}

/// Where this replica stands in the order of those who may extend a block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Turn {
    /// The block, and since when there is something to put on it.
    pub of: Option<(BlockId, Time)>,
    /// When it is this replica's turn, if that is to come.
    pub due: Option<Time>,
    /// There may be something that was not proposed yet.
    pub is_open: bool,
}

impl Turn {
    /// Work may have arrived.
    pub fn open(&mut self) {
        self.is_open = true;
    }
}
