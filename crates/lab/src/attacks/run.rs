//! One attack after the other, each on a fresh cluster.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_node::client::{Authenticity, ClientConfig};
use quorate_node::config::Home;
use quorate_node::testnet;
use quorate_transport::TransportName;
use tokio::runtime::Runtime;

use super::floods::beyond_rate;
use super::gateway::GatewayLoad;
use super::honest::{self, Attempts};
use super::row::{AttackRow, Phase};
use super::{By, Flood, Through, Trial};
use crate::counting::{Counting, CountingError, Size};
use crate::local::{
    Echo, Fresh, LocalCluster, LocalError, Process, ProcessError, ReplicaEnded, Start, Usage,
};

/// Replicas: the fewest that tolerate one liar.
const REPLICAS: usize = 4;
/// The replica that floods, of a peer's flood.
const LIAR: usize = 3;
/// The replica that is killed and comes back, where that is tried.
const RETURNS: usize = 2;
/// The honest load: 400 commands under way.
const SIZE: Size = Size { clients: 4, outstanding: 2 };
/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often memory is looked at.
const SAMPLE_EVERY: Duration = Duration::from_millis(100);
/// How often the status of a replica is asked for, where that is tried.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// How often a cluster is started anew that was not ready when its liar was to begin.
const MORE_SETTLING: u32 = 4;
const MIB: f64 = (1 << 20) as f64;

/// How long each part lasts.
#[derive(Clone, Copy, Debug)]
pub struct Phases {
    /// Load before anything counts.
    pub warm_up: Duration,
    /// Before the flood.
    pub before: Duration,
    /// While it lasts.
    pub during: Duration,
    /// After it.
    pub after: Duration,
}

/// With what attacks are measured.
#[derive(Clone, Debug)]
pub struct Attacks {
    /// The `quorate` program.
    pub program: PathBuf,
    /// Where the clusters' homes go; each is removed with its attack, unless something was missed.
    pub folder: PathBuf,
    /// How long each part lasts.
    pub phases: Phases,
}

/// Why an attack could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    /// The homes could not be made.
    #[error(transparent)]
    Testnet(#[from] testnet::TestnetError),
    /// The replicas.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// The flood's process, or the gateway's.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The load.
    #[error(transparent)]
    Counting(#[from] CountingError),
    /// A replica ended.
    #[error(transparent)]
    Ended(#[from] ReplicaEnded),
    /// The system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// The processes were not up when the liar began.
    #[error("the load was not ready when the liar began")]
    Unsettled,
    /// An answer was wrong.
    #[error("{0}")]
    Wrong(String),
}

impl Attacks {
    /// Measures one attack. What went wrong is in the row.
    #[must_use]
    pub fn measure(&self, flood: &Flood) -> AttackRow {
        let mut settle = self.phases.warm_up + Duration::from_secs(4);
        for _ in 0..MORE_SETTLING {
            let mut row = AttackRow {
                name: "attack".to_owned(),
                flood: flood.name.to_owned(),
                does: flood.does.to_owned(),
                replicas: REPLICAS,
                cores: std::thread::available_parallelism().map_or(0, usize::from),
                ..AttackRow::default()
            };
            let folder = self.folder.join(flood.name);
            let measured = self.attempt(flood, settle, &mut row);
            if let Err(AttackError::Unsettled) = measured {
                settle *= 2;
                // What is left there would be in the way; if it stays, the next attempt says so.
                let _ = std::fs::remove_dir_all(&folder);
                continue;
            }
            match measured {
                Ok(()) => row.judge(flood.least_share()),
                Err(error) => row.missed.push(error.to_string()),
            }
            if row.missed.is_empty() {
                let _ = std::fs::remove_dir_all(&folder);
            }
            return row;
        }
        let missed = vec![AttackError::Unsettled.to_string()];
        AttackRow { flood: flood.name.to_owned(), missed, ..AttackRow::default() }
    }

    fn attempt(
        &self,
        flood: &Flood,
        settle: Duration,
        row: &mut AttackRow,
    ) -> Result<(), AttackError> {
        let from = settle + self.phases.before;
        let until = from + self.phases.during;
        let (transport, laboratory) = match flood.udp {
            true => (TransportName::Udp, false),
            false => (TransportName::Tcp, matches!(flood.by, By::Peer(_))),
        };
        let mut own_arguments = BTreeMap::new();
        if let By::Peer(adversary) = flood.by {
            let schedule = format!("{adversary}@{}ms..{}ms", from.as_millis(), until.as_millis());
            own_arguments
                .insert(LIAR, vec![OsString::from("--adversary"), OsString::from(schedule)]);
        }
        let started = Instant::now();
        let folder = self.folder.join(flood.name);
        let cluster = Fresh {
            program: &self.program,
            folder: &folder,
            replicas: REPLICAS,
            options: testnet::Options {
                chain: "attack".to_owned(),
                laboratory,
                transport,
                administrators: usize::from(flood.has_rate),
                ..testnet::Options::default()
            },
            arguments: Vec::new(),
            own_arguments,
            network: None,
        };
        cluster.run(|cluster, client| {
            cluster.await_ready(PATIENCE)?;
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .map_err(|source| AttackError::Io { what: "no runtime", source })?;
            if flood.has_rate {
                let administrator = folder.join("administrator-0.key");
                let granted = beyond_rate::grant(cluster.cluster(), &administrator);
                runtime.block_on(granted).map_err(AttackError::Wrong)?;
            }
            let scene = Scene::set(self, flood, cluster, client, runtime)?;
            if matches!(flood.by, By::Peer(_)) {
                let begins = started + settle;
                let left = begins.checked_duration_since(Instant::now());
                std::thread::sleep(left.ok_or(AttackError::Unsettled)?);
            }
            scene.play(self.phases, row)
        })
    }
}

/// Cores that were kept busy for a phase.
fn cores(processor: Duration, phase: Phase) -> f64 {
    processor.as_secs_f64() / phase.seconds.max(f64::MIN_POSITIVE)
}

/// What an honest load has done.
enum Load {
    Replicas(Box<Counting>),
    Gateway(GatewayLoad),
}

/// A cluster, those who use it, and whoever attacks it.
struct Scene<'a> {
    flood: &'a Flood,
    cluster: &'a mut LocalCluster,
    runtime: Runtime,
    load: Load,
    gateway: Option<Process>,
    /// Of a client's flood.
    attacker: Option<Process>,
    newcomers: Arc<Attempts>,
    trials: Arc<Attempts>,
}

impl<'a> Scene<'a> {
    /// Starts the load and the attacker, who prepares what it needs and waits.
    fn set(
        attacks: &Attacks,
        flood: &'a Flood,
        cluster: &'a mut LocalCluster,
        client: &Home,
        runtime: Runtime,
    ) -> Result<Self, AttackError> {
        let (mut gateway, mut redis) = (None, None);
        if flood.through == Through::Gateway {
            let mut process = Process::start(&start_of_gateway(attacks, client))?;
            let said = process.announced(PATIENCE)?;
            redis = said["redis_address"].as_str().map(str::to_owned);
            gateway = Some(process);
        }
        let io = |source| AttackError::Io { what: "the load cannot reach the gateway", source };
        let load = match &redis {
            Some(address) => Load::Gateway(GatewayLoad::begin(address).map_err(io)?),
            None => {
                let counting = Counting::begin(client_config(cluster), SIZE, PATIENCE);
                Load::Replicas(Box::new(runtime.block_on(counting)?))
            }
        };
        let attacker = match flood.by {
            By::Peer(_) => None,
            By::Client(_) => {
                let mut process =
                    Process::start(&start_of_flood(attacks, flood, cluster, client, redis))?;
                process.announced(PATIENCE)?;
                Some(process)
            }
        };
        std::thread::sleep(attacks.phases.warm_up);
        let (newcomers, trials) = (Arc::default(), Arc::default());
        Ok(Self { flood, cluster, runtime, load, gateway, attacker, newcomers, trials })
    }

    fn play(mut self, phases: Phases, row: &mut AttackRow) -> Result<(), AttackError> {
        self.interval();
        let used = self.attacker_processor();
        row.before = self.watch(phases.before, false)?;
        // What a replica takes before it lies is honest work. A flood's process only waits.
        let idle = cores(self.attacker_processor().saturating_sub(used), row.before);
        if let Some(attacker) = &mut self.attacker {
            let gone = |source| AttackError::Io { what: "the flood's process is gone", source };
            attacker.tell("begin").map_err(gone)?;
        }
        let mut honest =
            vec![self.runtime.spawn(honest::newcomers(
                client_config(self.cluster),
                Arc::clone(&self.newcomers),
            ))];
        if self.flood.trial == Trial::Pull {
            let (addresses, cluster) = (self.cluster.addresses(), self.cluster.cluster().clone());
            let pulls = honest::pulls(addresses, cluster, Arc::clone(&self.trials));
            honest.push(self.runtime.spawn(pulls));
        }
        let used = self.attacker_processor();
        let during = self.watch(phases.during, true);
        honest.iter().for_each(tokio::task::JoinHandle::abort);
        row.during = during?;
        let used = self.attacker_processor().saturating_sub(used);
        row.attacker_cores = (cores(used, row.during) - idle).max(0.0);
        row.did = self.end_of_flood();
        row.after = self.watch(phases.after, false)?;
        self.judge_honest(row);
        if let Some((id, how, _)) = self.cluster.ended().into_iter().next() {
            return Err(ReplicaEnded { id, how }.into());
        }
        match self.load {
            Load::Gateway(load) => load.end().map_err(AttackError::Wrong)?,
            Load::Replicas(counting) => {
                let verdict = self.runtime.block_on(counting.end(PATIENCE))?;
                if !verdict.is_sound() {
                    return Err(AttackError::Wrong(format!("wrong answers: {verdict:?}")));
                }
            }
        }
        if let Some(mut gateway) = self.gateway {
            gateway.stop(PATIENCE);
        }
        Ok(())
    }

    /// Measures for so long.
    fn watch(&mut self, span: Duration, flooded: bool) -> Result<Phase, AttackError> {
        if flooded && self.flood.trial == Trial::Return {
            // The throughput counts from its return on: what a dead replica costs is measured
            // elsewhere.
            let left = Instant::now();
            self.cluster.restart(RETURNS)?;
            let ready = self.cluster.await_ready(PATIENCE);
            self.trials.note(ready.is_ok(), left.elapsed());
            self.interval();
        }
        let began = Instant::now();
        let (mut memory, mut asked, mut turn) = (0, began, 0);
        let end = began + span;
        while Instant::now() < end {
            memory = memory.max(self.memory_bytes());
            if flooded && self.flood.trial == Trial::Status && asked.elapsed() >= ASK_EVERY {
                asked = Instant::now();
                turn = (turn + 1) % REPLICAS;
                let answered = self.cluster.status(turn).is_some();
                self.trials.note(answered, asked.elapsed());
            }
            std::thread::sleep(SAMPLE_EVERY.min(end.saturating_duration_since(Instant::now())));
        }
        memory = memory.max(self.memory_bytes());
        let seconds = began.elapsed().as_secs_f64();
        let (answered, p50_ms, p99_ms) = self.interval();
        let goodput = answered as f64 / seconds;
        Ok(Phase { seconds, goodput, p50_ms, p99_ms, memory_mib: memory as f64 / MIB })
    }

    /// What was answered since this was asked last: how much, and with which latency.
    fn interval(&self) -> (u64, f64, f64) {
        match &self.load {
            Load::Replicas(counting) => {
                let interval = counting.interval();
                (interval.acknowledged, interval.p50_ms, interval.p99_ms)
            }
            Load::Gateway(load) => {
                let (answered, mut latencies) = load.interval();
                latencies.sort_unstable();
                let at = |share: f64| {
                    let index = (latencies.len() as f64 * share) as usize;
                    latencies.get(index).map_or(0.0, |latency| latency.as_secs_f64() * 1e3)
                };
                (answered, at(0.5), at(0.99))
            }
        }
    }

    /// The most that an attacked process takes now.
    fn memory_bytes(&mut self) -> u64 {
        let liar = matches!(self.flood.by, By::Peer(_)).then_some(LIAR);
        let up: Vec<usize> = self.cluster.up().filter(|id| Some(*id) != liar).collect();
        let mut processes: Vec<u32> =
            up.into_iter().filter_map(|id| Some(self.cluster.process(id)?.id())).collect();
        processes.extend(self.gateway.as_ref().map(Process::id));
        let held = processes.into_iter().filter_map(|id| Some(Usage::of(id)?.memory_bytes));
        held.max().unwrap_or(0)
    }

    /// Processor time of a client's flood, or of the replica that floods, so far.
    fn attacker_processor(&mut self) -> Duration {
        let process = match self.flood.by {
            By::Peer(_) => self.cluster.process(LIAR).map(|process| process.id()),
            By::Client(_) => self.attacker.as_ref().map(Process::id),
        };
        process.and_then(Usage::of).map_or(Duration::ZERO, |usage| usage.processor)
    }

    /// Ends the flood. How much it did.
    fn end_of_flood(&mut self) -> u64 {
        match &mut self.attacker {
            Some(attacker) => {
                attacker.stop(PATIENCE);
                let words = attacker.last_words();
                let said = words.rsplit_once("{\"did\":").map_or("", |(_, rest)| rest);
                said.trim_end_matches('}').parse().unwrap_or(0)
            }
            None => {
                let status = self.cluster.status(LIAR).unwrap_or_default();
                status["numbers"]["adversary_deeds_total"].as_f64().unwrap_or(0.0) as u64
            }
        }
    }

    fn judge_honest(&self, row: &mut AttackRow) {
        row.newcomers = self.newcomers.served();
        row.trials = self.trials.served();
        let longest = self.newcomers.longest().max(self.trials.longest());
        row.longest_ms = longest.as_secs_f64() * 1e3;
        if self.newcomers.failed() > 0 || row.newcomers == 0 {
            let failed = self.newcomers.failed();
            row.missed.push(format!("{failed} of {} new clients", failed + row.newcomers));
        }
        let failed = self.trials.failed();
        if failed > 0 || (row.trials == 0 && self.flood.trial != Trial::Load) {
            let what = match self.flood.trial {
                Trial::Load => "attempts",
                Trial::Status => "questions for a status",
                Trial::Pull => "pulls",
                Trial::Return => "returns of a replica",
            };
            row.missed.push(format!("{failed} of {} {what}", failed + row.trials));
        }
    }
}

fn client_config(cluster: &LocalCluster) -> ClientConfig {
    ClientConfig {
        replicas: cluster.addresses(),
        session: cluster.session(),
        give_up_after: None,
        authenticity: Authenticity::of(cluster.cluster()),
        incarnation: None,
    }
}

fn start_of_gateway(attacks: &Attacks, client: &Home) -> Start {
    let mut arguments: Vec<OsString> =
        vec!["gateway".into(), "--home".into(), client.root().into()];
    let rest = ["--listen", "127.0.0.1:0", "-o", "json", "--exit-with-parent"];
    arguments.extend(rest.map(Into::into));
    Start {
        name: "gateway".to_owned(),
        program: attacks.program.clone(),
        arguments,
        log: client.root().join("gateway.log"),
        echo: Echo::No,
        namespace: None,
    }
}

fn start_of_flood(
    attacks: &Attacks,
    flood: &Flood,
    cluster: &LocalCluster,
    client: &Home,
    redis: Option<String>,
) -> Start {
    let mut arguments: Vec<OsString> = ["bench", "flood", flood.name].map(Into::into).to_vec();
    arguments.extend(["--home".into(), client.root().into()]);
    for http in (0..cluster.size()).filter_map(|id| cluster.http(id)) {
        arguments.extend(["--http".into(), http.into()]);
    }
    if let Some(redis) = redis {
        arguments.extend(["--gateway".into(), redis.into()]);
    }
    Start {
        name: format!("flood {}", flood.name),
        program: attacks.program.clone(),
        arguments,
        log: client.root().join("flood.log"),
        echo: Echo::No,
        namespace: None,
    }
}
