//! When adversaries act, on the clock of a run and on that of their process.

use std::time::Duration;

use quorate_adversary::Schedule;
use serde::{Deserialize, Serialize};

/// A span of a run in which replicas were Byzantine, in seconds since measuring began.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Under {
    /// Which adversary.
    pub adversary: String,
    /// From then on.
    pub from: f64,
    /// Until then.
    pub to: f64,
}

/// Every span within `duration` in which a part of `schedule` acts, by when it begins.
#[must_use]
pub fn spans(schedule: &Schedule, duration: Duration) -> Vec<Under> {
    let mut spans = Vec::new();
    for (name, window) in schedule.parts() {
        let mut begin = Duration::ZERO;
        while begin + window.from < duration {
            let to = window.to.map_or(window.period, Some).map_or(duration, |to| begin + to);
            spans.push(Under {
                adversary: name.to_owned(),
                from: (begin + window.from).as_secs_f64(),
                to: to.min(duration).as_secs_f64(),
            });
            match window.period.filter(|period| !period.is_zero()) {
                Some(period) => begin += period,
                None => break,
            }
        }
    }
    spans.sort_by(|a, b| a.from.total_cmp(&b.from));
    spans
}

/// The same for a process that starts `settle` before measuring begins: nothing happens before, and
/// nothing after. Each span becomes an adversary of its own: one that learns begins anew.
#[must_use]
pub fn of_process(spans: &[Under], settle: Duration) -> String {
    let ms = |seconds: f64| settle.as_millis() + (seconds * 1e3).round() as u128;
    let part = |span: &Under| format!("{}@{}ms..{}ms", span.adversary, ms(span.from), ms(span.to));
    spans.iter().map(part).collect::<Vec<_>>().join(",")
}
