//! How long a replica waits for a view to make progress.
//!
//! Three kinds, by their names in configuration:
//!
//! - **fixed**: always the same. For measurements: where the network is slower than that, no view
//!   ever succeeds.
//! - **exponential**: `base · multiplier ^ steps`, up to a longest wait. The steps are full waits
//!   that were lost in a row; the [pacemaker](super) says how a success takes them back.
//! - **adaptive**: the same with a base that was measured: four times what views
//!   [typically](super::measured) take, never below a floor nor above the configured base, which
//!   also stands in until [`ENOUGH`] views were measured.
//!
//! Adaptive waits are at most exponential ones. Liars can raise the measured base up to the
//! configured one, and above it only as they can with exponential waits.
//!
//! Why four times: a view is entered in several ways. By the certificate of the view before it, a
//! view takes two message delays; by a time-out certificate three, or five with the linear
//! pacemaker; two more where a body has to be fetched. The measured views are mostly of the first
//! kind.
//!
//! Integers only: the same durations give the same waits on every machine. Every wait is at least a
//! millisecond and at most [`LONGEST`], whatever was configured; a multiplier below 100 % counts
//! as 100 %.

use crate::base::types::Duration;

/// The longest wait there is: 2^50 nanoseconds, 13 days.
pub const LONGEST: Duration = Duration::from_nanos(LONGEST_NS);
/// So many successful views tell how long one takes.
pub const ENOUGH: usize = 10;
/// A wait is long enough if it is so many times what a view took.
pub(super) const AMPLE: u32 = 4;
/// Beyond so many steps a wait does not grow.
pub(super) const MAX_STEPS: u64 = 64;

const LONGEST_NS: u64 = 1 << 50;
const SHORTEST_NS: u64 = 1_000_000;

/// What the waits are made of. Each kind takes what it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waits {
    /// The first wait.
    pub base: Duration,
    /// How much longer each next wait is, in hundredths: 200 is twice as long.
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
            multiplier_percent: 200,
            floor: Duration::from_millis(25),
            max: Duration::from_secs(60),
        }
    }
}

/// How long to wait for a view to make progress. What that depends on is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Always the same.
    Fixed {
        /// The wait.
        base: Duration,
    },
    /// Longer with each full wait that was lost.
    Exponential {
        /// The first wait.
        base: Duration,
        /// How much longer each next wait is, in hundredths: 200 is twice as long.
        multiplier_percent: u32,
        /// The longest wait.
        max: Duration,
    },
    /// The same from what views lately took.
    Adaptive(Waits),
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
            "adaptive" => Some(Self::Adaptive(waits)),
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
            Self::Adaptive(waits) => waits.base,
        }
    }

    /// The wait after `steps`, where a view typically takes `typical` (`None`: not known yet).
    #[must_use]
    pub fn wait(&self, steps: u64, typical: Option<Duration>) -> Duration {
        let nanos = match self {
            Self::Fixed { base } => wait_nanos(*base),
            Self::Exponential { base, multiplier_percent, max } => {
                lengthened(wait_nanos(*base), *multiplier_percent, steps, wait_nanos(*max))
            }
            Self::Adaptive(Waits { base, multiplier_percent, floor, max }) => {
                let base = wait_nanos(*base);
                let measured = typical.map(|took| nanos(took.saturating_mul(AMPLE)));
                let start = measured.map_or(base, |start| start.max(wait_nanos(*floor)).min(base));
                lengthened(start, *multiplier_percent, steps, wait_nanos(*max))
            }
        };
        Duration::from_nanos(nanos)
    }

    /// The longest wait between two sendings of the same time-out.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let max = match self {
            Self::Fixed { base } => base.saturating_mul(64),
            Self::Exponential { max, .. } | Self::Adaptive(Waits { max, .. }) => *max,
        };
        Duration::from_nanos(wait_nanos(max.max(self.base())))
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
    let percent = mutant!("no-back-off", 100, percent.max(100));
    let mut wait = wait;
    for _ in 0..steps.min(MAX_STEPS) {
        if wait >= max {
            break;
        }
        let longer = u128::from(wait) * u128::from(percent) / 100;
        wait = u64::try_from(longer).unwrap_or(u64::MAX);
    }
    wait.min(max)
}
