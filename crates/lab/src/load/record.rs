//! Where latencies are counted.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::report::{LoadReport, Second};

/// Latencies are counted in microseconds, to three digits, up to ten minutes.
const LONGEST_US: u64 = 600_000_000;

/// The counts of one load. Counts nothing before [`Record::begin`] and after [`Record::end`].
pub(super) struct Record {
    began: Option<Instant>,
    ended: Option<Instant>,
    latencies: Histogram<u64>,
    second: Histogram<u64>,
    second_at: u64,
    series: Vec<Second>,
    commands: u64,
    wrong: u64,
    failed: u64,
    unanswered: u64,
}

/// What became of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    Failed,
}

impl Record {
    pub(super) fn new() -> Self {
        let histogram = || {
            let Ok(histogram) = Histogram::new_with_bounds(1, LONGEST_US, 3) else {
                unreachable!("the bounds are constants that the histogram allows");
            };
            histogram
        };
        Self {
            began: None,
            ended: None,
            latencies: histogram(),
            second: histogram(),
            second_at: 0,
            series: Vec::new(),
            commands: 0,
            wrong: 0,
            failed: 0,
            unanswered: 0,
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    pub(super) fn end(&mut self, now: Instant) {
        let Some(began) = self.began else { return };
        let measured = now.saturating_duration_since(began);
        self.enter_second(measured.as_secs());
        if measured.subsec_nanos() > 0 {
            self.close_second(f64::from(measured.subsec_nanos()) / 1e9);
        }
        self.ended = Some(now);
    }

    /// Counts `count` commands that all came to an end at `now`: in the goodput if that is while
    /// measuring.
    pub(super) fn finished(&mut self, now: Instant, count: u64, verdict: Verdict) {
        let Some(began) = self.began.filter(|_| self.ended.is_none()) else { return };
        match verdict {
            Verdict::Right => {
                self.enter_second(now.saturating_duration_since(began).as_secs());
                self.commands += count;
            }
            Verdict::Wrong => self.wrong += count,
            Verdict::Failed => self.failed += count,
        }
    }

    /// Counts the latency of `count` commands that began at `since`.
    pub(super) fn latency(&mut self, since: Instant, now: Instant, count: u64) {
        let latency = now.saturating_duration_since(since);
        let latency_us = u64::try_from(latency.as_micros()).unwrap_or(LONGEST_US);
        self.latencies.saturating_record_n(latency_us.max(1), count);
        if self.ended.is_none() {
            self.second.saturating_record_n(latency_us.max(1), count);
        }
    }

    pub(super) fn unanswered(&mut self, count: u64) {
        self.unanswered += count;
    }

    /// Whether what began at `since` belongs to the measured time.
    pub(super) fn measures(&self, since: Instant) -> bool {
        self.began.is_some_and(|began| since >= began)
            && self.ended.is_none_or(|ended| since < ended)
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    fn enter_second(&mut self, at: u64) {
        while self.second_at < at {
            self.close_second(1.0);
        }
    }

    fn close_second(&mut self, seconds: f64) {
        self.series.push(Second {
            at: self.second_at,
            seconds,
            commands: self.second.len(),
            p50_ms: ms(self.second.value_at_quantile(0.5)),
            p99_ms: ms(self.second.value_at_quantile(0.99)),
        });
        self.second.reset();
        self.second_at += 1;
    }

    /// Fills in the figures.
    pub(super) fn report(&self, report: &mut LoadReport) {
        let seconds = match (self.began, self.ended) {
            (Some(began), Some(ended)) => ended.saturating_duration_since(began),
            _ => Duration::ZERO,
        }
        .as_secs_f64();
        let quantile = |at| ms(self.latencies.value_at_quantile(at));
        report.seconds = seconds;
        report.commands = self.commands;
        report.goodput = if seconds > 0.0 { self.commands as f64 / seconds } else { 0.0 };
        report.mean_ms = self.latencies.mean() / 1000.0;
        report.deviation_ms = self.latencies.stdev() / 1000.0;
        report.p50_ms = quantile(0.5);
        report.p90_ms = quantile(0.9);
        report.p99_ms = quantile(0.99);
        report.p999_ms = quantile(0.999);
        report.max_ms = ms(self.latencies.max());
        report.wrong = self.wrong;
        report.failed = self.failed;
        report.unanswered = self.unanswered;
        report.series = self.series.clone();
    }
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}
