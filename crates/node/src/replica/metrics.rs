//! What a replica counts: read by status, metrics and the profile, written without locks where it
//! is hot.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorate_core::replica::Refused;
use quorate_core::replica::drive;
use quorate_transport::Counters;
use quorate_transport::measure::Measure;

use super::profile::{Profile, Stage};
use super::recent::Recent;
use super::watch::Watch;

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
            details: Mutex<Vec<(&'static str, u64)>>,
            /// Where the time goes.
            pub profile: Profile,
            /// The last committed blocks.
            pub recent: Recent,
            /// What the application is at.
            pub watch: Arc<Watch>,
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
    /// Times this replica voted again after it had given up on views.
    failed_views_left_total,
    /// Nanoseconds from giving up, at the last of them, to that vote: what a failed view costs
    /// beside its time-out.
    failed_views_left_nanoseconds_total,
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
    /// Bytes that they hold: of frames that have not arrived whole, of answers that have not left.
    client_held_bytes,
    /// Connected peers.
    connected_peers,
    /// The epoch: how many times the members have changed.
    epoch,
    /// The view up to which this replica abstains, 0 if it does not.
    abstain_until_view,
    /// 1 while this replica waits for testimonies after the loss of its data.
    rejoining,
    /// What the application's state takes, bytes by the application's measure.
    state_bytes,
    /// What it may take; 0 if it has no limit.
    state_limit_bytes,
    /// What the last snapshot of the state took, bytes; 0 if there is none, or the application
    /// keeps its state on disk.
    snapshot_bytes,
    /// What a snapshot may take for other replicas to take it over.
    snapshot_limit_bytes,
    /// Questions of clients that the application answered.
    queries_total,
    /// Nanoseconds in them, of the thread that answers.
    query_nanoseconds_total,
    /// Questions at which the application panicked.
    query_panics_total,
    /// Questions to which it gave an answer that was too long.
    query_answers_too_long_total,
    /// Proposals that carried another state root than this replica computed.
    state_root_differences_total,
    /// The height of the last such state, 0 if blocks were committed since.
    state_root_differs_at,
    /// Views with such proposals since blocks were committed last.
    state_root_differs_views,
    /// Spans of traces that the collector took.
    trace_spans_total,
    /// Spans that were dropped: too many waited, or the collector did not take them.
    trace_spans_dropped_total,
    /// Turns of the deciding loop.
    turns_total,
    /// Inputs it took.
    inputs_total,
);

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

    /// Sets the numbers that only this protocol has.
    pub fn set_details(&self, details: Vec<(&'static str, u64)>) {
        *self.details.lock().unwrap_or_else(PoisonError::into_inner) = details;
    }

    /// The numbers that only this protocol has, by name.
    #[must_use]
    pub fn details(&self) -> Vec<(&'static str, u64)> {
        self.details.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Those of a replica of `application`, whose transport counts in `counters`.
    #[must_use]
    pub fn beside(counters: &Counters, application: &str) -> Self {
        let watch = Arc::new(Watch::of(application));
        Self { profile: Profile::beside(counters), watch, ..Self::default() }
    }

    /// Every stage: its name, what it did, and how many threads may be in it at once.
    pub fn stages(&self) -> impl Iterator<Item = (&'static str, &Measure, u64)> {
        let of = |stage: Stage| {
            (stage.name(), self.profile.stage(stage), self.profile.threads(stage).get())
        };
        Stage::ALL.into_iter().map(of)
    }
}

/// Measures where the deciding thread's time goes. It reads the time when the stage changes, and
/// only then.
#[derive(Debug)]
pub struct StageClock {
    metrics: Arc<Metrics>,
    since: Instant,
    stage: Option<Stage>,
    /// Items of the visit, and the queue that it found; none: it goes on with an earlier one.
    load: Option<(u64, u64)>,
}

impl StageClock {
    /// A clock whose times are counted in `metrics`.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, since: Instant::now(), stage: None, load: None }
    }

    /// A stage of the drive loop begins.
    pub fn enter(&mut self, stage: drive::Stage, items: usize) {
        match stage {
            drive::Stage::Step => self.visit(Stage::Decide, items, items),
            drive::Stage::Persist => self.visit(Stage::Persist, items, items),
            drive::Stage::Release => self.go_on(Stage::Decide),
            drive::Stage::Execute => self.visit(Stage::Execute, items, items),
        }
    }

    /// A stage begins with so many items, where so many waited.
    pub fn visit(&mut self, stage: Stage, items: usize, waiting: usize) {
        let (mut items, mut waiting) = (items as u64, waiting as u64);
        if self.stage == Some(stage) {
            let (before, longest) = self.load.unwrap_or_default();
            items += before;
            waiting = waiting.max(longest);
        } else {
            self.turn(Some(stage));
        }
        self.load = Some((items, waiting));
    }

    /// More of a stage whose items are counted elsewhere, or were before.
    pub fn go_on(&mut self, stage: Stage) {
        if self.stage != Some(stage) {
            self.turn(Some(stage));
        }
    }

    /// The thread rests.
    pub fn rest(&mut self) {
        self.turn(None);
    }

    /// The same, if there was nothing to do since the last call: that was no visit.
    pub fn rest_from_nothing(&mut self) {
        (self.stage, self.load) = (None, None);
    }

    fn turn(&mut self, stage: Option<Stage>) {
        let now = Instant::now();
        if let Some(ended) = self.stage {
            let (measure, took) = (self.metrics.profile.stage(ended), now - self.since);
            match self.load {
                Some((items, waiting)) => measure.visit(took, items, waiting),
                None => measure.visits.extend(took),
            }
        }
        (self.since, self.stage, self.load) = (now, stage, None);
    }
}

/// A duration in whole nanoseconds.
#[must_use]
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The name under which a refusal is counted.
pub fn reason_name(reason: Refused) -> &'static str {
    use quorate_core::protocols::protocol::Malformed;
    match reason {
        Refused::Malformed(Malformed::UnknownSigner) => "unknown_signer",
        Refused::Malformed(Malformed::UnorderedSigners) => "unordered_signers",
        Refused::Malformed(Malformed::NoQuorum) => "no_quorum",
        Refused::Malformed(Malformed::NotGenesis) => "not_genesis",
        Refused::Malformed(Malformed::Contradiction) => "contradiction",
        Refused::Malformed(Malformed::WrongForm) => "wrong_form",
        Refused::Malformed(Malformed::WrongPhase) => "wrong_phase",
        Refused::Malformed(Malformed::WrongSender) => "wrong_sender",
        Refused::Malformed(Malformed::WrongEpoch) => "wrong_epoch",
        Refused::Malformed(Malformed::Stale) => "stale",
        Refused::Malformed(Malformed::Unasked) => "answer_unasked",
        Refused::BadSignature => "bad_signature",
        Refused::Unasked => "unasked",
        Refused::Unfit => "unfit",
        Refused::Flood => "flood",
    }
}
