//! Where latencies are counted.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::distribution::{Counts, Distribution, LONGEST_US, histogram};
use super::report::{Interval, LoadReport};
use quorate_core::planted;

/// The counts of one load. Counts nothing before [`Record::begin`] and after [`Record::end`].
pub(super) struct Record {
    began: Option<Instant>,
    ended: Option<Instant>,
    interval: Duration,
    latencies: Histogram<u64>,
    /// Of the interval `at`.
    current: Histogram<u64>,
    current_commands: u64,
    at: u32,
    series: Vec<Interval>,
    distributions: Vec<Counts>,
    submitted: u64,
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
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            began: None,
            ended: None,
            interval,
            latencies: histogram(),
            current: histogram(),
            current_commands: 0,
            at: 0,
            series: Vec::new(),
            distributions: Vec::new(),
            submitted: 0,
            commands: 0,
            wrong: 0,
            failed: 0,
            unanswered: 0,
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        self.began = Some(now);
    }

    /// Ends the measured time. A rest that is shorter than a twentieth of an interval is the end of
    /// the one before: timers are late.
    pub(super) fn end(&mut self, now: Instant) {
        let Some(began) = self.began else { return };
        let measured = now.saturating_duration_since(began);
        self.enter(measured.saturating_sub(self.interval / 20));
        if measured < self.interval * self.at + self.interval / 20 {
            self.open_last();
        }
        self.close(measured.saturating_sub(self.interval * self.at).as_secs_f64());
        self.ended = Some(now);
    }

    fn open_last(&mut self) {
        let Some((interval, counts)) = self.series.pop().zip(self.distributions.pop()) else {
            return;
        };
        counts.add_to(&mut self.current);
        self.current_commands += interval.commands;
        self.at -= 1;
    }

    /// Counts `count` commands that were given to a session.
    pub(super) fn submitted(&mut self, count: u64) {
        if self.is_measuring() {
            self.submitted += count;
        }
    }

    /// Counts `count` commands that all came to an end at `now`: in the goodput if that is while
    /// measuring.
    pub(super) fn finished(&mut self, now: Instant, count: u64, verdict: Verdict) {
        let Some(began) = self.began.filter(|_| self.ended.is_none()) else { return };
        match verdict {
            Verdict::Right => {
                self.enter(now.saturating_duration_since(began));
                self.commands += count;
                self.current_commands += count;
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
            self.current.saturating_record_n(latency_us.max(1), count);
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

    /// Closes every interval that is over `since` measuring began.
    fn enter(&mut self, since: Duration) {
        while self.interval * (self.at + 1) <= since {
            self.close(self.interval.as_secs_f64());
        }
    }

    fn close(&mut self, seconds: f64) {
        let at = (self.interval * self.at).as_secs_f64();
        self.series.push(Interval::new(at, seconds, self.current_commands, &self.current));
        self.distributions.push(Counts::of(&self.current));
        self.current.reset();
        self.current_commands = 0;
        self.at += 1;
    }

    /// Fills in the figures.
    pub(super) fn report(&self, report: &mut LoadReport) {
        let seconds = match (self.began, self.ended) {
            (Some(began), Some(ended)) => ended.saturating_duration_since(began),
            _ => Duration::ZERO,
        }
        .as_secs_f64();
        report.seconds = seconds;
        report.submitted = self.submitted;
        report.commands = self.commands;
        let answered = planted!("goodput-of-what-was-submitted", self.submitted, self.commands);
        report.goodput = if seconds > 0.0 { answered as f64 / seconds } else { 0.0 };
        report.note_latencies(&self.latencies);
        report.wrong = self.wrong;
        report.failed = self.failed;
        report.unanswered = self.unanswered;
        report.series = self.series.clone();
        report.distribution = Distribution {
            whole: Counts::of(&self.latencies),
            intervals: self.distributions.clone(),
        };
    }
}
