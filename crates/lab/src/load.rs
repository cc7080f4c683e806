//! The load generator: client sessions that keep a cluster busy and measure what it answers.
//!
//! *Closed loop*: each session keeps a number of frames in flight; the next goes out when one is
//! answered. *Open loop*: commands arrive at times fixed beforehand, evenly or as a Poisson
//! process, and never wait for answers; latency counts from the time a command was to be
//! submitted, so a cluster that stalls is charged for all that arrived meanwhile (no coordinated
//! omission). In both, what is waiting when a session may send goes out in one frame.
//!
//! All sessions live on the calling thread, so that the load takes little from replicas on the same
//! machine: batches are prepared before, kept by reference, and counted as one. An open loop has
//! one more thread, which keeps the time.
//!
//! Nothing is counted before every replica has answered every session and the warm-up is over.

mod closed;
mod distribution;
mod open;
mod popularity;
mod record;
mod records;
mod report;
#[cfg(test)]
mod tests;
mod workload;
mod ycsb;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::{ClientError, Fatal, Packed, Route, SessionConfig};
use quorate_node::client::{Authenticity, Client, ClientConfig, ReplicaAddress};

pub use distribution::{Counts, Distribution};
pub use popularity::{Keys, Popularity};
pub use report::{Interval, LoadReport};
pub use workload::{Answer, Command, Workload, WorkloadError};
pub use ycsb::{Expected, Mix, Records};

use crate::random::Random;
use record::{Record, Verdict};

/// Silent replicas are waited for so long, unless more of them are than may be faulty.
const BRIEFLY: Duration = Duration::from_secs(3);
/// So long the last answers of a short load are waited for: as long as some views that fail, one
/// after the other, take on a busy machine.
const LAST_ANSWERS: Duration = Duration::from_secs(10);
/// Waits up to this are nothing to tell of.
const A_MOMENT: Duration = Duration::from_secs(1);
/// By how much longer sessions may take to open for each replica that there is.
const OF_A_REPLICA: Duration = Duration::from_millis(500);

/// What load to make.
#[derive(Clone)]
pub struct LoadConfig {
    /// What is measured, for the report.
    pub protocol: String,
    /// The replicas, in the order of their ids.
    pub replicas: Vec<ReplicaAddress>,
    /// The sessions' chain, f, and whom frames are sent to. Its window and frame size give way to
    /// `outstanding` and the workload's.
    pub session: SessionConfig,
    /// By what outcomes are known to be the replicas'.
    pub authenticity: Authenticity,
    /// Of a route to one replica: what each session's replica is drawn from, evenly, so that a load
    /// has no favourite; `None`: all have the route's. The same seed gives the same replicas.
    pub contacts: Option<u64>,
    /// The sessions' keys: one session each.
    pub keys: Vec<Arc<dyn ClientSigner>>,
    /// What is submitted.
    pub workload: Workload,
    /// Whether the records that the workload needs are written first. They are there already if
    /// another process does so.
    pub write_records: bool,
    /// Most frames of one session in flight.
    pub outstanding: usize,
    /// Of a closed loop: each session is shared by so many callers, and each has one command under
    /// way. How they are grouped in frames is left to the session, and `outstanding` counts for
    /// nothing. `None`: a session keeps frames of the workload's size under way.
    pub callers: Option<usize>,
    /// When commands are submitted.
    pub arrivals: Arrivals,
    /// Least time before figures count.
    pub warm_up: Duration,
    /// How long figures count.
    pub duration: Duration,
    /// How long each interval of the report's series is.
    pub interval: Duration,
    /// How long to wait for sessions to open, for every replica to answer, and in the end for
    /// what is under way. As many silent replicas as may be faulty are waited for a few seconds
    /// only, and what is under way in the end for no longer than was measured, or ten seconds.
    pub patience: Duration,
    /// Is told what is waited for, if that takes more than a moment.
    pub notice: fn(&str),
}

/// When commands are submitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// As soon as there is room: each session keeps its outstanding frames full.
    Closed,
    /// At a constant rate, whatever is answered.
    Even {
        /// Commands a second, of all sessions together.
        rate: f64,
    },
    /// At random, independently of each other, with this mean rate.
    Poisson {
        /// Commands a second, of all sessions together.
        rate: f64,
        /// The same seed gives the same arrivals.
        seed: u64,
    },
}

impl Arrivals {
    fn rate(self) -> Option<f64> {
        match self {
            Self::Closed => None,
            Self::Even { rate } | Self::Poisson { rate, .. } => Some(rate),
        }
    }
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The configuration cannot be followed.
    #[error("load.{0}")]
    Config(&'static str),
    /// No thread or runtime could be started.
    #[error("cannot start the load: {0}")]
    Io(#[from] std::io::Error),
    /// Whoever was to say when measuring begins did not.
    #[error("nobody said when to begin: {0}")]
    NoBeginning(String),
    /// The records that the workload needs could not be written.
    #[error("the workload's records could not be written: {0}")]
    Records(String),
    /// The cluster turned a client down.
    #[error("client {client} is turned down: {reason}")]
    TurnedDown {
        /// Which, from 0.
        client: usize,
        /// Why.
        reason: Fatal,
    },
    /// Sessions could not be opened in time.
    #[error("only {open} of {clients} sessions are open after {patience:?}: {trouble}")]
    NotOpen {
        /// How many sessions are.
        open: usize,
        /// How many were to be.
        clients: usize,
        /// How long they were waited for.
        patience: Duration,
        /// What was in the way.
        trouble: String,
    },
}

/// Loads a cluster and reports. Blocks until it is over.
///
/// # Errors
/// [`LoadError`] if the load could not begin. What goes wrong later is in the report.
///
/// # Panics
/// Within a tokio runtime's task: it starts a runtime of its own.
pub fn run(config: &LoadConfig) -> Result<LoadReport, LoadError> {
    run_from(config, || Ok(SystemTime::now()))
}

/// As [`run`]; when everything is warm, `beginning` says when measuring begins. It may block: the
/// load goes on meanwhile.
///
/// # Errors
/// As [`run`], and [`LoadError::NoBeginning`].
///
/// # Panics
/// As [`run`].
pub fn run_from(
    config: &LoadConfig,
    beginning: impl FnOnce() -> Result<SystemTime, String> + Send + 'static,
) -> Result<LoadReport, LoadError> {
    check(config)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_on_this_thread(config, beginning))
}

fn check(config: &LoadConfig) -> Result<(), LoadError> {
    let rate = config.arrivals.rate();
    let complaint = if config.keys.is_empty() {
        "keys: at least one session is needed"
    } else if config.callers == Some(0) {
        "callers: at least one must be there"
    } else if config.outstanding == 0 {
        "outstanding: at least one frame must be in flight"
    } else if config.replicas.len() != config.session.replicas {
        "replicas: their number is not that of the session's configuration"
    } else if config.interval.is_zero() {
        "interval: it must be longer than nothing"
    } else if rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)) {
        "arrivals: the rate must be above zero"
    } else {
        return Ok(());
    };
    Err(LoadError::Config(complaint))
}

async fn run_on_this_thread(
    config: &LoadConfig,
    beginning: impl FnOnce() -> Result<SystemTime, String> + Send + 'static,
) -> Result<LoadReport, LoadError> {
    let clients = connect(config).await?;
    if config.write_records {
        records::write(&config.workload, &clients).await?;
    }
    let bench = Arc::new(Bench::new(config));
    let pacer = match config.arrivals {
        Arrivals::Closed => {
            closed::start(&bench, &clients, config.callers.unwrap_or(config.outstanding));
            None
        }
        arrivals => Some(open::start(&bench, &clients, arrivals)?),
    };
    let mut warnings = warm_up(config, &clients).await;
    await_beginning(beginning).await?;
    bench.record().begin(Instant::now());
    let before = thread_time();
    tokio::time::sleep(config.duration).await;
    let used = thread_time().zip(before).map(|(after, before)| after.saturating_sub(before));
    bench.record().end(Instant::now());
    bench.stop.store(true, Ordering::Relaxed);
    let pace = match pacer {
        Some(pacer) => pacer.join().await,
        None => open::Pace::default(),
    };
    let patience = drain(&bench, config).await;
    let left = bench.under_way.load(Ordering::Relaxed);
    if left > 0 {
        warnings.push(format!("{left} frames were not answered within {patience:?} of the end"));
    }
    open::count_unanswered(&bench);
    warnings.extend(pace.warning());
    Ok(report(config, &bench, used, warnings))
}

/// Opens all sessions at once.
async fn connect(config: &LoadConfig) -> Result<Vec<Client>, LoadError> {
    let mut session = config.session;
    if config.callers.is_none() {
        session.window = config.outstanding;
        session.frame_commands = config.workload.batch_commands();
        session.frame_bytes = usize::MAX;
    }
    session.waiting_bytes = usize::MAX / 2;
    let start = |(key, route): (&Arc<dyn ClientSigner>, Route)| {
        session.route = route;
        let replicas = config.replicas.clone();
        let each = ClientConfig {
            session,
            replicas,
            authenticity: config.authenticity.clone(),
            give_up_after: None,
            incarnation: None,
        };
        Client::start(each, key.clone())
    };
    let clients = config.keys.iter().zip(routes(config)).map(start).collect::<Vec<_>>();
    // A session is made by replicas that reach each other, which takes many of them longer.
    let patience = config.patience + OF_A_REPLICA * config.replicas.len() as u32;
    let deadline = tokio::time::Instant::now() + patience;
    let (mut open, mut troubles) = (0, BTreeSet::new());
    for (number, client) in clients.iter().enumerate() {
        match tokio::time::timeout_at(deadline, client.opened()).await {
            Ok(Ok(())) => open += 1,
            Ok(Err(reason)) => return Err(LoadError::TurnedDown { client: number, reason }),
            Err(_) => {
                troubles.extend(client.contacts().into_iter().filter_map(|with| with.trouble));
            }
        }
    }
    if open == clients.len() {
        return Ok(clients);
    }
    let trouble = match troubles.is_empty() {
        true => "the replicas are connected, but do not answer: they have too much to do, or the \
                 cluster's `sessions.max_sessions` are taken, which earlier clients hold for a while"
            .to_owned(),
        false => troubles.into_iter().collect::<Vec<_>>().join("; "),
    };
    Err(LoadError::NotOpen { open, clients: clients.len(), patience, trouble })
}

/// The route of each session, one after the other.
fn routes(config: &LoadConfig) -> impl Iterator<Item = Route> {
    let (route, replicas) = (config.session.route, config.session.replicas as u64);
    let mut drawn = config.contacts.map(Random);
    std::iter::repeat_with(move || match (route, &mut drawn) {
        (Route::One { .. }, Some(random)) => {
            Route::One { first: ReplicaId(random.below(replicas) as u16) }
        }
        (route, _) => route,
    })
}

/// Waits until every replica that can be reached has answered every session, and the least time has
/// passed. Opening the session was the first answer: one more shows that frames are answered.
async fn warm_up(config: &LoadConfig, clients: &[Client]) -> Vec<String> {
    tokio::time::sleep(config.warm_up).await;
    let mut wait = Wait::begin(config.notice);
    loop {
        let mut missing = Missing::default();
        for client in clients {
            let contacts = client.contacts().into_iter();
            missing.note(contacts.map(|with| (with.heard >= 2, with.trouble.is_some())));
        }
        let silent = &missing.silent;
        let most = missing.patience(config);
        if silent.is_empty() || wait.is_over(most, || format!("answers of replicas {silent:?}")) {
            return missing.warnings();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A wait that has an end, and says what it is for.
struct Wait {
    began: Instant,
    /// Whom to tell; nobody, once that was done.
    notice: Option<fn(&str)>,
}

impl Wait {
    fn begin(notice: fn(&str)) -> Self {
        Self { began: Instant::now(), notice: Some(notice) }
    }

    /// Whether it has lasted for `most`. `what` is what it is for.
    fn is_over(&mut self, most: Duration, what: impl FnOnce() -> String) -> bool {
        let waited = self.began.elapsed();
        if waited > A_MOMENT.min(most)
            && let Some(notice) = self.notice.take()
        {
            let left = most.saturating_sub(waited).as_secs_f64().ceil();
            notice(&format!("waiting for {}, {left} s more at most", what()));
        }
        waited > most
    }
}

/// Replicas that have not answered every session.
#[derive(Debug, Default)]
struct Missing {
    /// They are connected, and worth waiting for.
    silent: BTreeSet<usize>,
    /// They cannot be reached, and are not.
    unreached: BTreeSet<usize>,
}

impl Missing {
    /// Notes of each replica whether it has answered a session, and whether it cannot be reached.
    fn note(&mut self, replicas: impl Iterator<Item = (bool, bool)>) {
        for (replica, (has_answered, is_unreached)) in replicas.enumerate() {
            if is_unreached {
                self.unreached.insert(replica);
            } else if !has_answered {
                self.silent.insert(replica);
            }
        }
    }

    /// How long to wait for those that are silent: the cluster does without as many as may be
    /// faulty.
    fn patience(&self, config: &LoadConfig) -> Duration {
        let missing = self.silent.union(&self.unreached).count();
        let brief = missing <= config.session.faults;
        if brief { config.patience.min(BRIEFLY) } else { config.patience }
    }

    fn warnings(&self) -> Vec<String> {
        let Self { silent, unreached } = self;
        let warnings = [
            (
                unreached,
                format!("replicas {unreached:?} cannot be reached, and were not waited for"),
            ),
            (silent, format!("replicas {silent:?} did not answer in the warm-up")),
        ];
        let told = warnings.into_iter().filter(|(replicas, _)| !replicas.is_empty());
        told.map(|(_, warning)| warning).collect()
    }
}

/// Waits until measuring is to begin, to the precision of a timer.
async fn await_beginning(
    beginning: impl FnOnce() -> Result<SystemTime, String> + Send + 'static,
) -> Result<(), LoadError> {
    let said = tokio::task::spawn_blocking(beginning).await;
    let at = said.map_err(|error| LoadError::NoBeginning(error.to_string()))?;
    let at = at.map_err(LoadError::NoBeginning)?;
    tokio::time::sleep(at.duration_since(SystemTime::now()).unwrap_or_default()).await;
    Ok(())
}

/// Waits for the answers to what is under way. How long it would have waited for them at most.
async fn drain(bench: &Bench, config: &LoadConfig) -> Duration {
    let most = config.patience.min(config.duration.max(LAST_ANSWERS));
    let mut wait = Wait::begin(config.notice);
    loop {
        let left = bench.under_way.load(Ordering::Relaxed);
        if left == 0 || wait.is_over(most, || format!("the answers to {left} frames")) {
            return most;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn report(
    config: &LoadConfig,
    bench: &Bench,
    used: Option<Duration>,
    warnings: Vec<String>,
) -> LoadReport {
    let mut report = LoadReport {
        protocol: config.protocol.clone(),
        n: config.replicas.len(),
        batch: config.workload.batch_commands(),
        payload: config.workload.payload_bytes(),
        clients: config.keys.len(),
        outstanding: config.outstanding,
        rate: config.arrivals.rate(),
        warnings,
        ..LoadReport::default()
    };
    bench.record().report(&mut report);
    let used_us = used.map(|used| used.as_secs_f64() * 1e6);
    report.generator_us =
        used_us.filter(|_| report.commands > 0).map(|us| us / report.commands as f64);
    if used.is_some_and(|used| used.as_secs_f64() > 0.9 * report.seconds) {
        report.warnings.push("the generator's thread was busy all the time".into());
    }
    let doubts = [
        (report.commands == 0, "nothing was answered".to_owned()),
        (report.wrong > 0, format!("{} commands were answered wrongly", report.wrong)),
        (report.failed > 0, format!("{} commands failed", report.failed)),
        (report.unanswered > 0, format!("{} commands were not answered", report.unanswered)),
    ];
    report.warnings.extend(doubts.into_iter().filter(|doubt| doubt.0).map(|doubt| doubt.1));
    report
}

/// Processor time of this thread, where the system tells.
fn thread_time() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    Some(Duration::from_nanos(text.split(' ').next()?.parse().ok()?))
}

/// What all sessions of a load share.
struct Bench {
    workload: Workload,
    record: Mutex<Record>,
    /// Which prepared batch is next.
    turn: AtomicUsize,
    /// Batches submitted and not finished.
    under_way: AtomicUsize,
    stop: AtomicBool,
    open: Mutex<open::UnderWay>,
}

impl Bench {
    fn new(config: &LoadConfig) -> Self {
        Self {
            workload: config.workload.clone(),
            record: Mutex::new(Record::new(config.interval)),
            turn: AtomicUsize::new(0),
            under_way: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            open: Mutex::default(),
        }
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_turn(&self) -> usize {
        self.turn.fetch_add(1, Ordering::Relaxed)
    }

    fn verdict(&self, turn: usize, result: &Result<Packed, ClientError>) -> Verdict {
        match result {
            Ok(replies) if self.workload.accepts(turn, replies) => Verdict::Right,
            Ok(_) => Verdict::Wrong,
            Err(_) => Verdict::Failed,
        }
    }
}
