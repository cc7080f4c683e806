//! The open loop: a thread of its own submits what is due, whatever is answered.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate_node::client::Client;

use super::record::{Record, Verdict};
use super::{Arrivals, Bench};
use crate::random::Random;
use quorate_core::planted;

/// Arrivals closer together than this are submitted together.
const TICK: Duration = Duration::from_micros(250);
/// Submitted so much later than intended, a command counts as late.
const LATE: Duration = Duration::from_millis(5);
/// What part of the commands may be late before there is a warning.
const LATE_SHARE: f64 = 0.01;

/// The intended times of the commands of batches under way.
pub(super) type UnderWay = HashMap<usize, Arc<[Instant]>>;

/// How well the generator kept its times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    submitted: u64,
    late: u64,
}

impl Pace {
    /// Counts commands that were to be submitted at these times, and are now.
    fn note(&mut self, due: &[Instant], now: Instant) {
        self.submitted += due.len() as u64;
        let late = |intended: &&Instant| now.saturating_duration_since(**intended) > LATE;
        self.late += due.iter().filter(late).count() as u64;
    }

    pub(super) fn warning(&self) -> Option<String> {
        let share = self.late as f64 / self.submitted.max(1) as f64;
        (share > LATE_SHARE).then(|| {
            format!(
                "the generator did not keep its rate: {:.1} % of the commands were submitted \
                 more than {LATE:?} late",
                100.0 * share
            )
        })
    }
}

/// The thread that keeps the time.
pub(super) struct Pacer {
    thread: JoinHandle<Pace>,
}

impl Pacer {
    /// Waits for the thread, which stops with the bench, without holding up the sessions.
    pub(super) async fn join(self) -> Pace {
        while !self.thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        self.thread.join().unwrap_or_default()
    }
}

/// Starts to submit, to all sessions in turn, what arrives.
pub(super) fn start(
    bench: &Arc<Bench>,
    clients: &[Client],
    arrivals: Arrivals,
) -> std::io::Result<Pacer> {
    let (bench, clients) = (bench.clone(), clients.to_vec());
    let body = move || pace(&bench, &clients, Schedule::new(arrivals, Instant::now()));
    Ok(Pacer { thread: std::thread::Builder::new().name("arrivals".into()).spawn(body)? })
}

fn pace(bench: &Arc<Bench>, clients: &[Client], mut schedule: Schedule) -> Pace {
    let mut pace = Pace::default();
    let mut sessions = clients.iter().cycle();
    while !bench.stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        let due = schedule.due(now, bench.workload.batch_commands());
        if due.is_empty() {
            std::thread::sleep((schedule.next - now).clamp(TICK, Duration::from_millis(10)));
            continue;
        }
        let measuring = {
            let mut record = bench.record();
            record.submitted(due.len() as u64);
            record.is_measuring()
        };
        if measuring {
            pace.note(&due, now);
        }
        if let Some(client) = sessions.next() {
            submit(bench, client, due.into());
        }
    }
    pace
}

fn submit(bench: &Arc<Bench>, client: &Client, intended: Arc<[Instant]>) {
    let turn = bench.next_turn();
    let batch = bench.workload.commands(turn, intended.len());
    bench.under_way.fetch_add(1, Ordering::Relaxed);
    under_way(bench).insert(turn, intended);
    let bench = bench.clone();
    client.submit_then(batch, None, move |result| {
        let now = Instant::now();
        let verdict = bench.verdict(turn, &result);
        let Some(intended) = under_way(&bench).remove(&turn) else { return };
        settle(&mut bench.record(), &intended, now, verdict);
        bench.under_way.fetch_sub(1, Ordering::Relaxed);
    });
}

/// Counts commands that were to be submitted at these times and came to an end now.
pub(super) fn settle(record: &mut Record, intended: &[Instant], now: Instant, verdict: Verdict) {
    record.finished(now, intended.len() as u64, verdict);
    if verdict == Verdict::Right {
        for at in intended {
            if record.measures(*at) {
                let since = planted!("latency-of-the-end-of-a-batch", now, *at);
                record.latency(since, now, 1);
            }
        }
    }
}

/// Counts what was to be answered and never was.
pub(super) fn count_unanswered(bench: &Bench) {
    let left = std::mem::take(&mut *under_way(bench));
    let left = left.values().flat_map(|intended| intended.iter());
    leave(&mut bench.record(), left, Instant::now());
}

pub(super) fn leave<'a>(
    record: &mut Record,
    left: impl Iterator<Item = &'a Instant>,
    now: Instant,
) {
    for intended in left {
        if record.measures(*intended) {
            record.latency(*intended, now, 1);
            record.unanswered(1);
        }
    }
}

fn under_way(bench: &Bench) -> MutexGuard<'_, UnderWay> {
    let open: &Mutex<UnderWay> = &bench.open;
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// When commands are to be submitted.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    start: Instant,
    /// Seconds from the start to `next`.
    at: f64,
    pub(super) next: Instant,
    interval: f64,
    random: Option<Random>,
}

impl Schedule {
    pub(super) fn new(arrivals: Arrivals, start: Instant) -> Self {
        let interval = 1.0 / arrivals.rate().unwrap_or(1.0);
        let random = match arrivals {
            Arrivals::Poisson { seed, .. } => Some(Random(seed)),
            Arrivals::Closed | Arrivals::Even { .. } => None,
        };
        Self { start, at: 0.0, next: start, interval, random }
    }

    /// The times that have come by `now`, `most` of them at most; moves on behind them.
    fn due(&mut self, now: Instant, most: usize) -> Vec<Instant> {
        let mut due = Vec::new();
        while self.next <= now && due.len() < most {
            due.push(self.advance());
        }
        due
    }

    /// The next intended time; moves on to the one after it.
    pub(super) fn advance(&mut self) -> Instant {
        let gap = match &mut self.random {
            Some(random) => -random.unit().ln(),
            None => 1.0,
        };
        self.at += gap * self.interval;
        std::mem::replace(&mut self.next, self.start + Duration::from_secs_f64(self.at))
    }
}

#[cfg(test)]
mod tests;
