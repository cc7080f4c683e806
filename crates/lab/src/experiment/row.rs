//! What is kept of a run: one line of JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;

use quorate_netem::topology::Description;
use serde::{Deserialize, Serialize};

use super::attack::Under;
use super::axes::Point;
use super::context::Context;
use super::study::Measuring;
use crate::load::Interval;

/// With what a run is measured. Two runs of the same settings are repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// What is tried.
    pub point: Point,
    /// Seconds measured.
    pub seconds: f64,
    /// Least seconds of load before.
    pub warm_up: f64,
    /// Seconds from the start of the processes, if there is an adversary.
    pub settle: f64,
    /// Seconds of an interval.
    pub interval: f64,
    /// The emulated network, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Description>,
}

impl Settings {
    pub(super) fn new(point: Point, network: Option<Description>, measuring: &Measuring) -> Self {
        Self {
            point,
            network,
            seconds: measuring.duration.as_secs_f64(),
            warm_up: measuring.warm_up.as_secs_f64(),
            settle: measuring.settle.as_secs_f64(),
            interval: measuring.interval.as_secs_f64(),
        }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// With what it was measured.
    pub settings: Settings,
    /// Which of the repeats, from 0.
    pub repeat: u32,
    /// What random arrivals were drawn from.
    pub seed: u64,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// By what and where.
    pub context: Context,
    /// The machine's load averages before it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_before: Option<[f64; 3]>,
    /// Cores that others took while it was measured, mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreign_cores: Option<f64>,
    /// Cores that this machine wanted meanwhile, and its host gave to others, mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stolen_cores: Option<f64>,
    /// How long a core took for a signature before and after, in microseconds, mean: the machine's
    /// speed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature_us: Option<f64>,
    /// What came out, if it went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figures: Option<Figures>,
    /// Why it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Where its homes and logs are, if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<PathBuf>,
}

/// What came out of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// Commands submitted a second.
    pub throughput: f64,
    /// Right answers a second: f + 1 replicas gave the same.
    pub goodput: f64,
    /// Mean latency of a command, in milliseconds, from the time at which it was to be submitted.
    pub mean_ms: f64,
    /// Its standard deviation.
    pub deviation_ms: f64,
    /// Its median.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Commands answered rightly.
    pub commands: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Commands without an answer in the end.
    pub unanswered: u64,
    /// Commands in a block that has any, on average.
    pub commands_per_block: f64,
    /// Views a second.
    pub views_per_second: f64,
    /// Views given up, of all replicas together, a second.
    pub timeouts_per_second: f64,
    /// What a failed view costs beside its time-out, in milliseconds: from giving up to the next
    /// vote, mean of all replicas and failed views.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_view_ms: Option<f64>,
    /// Failed views that this is the mean of, counted at each replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_views: Option<u64>,
    /// Processor time of a replica, in microseconds a command, mean of all.
    pub replica_us: f64,
    /// Processor time of the load generator's sessions, in microseconds a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generator_us: Option<f64>,
    /// Time in each stage, in microseconds a command, mean of all replicas: by the clock and with
    /// what is waited for in it, of whichever threads do it. The sum is no processor time.
    pub stage_us: BTreeMap<String, f64>,
    /// Most memory of a replica in any interval, in MiB.
    pub memory_mib: f64,
    /// Disk of the largest data folder, in MiB.
    pub disk_mib: f64,
    /// How much later than asked for the emulated network delivered packets, if there was one,
    /// since it was up: the median, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_late_p50_ms: Option<f64>,
    /// 99th percentile of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_late_p99_ms: Option<f64>,
    /// Cores that the emulator took, mean since it was up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_cores: Option<f64>,
    /// Packets that it dropped though its links would not have: for want of room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_dropped: Option<u64>,
    /// The Byzantine replicas.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub liars: Vec<usize>,
    /// When they were.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub under: Vec<Under>,
    /// The replica that was killed, and when: seconds since measuring began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub killed: Option<(usize, f64)>,
    /// Interval by interval, as clients saw it.
    pub series: Vec<Interval>,
    /// Interval by interval, as replicas did: when it was asked, and what they said.
    pub samples: Samples,
    /// Latencies: the upper bound of each class in microseconds, and the commands in it.
    pub latencies: Vec<(u64, u64)>,
    /// The same of each interval.
    pub latencies_over_time: Vec<Vec<(u64, u64)>>,
    /// What makes the figures doubtful.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Numbers of replicas, asked again and again while a run was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Samples {
    /// When, in seconds since measuring began.
    pub at: Vec<f64>,
    /// By name: the highest of any replica of `committed_commands_total` and of what is no total;
    /// the sum of all replicas of other totals.
    pub values: BTreeMap<String, Vec<f64>>,
}

impl Figures {
    /// A figure of the run by its name; `stage_us.execute` for one of several. `goodput_before`,
    /// `goodput_under` and `goodput_after` are those of the intervals before the first fault,
    /// within an attack, and after the end of the first attack (or after the kill) without one.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<f64> {
        if let Some(phase) = name.strip_prefix("goodput_") {
            return self.goodput_of(phase);
        }
        if let Some(stage) = name.strip_prefix("stage_us.") {
            return self.stage_us.get(stage).copied();
        }
        let plain = Self {
            series: Vec::new(),
            samples: Samples::default(),
            latencies: Vec::new(),
            latencies_over_time: Vec::new(),
            ..self.clone()
        };
        serde_json::to_value(plain).ok()?.get(name)?.as_f64()
    }

    fn goodput_of(&self, phase: &str) -> Option<f64> {
        let killed = self.killed.map(|(_, at)| (at, at));
        let faults: Vec<(f64, f64)> =
            self.under.iter().map(|under| (under.from, under.to)).chain(killed).collect();
        let first = faults.iter().map(|(from, _)| *from).reduce(f64::min)?;
        let over = faults.iter().map(|(_, to)| *to).reduce(f64::min)?;
        let fits = |one: &&Interval| {
            let (from, to) = (one.at, one.at + one.seconds);
            let outside = faults.iter().all(|(begin, end)| to <= *begin || from >= *end);
            match phase {
                "before" => to <= first,
                "under" => faults.iter().any(|(begin, end)| from >= *begin && to <= *end),
                "after" => from >= over && outside,
                _ => false,
            }
        };
        let intervals: Vec<&Interval> = self.series.iter().filter(fits).collect();
        let seconds: f64 = intervals.iter().map(|one| one.seconds).sum();
        let commands: u64 = intervals.iter().map(|one| one.commands).sum();
        (seconds > 0.0).then(|| commands as f64 / seconds)
    }
}
