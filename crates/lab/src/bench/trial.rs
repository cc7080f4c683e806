//! The measurements themselves.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quorate_app::kv::{Condition, command, reply};
use quorate_core::crypto::ClientSigner;
use quorate_crypto::SecretKey;
use quorate_node::client::ClientConfig;
use quorate_node::config::Durability;
use serde_json::Value;

use super::{Bench, BenchError, Row, Settings};
use crate::counting::{Counting, CountingError, Size};
use crate::load::{self, Arrivals, LoadConfig, LoadReport, Workload};
use crate::local::{Echo, LocalCluster, Options, Usage, folder_bytes};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Sessions, and frames of each in flight, of a throughput row: several full blocks in all.
const CLIENTS: usize = 8;
const OUTSTANDING: usize = 8;
/// A block takes about so many frames.
const FRAMES_A_BLOCK: usize = 4;
/// How many different keys are written.
const KEYS: u64 = 100_000;
/// The load while leaders are killed.
const KILL_SIZE: Size = Size { clients: 2, outstanding: 2 };
/// Load between a restart that has caught up and the next kill.
const CALM: Duration = Duration::from_secs(1);
const MIB: f64 = (1 << 20) as f64;

impl Bench {
    /// Full blocks, as fast as they go.
    pub(super) fn throughput(
        &self,
        payload: usize,
        durability: Durability,
    ) -> Result<Row, BenchError> {
        let frame = super::BATCH as usize / FRAMES_A_BLOCK;
        let settings = Settings {
            payload,
            clients: CLIENTS,
            outstanding: OUTSTANDING,
            frame,
            ..self.settings("throughput", durability)
        };
        self.loaded(settings, durability)
    }

    /// One command at a time.
    pub(super) fn lowest_latency(&self, durability: Durability) -> Result<Row, BenchError> {
        let settings = Settings {
            payload: 128,
            clients: 1,
            outstanding: 1,
            frame: 1,
            ..self.settings("lowest-load", durability)
        };
        self.loaded(settings, durability)
    }

    fn loaded(&self, mut settings: Settings, durability: Durability) -> Result<Row, BenchError> {
        let fills_blocks = settings.name == "throughput";
        self.with_cluster(durability, |cluster| {
            let report = load::run(&self.load(cluster, &settings)?)?;
            if report.wrong > 0 {
                return Err(BenchError::Wrong(format!("{} commands", report.wrong)));
            }
            settings.seconds = report.seconds;
            let mut row = Row { settings, ..Row::default() };
            let executed = note_statuses(cluster, &mut row);
            let processor = note_usage(cluster, &mut row);
            row.replica_us = (executed > 0.0).then(|| processor.as_secs_f64() * 1e6 / executed);
            note_load(report, fills_blocks, &mut row);
            Ok(row)
        })
    }

    fn load(&self, cluster: &LocalCluster, settings: &Settings) -> Result<LoadConfig, BenchError> {
        let mut ok = Vec::new();
        reply::encode::ok(&mut ok);
        let workload = match settings.payload {
            0 => Workload::noop(settings.frame, &[])?,
            payload => Workload::put(settings.frame, payload, KEYS, 1, &ok, |key, value| {
                let mut set = Vec::with_capacity(key.len() + value.len() + 16);
                command::encode::set(&mut set, key, value, Condition::Always, false);
                set
            })?,
        };
        let key = |_| match SecretKey::generate() {
            Ok(key) => Ok(Arc::new(key) as Arc<dyn ClientSigner>),
            Err(error) => Err(CountingError::Key(error.to_string())),
        };
        Ok(LoadConfig {
            protocol: cluster.cluster().protocol.name().to_owned(),
            replicas: cluster.addresses(),
            session: cluster.session(),
            keys: (0..settings.clients).map(key).collect::<Result<_, _>>()?,
            workload,
            outstanding: settings.outstanding,
            arrivals: Arrivals::Closed,
            warm_up: self.warm_up,
            duration: self.measured,
            interval: Duration::from_secs(1),
            patience: PATIENCE,
        })
    }

    /// What replicas take that have nothing to do.
    pub(super) fn idle(&self) -> Result<Row, BenchError> {
        let durability = Durability::Sync;
        self.with_cluster(durability, |cluster| {
            std::thread::sleep(Duration::from_secs(1));
            let ids = processes(cluster);
            let used = |id: &u32| Usage::of(*id).map(|usage| usage.processor).unwrap_or_default();
            let (began, before) = (Instant::now(), ids.iter().map(used).sum::<Duration>());
            std::thread::sleep(self.idle);
            let spent = ids.iter().map(used).sum::<Duration>().saturating_sub(before);
            let watched = began.elapsed().as_secs_f64();
            let mut row = Row { settings: self.settings("idle", durability), ..Row::default() };
            row.settings.seconds = watched;
            row.processor_percent =
                Some(100.0 * spent.as_secs_f64() / watched / ids.len().max(1) as f64);
            note_usage(cluster, &mut row);
            Ok(row)
        })
    }

    /// Leaders killed under load, restarted, and killed again; every answer is checked.
    pub(super) fn leader_kills(&self, kills: usize) -> Result<Row, BenchError> {
        let durability = Durability::Sync;
        self.with_cluster(durability, |cluster| {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                .enable_all()
                .build()
                .map_err(|source| BenchError::Io { what: "no runtime", source })?;
            let config = ClientConfig {
                replicas: cluster.addresses(),
                session: cluster.session(),
                give_up_after: None,
                incarnation: None,
            };
            let counting = runtime.block_on(Counting::begin(config, KILL_SIZE, PATIENCE))?;
            let began = Instant::now();
            let mut row =
                Row { settings: self.settings("leader-kill", durability), ..Row::default() };
            for _ in 0..kills {
                std::thread::sleep(CALM);
                let (recovery, catch_up) = kill_leader(cluster, &counting, &runtime)?;
                row.recoveries_ms.push(ms(recovery));
                row.catch_ups_ms.push(ms(catch_up));
            }
            row.settings.seconds = began.elapsed().as_secs_f64();
            row.settings.clients = KILL_SIZE.clients;
            row.settings.outstanding = KILL_SIZE.outstanding;
            let verdict = runtime.block_on(counting.end(PATIENCE))?;
            if !verdict.is_sound() {
                return Err(BenchError::Wrong(format!("{verdict:?}")));
            }
            let mut sorted = row.recoveries_ms.clone();
            sorted.sort_by(f64::total_cmp);
            row.p50_ms = sorted.get(sorted.len() / 2).copied();
            row.max_ms = sorted.last().copied();
            row.mean_ms = Some(sorted.iter().sum::<f64>() / sorted.len().max(1) as f64);
            Ok(row)
        })
    }

    /// Runs `measure` on a fresh cluster, which is gone afterwards.
    fn with_cluster(
        &self,
        durability: Durability,
        measure: impl FnOnce(&mut LocalCluster) -> Result<Row, BenchError>,
    ) -> Result<Row, BenchError> {
        let name = Path::new("cluster");
        let net = self.new_homes(name, durability)?;
        let options = Options {
            program: self.program.clone(),
            arguments: Vec::new(),
            own_arguments: BTreeMap::new(),
            echo: Echo::No,
        };
        let mut cluster = LocalCluster::start(net.cluster, net.replicas, options)?;
        cluster.await_ready(PATIENCE)?;
        let row = measure(&mut cluster);
        cluster.stop();
        drop(cluster);
        std::fs::remove_dir_all(self.folder.join(name))
            .map_err(|source| BenchError::Io { what: "homes cannot be removed", source })?;
        row
    }
}

/// Kills the leader and restarts it: how long until a command submitted right after the kill was
/// answered, and until the replica had caught up after its restart.
fn kill_leader(
    cluster: &mut LocalCluster,
    counting: &Counting,
    runtime: &tokio::runtime::Runtime,
) -> Result<(Duration, Duration), BenchError> {
    let began = Instant::now();
    let leader = loop {
        if let Some(leader) = cluster.leader() {
            break leader;
        }
        if began.elapsed() > PATIENCE {
            let what = "no leader is known".to_owned();
            return Err(crate::local::LocalError::Late { what, patience: PATIENCE }.into());
        }
    };
    cluster.kill(leader);
    let probe = {
        let _entered = runtime.enter();
        counting.probe()
    };
    let recovery =
        runtime.block_on(async { tokio::time::timeout(PATIENCE, probe).await }).map_err(
            |_| CountingError::Late { what: "no command after a kill", patience: PATIENCE },
        )??;
    let since = Instant::now();
    cluster.restart(leader)?;
    let height = cluster.height();
    cluster.await_height(leader, height, PATIENCE)?;
    Ok((recovery, since.elapsed()))
}

fn processes(cluster: &mut LocalCluster) -> Vec<u32> {
    let up: Vec<_> = cluster.up().collect();
    up.into_iter().filter_map(|id| cluster.process(id).map(|process| process.id())).collect()
}

fn note_load(report: LoadReport, fills_blocks: bool, row: &mut Row) {
    let mut report = report;
    if let (true, Some(filled)) = (fills_blocks, row.commands_per_block) {
        report.note_blocks(filled, row.settings.batch as usize);
    }
    row.goodput = Some(report.goodput);
    row.mean_ms = Some(report.mean_ms);
    row.p50_ms = Some(report.p50_ms);
    row.p99_ms = Some(report.p99_ms);
    row.max_ms = Some(report.max_ms);
    row.generator_us = report.generator_us;
    row.warnings.append(&mut report.warnings);
}

/// Blocks and stages, since the cluster began. Commands that replicas executed, all of them
/// together: time divided by it is that of one command at one replica.
fn note_statuses(cluster: &LocalCluster, row: &mut Row) -> f64 {
    let statuses: Vec<Value> = cluster.up().filter_map(|id| cluster.status(id)).collect();
    let sum = |name: &str| -> f64 {
        statuses.iter().filter_map(|status| status["numbers"][name].as_f64()).sum()
    };
    let commands = sum("committed_commands_total");
    if commands <= 0.0 {
        return 0.0;
    }
    row.commands_per_block = Some(commands / sum("committed_full_blocks_total").max(1.0));
    let mut stages = BTreeMap::new();
    for status in &statuses {
        for (stage, spent) in status["stage_seconds"].as_object().into_iter().flatten() {
            *stages.entry(stage.clone()).or_insert(0.0) +=
                spent.as_f64().unwrap_or(0.0) * 1e6 / commands;
        }
    }
    row.stage_us = stages;
    commands
}

/// Memory and disk. The processor time of all replicas together.
fn note_usage(cluster: &mut LocalCluster, row: &mut Row) -> Duration {
    let usages: Vec<Usage> = processes(cluster).into_iter().filter_map(Usage::of).collect();
    row.memory_mib = usages.iter().map(|usage| usage.memory_bytes).max().map(|n| n as f64 / MIB);
    let homes = (0..cluster.size()).filter_map(|id| cluster.home(id));
    let disk = homes.map(|home| folder_bytes(&home.root().join("data"))).max();
    row.disk_mib = disk.map(|bytes| bytes as f64 / MIB);
    usages.iter().map(|usage| usage.processor).sum()
}

fn ms(span: Duration) -> f64 {
    span.as_secs_f64() * 1e3
}
