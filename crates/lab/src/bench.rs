//! Measurements of a cluster of processes on this machine, each on a fresh one: a few rows that
//! tell most about a build. What is measured under load is run as an experiment is
//! ([`crate::experiment`]); a row has all its settings, so that it can be measured again.

mod faults;
pub mod matrix;
mod row;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_core::ReplicaId;
use quorate_node::client::{Authenticity, ClientConfig};
use quorate_node::config::{ByteSize, Combination, Durability, HumanDuration, LeaderName};
use quorate_node::testnet;
use quorate_transport::TransportName;
use tokio::runtime::Runtime;

use crate::counting::{Counting, CountingError, Size};
use crate::experiment::{self, Attack, Kill, Name, Point, Settings, TrialError, Written};
use crate::local::{Fresh, LocalCluster, LocalError, ReplicaEnded};

pub use row::{Ratio, Row};

/// Commands in a full block.
const BATCH: u32 = 400;
/// Payloads of the throughput rows, in bytes.
const PAYLOADS: [u64; 3] = [0, 128, 1024];
/// Sessions, and frames of each in flight, of a throughput row: several full blocks in all.
const CLIENTS: u32 = 8;
const OUTSTANDING: u32 = 8;
/// How long a cluster with an adversary may take until its load is ready, seconds.
const SETTLE_S: f64 = 10.0;
/// How often the leader is killed.
const KILLS: usize = 5;

/// What to measure, and for how long.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The `quorate` program.
    pub program: PathBuf,
    /// Where the clusters' homes go; each is removed when its row is done.
    pub folder: PathBuf,
    /// How many replicas.
    pub replicas: usize,
    /// What orders the blocks, and how.
    pub combination: Combination,
    /// What replicas reach each other by.
    pub transport: TransportName,
    /// Who leads, if the leader is fixed.
    pub fixed_leader: ReplicaId,
    /// How long each row's load is measured.
    pub measured: Duration,
    /// How long it runs before.
    pub warm_up: Duration,
    /// How long an idle cluster is watched.
    pub idle: Duration,
}

/// Why a row could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The homes could not be made or removed.
    #[error(transparent)]
    Testnet(#[from] testnet::TestnetError),
    /// The processes.
    #[error(transparent)]
    Local(#[from] LocalError),
    /// A run under load.
    #[error(transparent)]
    Trial(#[from] TrialError),
    /// The checked load.
    #[error(transparent)]
    Counting(#[from] CountingError),
    /// The system.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// What the system says.
        source: std::io::Error,
    },
    /// A wrong answer: no figure counts then.
    #[error("the cluster answered wrongly: {0}")]
    Wrong(String),
    /// Commits stopped.
    #[error("{0}")]
    Stuck(String),
    /// A replica ended that nobody killed.
    #[error(transparent)]
    Ended(#[from] ReplicaEnded),
}

impl Bench {
    /// Measures everything, and hands each row over as soon as it is known.
    ///
    /// # Errors
    /// [`BenchError`]: the rows before stand.
    pub fn run(&self, mut done: impl FnMut(Row)) -> Result<(), BenchError> {
        for durability in [Durability::Sync, Durability::Os] {
            for payload in PAYLOADS {
                done(self.loaded("throughput", |point| {
                    point.durability = Name(durability);
                    point.payload = Written(ByteSize(payload));
                    (point.clients, point.outstanding) = (CLIENTS, OUTSTANDING);
                })?);
            }
        }
        for durability in [Durability::Sync, Durability::Os] {
            done(self.loaded("lowest-load", |point| {
                point.durability = Name(durability);
                point.payload = Written(ByteSize(128));
                (point.clients, point.outstanding, point.frame) = (1, 1, 1);
            })?);
        }
        self.one_at_fault(&mut done)?;
        done(self.idle()?);
        // A cluster whose leader is fixed does nothing while that is dead.
        if self.combination.leader != LeaderName::Fixed {
            done(self.leader_kills(KILLS)?);
        }
        Ok(())
    }

    /// The same load with all replicas well, with one dead, and with one that signs and leads
    /// badly.
    fn one_at_fault(&self, done: &mut impl FnMut(Row)) -> Result<(), BenchError> {
        let load = |point: &mut Point| {
            point.durability = Name(Durability::Sync);
            point.payload = Written(ByteSize(128));
            (point.clients, point.outstanding) = (CLIENTS, OUTSTANDING);
        };
        let healthy = self.loaded("all-alive", load)?;
        done(healthy.clone());
        // It does nothing while its fixed leader is dead or silent; and one of three replicas is
        // needed.
        if self.combination.leader == LeaderName::Fixed || self.replicas < 4 {
            return Ok(());
        }
        let attack = |name: &str| Written(Attack(name.parse().ok()));
        let faults: [(&'static str, Written<Kill>, Written<Attack>); 3] = [
            (
                "one-dead",
                Written(Kill::Leader(HumanDuration(Duration::ZERO))),
                Written(Attack(None)),
            ),
            ("silent-leader", Written(Kill::None), attack("silent-leader")),
            ("slow-leader", Written(Kill::None), attack("slow-leader")),
        ];
        for (name, kill, adversary) in faults {
            let mut row = self.loaded(name, |point| {
                load(point);
                (point.kill, point.adversary, point.liars) = (kill, adversary, 1);
            })?;
            let figures = row.figures.as_ref().zip(healthy.figures.as_ref());
            row.against_healthy = figures.map(|(ours, well)| Ratio::of(ours, well));
            done(row);
        }
        Ok(())
    }

    fn settings(&self, set: impl FnOnce(&mut Point)) -> Settings {
        let mut point = Point {
            fixed_leader: self.fixed_leader.0,
            transport: Name(self.transport),
            replicas: self.replicas,
            batch: BATCH,
            ..Point::of(self.combination)
        };
        set(&mut point);
        // An adversary begins by the clock, so the load has to be ready before.
        let settle = if point.adversary.0.0.is_some() { SETTLE_S } else { 0.0 };
        Settings {
            network: None,
            point,
            seconds: self.measured.as_secs_f64(),
            warm_up: self.warm_up.as_secs_f64(),
            settle,
            interval: 1.0,
        }
    }

    /// One run under load.
    fn loaded(&self, name: &'static str, set: impl FnOnce(&mut Point)) -> Result<Row, BenchError> {
        let mut row = Row::new(name, self.settings(set));
        let folder = self.folder.join("cluster");
        row.figures = Some(experiment::run_once(&self.program, &folder, &row.settings)?.0);
        remove(&folder)?;
        Ok(row)
    }

    /// Runs `measure` on a fresh cluster, which is gone afterwards.
    fn on_fresh_cluster(
        &self,
        settings: &Settings,
        measure: impl FnOnce(&mut LocalCluster) -> Result<Row, BenchError>,
    ) -> Result<Row, BenchError> {
        let folder = self.folder.join("cluster");
        let cluster = Fresh {
            program: &self.program,
            folder: &folder,
            replicas: self.replicas,
            options: settings.point.testnet_options(),
            arguments: Vec::new(),
            own_arguments: BTreeMap::new(),
            network: None,
        };
        let row = cluster.run(|cluster, _| {
            cluster.await_ready(Duration::from_secs(60))?;
            measure(cluster)
        })?;
        remove(&folder)?;
        Ok(row)
    }
}

fn remove(folder: &Path) -> Result<(), BenchError> {
    std::fs::remove_dir_all(folder)
        .map_err(|source| BenchError::Io { what: "homes cannot be removed", source })
}

/// Sessions on `cluster` that count, and the thread they run on: what still runs when something
/// failed ends with it.
fn count_on(
    cluster: &LocalCluster,
    size: Size,
    patience: Duration,
) -> Result<(Runtime, Counting), BenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(|source| BenchError::Io { what: "no runtime", source })?;
    let config = ClientConfig {
        replicas: cluster.addresses(),
        session: cluster.session(),
        give_up_after: None,
        authenticity: Authenticity::of(cluster.cluster()),
        incarnation: None,
    };
    let counting = runtime.block_on(Counting::begin(config, size, patience))?;
    Ok((runtime, counting))
}
