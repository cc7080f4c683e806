//! What a load found out.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::distribution::{Counts, Distribution, histogram};
use quorate_core::planted;

/// The figures of one load. Latencies are those of single commands, in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadReport {
    /// What the caller says is measured.
    pub protocol: String,
    /// How many replicas there are.
    pub n: usize,
    /// Most commands in a frame.
    pub batch: usize,
    /// Bytes of payload in a command.
    pub payload: usize,
    /// Client sessions.
    pub clients: usize,
    /// Most frames of one session in flight.
    pub outstanding: usize,
    /// Commands a second that were to be submitted; `None` in a closed loop.
    pub rate: Option<f64>,
    /// Seconds measured, warm-up excluded.
    pub seconds: f64,
    /// Commands submitted while measured.
    pub submitted: u64,
    /// Commands answered rightly while measured.
    pub commands: u64,
    /// Right answers a second.
    pub goodput: f64,
    /// Mean latency.
    pub mean_ms: f64,
    /// Standard deviation of the latency.
    pub deviation_ms: f64,
    /// Median latency.
    pub p50_ms: f64,
    /// 90th percentile.
    pub p90_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// 99.9th percentile.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Commands with a reply that is not the expected one. Anything but 0 is a bug of the cluster.
    pub wrong: u64,
    /// Commands that failed.
    pub failed: u64,
    /// Commands without an answer when the load ended. An open loop counts them in the latencies
    /// with the time they had waited by then, which is less than the truth.
    pub unanswered: u64,
    /// Processor time of the thread that does all the sessions' work, in microseconds a command;
    /// `None` where the system does not tell.
    pub generator_us: Option<f64>,
    /// Interval by interval.
    pub series: Vec<Interval>,
    /// What makes the figures doubtful.
    pub warnings: Vec<String>,
    /// Every latency: what several reports are put together from. Large; not written.
    #[serde(skip)]
    pub distribution: Distribution,
}

/// The figures of one interval. What was answered in it counts, whenever it was submitted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, in seconds since measuring began.
    pub at: f64,
    /// How long it was; the last one may be cut short.
    pub seconds: f64,
    /// Commands answered in it.
    pub commands: u64,
    /// Median latency of those.
    pub p50_ms: f64,
    /// 90th percentile of their latency.
    pub p90_ms: f64,
    /// 99th percentile of their latency.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Interval {
    pub(super) fn new(at: f64, seconds: f64, commands: u64, latencies: &Histogram<u64>) -> Self {
        let quantile = |quantile| ms(latencies.value_at_quantile(quantile));
        Self {
            at,
            seconds,
            commands,
            p50_ms: quantile(0.5),
            p90_ms: quantile(0.9),
            p99_ms: quantile(0.99),
            max_ms: ms(latencies.max()),
        }
    }

    /// Whether a latency was measured in it. Without one they are all 0; what is measured never is.
    /// An open loop answers commands that were to be submitted before measuring began: they count
    /// without a latency.
    #[must_use]
    pub fn has_latencies(&self) -> bool {
        self.max_ms > 0.0
    }
}

impl LoadReport {
    pub(super) fn note_latencies(&mut self, latencies: &Histogram<u64>) {
        let quantile = |quantile| ms(latencies.value_at_quantile(quantile));
        self.mean_ms = latencies.mean() / 1000.0;
        self.deviation_ms = latencies.stdev() / 1000.0;
        self.p50_ms = quantile(0.5);
        self.p90_ms = quantile(0.9);
        self.p99_ms = quantile(0.99);
        self.p999_ms = quantile(0.999);
        self.max_ms = ms(latencies.max());
    }

    /// What several processes measured at the same time, as if one had. `None` of none.
    #[must_use]
    pub fn together(reports: &[Self]) -> Option<Self> {
        let first = reports.first()?;
        let sum = |of: fn(&Self) -> u64| reports.iter().map(of).sum::<u64>();
        let commands = sum(|report| report.commands);
        let seconds = reports.iter().map(|report| report.seconds).fold(0.0, f64::max);
        let mut whole = histogram();
        for report in reports {
            report.distribution.whole.add_to(&mut whole);
        }
        let generator = |report: &Self| Some(report.generator_us? * report.commands as f64);
        let spent: Option<f64> = reports.iter().map(generator).sum();
        let rates: Option<f64> = reports.iter().map(|report| report.rate).sum();
        let mut warnings: Vec<String> =
            reports.iter().flat_map(|report| report.warnings.iter().cloned()).collect();
        warnings.sort();
        warnings.dedup();
        let mut together = Self {
            clients: reports.iter().map(|report| report.clients).sum(),
            rate: rates,
            seconds,
            submitted: sum(|report| report.submitted),
            commands,
            goodput: reports.iter().map(|report| report.goodput).sum(),
            wrong: planted!("wrong-of-one-process", first.wrong, sum(|report| report.wrong)),
            failed: sum(|report| report.failed),
            unanswered: sum(|report| report.unanswered),
            generator_us: spent.filter(|_| commands > 0).map(|us| us / commands as f64),
            warnings,
            ..first.clone()
        };
        together.note_latencies(&whole);
        together.distribution.whole = Counts::of(&whole);
        together.join_series(reports);
        Some(together)
    }

    fn join_series(&mut self, reports: &[Self]) {
        let longest = reports.iter().map(|report| report.series.len()).max().unwrap_or(0);
        (self.series, self.distribution.intervals) = (Vec::new(), Vec::new());
        for index in 0..longest {
            let parts = || reports.iter().filter_map(|report| report.series.get(index));
            let mut latencies = histogram();
            let counts =
                reports.iter().filter_map(|report| report.distribution.intervals.get(index));
            counts.for_each(|counts| counts.add_to(&mut latencies));
            let at = parts().map(|part| part.at).next().unwrap_or_default();
            let seconds = parts().map(|part| part.seconds).fold(0.0, f64::max);
            let commands = parts().map(|part| part.commands).sum();
            self.series.push(Interval::new(at, seconds, commands, &latencies));
            self.distribution.intervals.push(Counts::of(&latencies));
        }
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}
