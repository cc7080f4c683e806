//! When a replica gives up on a view, and when it asks for what it may have missed.

use crate::base::types::{Duration, Time};

/// How long a replica waits for a block to be executed before it gives up on the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// The first wait; each view change in a row doubles it (section 4.4 of the paper).
    pub base: Duration,
    /// No wait is longer.
    pub max: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { base: Duration::from_secs(1), max: Duration::from_secs(60) }
    }
}

/// The first wait before what may be lost is asked for ...
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// ... and how often that is doubled at most.
const MAX_DOUBLINGS: u32 = 5;
/// A wait is at least so many times as long as blocks took lately.
const MARGIN: u32 = 4;

/// The timers of a replica. Both run only while it waits for something.
#[derive(Clone, Debug)]
pub(super) struct Clock {
    patience: Patience,
    /// View changes in a row in which nothing was executed.
    failures: u32,
    /// How long blocks took lately, at the longest.
    slowest: Duration,
    /// Since when it waits: the view timer.
    since: Option<Time>,
    /// When it asks again, and how often it did.
    repeat: Option<(Time, u32)>,
}

impl Clock {
    /// Nothing is waited for.
    pub fn new(patience: Patience) -> Self {
        Self { patience, failures: 0, slowest: Duration::ZERO, since: None, repeat: None }
    }

    fn wait(&self) -> Duration {
        let doubled = self.patience.base.saturating_mul(1 << self.failures.min(16));
        doubled.max(self.slowest * MARGIN).min(self.patience.max)
    }

    /// Whether something is waited for from now on, and whether the view's primary is to blame if
    /// it does not come.
    pub fn set(&mut self, now: Time, waits: bool, is_timed: bool) {
        if !waits {
            (self.since, self.repeat) = (None, None);
            return;
        }
        self.repeat.get_or_insert((now.after(REPEAT_AFTER), 0));
        if is_timed {
            self.since.get_or_insert(now);
        } else {
            self.since = None;
        }
    }

    /// A block was committed: only that counts as progress, no message does.
    pub fn progressed(&mut self, now: Time) {
        if let Some(since) = self.since.take() {
            // It fades by an eighth a block.
            self.slowest = now.since(since).max(self.slowest * 7 / 8);
        }
        (self.failures, self.repeat) = (0, None);
    }

    /// A view is given up.
    pub fn failed(&mut self) {
        self.failures = self.failures.saturating_add(1);
        (self.since, self.repeat) = (None, None);
    }

    /// A view begins.
    pub fn entered(&mut self) {
        (self.since, self.repeat) = (None, None);
    }

    /// Whether the view timer has run out.
    pub fn has_run_out(&self, now: Time) -> bool {
        self.since.is_some_and(|since| now >= since.after(self.wait()))
    }

    /// Whether it is time to ask for what may be lost: then the next time is set.
    pub fn repeats(&mut self, now: Time) -> bool {
        match self.repeat {
            Some((due, times)) if now >= due => {
                let next = times.saturating_add(1);
                let wait = REPEAT_AFTER * (1 << next.min(MAX_DOUBLINGS));
                self.repeat = Some((now.after(wait), next));
                true
            }
            _ => false,
        }
    }

    /// The next instant at which one of the two is due.
    pub fn deadline(&self) -> Option<Time> {
        let view = self.since.map(|since| since.after(self.wait()));
        view.into_iter().chain(self.repeat.map(|(due, _)| due)).min()
    }
}
