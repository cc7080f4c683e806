//! A pause in reading: the program above does not want to hear a connection for a while.
//!
//! The connection goes on writing. Its other side fills the socket's buffers, and then has to wait.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// Longest pause. It keeps the arithmetic of times from overflowing.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Until when a connection is not read. Any thread may prolong it; the connection's task obeys.
#[derive(Debug)]
pub(super) struct Pause {
    since: Instant,
    /// The end of the pause, in milliseconds after `since`; 0 if there was none.
    until: AtomicU64,
}

impl Default for Pause {
    fn default() -> Self {
        Self { since: Instant::now(), until: AtomicU64::new(0) }
    }
}

impl Pause {
    /// Does not read for `time` from now on. A longer pause that has begun stays.
    pub(super) fn last(&self, time: Duration) {
        let end = self.since.elapsed() + time.min(LONGEST);
        // Rounded up: a pause of less than a millisecond is one.
        let end = u64::try_from(end.as_millis()).unwrap_or(u64::MAX - 1) + 1;
        self.until.fetch_max(end, Ordering::Relaxed);
    }

    /// When the pause ends, if one lasts.
    pub(super) fn end(&self) -> Option<Instant> {
        match self.until.load(Ordering::Relaxed) {
            0 => None,
            end => self
                .since
                .checked_add(Duration::from_millis(end))
                .filter(|end| *end > Instant::now()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_pause_counts() {
        const HOUR: Duration = Duration::from_secs(3600);
        let pause = Pause::default();
        assert_eq!(pause.end(), None);
        pause.last(HOUR);
        let end = pause.end().unwrap();
        pause.last(HOUR / 2);
        assert_eq!(pause.end(), Some(end));
        pause.last(2 * HOUR);
        assert!(pause.end().unwrap() > end);
        pause.last(Duration::MAX);
        assert!(pause.end().unwrap() - end < 2 * LONGEST);
    }
}
