//! What a replica counts: read by status, metrics and the profile, written without locks where it
//! is hot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::replica::drive::Stage;

/// A counter that only grows, or a gauge that is set.
#[derive(Debug, Default)]
pub struct Number(AtomicU64);

impl Number {
    /// Adds to it.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Adds one. Whether it is worth a line in the log: the first is, and each that doubles the
    /// number, so that no peer fills the log.
    pub fn note(&self) -> bool {
        (self.0.fetch_add(1, Ordering::Relaxed) + 1).is_power_of_two()
    }

    /// Sets it.
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }

    /// Its value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! numbers {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// The counters and gauges of a replica.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[doc = $doc])+ pub $name: Number,)*
            refused: Mutex<BTreeMap<&'static str, u64>>,
            sent: Mutex<BTreeMap<&'static str, (u64, u64)>>,
            stages: [Number; 5],
        }

        impl Metrics {
            /// Name, explanation and value of every number.
            #[must_use]
            pub fn numbers(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), concat!($($doc),+), self.$name.get()),)*]
            }
        }
    };
}

numbers!(
    /// The current view.
    view,
    /// The leader of the current view.
    leader,
    /// The committed height.
    committed_height,
    /// The height up to which blocks are executed.
    executed_height,
    /// Blocks above the committed head.
    uncommitted_blocks,
    /// Blocks committed since the start.
    committed_blocks_total,
    /// Committed blocks that carried commands.
    committed_full_blocks_total,
    /// Commands in committed blocks.
    committed_commands_total,
    /// Frames that wait.
    mempool_frames,
    /// Their bytes.
    mempool_bytes,
    /// Views this replica gave up on.
    timeouts_total,
    /// Proposals this replica made.
    proposals_total,
    /// Votes this replica cast.
    votes_total,
    /// Equivocations seen.
    equivocations_total,
    /// Votes seen for a second block in one view and phase.
    double_votes_total,
    /// Messages that this replica's adversary bent, withheld or made up (in a laboratory).
    adversary_deeds_total,
    /// Bytes the log takes on disk.
    log_bytes,
    /// Commits of the log.
    log_commits_total,
    /// Syncs of the log.
    log_syncs_total,
    /// Nanoseconds in them.
    log_sync_nanoseconds_total,
    /// Connections of clients.
    client_connections,
    /// Connected peers.
    connected_peers,
    /// The view up to which this replica abstains, 0 if it does not.
    abstain_until_view,
    /// 1 while this replica waits for testimonies after the loss of its data.
    rejoining,
    /// Turns of the deciding loop.
    turns_total,
    /// Inputs it took.
    inputs_total,
);

/// The stages whose time is counted, in the order of `stage_nanoseconds`.
pub const STAGES: [&str; 5] = ["decode", "step", "persist", "release", "execute"];

impl Metrics {
    /// Counts something refused, by reason.
    pub fn refuse(&self, reason: &'static str) {
        *self.refused.lock().unwrap_or_else(PoisonError::into_inner).entry(reason).or_default() +=
            1;
    }

    /// What was refused, by reason.
    #[must_use]
    pub fn refused(&self) -> BTreeMap<&'static str, u64> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts a message sent to one peer.
    pub fn sent(&self, kind: &'static str, bytes: usize) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, total) = sent.entry(kind).or_default();
        *count += 1;
        *total += bytes as u64;
    }

    /// Messages and bytes sent, by kind.
    #[must_use]
    pub fn sent_by_kind(&self) -> BTreeMap<&'static str, (u64, u64)> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Nanoseconds spent in each of [`STAGES`] by the deciding thread.
    #[must_use]
    pub fn stage_nanoseconds(&self) -> [u64; 5] {
        std::array::from_fn(|i| self.stages[i].get())
    }
}

/// Measures where the deciding thread's time goes.
#[derive(Debug)]
pub struct StageClock {
    since: Instant,
    stage: Option<usize>,
    spent: [u64; 5],
}

impl Default for StageClock {
    fn default() -> Self {
        Self { since: Instant::now(), stage: None, spent: [0; 5] }
    }
}

impl StageClock {
    /// Decoding begins.
    pub fn decode(&mut self) {
        self.turn(Some(0));
    }

    /// A stage of the drive loop begins.
    pub fn enter(&mut self, stage: Stage) {
        self.turn(Some(1 + stage as usize));
    }

    /// The thread rests; what was measured is published.
    pub fn rest(&mut self, metrics: &Metrics) {
        self.turn(None);
        for (total, spent) in metrics.stages.iter().zip(&mut self.spent) {
            total.add(std::mem::take(spent));
        }
    }

    fn turn(&mut self, stage: Option<usize>) {
        let now = Instant::now();
        if let Some(spent) = self.stage.and_then(|stage| self.spent.get_mut(stage)) {
            *spent += u64::try_from((now - self.since).as_nanos()).unwrap_or(u64::MAX);
        }
        (self.since, self.stage) = (now, stage);
    }
}

/// A duration in whole nanoseconds.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
