//! One run: a fresh cluster of processes, load from others, faults at their times, and what came
//! out.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use quorate_netem::emulator::Report;
use quorate_netem::{NetError, Network};
use quorate_node::testnet;

use super::attack::{self, Under};
use super::clients::{Clients, Counted};
use super::confine::Confined;
use super::context;
use super::network;
use super::row::{Figures, Settings};
use super::sampling::{Sampling, Spent};
use super::value::Kill;
use crate::load::{Counts, LoadReport};
use crate::local::{
    Fresh, LocalCluster, LocalError, ProcessError, ReplicaEnded, Usage, folder_bytes,
};
use crate::profile::{Profile, Profiles};
use quorate_core::planted;

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// From telling the clients when to begin until they do.
const LEAD: Duration = Duration::from_millis(100);
/// How often it is looked whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How often a cluster is started anew that was not ready in time.
const MORE_SETTLING: u32 = 4;
/// How late the emulated network may be with one packet in a hundred before the figures are
/// doubted.
const LATE: Duration = Duration::from_millis(1);
const MIB: f64 = (1 << 20) as f64;

/// What a run needs beside its settings.
pub(super) struct Trial<'a> {
    /// The `quorate` program.
    pub(super) program: &'a Path,
    /// Where its homes go: a folder that is not there yet.
    pub(super) folder: PathBuf,
    pub(super) settings: &'a Settings,
    /// What random arrivals are drawn from.
    pub(super) seed: u64,
    /// Numbers of replicas that are sampled beside the usual ones.
    pub(super) numbers: &'a [String],
    /// Told when to stop.
    pub(super) stop: &'a AtomicBool,
}

/// Why there are no figures.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The homes could not be made.
    #[error(transparent)]
    Testnet(#[from] testnet::TestnetError),
    /// The replicas.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A client.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// Wrong answers: no figure counts then.
    #[error("{0} commands were answered wrongly")]
    Wrong(u64),
    /// Nothing went on.
    #[error("{0}")]
    Stuck(String),
    /// The processes were not up in time for the adversary's schedule.
    #[error(
        "the load was ready {late:.1} s after measuring was to begin; make measure.settle longer"
    )]
    Unsettled {
        /// By how many seconds.
        late: f64,
    },
    /// A replica ended that nobody killed.
    #[error(transparent)]
    Ended(#[from] ReplicaEnded),
    /// A number to be sampled that replicas do not have.
    #[error("replicas have no number \"{name}\" (measure.numbers); they have {known}")]
    NoSuchNumber {
        /// The one that was asked for.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The emulated network.
    #[error("{0}; {remedy}", remedy = .0.remedy())]
    Network(#[from] NetError),
    /// At another site.
    #[error("{0}")]
    Elsewhere(String),
    /// It was told to stop.
    #[error("stopped")]
    Stopped,
}

/// What came out, and how much of the machine others took meanwhile: its processes, and its host.
pub(super) struct Measured {
    pub(super) figures: Figures,
    pub(super) foreign_cores: Option<f64>,
    pub(super) stolen_cores: Option<f64>,
    pub(super) profile: Profile,
}

/// Runs these settings once, with homes in `folder`, which stay. Where the replicas' time went
/// comes beside the figures.
///
/// # Errors
/// [`TrialError`].
pub fn run_once(
    program: &Path,
    folder: &Path,
    settings: &Settings,
) -> Result<(Figures, Profile), TrialError> {
    let stop = AtomicBool::new(false);
    let folder = folder.to_owned();
    let trial = Trial { program, folder, settings, seed: 1, numbers: &[], stop: &stop };
    let Measured { figures, profile, .. } = trial.run()?;
    Ok((figures, profile))
}

impl Trial<'_> {
    /// Runs it. The homes stay, whatever came out; the processes are gone. A cluster that was not
    /// ready when an attack's clock had it begin is started anew, with twice the time to settle.
    pub(super) fn run(&self) -> Result<Measured, TrialError> {
        let mut settle = Duration::from_secs_f64(self.settings.settle);
        for _ in 0..MORE_SETTLING {
            match self.attempt(settle) {
                Err(TrialError::Unsettled { .. }) => settle *= 2,
                done => return done,
            }
            std::fs::remove_dir_all(&self.folder)
                .map_err(|source| TrialError::Io { what: "homes cannot be removed", source })?;
        }
        self.attempt(settle)
    }

    fn attempt(&self, settle: Duration) -> Result<Measured, TrialError> {
        // Before it is confined: the network is not to take of the cores that replicas and clients
        // share.
        let point = &self.settings.point;
        let network = network::up(self.settings.network.as_ref(), point.replicas, self.seed)?;
        let confined = Confined::to(point.cores)?;
        let spans = self.spans();
        let started = Instant::now();
        let cluster = Fresh { network: network.as_ref(), ..self.cluster(&spans, settle) };
        cluster.run(|cluster, client| {
            cluster.await_ready(PATIENCE)?;
            let inside = network.as_ref().map(Network::clients);
            let mut clients =
                Clients::start(self.program, client, self.settings, self.seed, inside)?;
            drop(confined);
            let begins = (!spans.is_empty()).then(|| started + settle);
            let mut measured = self.measure(cluster, &mut clients, begins, spans)?;
            if let Some(network) = &network {
                note_network(&network.report()?, started.elapsed(), &mut measured.figures);
            }
            Ok(measured)
        })
    }

    fn spans(&self) -> Vec<Under> {
        let duration = Duration::from_secs_f64(self.settings.seconds);
        let schedule = self.settings.point.adversary.0.0.as_ref();
        schedule.map(|schedule| attack::spans(schedule, duration)).unwrap_or_default()
    }

    fn cluster(&self, spans: &[Under], settle: Duration) -> Fresh<'_> {
        let point = &self.settings.point;
        let schedule = attack::of_process(spans, settle);
        let lie =
            |id: usize| (id, vec![OsString::from("--adversary"), OsString::from(schedule.clone())]);
        let set = point.set.iter().flat_map(|(key, value)| {
            [OsString::from("--set"), OsString::from(format!("{key}={value}"))]
        });
        Fresh {
            program: self.program,
            folder: &self.folder,
            replicas: point.replicas,
            options: point.testnet_options(),
            arguments: set.collect(),
            own_arguments: point.liars().into_iter().map(lie).collect::<BTreeMap<_, _>>(),
            network: None,
        }
    }

    fn measure(
        &self,
        cluster: &mut LocalCluster,
        clients: &mut Clients,
        begins: Option<Instant>,
        under: Vec<Under>,
    ) -> Result<Measured, TrialError> {
        clients.await_ready(self.settings.warm_up)?;
        let earliest = Instant::now() + LEAD;
        let begins = begins.unwrap_or(earliest);
        let late = earliest.saturating_duration_since(begins);
        if !late.is_zero() {
            return Err(TrialError::Unsettled { late: late.as_secs_f64() });
        }
        clients.begin(SystemTime::now() + begins.saturating_duration_since(Instant::now()))?;
        self.sleep_until(begins, cluster, clients)?;

        let (busy, stolen) = (context::machine_time(), context::stolen_time());
        let before = Spent::of(cluster);
        let committed_before = committed(cluster);
        let profile_before = Profiles::of(cluster);
        let ours_before = before.processor() + clients.processor() + own_time();
        let mut sampling = Sampling::new(self.numbers);
        let killed = self.watch(cluster, clients, begins, &mut sampling)?;
        let after = Spent::of(cluster);
        let committed_after = committed(cluster);
        let profile = Profiles::of(cluster).since(&profile_before);
        let ours = after.processor() + clients.processor() + own_time();
        let seconds = begins.elapsed().as_secs_f64();
        let since = |(now, then): (Duration, Duration)| now.saturating_sub(then);
        let busy = context::machine_time().zip(busy).map(since);
        let stolen = context::stolen_time().zip(stolen).map(since);
        // A replica that was killed took its part with it: what it used is not the others'.
        let ours = ours.saturating_sub(ours_before).as_secs_f64();
        let foreign = busy
            .filter(|_| killed.is_none())
            .map(|busy| foreign(busy.as_secs_f64(), ours, seconds));

        let mut figures = of_clients(clients.counted()?)?;
        (figures.stage_us, figures.replica_us) = after.per_command(&before);
        figures.liars = self.settings.point.liars();
        figures.under = under;
        figures.killed = killed;
        figures.commands_per_block = commands_per_block(&committed_before, &committed_after);
        note_replicas(disk_bytes(cluster), sampling, &mut figures);
        self.note_doubts(&mut figures, foreign);
        let stolen_cores = stolen.map(|stolen| stolen.as_secs_f64() / seconds);
        Ok(Measured { figures, foreign_cores: foreign, stolen_cores, profile })
    }

    /// Samples and kills until the measured time is over. Who was killed, and when.
    fn watch(
        &self,
        cluster: &mut LocalCluster,
        clients: &mut Clients,
        begins: Instant,
        sampling: &mut Sampling,
    ) -> Result<Option<(usize, f64)>, TrialError> {
        let end = begins + Duration::from_secs_f64(self.settings.seconds);
        let interval = Duration::from_secs_f64(self.settings.interval);
        let kill_at = match self.settings.point.kill.0 {
            Kill::None => None,
            Kill::Leader(at) | Kill::Replica(_, at) => Some(begins + at.0),
        };
        let (mut next, mut killed) = (begins, None);
        loop {
            let due = kill_at.filter(|_| killed.is_none());
            let wake = due.map_or(next, |at| at.min(next)).min(end);
            self.sleep_until(wake, cluster, clients)?;
            if due.is_some_and(|at| at <= Instant::now()) {
                killed = Some((self.kill(cluster), begins.elapsed().as_secs_f64()));
            }
            if next <= Instant::now() {
                sampling.sample(cluster, begins)?;
                while next <= Instant::now() {
                    next += interval;
                }
            }
            if Instant::now() >= end {
                sampling.sample(cluster, begins)?;
                return Ok(killed);
            }
        }
    }

    fn kill(&self, cluster: &mut LocalCluster) -> usize {
        let id = match self.settings.point.kill.0 {
            Kill::Replica(id, _) => usize::from(id),
            // Between two views nobody may be known to lead; the last replica is as good as any
            // then.
            Kill::Leader(_) | Kill::None => cluster.leader().unwrap_or(cluster.size() - 1),
        };
        cluster.kill(id);
        id
    }

    fn sleep_until(
        &self,
        until: Instant,
        cluster: &mut LocalCluster,
        clients: &mut Clients,
    ) -> Result<(), TrialError> {
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(TrialError::Stopped);
            }
            if let Some((id, how, _)) = cluster.ended().into_iter().next() {
                return Err(ReplicaEnded { id, how }.into());
            }
            clients.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(LOOK_EVERY));
        }
    }

    fn note_doubts(&self, figures: &mut Figures, foreign: Option<f64>) {
        let point = &self.settings.point;
        let fills = figures.commands_per_block >= 0.9 * f64::from(point.batch);
        let in_flight = point.clients * point.frames_in_flight() * point.frame_commands();
        if point.rate == super::value::Rate::Closed && !fills && in_flight >= point.batch {
            figures.warnings.push(format!(
                "the load is too small to fill blocks: {:.0} of {} commands on average",
                figures.commands_per_block, point.batch
            ));
        }
        if let Some(foreign) = foreign.filter(|foreign| *foreign > 0.1) {
            figures.warnings.push(format!("other processes took {foreign:.2} cores meanwhile"));
        }
    }
}

/// Cores that others took, of `seconds` in which all processes together were busy so long, and ours
/// so long.
fn foreign(busy: f64, ours: f64, seconds: f64) -> f64 {
    ((busy - ours) / seconds).max(0.0)
}

fn own_time() -> Duration {
    Usage::of(std::process::id()).unwrap_or_default().processor
}

fn disk_bytes(cluster: &LocalCluster) -> u64 {
    let homes = (0..cluster.size()).filter_map(|id| cluster.home(id));
    homes.map(|home| folder_bytes(&home.root().join("data"))).max().unwrap_or(0)
}

/// Commands, and blocks with any, that each replica that is up has committed so far.
fn committed(cluster: &mut LocalCluster) -> BTreeMap<usize, (f64, f64)> {
    let up: Vec<usize> = cluster.up().collect();
    let of = |id: usize| {
        let status = cluster.status(id)?;
        let number = |name: &str| status["numbers"][name].as_f64();
        let blocks = number("committed_full_blocks_total")?;
        Some((id, (number("committed_commands_total")?, blocks)))
    };
    up.into_iter().filter_map(of).collect()
}

/// Commands in a block that has any, of the replica that committed most commands meanwhile: both
/// numbers of one replica, since one's commands in another's blocks may be more than a block holds.
/// 0 if there were none.
fn commands_per_block(
    before: &BTreeMap<usize, (f64, f64)>,
    after: &BTreeMap<usize, (f64, f64)>,
) -> f64 {
    let grown = after.iter().filter_map(|(id, (commands, blocks))| {
        let (commands_then, blocks_then) = before.get(id)?;
        Some((commands - commands_then, blocks - blocks_then))
    });
    let most = grown.max_by(|a, b| a.0.total_cmp(&b.0));
    most.filter(|(_, blocks)| *blocks > 0.0).map_or(0.0, |(commands, blocks)| commands / blocks)
}

fn note_replicas(disk_bytes: u64, sampling: Sampling, figures: &mut Figures) {
    figures.disk_mib = disk_bytes as f64 / MIB;
    figures.memory_mib = sampling.memory_bytes as f64 / MIB;
    figures.views_per_second = sampling.per_second("view");
    figures.timeouts_per_second = sampling.per_second("timeouts_total");
    if let Some((count, milliseconds)) = sampling.failed_views() {
        figures.failed_views = Some(count);
        figures.failed_view_ms = Some(milliseconds);
    }
    figures.samples = sampling.finish();
}

/// What the emulator added of its own, which is no part of what its links were asked to do.
fn note_network(report: &Report, up: Duration, figures: &mut Figures) {
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let dropped = report.no_room + report.refused;
    figures.network_late_p50_ms = Some(ms(report.late_p50));
    figures.network_late_p99_ms = Some(ms(report.late_p99));
    figures.network_cores = Some(report.processor.as_secs_f64() / up.as_secs_f64());
    figures.network_dropped = Some(dropped);
    if dropped > 0 {
        figures.warnings.push(format!("the emulated network had no room for {dropped} packets"));
    }
    if report.late_p99 > LATE {
        figures.warnings.push(format!(
            "one in a hundred packets was {:.1} ms late, as the network's emulator had to wait for a processor",
            ms(report.late_p99)
        ));
    }
}

/// The figures of what client processes counted at the same time: all that a client can know.
///
/// # Errors
/// [`TrialError::Wrong`], [`TrialError::Stuck`].
pub fn of_clients(counted: Vec<Counted>) -> Result<Figures, TrialError> {
    let reports: Vec<_> = counted
        .into_iter()
        .map(|Counted { report, distribution }| LoadReport { distribution, ..report })
        .collect();
    let report = LoadReport::together(&reports)
        .ok_or_else(|| TrialError::Stuck("there were no clients".to_owned()))?;
    if report.wrong > 0 {
        return Err(TrialError::Wrong(report.wrong));
    }
    if report.commands == 0 {
        return Err(TrialError::Stuck("nothing was answered".to_owned()));
    }
    Ok(figures_of(report))
}

fn figures_of(report: LoadReport) -> Figures {
    Figures {
        throughput: report.submitted as f64 / report.seconds.max(f64::MIN_POSITIVE),
        goodput: report.goodput,
        mean_ms: report.mean_ms,
        deviation_ms: report.deviation_ms,
        p50_ms: report.p50_ms,
        p90_ms: planted!("figures-of-another-percentile", report.p99_ms, report.p90_ms),
        p99_ms: report.p99_ms,
        p999_ms: report.p999_ms,
        max_ms: report.max_ms,
        commands: report.commands,
        failed: report.failed,
        unanswered: report.unanswered,
        generator_us: report.generator_us,
        series: report.series,
        latencies: classes(&report.distribution.whole),
        latencies_over_time: report.distribution.intervals.iter().map(classes).collect(),
        warnings: report.warnings,
        ..Figures::default()
    }
}

/// Latencies in eight classes a doubling: a class's bound is at most 9.1 % above what is in it.
fn classes(counts: &Counts) -> Vec<(u64, u64)> {
    let mut classes: BTreeMap<u64, u64> = BTreeMap::new();
    for (us, count) in &counts.0 {
        let class = ((*us).max(1) as f64).log2() * 8.0;
        let bound = (class.ceil() / 8.0).exp2().round() as u64;
        *classes.entry(bound.max(*us)).or_default() += count;
    }
    classes.into_iter().collect()
}

#[cfg(test)]
mod tests;
