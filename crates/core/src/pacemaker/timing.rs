//! How long a replica waits for a view to make progress.
//!
//! Three kinds, by their names in configuration:
//!
//! - **fixed**: always the same. For measurements: where the network is slower than that, no view
//!   ever succeeds.
//! - **exponential** (DiemBFT v4): `base · multiplier ^ max(view − committed view −
//!   depth, 0)`, up to a longest wait. Counted from the last *commit*, so that an empty certificate
//!   does not reset it.
//! - **adaptive**: the mean of the last hundred successful views plus 1.96 of their standard
//!   deviations, which 39 of 40 would keep if they were normally distributed, times a multiplier
//!   for each time-out in a row. Never below a floor nor above a cap; before [`ENOUGH`] views were
//!   measured, the base stands for the measured time.
//!
//! Rules of the adaptive kind that the words above leave open:
//! - **What ends a row of time-outs.** Only views that ended in time are measured, so when the
//!   network turns slow the measured time does not. Were the row ended by the next success, the
//!   view after it would time out again, and three in a row would never succeed. So a success
//!   shortens the row to the fewest time-outs whose wait would have covered it: to none if it
//!   came within the measured time. After some twenty views of the new length the measured time
//!   has caught up.
//! - The floor holds for the measured time, before it is multiplied: each time-out lengthens the
//!   wait, however short the views were.
//! - Liars that take each of their views to the edge of the wait raise it, up to the cap, if they
//!   lead more than a fifth of the views: with p the share, by p + 1.96 √(p·(1 − p)) in a hundred
//!   views. The cap is what such leaders can cost; the exponential kind has no such weakness.
//!
//! Integers only: the same durations give the same waits on every machine. Every wait is at least a
//! millisecond and at most [`LONGEST`], whatever was configured; a multiplier below 100 % counts
//! as 100 %.

use std::collections::VecDeque;

use crate::types::{Duration, View};

/// The longest wait there is: 2^50 nanoseconds, 13 days.
pub const LONGEST: Duration = Duration::from_nanos(LONGEST_NS);
/// So many successful views tell how long one takes.
pub const ENOUGH: usize = 10;

// Bounds the sums of the adaptive kind: a hundred squares of this are below 2^107.
const LONGEST_NS: u64 = 1 << 50;
const SHORTEST_NS: u64 = 1_000_000;
/// How many successful views are remembered.
const WINDOW: usize = 100;
/// Beyond so many steps a wait does not grow.
const MAX_STEPS: u64 = 64;

/// What the waits are made of. Each kind takes what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The first wait.
    pub base: Duration,
    /// How much longer each next wait is, in hundredths: 150 is half as long again.
    pub multiplier_percent: u32,
    /// The shortest wait that is adapted to.
    pub floor: Duration,
    /// The longest wait.
    pub max: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(250),
            multiplier_percent: 150,
            floor: Duration::from_millis(25),
            max: Duration::from_secs(10),
        }
    }
}

/// How long to wait for a view to make progress, and what that depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Always the same.
    Fixed {
        /// The wait.
        base: Duration,
    },
    /// Longer with each view since the last commit.
    Exponential {
        /// The first wait.
        base: Duration,
        /// How much longer each next wait is, in hundredths: 150 is half as long again.
        multiplier_percent: u32,
        /// The longest wait.
        max: Duration,
    },
    /// As long as views lately took.
    Adaptive(Adaptive),
}

impl Default for Timing {
    fn default() -> Self {
        let Waits { base, multiplier_percent, max, .. } = Waits::default();
        Self::Exponential { base, multiplier_percent, max }
    }
}

impl Timing {
    /// The names in configuration.
    #[must_use]
    pub const fn names() -> [&'static str; 3] {
        ["fixed", "exponential", "adaptive"]
    }

    /// The kind called `name`, made of `waits`, if there is one.
    #[must_use]
    pub fn named(name: &str, waits: Waits) -> Option<Self> {
        let Waits { base, multiplier_percent, max, .. } = waits;
        match name {
            "fixed" => Some(Self::Fixed { base }),
            "exponential" => Some(Self::Exponential { base, multiplier_percent, max }),
            "adaptive" => Some(Self::Adaptive(Adaptive::new(waits))),
            _ => None,
        }
    }

    /// Its name in configuration.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Fixed { .. } => "fixed",
            Self::Exponential { .. } => "exponential",
            Self::Adaptive(_) => "adaptive",
        }
    }

    /// The wait where nothing went wrong and nothing was measured.
    #[must_use]
    pub fn base(&self) -> Duration {
        match self {
            Self::Fixed { base } | Self::Exponential { base, .. } => *base,
            Self::Adaptive(adaptive) => adaptive.waits.base,
        }
    }

    /// The wait for `view` when the last committed block is of `committed` and a commit takes
    /// `depth` views.
    #[must_use]
    pub fn wait(&self, view: View, committed: View, depth: u64) -> Duration {
        let nanos = match self {
            Self::Fixed { base } => wait_nanos(*base),
            Self::Exponential { base, multiplier_percent, max } => {
                let steps = view.0.saturating_sub(committed.0).saturating_sub(depth);
                let (percent, max) = (*multiplier_percent, wait_nanos(*max));
                lengthened(wait_nanos(*base), mutant!("no-back-off", 100, percent), steps, max)
            }
            Self::Adaptive(adaptive) => adaptive.after(adaptive.time_outs),
        };
        Duration::from_nanos(nanos)
    }

    /// Notes that a view made progress `duration` after it was entered. Not to be told of views in
    /// which there was nothing to do: their duration says nothing.
    pub fn succeeded(&mut self, duration: Duration) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.succeeded(duration);
        }
    }

    /// Notes that a view was given up: once a view, however often the time-out is sent again.
    pub fn timed_out(&mut self) {
        if let Self::Adaptive(adaptive) = self {
            adaptive.time_outs = (adaptive.time_outs + 1).min(MAX_STEPS);
        }
    }
}

/// What the adaptive kind remembers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adaptive {
    waits: Waits,
    /// What the last successful views took, oldest first, in nanoseconds.
    durations: VecDeque<u64>,
    /// Of `durations`.
    sum: u128,
    /// Of the squares of `durations`.
    squares: u128,
    /// How many views in a row were given up, at most [`MAX_STEPS`]; shorter after a success.
    time_outs: u64,
}

impl Adaptive {
    /// Before any view.
    #[must_use]
    pub fn new(waits: Waits) -> Self {
        Self { waits, durations: VecDeque::new(), sum: 0, squares: 0, time_outs: 0 }
    }

    fn succeeded(&mut self, duration: Duration) {
        let duration = nanos(duration);
        let covering = (0..self.time_outs).find(|time_outs| self.after(*time_outs) >= duration);
        self.time_outs = covering.unwrap_or(self.time_outs);
        if self.durations.len() == WINDOW
            && let Some(oldest) = self.durations.pop_front()
        {
            self.sum -= u128::from(oldest);
            self.squares -= u128::from(oldest).pow(2);
        }
        self.durations.push_back(duration);
        self.sum += u128::from(duration);
        self.squares += u128::from(duration).pow(2);
    }

    /// The wait after so many time-outs in a row.
    fn after(&self, time_outs: u64) -> u64 {
        let Waits { floor, max, multiplier_percent, .. } = self.waits;
        let start = self.measured().max(wait_nanos(floor));
        lengthened(start, multiplier_percent, time_outs, wait_nanos(max))
    }

    /// Mean and 1.96 standard deviations of the last successful views. With S and Q the sums of the
    /// w durations and of their squares this is (S + 1.96 · √(w·Q − S²)) / w. By Cauchy and Schwarz
    /// w·Q ≥ S², and both are below 2^114.
    fn measured(&self) -> u64 {
        let count = self.durations.len() as u128;
        if self.durations.len() < ENOUGH {
            return wait_nanos(self.waits.base);
        }
        let spread = (count * self.squares - self.sum.pow(2)).isqrt();
        let measured = (100 * self.sum + 196 * spread).div_ceil(100 * count);
        u64::try_from(measured).unwrap_or(LONGEST_NS)
    }
}

/// A configured wait, within the bounds that hold for all.
fn wait_nanos(wait: Duration) -> u64 {
    nanos(wait).max(SHORTEST_NS)
}

/// In nanoseconds, [`LONGEST`] at most.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX).min(LONGEST_NS)
}

/// `wait` after so many steps, each `percent` of the one before, up to `max`.
fn lengthened(wait: u64, percent: u32, steps: u64, max: u64) -> u64 {
    let mut wait = wait;
    for _ in 0..steps.min(MAX_STEPS) {
        if wait >= max {
            break;
        }
        let longer = u128::from(wait) * u128::from(percent.max(100)) / 100;
        wait = u64::try_from(longer).unwrap_or(u64::MAX);
    }
    wait.min(max)
}
