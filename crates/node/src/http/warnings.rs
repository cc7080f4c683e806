//! What is wrong with a replica, as it sees it itself, and what to do.
//!
//! One list for everybody: `/status` has it, `/metrics` as `quorate_warning`, the dashboard and
//! `quorate top` show it, the alert rules in `deploy/` fire on it, and docs/operations.md has a
//! paragraph for each name.

use quorate_core::{Committee, ReplicaId};
use serde_json::{Value, json};

use super::history::{EVERY, Sample};
use super::memory::Memory;
use crate::replica::metrics::Metrics;
use crate::replica::watch::Place;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// The cluster, or this replica, does not serve.
    Critical,
    /// It serves, and somebody should act.
    Warning,
    /// It is so, and passes.
    Note,
}

impl Level {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Critical => "critical",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])+ $kind:ident = $name:literal, $level:ident;)*) => {
        /// What may be wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind {
            $($(#[doc = $doc])+ $kind,)*
        }

        impl Kind {
            /// All, worst first.
            pub const ALL: &[Self] = &[$(Self::$kind,)*];

            /// Its name: also that of its paragraph in docs/operations.md.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// How bad it is.
            #[must_use]
            pub const fn level(self) -> Level {
                match self { $(Self::$kind => Level::$level,)* }
            }
        }
    };
}

kinds!(
    /// Too few replicas reach each other.
    NoQuorum = "no-quorum", Critical;
    /// Replicas computed different states.
    StateRootDiffers = "state-root-differs", Critical;
    /// The application does not return from a call, and this replica takes part in nothing.
    ApplicationBlocks = "application-blocks", Critical;
    /// Frames wait and nothing is committed.
    Stalled = "stalled", Critical;
    /// The disk has no room for the log and one more snapshot.
    DiskFull = "disk-full", Critical;
    /// A replica has proposed or voted twice.
    Equivocation = "equivocation", Warning;
    /// A peer has no channel to this replica.
    PeerMissing = "peer-missing", Warning;
    /// Views end without a block.
    Timeouts = "timeouts", Warning;
    /// The state is near its limit.
    StateFull = "state-full", Warning;
    /// The last snapshot is near the limit up to which replicas take one over.
    SnapshotLarge = "snapshot-large", Warning;
    /// The process takes most of the memory that it may take.
    MemoryFull = "memory-full", Warning;
    /// Questions, or the writing of a snapshot, wait for the application.
    ApplicationSlow = "application-slow", Warning;
    /// The application panics on questions, or gives answers that are too long.
    BadAnswers = "bad-answers", Warning;
    /// Syncs of the log take long.
    SlowDisk = "slow-disk", Warning;
    /// This replica waits for testimonies after the loss of its data.
    Rejoining = "rejoining", Note;
    /// This replica may have voted in these views before it lost its data, and does not vote in
    /// them.
    Abstaining = "abstaining", Note;
);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// Which.
    pub kind: Kind,
    /// What is seen, with the numbers.
    pub what: String,
    /// What to do.
    pub remedy: &'static str,
}

impl Warning {
    /// The JSON object of `/status`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let Self { kind, what, remedy } = self;
        json!({ "name": kind.name(), "level": kind.level().name(), "what": what, "remedy": remedy })
    }
}

/// What is looked at.
pub(super) struct Look<'a> {
    pub me: ReplicaId,
    /// The committee.
    pub committee: Committee,
    /// Peers with an open channel.
    pub connected: &'a [ReplicaId],
    pub metrics: &'a Metrics,
    /// The last minute.
    pub minute: &'a [Sample],
    /// Bytes that the disk of the data folder has left, where the system says it.
    pub free_bytes: Option<u64>,
    /// What the process takes in memory, where the system says it.
    pub memory: Option<Memory>,
    /// Bytes that the log may take.
    pub log_window_bytes: u64,
}

/// Views given up in a minute from which on it is told.
const TIMEOUTS_A_MINUTE: u64 = 6;
/// Mean time of a sync from which on the disk is slow.
const SLOW_SYNC_MS: f64 = 50.0;
/// Syncs that such a mean needs.
const SYNCS: u64 = 10;
/// Samples without a commit, while frames wait, that make a stall: ten seconds.
const STALLED_SAMPLES: usize = (10 / EVERY.as_secs()) as usize;
/// A state above nine tenths of its limit is told, and so is a snapshot, and memory.
const TENTHS: u64 = 9;

fn is_nearly(used: u64, limit: u64) -> bool {
    limit > 0 && used / TENTHS >= limit / 10
}

impl Look<'_> {
    /// What is wrong, worst first.
    pub fn warnings(&self) -> Vec<Warning> {
        let found = |kind: &Kind| {
            let (what, remedy) = self.look_for(*kind)?;
            Some(Warning { kind: *kind, what, remedy })
        };
        Kind::ALL.iter().filter_map(found).collect()
    }

    fn look_for(&self, kind: Kind) -> Option<(String, &'static str)> {
        match kind {
            Kind::NoQuorum => self.no_quorum(),
            Kind::StateRootDiffers => self.state_root_differs(),
            Kind::ApplicationBlocks => self.application_blocks(),
            Kind::Stalled => self.stalled(),
            Kind::DiskFull => self.disk_full(),
            Kind::Equivocation => self.equivocation(),
            Kind::PeerMissing => self.peer_missing(),
            Kind::Timeouts => self.timeouts(),
            Kind::StateFull => self.state_full(),
            Kind::SnapshotLarge => self.snapshot_large(),
            Kind::MemoryFull => self.memory_full(),
            Kind::ApplicationSlow => self.application_slow(),
            Kind::BadAnswers => self.bad_answers(),
            Kind::SlowDisk => self.slow_disk(),
            Kind::Rejoining => (self.metrics.rejoining.get() != 0).then(|| {
                let what =
                    "waits for the others to say in which views it may have voted".to_owned();
                (what, "see that a quorum of other replicas runs and reaches this one")
            }),
            Kind::Abstaining => match self.metrics.abstain_until_view.get() {
                0 => None,
                view => {
                    let what = format!("does not vote up to view {view}: it lost its data");
                    Some((what, "nothing: the abstention ends by itself when the view is passed"))
                }
            },
        }
    }

    fn reached(&self) -> usize {
        let others = self.connected.iter().copied().filter(|id| *id != self.me);
        self.committee.weight_of(others.chain([self.me]))
    }

    fn quorum(&self) -> usize {
        self.committee.quorum()
    }

    fn no_quorum(&self) -> Option<(String, &'static str)> {
        (self.reached() < self.quorum()).then(|| {
            let (reached, quorum) = (self.reached(), self.quorum());
            let what =
                format!("reaches {reached} replicas, itself included, of {quorum} that make a quorum");
            (what, "start the replicas that are down (`quorate status` names them), or mend the network")
        })
    }

    fn state_root_differs(&self) -> Option<(String, &'static str)> {
        let faulty = self.committee.faults() as u64;
        (self.metrics.state_root_differs_views.get() > faulty).then(|| {
            let height = self.metrics.state_root_differs_at.get();
            let what = format!(
                "its state root at height {height} differs from those proposed, and nothing is committed"
            );
            (what, "the application is not deterministic, or one state is damaged: compare the roots \
                    in the logs of all replicas; make the odd one's state anew from the others")
        })
    }

    fn application_blocks(&self) -> Option<(String, &'static str)> {
        let lasts = self.metrics.watch.lasting(Place::Deciding)?;
        let what = format!("{lasts}, and this replica waits for it");
        Some((
            what,
            "see what it waits for or computes. Stopped (SIGTERM) the replica ends and names it; \
             nothing is lost. If every replica says the same command, mend the application, or leave \
             the command out: see \"application-blocks\" in docs/operations.md",
        ))
    }

    fn application_slow(&self) -> Option<(String, &'static str)> {
        let places = [
            (Place::Questions, "no other question is answered meanwhile"),
            (Place::Snapshots, "no peer is helped, and the log grows meanwhile"),
        ];
        let lasts = |(place, so)| Some((self.metrics.watch.lasting(place)?, so));
        let (lasts, so) = places.into_iter().find_map(lasts)?;
        let what = format!("{lasts}: {so}");
        Some((what, "bound what a question may cost, and how much there is to hand out"))
    }

    fn bad_answers(&self) -> Option<(String, &'static str)> {
        let panics = self.metrics.query_panics_total.get();
        let long = self.metrics.query_answers_too_long_total.get();
        (panics + long > 0).then(|| {
            let what = format!(
                "the application panicked on {panics} questions, and gave {long} answers that were \
                 too long; the clients were refused"
            );
            (what, "report it to the application's author; the log has the first ones")
        })
    }

    fn stalled(&self) -> Option<(String, &'static str)> {
        let last = self.minute.len().checked_sub(STALLED_SAMPLES + 1)?;
        let stretch = &self.minute[last..];
        let stands = stretch.iter().all(|one| one.height == stretch[0].height);
        let waits = stretch.iter().all(|one| one.waiting > 0);
        (stands && waits && self.reached() >= self.quorum()).then(|| {
            let (height, waiting) = (stretch[0].height, self.metrics.mempool_frames.get());
            let what = format!("{waiting} frames wait, and nothing was committed above height {height}");
            (what, "compare `quorate status` of all replicas: a view that grows at each means that \
                    leaders fail or messages are too late; see that clocks of time-outs fit the network")
        })
    }

    fn disk_full(&self) -> Option<(String, &'static str)> {
        let free = self.free_bytes?;
        (free < self.log_window_bytes).then(|| {
            let (free, window) = (free >> 20, self.log_window_bytes >> 20);
            let what = format!(
                "the data folder's disk has {free} MiB left; the log may grow by {window} MiB"
            );
            (what, "make room, or move the data folder; a replica ends rather than lose a vote")
        })
    }

    fn equivocation(&self) -> Option<(String, &'static str)> {
        let proposals = self.metrics.equivocations_total.get();
        let votes = self.metrics.double_votes_total.get();
        (proposals + votes > 0).then(|| {
            let what = format!("saw {proposals} views with two proposals and {votes} double votes");
            (
                what,
                "the log names the replica: it is faulty, or a second process uses its key; \
                    stop it, and find out which before it comes back",
            )
        })
    }

    fn peer_missing(&self) -> Option<(String, &'static str)> {
        let is_missing = |id: &ReplicaId| *id != self.me && !self.connected.contains(id);
        let missing: Vec<_> = self.committee.replicas().filter(is_missing).collect();
        (!missing.is_empty() && self.reached() >= self.quorum()).then(|| {
            let names = missing.iter().take(8).map(ToString::to_string).collect::<Vec<_>>();
            let more = if missing.len() > names.len() { " and more" } else { "" };
            let left = self.reached() - self.quorum();
            let what = format!(
                "no channel to replica {}{more}; {left} more may fail before nothing is ordered",
                names.join(", ")
            );
            (what, "look at that machine: does its process run, and do the two reach each other?")
        })
    }

    fn timeouts(&self) -> Option<(String, &'static str)> {
        let lost: u64 = self.minute.iter().map(|one| one.timeouts).sum();
        (lost >= TIMEOUTS_A_MINUTE).then(|| {
            let leader = self.metrics.gave_up_on.get();
            let what = format!(
                "gave up on {lost} views within a minute, the last of which replica {leader} led"
            );
            (
                what,
                "a leader is down or too slow, or messages come late: look at that replica's \
                    process, processor, disk and network",
            )
        })
    }

    fn state_full(&self) -> Option<(String, &'static str)> {
        let (used, limit) = (self.metrics.state_bytes.get(), self.metrics.state_limit_bytes.get());
        is_nearly(used, limit).then(|| {
            let (used, limit) = (used >> 20, limit >> 20);
            let what =
                format!("the state takes {used} of {limit} MiB; at the limit writes are refused");
            (
                what,
                "delete what is not needed (the replica of a larger process behind a pipe stops), \
                    or see \"The state's limit\" in docs/operations.md",
            )
        })
    }

    fn snapshot_large(&self) -> Option<(String, &'static str)> {
        let used = self.metrics.snapshot_bytes.get();
        let limit = self.metrics.snapshot_limit_bytes.get();
        is_nearly(used, limit).then(|| {
            let (used, limit) = (used >> 20, limit >> 20);
            let what = format!(
                "the last snapshot takes {used} of {limit} MiB; above the limit no replica that is \
                 behind can take the state over"
            );
            (
                what,
                "bound what clients can make the application keep, and have it removed; \
                    limits.max_snapshot_bytes is agreed on",
            )
        })
    }

    fn memory_full(&self) -> Option<(String, &'static str)> {
        let Memory { used_bytes, limit_bytes } = self.memory?;
        is_nearly(used_bytes, limit_bytes).then(|| {
            let (used, limit) = (used_bytes >> 20, limit_bytes >> 20);
            let what = format!("the process takes {used} of {limit} MiB of memory");
            (
                what,
                "give it more, or bound the application's state: the system ends a process that \
                    finds none, and what it had promised is on disk",
            )
        })
    }

    fn slow_disk(&self) -> Option<(String, &'static str)> {
        let syncs: u64 = self.minute.iter().map(|one| one.syncs).sum();
        let spent: f64 = self.minute.iter().map(|one| one.sync_ms * one.syncs as f64).sum();
        let mean = spent / syncs.max(1) as f64;
        (syncs >= SYNCS && mean > SLOW_SYNC_MS).then(|| {
            let what = format!("a sync of the log took {mean:.0} ms in the last minute");
            (what, "see what else writes to this disk; every vote waits for it")
        })
    }
}

#[cfg(test)]
mod tests;
