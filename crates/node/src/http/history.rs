//! `/history`: the last hour of a replica, a sample every five seconds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::Facts;
use crate::replica::metrics::Metrics;

/// Time from sample to sample.
pub(super) const EVERY: Duration = Duration::from_secs(5);
/// How many are kept: an hour.
const KEPT: usize = 720;

/// What a replica did in the five seconds before a moment, and how it was then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// Seconds since 1970.
    pub unix_s: u64,
    /// Commands executed, a second.
    pub commands_per_s: f64,
    /// Blocks committed, a second.
    pub blocks_per_s: f64,
    /// Half of the followed frames were answered within this, milliseconds; none if none was
    /// followed.
    pub p50_ms: Option<f64>,
    /// The same of 99 in 100.
    pub p99_ms: Option<f64>,
    /// The committed height.
    pub height: u64,
    /// The view.
    pub view: u64,
    /// Views given up.
    pub timeouts: u64,
    /// Frames that waited in the mempool.
    pub waiting: u64,
    /// Peers with an open channel.
    pub peers: u64,
    /// Connections of clients.
    pub clients: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Syncs of the log.
    pub syncs: u64,
    /// Mean time of a sync, milliseconds; 0 if there was none.
    pub sync_ms: f64,
}

/// The counters when the last sample was taken.
#[derive(Debug)]
struct Before {
    at: Instant,
    commands: u64,
    blocks: u64,
    timeouts: u64,
    syncs: u64,
    sync_ns: u64,
    answered: Vec<(u64, u64)>,
}

impl Before {
    fn now(metrics: &Metrics) -> Self {
        Self {
            at: Instant::now(),
            commands: metrics.committed_commands_total.get(),
            blocks: metrics.committed_blocks_total.get(),
            timeouts: metrics.timeouts_total.get(),
            syncs: metrics.log_syncs_total.get(),
            sync_ns: metrics.log_sync_nanoseconds_total.get(),
            answered: metrics.profile.answered.classes(),
        }
    }
}

/// The samples, oldest first.
#[derive(Debug, Default)]
pub(super) struct History {
    samples: Mutex<VecDeque<Sample>>,
}

impl History {
    /// Adds one, and drops the oldest above the bound.
    pub fn push(&self, sample: Sample) {
        let mut samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() == KEPT {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The last `n`, oldest first.
    pub fn last(&self, n: usize) -> Vec<Sample> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        samples.iter().skip(samples.len().saturating_sub(n)).copied().collect()
    }

    /// The JSON object: one list a column.
    pub fn to_json(&self) -> Value {
        let samples = self.last(KEPT);
        let column = |of: &dyn Fn(&Sample) -> Value| samples.iter().map(of).collect::<Vec<_>>();
        json!({
            "every_s": EVERY.as_secs(),
            "unix_s": column(&|one| json!(one.unix_s)),
            "commands_per_s": column(&|one| json!(one.commands_per_s)),
            "blocks_per_s": column(&|one| json!(one.blocks_per_s)),
            "p50_ms": column(&|one| json!(one.p50_ms)),
            "p99_ms": column(&|one| json!(one.p99_ms)),
            "height": column(&|one| json!(one.height)),
            "view": column(&|one| json!(one.view)),
            "timeouts": column(&|one| json!(one.timeouts)),
            "waiting": column(&|one| json!(one.waiting)),
            "peers": column(&|one| json!(one.peers)),
            "clients": column(&|one| json!(one.clients)),
            "log_bytes": column(&|one| json!(one.log_bytes)),
            "syncs": column(&|one| json!(one.syncs)),
            "sync_ms": column(&|one| json!(one.sync_ms)),
        })
    }
}

/// Takes samples until the task is dropped.
pub(super) async fn keep(facts: Arc<Facts>) {
    let mut before = Before::now(&facts.metrics);
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    tick.tick().await;
    loop {
        tick.tick().await;
        let now = Before::now(&facts.metrics);
        facts.history.push(sample(&facts.metrics, &before, &now));
        before = now;
        for news in facts.metrics.watch.news() {
            tracing::error!("{news}: see \"application-blocks\" in docs/operations.md");
        }
    }
}

fn sample(metrics: &Metrics, before: &Before, now: &Before) -> Sample {
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64().max(0.001);
    let rate = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
    let syncs = now.syncs.saturating_sub(before.syncs);
    let sync_ns = now.sync_ns.saturating_sub(before.sync_ns);
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let answered = difference(&before.answered, &now.answered);
    let quantile = |share: f64| quantile_ns(&answered, share).map(|ns| ns as f64 / 1e6);
    Sample {
        unix_s: unix.as_secs(),
        commands_per_s: rate(before.commands, now.commands),
        blocks_per_s: rate(before.blocks, now.blocks),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        height: metrics.committed_height.get(),
        view: metrics.view.get(),
        timeouts: now.timeouts.saturating_sub(before.timeouts),
        waiting: metrics.mempool_frames.get(),
        peers: metrics.connected_peers.get(),
        clients: metrics.client_connections.get(),
        log_bytes: metrics.log_bytes.get(),
        syncs,
        sync_ms: if syncs == 0 { 0.0 } else { sync_ns as f64 / syncs as f64 / 1e6 },
    }
}

/// What came to each class of durations between two readings of a histogram.
fn difference(before: &[(u64, u64)], now: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let of = |bound: u64| before.iter().find(|(other, _)| *other == bound).map_or(0, |(_, n)| *n);
    now.iter().map(|(bound, n)| (*bound, n.saturating_sub(of(*bound)))).collect()
}

/// The upper bound of the class in which this share of the durations ends; none if there are none.
fn quantile_ns(classes: &[(u64, u64)], share: f64) -> Option<u64> {
    let count: u64 = classes.iter().map(|(_, n)| n).sum();
    let wanted = (share * count as f64).ceil().max(1.0) as u64;
    let mut seen = 0;
    classes.iter().find_map(|(bound, n)| {
        seen += n;
        (seen >= wanted).then_some(*bound)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_of_what_came_since() {
        let (before, now) = ([(8, 90), (16, 10)], [(8, 90), (16, 108), (32, 2)]);
        let since = difference(&before, &now);
        assert_eq!(since, [(8, 0), (16, 98), (32, 2)]);
        assert_eq!((quantile_ns(&since, 0.5), quantile_ns(&since, 0.99)), (Some(16), Some(32)));
        assert_eq!(quantile_ns(&difference(&now, &now), 0.5), None);
    }

    #[test]
    fn an_hour_is_kept() {
        let history = History::default();
        for height in 0..1000 {
            history.push(Sample { height, ..Sample::default() });
        }
        let kept = history.last(usize::MAX);
        assert_eq!((kept.len(), kept[0].height, kept[KEPT - 1].height), (KEPT, 280, 999));
        assert_eq!(history.to_json()["height"].as_array().map(Vec::len), Some(KEPT));
    }
}
