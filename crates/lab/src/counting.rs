//! A load that shows whether anything was lost or done twice.
//!
//! Each client owns counters that nobody else touches and increments them, several frames in
//! flight. Commands of a session are executed in order, each exactly once, so the reply to every
//! increment is known beforehand: one more than the last. At the end all counters are read back
//! through the cluster, by a session of its own: each must hold every acknowledged increment, and
//! none twice. Increments whose fate the client library could not tell (none, as long as it is
//! never told to give up) are counted apart and may be in or not.

use quorate_core::planted;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use quorate_app::kv::{command::encode, reply::Reply};
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::{ClientError, Packed};
use quorate_crypto::SecretKey;
use quorate_node::client::{Client, ClientConfig};

/// Counters of one client: each of its frames increments all of them once.
const COUNTERS: usize = 50;
/// The key of the counter that [`Counting::probe`] uses.
const PROBE: &[u8] = b"probe";

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Client sessions.
    pub clients: usize,
    /// Frames of a session in flight.
    pub outstanding: usize,
}

impl Size {
    /// Commands under way, of all sessions together.
    #[must_use]
    pub const fn commands(self) -> usize {
        self.clients * self.outstanding * COUNTERS
    }
}

/// What happened in one interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// How long it was, in seconds.
    pub seconds: f64,
    /// Increments acknowledged in it.
    pub acknowledged: u64,
    /// Median latency of those, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The longest time in it without an acknowledgement, in milliseconds.
    pub gap_ms: f64,
}

/// What came of it all.
#[derive(Clone, Copy, Debug, Default)]
pub struct Verdict {
    /// Increments acknowledged.
    pub acknowledged: u64,
    /// Increments acknowledged that are not in the counters.
    pub lost: u64,
    /// Increments that are in the counters and were never asked for, or twice.
    pub duplicated: u64,
    /// Increments of which is not known whether they were executed.
    pub ambiguous: u64,
    /// Increments that were provably not executed, because the session ended.
    pub failed: u64,
    /// Replies other than the only right one.
    pub wrong: u64,
    /// Increments acknowledged a second.
    pub throughput: f64,
    /// Median latency, in milliseconds.
    pub p50_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Verdict {
    /// Whether every answer was right.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.lost == 0 && self.duplicated == 0 && self.wrong == 0
    }
}

/// Why it could not be told.
#[derive(Debug, thiserror::Error)]
pub enum CountingError {
    /// A client was turned down or could not submit.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The system gave no randomness for a key.
    #[error("no key can be made: {0}")]
    Key(String),
    /// The cluster did not answer in time.
    #[error("the cluster does not answer: {what} after {patience:?}")]
    Late {
        /// What was waited for.
        what: &'static str,
        /// How long.
        patience: Duration,
    },
    /// A counter holds something else than a number.
    #[error("a counter holds something else than a number")]
    NotANumber,
}

struct Record {
    began: Instant,
    all: Histogram<u64>,
    interval: Histogram<u64>,
    interval_began: Instant,
    interval_count: u64,
    interval_gap: Duration,
    /// When the last acknowledgement came, or the interval began.
    last: Instant,
    acknowledged: u64,
    wrong: u64,
}

impl Record {
    fn new(now: Instant) -> Self {
        let histogram = || {
            let Ok(histogram) = Histogram::new_with_bounds(1, 600_000_000, 3) else {
                unreachable!("the bounds are constants that the histogram allows");
            };
            histogram
        };
        Self {
            began: now,
            all: histogram(),
            interval: histogram(),
            interval_began: now,
            interval_count: 0,
            interval_gap: Duration::ZERO,
            last: now,
            acknowledged: 0,
            wrong: 0,
        }
    }

    fn acknowledge(&mut self, submitted: Instant, now: Instant, wrong: u64) {
        let latency = now.saturating_duration_since(submitted);
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.interval_gap = self.interval_gap.max(now.saturating_duration_since(self.last));
        self.last = now;
        self.all.saturating_record(us);
        self.interval.saturating_record(us);
        self.interval_count += COUNTERS as u64;
        self.acknowledged += COUNTERS as u64;
        self.wrong += wrong;
    }

    /// What happened since this was asked last; another interval begins.
    fn interval(&mut self, now: Instant) -> Interval {
        let gap = self.interval_gap.max(now.saturating_duration_since(self.last));
        let interval = Interval {
            seconds: now.saturating_duration_since(self.interval_began).as_secs_f64(),
            acknowledged: self.interval_count,
            p50_ms: ms(self.interval.value_at_quantile(0.5)),
            p99_ms: ms(self.interval.value_at_quantile(0.99)),
            gap_ms: gap.as_secs_f64() * 1e3,
        };
        self.interval.reset();
        self.interval_began = now;
        self.interval_count = 0;
        self.interval_gap = planted!("gaps-of-earlier-intervals", gap, Duration::ZERO);
        self.last = now;
        interval
    }
}

/// What one client did to each of its counters.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    submitted: i64,
    acknowledged: i64,
    ambiguous: i64,
    failed: i64,
}

/// The load, while it runs.
pub struct Counting {
    config: ClientConfig,
    prober: Client,
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
    sessions: Vec<Client>,
    clients: Vec<tokio::task::JoinHandle<Tally>>,
}

impl Counting {
    /// Opens the sessions and begins, on the current tokio runtime.
    ///
    /// # Errors
    /// [`CountingError`] if a session cannot be opened within `patience`.
    pub async fn begin(
        config: ClientConfig,
        size: Size,
        patience: Duration,
    ) -> Result<Self, CountingError> {
        let mut config = config;
        config.session.window = size.outstanding;
        config.session.frame_commands = COUNTERS;
        let mut sessions = Vec::with_capacity(size.clients);
        for _ in 0..size.clients {
            sessions.push(connect(&config, patience).await?);
        }
        let prober = connect(&config, patience).await?;
        let record = Arc::new(Mutex::new(Record::new(Instant::now())));
        let stop = Arc::new(AtomicBool::new(false));
        let begin = |(number, client)| {
            let work = Work { number, client, record: record.clone(), stop: stop.clone() };
            tokio::spawn(work.run(size.outstanding))
        };
        let clients = sessions.iter().cloned().enumerate().map(begin).collect();
        Ok(Self { config, prober, record, stop, sessions, clients })
    }

    /// The replicas that have not yet answered every session: opening it was the first answer, one
    /// more shows that frames are answered.
    #[must_use]
    pub fn silent(&self) -> BTreeSet<usize> {
        let mut silent = BTreeSet::new();
        for client in &self.sessions {
            let contacts = client.contacts().into_iter().enumerate();
            silent.extend(contacts.filter(|(_, with)| with.heard < 2).map(|(replica, _)| replica));
        }
        silent
    }

    /// What happened since this was asked last, or since the beginning.
    #[must_use]
    pub fn interval(&self) -> Interval {
        lock(&self.record).interval(Instant::now())
    }

    /// Submits one command of a session of its own now. What is returned completes with the time
    /// until its answer: until the cluster commits what was submitted after this moment.
    ///
    /// # Errors
    /// [`CountingError`].
    pub fn probe(&self) -> impl Future<Output = Result<Duration, CountingError>> + Send + use<> {
        let mut command = Vec::new();
        encode::incr_by(&mut command, PROBE, 1);
        let began = Instant::now();
        let answer = self.prober.submit(vec![command.into()]);
        async move {
            answer.await?;
            Ok(began.elapsed())
        }
    }

    /// Stops, waits for what is under way, reads every counter back, and judges.
    ///
    /// # Errors
    /// [`CountingError`].
    pub async fn end(self, patience: Duration) -> Result<Verdict, CountingError> {
        self.stop.store(true, Ordering::Relaxed);
        let measured = lock(&self.record).began.elapsed().as_secs_f64();
        let before_drain = lock(&self.record).acknowledged;
        let late = |what| CountingError::Late { what, patience };
        let mut tallies = Vec::with_capacity(self.clients.len());
        for client in self.clients {
            let tally = tokio::time::timeout(patience, client).await;
            let tally = tally.map_err(|_| late("answers to what is under way"))?;
            // A task that panicked leaves no tally: everything it did counts as never asked for.
            tallies.push(tally.unwrap_or_default());
        }
        let finals = read_back(&self.config, tallies.len(), patience).await?;
        let record = lock(&self.record);
        let mut verdict = Verdict {
            acknowledged: record.acknowledged,
            wrong: record.wrong,
            throughput: before_drain as f64 / measured,
            p50_ms: ms(record.all.value_at_quantile(0.5)),
            p99_ms: ms(record.all.value_at_quantile(0.99)),
            max_ms: ms(record.all.max()),
            ..Verdict::default()
        };
        for (tally, values) in tallies.iter().zip(&finals) {
            verdict.ambiguous += (tally.ambiguous * COUNTERS as i64).unsigned_abs();
            verdict.failed += (tally.failed * COUNTERS as i64).unsigned_abs();
            for value in values {
                let most = tally.acknowledged + tally.ambiguous;
                verdict.lost += (tally.acknowledged - value).max(0).unsigned_abs();
                verdict.duplicated += (value - most).max(0).unsigned_abs();
            }
        }
        Ok(verdict)
    }
}

fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

fn ms(us: u64) -> f64 {
    us as f64 / 1000.0
}

async fn connect(config: &ClientConfig, patience: Duration) -> Result<Client, CountingError> {
    let key = SecretKey::generate().map_err(|error| CountingError::Key(error.to_string()))?;
    let key: Arc<dyn ClientSigner> = Arc::new(key);
    match tokio::time::timeout(patience, Client::connect(config.clone(), key)).await {
        Ok(client) => Ok(client.map_err(ClientError::from)?),
        Err(_) => Err(CountingError::Late { what: "no session is open", patience }),
    }
}

fn key(client: usize, counter: usize) -> String {
    format!("counter-{client}-{counter}")
}

/// What every counter holds, by client.
async fn read_back(
    config: &ClientConfig,
    clients: usize,
    patience: Duration,
) -> Result<Vec<Vec<i64>>, CountingError> {
    let reader = connect(config, patience).await?;
    let mut finals = Vec::with_capacity(clients);
    for client in 0..clients {
        let gets = (0..COUNTERS).map(|counter| {
            let mut command = Vec::new();
            encode::get(&mut command, key(client, counter).as_bytes());
            command.into()
        });
        let answer = tokio::time::timeout(patience, reader.submit(gets.collect())).await;
        let late = |_| CountingError::Late { what: "the counters are not read back", patience };
        let replies = answer.map_err(late)??;
        let values = replies.iter().map(|reply| match Reply::decode(reply) {
            Ok(Reply::Nil) => Ok(0),
            Ok(Reply::Bulk(digits)) => std::str::from_utf8(digits)
                .ok()
                .and_then(|digits| digits.parse().ok())
                .ok_or(CountingError::NotANumber),
            _ => Err(CountingError::NotANumber),
        });
        finals.push(values.collect::<Result<Vec<i64>, _>>()?);
    }
    Ok(finals)
}

/// One client at work.
struct Work {
    number: usize,
    client: Client,
    record: Arc<Mutex<Record>>,
    stop: Arc<AtomicBool>,
}

type Answer = (i64, Instant, Result<Packed, ClientError>);

impl Work {
    async fn run(self, outstanding: usize) -> Tally {
        let commands = (0..COUNTERS).map(|counter| {
            let mut command = Vec::new();
            encode::incr_by(&mut command, key(self.number, counter).as_bytes(), 1);
            command
        });
        let Ok(frame) = Packed::commands(commands) else {
            unreachable!("{COUNTERS} increments fit in a frame");
        };
        let mut tally = Tally::default();
        let (answers, mut answered) = tokio::sync::mpsc::unbounded_channel();
        let (mut under_way, mut going) = (0, true);
        loop {
            while going && under_way < outstanding && !self.stop.load(Ordering::Relaxed) {
                self.submit(&frame, &mut tally, &answers);
                under_way += 1;
            }
            if under_way == 0 {
                return tally;
            }
            let Some(answer) = answered.recv().await else { return tally };
            under_way -= 1;
            going &= self.settle(answer, &mut tally);
        }
    }

    fn submit(
        &self,
        frame: &Packed,
        tally: &mut Tally,
        answers: &tokio::sync::mpsc::UnboundedSender<Answer>,
    ) {
        tally.submitted += 1;
        let (expected, submitted, answers) = (tally.submitted, Instant::now(), answers.clone());
        self.client.submit_then(frame.clone(), None, move |result| {
            // The receiver lives as long as the client's work.
            let _ = answers.send((expected, submitted, result));
        });
    }

    /// Counts an answer. Whether the session can go on.
    fn settle(&self, (expected, submitted, result): Answer, tally: &mut Tally) -> bool {
        match result {
            Ok(replies) => {
                tally.acknowledged += 1;
                // Once a frame's fate is unknown the next replies are not known exactly.
                let right = |reply: &[u8]| match Reply::decode(reply) {
                    Ok(Reply::Integer(value)) => {
                        (expected - tally.ambiguous..=expected).contains(&value)
                    }
                    _ => false,
                };
                let wrong = replies.iter().filter(|reply| !right(reply)).count();
                let missing = COUNTERS.saturating_sub(replies.len());
                lock(&self.record).acknowledge(submitted, Instant::now(), (wrong + missing) as u64);
                true
            }
            Err(ClientError::Ambiguous(_)) => {
                tally.ambiguous += 1;
                true
            }
            // Not executed, and with frames behind it under way no reply is known any more.
            Err(ClientError::Retryable(_) | ClientError::Fatal(_)) => {
                tally.failed += 1;
                false
            }
        }
    }
}

#[cfg(test)]
mod tests;
