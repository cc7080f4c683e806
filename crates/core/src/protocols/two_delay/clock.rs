//! When a replica gives up waiting in a view, and when a leader shows the last commit.

use crate::base::types::{Duration, Time};

/// How long a replica waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first wait in a view; each view in a row that was given up doubles it.
    pub base: Duration,
    /// No wait is longer.
    pub max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

/// A leader without commands waits for so small a part of the wait before it proposes an empty
/// block above one that is not committed: second votes may still come.
const FILL_PART: u32 = 8;
/// Waits are doubled so often at most.
const MAX_DOUBLINGS: u32 = 16;

/// The timer of a view. It runs while there is something to wait for.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    patience: Patience,
    /// Views in a row that were given up.
    failures: u32,
    since: Option<Time>,
    /// When the leader may show the last commit, until that time has come.
    fill: Option<Time>,
}

impl Clock {
    /// Nothing is waited for.
    pub fn new(patience: Patience) -> Self {
        Self { patience, failures: 0, since: None, fill: None }
    }

    fn wait(&self) -> Duration {
        let doubled = self.patience.base.saturating_mul(1 << self.failures.min(MAX_DOUBLINGS));
        doubled.min(self.patience.max)
    }

    /// Whether something is waited for from now on.
    pub fn set(&mut self, now: Time, waits: bool) {
        if !waits {
            (self.since, self.fill) = (None, None);
        } else if self.since.is_none() {
            self.since = Some(now);
            self.fill = Some(now.after(self.wait() / FILL_PART));
        }
    }

    /// A view begins, behind one that was given up or not.
    pub fn entered(&mut self, behind_failure: bool) {
        (self.since, self.fill) = (None, None);
        if behind_failure {
            self.failures = self.failures.saturating_add(1);
        }
    }

    /// A block was committed.
    pub fn progressed(&mut self) {
        self.failures = 0;
    }

    /// Whether the wait is over; then the next one begins.
    pub fn has_run_out(&mut self, now: Time) -> bool {
        self.fill.take_if(|fill| now >= *fill);
        let is_over = self.since.is_some_and(|since| now >= since.after(self.wait()));
        if is_over {
            self.since = Some(now);
        }
        is_over
    }

    /// Whether a leader may show the last commit by an empty block.
    pub fn may_fill(&self) -> bool {
        self.since.is_some() && self.fill.is_none()
    }

    /// The next instant at which one of the two is due.
    pub fn deadline(&self) -> Option<Time> {
        let over = self.since.map(|since| since.after(self.wait()));
        over.into_iter().chain(self.fill).min()
    }
}
