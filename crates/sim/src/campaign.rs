//! Many seeds on all cores, for a given time, with what came of them.
//!
//! The only place of this crate that knows threads and a clock: worlds know neither.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::cluster::Cluster;
use crate::family::Family;
use crate::swarm::{self, Plan, Tally};
use crate::trace::Trace;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The first seed; the others follow.
    pub first: u64,
    /// So many seeds at most.
    pub seeds: u64,
    /// No seed is begun after so long.
    pub time: Option<Duration>,
    /// Threads.
    pub threads: usize,
    /// It ends after so many violations.
    pub most_violations: usize,
    /// What every seed is to be.
    pub plan: Plan,
}

/// A seed in which an oracle found something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The seed.
    pub seed: u64,
    /// The oracle: `no panic` where the code itself gave up.
    pub oracle: &'static str,
    /// What it says.
    pub what: String,
    /// How much had happened by then.
    pub events: u64,
}

/// The oracles, as violations begin with their names.
pub const ORACLES: [&str; 14] = [
    "agreement",
    "validity",
    "exactly once",
    "votes",
    "proposals",
    "state",
    "acknowledged",
    "liveness",
    "memory",
    "traffic",
    "invariant",
    "epochs",
    "linearizable",
    "no panic",
];

/// What came of a campaign.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// All that happened, in the runs without a violation.
    pub tally: Tally,
    /// What oracles found, by seed.
    pub violations: Vec<Violation>,
    /// The seed that would have come next.
    pub next: u64,
    /// Of all that happened in all runs, with violations or without, whatever their order: the same
    /// seeds of the same version give the same.
    pub trace: u64,
}

/// What goes on, for a live line.
#[derive(Debug, Default)]
pub struct Progress {
    report: Mutex<Report>,
    stop: AtomicBool,
}

impl Progress {
    /// So far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.lock().clone()
    }

    /// No further seed is begun.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Campaign {
    /// Runs it; whoever holds `progress` may look, or stop it.
    ///
    /// # Panics
    /// Never by itself: what panics in a world is a violation. The caller silences the panic hook
    /// if it does not want to see them.
    pub fn run<F: Family>(&self, progress: &Progress) -> Report {
        let next = AtomicU64::new(self.first);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| {
                    while !progress.stop.load(Ordering::Relaxed)
                        && self.time.is_none_or(|time| began.elapsed() < time)
                    {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        if seed - self.first >= self.seeds {
                            return;
                        }
                        self.run_one::<F>(seed, progress);
                    }
                });
            }
        });
        let mut report = progress.report();
        report.next = next.load(Ordering::Relaxed).min(self.first.saturating_add(self.seeds));
        report.violations.sort_by_key(|violation| violation.seed);
        report
    }

    fn run_one<F: Family>(&self, seed: u64, progress: &Progress) {
        let (outcome, cluster) = run::<F>(seed, &self.plan, Trace::default());
        let trace = cluster.as_ref().map_or(0, Cluster::trace_hash);
        drop(cluster);
        let mut report = progress.lock();
        report.trace = report.trace.wrapping_add(trace);
        match outcome {
            Ok(tally) => report.tally.add(&tally),
            Err(violation) => {
                report.violations.push(violation);
                if report.violations.len() >= self.most_violations {
                    progress.stop();
                }
            }
        }
    }
}

/// Runs one seed, and hands over the cluster as it was in the end.
pub fn run<F: Family>(
    seed: u64,
    plan: &Plan,
    trace: Trace,
) -> (Result<Tally, Violation>, Option<Cluster<F>>) {
    let mut place = None;
    let outcome = catch_unwind(AssertUnwindSafe(|| swarm::run(seed, plan, trace, &mut place)));
    let outcome = outcome.map_err(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("");
        let (oracle, what) = judged(text);
        let events = place.as_ref().map_or(0, |cluster| cluster.steps);
        Violation { seed, oracle, what: what.to_owned(), events }
    });
    (outcome, place)
}

/// Which oracle says so, and what.
#[must_use]
pub fn judged(text: &str) -> (&'static str, &str) {
    // How `assert_eq!` begins.
    let said = text.strip_prefix("assertion `left == right` failed: ").unwrap_or(text);
    ORACLES
        .iter()
        .find_map(|oracle| Some((*oracle, said.strip_prefix(oracle)?.strip_prefix(": ")?)))
        .unwrap_or(("no panic", text))
}
