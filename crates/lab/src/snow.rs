//! Studies of the Snow family, on virtual time and by the exact analysis: each gives tables and
//! pictures. `quorate snow study` runs them; docs/studies-snow.md says what came of them.
//!
//! Everything follows from the seed, but for the figures about this machine.

mod chart;
mod each;
mod failure;
mod informed;
mod liveness;
mod parameters;
mod payments;
mod rounds;
mod spends;
mod table;
pub mod world;

use quorate_core::protocols::snow::parameters::Invalid;

use crate::plot::{Picture, PlotError};
pub use table::Table;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// To see that it works: seconds.
    Quick,
    /// To be quoted: minutes.
    Full,
}

impl Extent {
    /// One or the other.
    fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Self::Quick => quick,
            Self::Full => full,
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// How much is run.
    pub extent: Extent,
    /// The first seed.
    pub seed: u64,
    /// Double spends inside the promised share, if not what the extent says.
    pub attempts: Option<u64>,
}

/// What came of a study.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Its rows, by the name of their file.
    pub tables: Vec<(&'static str, Table)>,
    /// What is drawn of them.
    pub pictures: Vec<Picture>,
    /// What a reader should know first.
    pub says: Vec<String>,
}

/// Why there is nothing.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// Numbers that cannot be used.
    #[error(transparent)]
    Numbers(#[from] Invalid),
    /// A picture.
    #[error("cannot draw: {0}")]
    Plot(#[from] PlotError),
}

/// A study.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    run: fn(&Request) -> Result<Found, StudyError>,
}

impl Study {
    /// Runs it. The same seed gives the same rows again.
    ///
    /// # Errors
    /// [`StudyError`].
    pub fn run(&self, request: &Request) -> Result<Found, StudyError> {
        (self.run)(request)
    }
}

/// All of them.
pub static ALL: [Study; 7] = [
    Study {
        name: "failure",
        about: "failure probability against the share of faulty nodes, beside Bitcoin's",
        run: failure::run,
    },
    Study { name: "rounds", about: "polls to convergence against n", run: rounds::run },
    Study {
        name: "liveness",
        about: "a payment under attack, with the white paper's counters and without",
        run: liveness::run,
    },
    Study {
        name: "informed",
        about: "the number of informed adversaries that keeps nodes from deciding, against n",
        run: informed::run,
    },
    Study {
        name: "parameters",
        about: "the share of faulty nodes that k, alpha and beta allow",
        run: parameters::run,
    },
    Study {
        name: "spends",
        about: "double spends inside the promised share, and the share at which they succeed",
        run: spends::run,
    },
    Study {
        name: "payments",
        about: "throughput and latency of payments against n, in one place and in 20 cities",
        run: payments::run,
    },
];
