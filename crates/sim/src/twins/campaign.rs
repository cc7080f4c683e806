//! Many runs, over all cores, that can be stopped at any time and gone on with.
//!
//! Scenarios are taken in chunks, in order; what came of them is added up in order as well, so that
//! a [`Progress`] says of the first so many scenarios what came of *all* of them, whatever the
//! number of cores and wherever the last run stopped.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use super::run::{Outcome, Plan, run};
use super::scenario::Scenario;
use super::space::{Numbers, Space};
use super::watch::Violation;

/// Scenarios in a chunk.
const CHUNK: u128 = 64;

/// Failures kept; what fails beyond them is counted only.
pub const MAX_FAILURES: usize = 1000;

/// Where scenarios come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// By number.
    Numbered(Box<Space>, Numbers),
    /// From files.
    Listed(Vec<Scenario>),
}

impl Source {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u128 {
        match self {
            Self::Numbered(_, numbers) => numbers.len(),
            Self::Listed(scenarios) => scenarios.len() as u128,
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The k-th, from 0.
    #[must_use]
    pub fn get(&self, k: u128) -> Option<Scenario> {
        match self {
            Self::Numbered(space, numbers) => space.scenario(numbers.get(k)?),
            Self::Listed(scenarios) => scenarios.get(usize::try_from(k).ok()?).cloned(),
        }
    }
}

/// What came of the scenarios so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Runs.
    pub scenarios: u128,
    /// In which a block of the script was committed before the script was over.
    pub committed: u64,
    /// In which certified blocks were on different branches.
    pub forked: u64,
    /// In which correct replicas heard two proposals of one leader in one view.
    pub equivocated: u64,
    /// In which one of them heard both.
    pub noticed: u64,
    /// In which something went wrong.
    pub failed: u64,
    /// The most views behind the script until all had committed.
    pub longest_suffix: u64,
    /// Messages that arrived.
    pub delivered: u64,
}

impl Totals {
    fn add(&mut self, other: &Self) {
        self.scenarios += other.scenarios;
        self.committed += other.committed;
        self.forked += other.forked;
        self.equivocated += other.equivocated;
        self.noticed += other.noticed;
        self.failed += other.failed;
        self.longest_suffix = self.longest_suffix.max(other.longest_suffix);
        self.delivered += other.delivered;
    }

    fn count(&mut self, outcome: &Outcome) {
        self.add(&Self {
            scenarios: 1,
            committed: u64::from(outcome.committed),
            forked: u64::from(outcome.forked),
            equivocated: u64::from(outcome.equivocated),
            noticed: u64::from(outcome.noticed),
            failed: u64::from(outcome.violation.is_some()),
            longest_suffix: outcome.suffix_views,
            delivered: outcome.delivered,
        });
    }
}

/// A scenario that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failed {
    /// Its place among the campaign's scenarios.
    pub place: u128,
    /// What went wrong.
    pub violation: Violation,
}

/// How far a campaign has come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// What came of the first `totals.scenarios` scenarios.
    pub totals: Totals,
    /// The first of those that failed, at most [`MAX_FAILURES`].
    pub failed: Vec<Failed>,
}

/// A campaign.
pub struct Campaign<'a> {
    /// How scenarios are run.
    pub plan: &'a Plan,
    /// Which.
    pub source: &'a Source,
    /// On so many threads.
    pub threads: usize,
    /// It ends when so many have failed.
    pub max_failures: u64,
}

impl Campaign<'_> {
    /// Goes on from `progress` until all scenarios have run, `stop` is set, or too many have
    /// failed. `tell` is called whenever some more have.
    #[must_use]
    pub fn run(
        &self,
        mut progress: Progress,
        stop: &AtomicBool,
        mut tell: impl FnMut(&Progress),
    ) -> Progress {
        let from = progress.totals.scenarios;
        let enough = AtomicBool::new(progress.totals.failed >= self.max_failures);
        let next = AtomicU64::new(0);
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                let (sender, next, enough) = (sender.clone(), &next, &enough);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) && !enough.load(Ordering::Relaxed) {
                        let chunk = next.fetch_add(1, Ordering::Relaxed);
                        let ran = self.run_chunk(from + u128::from(chunk) * CHUNK);
                        if ran.totals.scenarios == 0 || sender.send((chunk, ran)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(sender);
            let (mut early, mut due) = (BTreeMap::new(), 0);
            for (chunk, ran) in receiver {
                early.insert(chunk, ran);
                while let Some(ran) = early.remove(&due) {
                    due += 1;
                    progress.totals.add(&ran.totals);
                    let room = MAX_FAILURES.saturating_sub(progress.failed.len());
                    progress.failed.extend(ran.failed.into_iter().take(room));
                }
                if progress.totals.failed >= self.max_failures {
                    enough.store(true, Ordering::Relaxed);
                }
                tell(&progress);
            }
        });
        progress
    }

    fn run_chunk(&self, from: u128) -> Progress {
        let mut chunk = Progress::default();
        for place in from..from + CHUNK {
            let Some(scenario) = self.source.get(place) else { break };
            let outcome = run(self.plan, &scenario);
            chunk.totals.count(&outcome);
            if let Some(violation) = outcome.violation {
                chunk.failed.push(Failed { place, violation });
            }
        }
        chunk
    }
}
