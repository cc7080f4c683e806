//! Measurements of a cluster of processes on this machine, each on a fresh one.
//!
//! A row says with which settings it was measured, so that it can be measured again. The load, the
//! replicas and the measuring share the machine: its cores are part of every row.

pub mod matrix;
mod row;
mod trial;

use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_node::config::{Durability, LeaderName};
use quorate_node::testnet;

use crate::counting::CountingError;
use crate::load::{LoadError, WorkloadError};
use crate::local::LocalError;

pub use row::{Choices, Row, Settings};

/// Commands in a full block.
const BATCH: u32 = 400;
/// Payloads of the throughput rows, in bytes.
const PAYLOADS: [usize; 3] = [0, 128, 1024];
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
    /// What kind of cluster; the name, the batch and the durability are the rows' own.
    pub options: testnet::Options,
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
    /// The load.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its commands.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
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
    #[error("replica {id} {how}; see replica-{id}/replica.log")]
    Ended {
        /// Which.
        id: usize,
        /// How.
        how: String,
    },
}

impl Bench {
    /// Measures everything, and hands each row over as soon as it is known.
    ///
    /// # Errors
    /// [`BenchError`]: the rows before stand.
    pub fn run(&self, mut done: impl FnMut(Row)) -> Result<(), BenchError> {
        for durability in [Durability::Sync, Durability::Os] {
            for payload in PAYLOADS {
                done(self.throughput(payload, durability)?);
            }
        }
        for durability in [Durability::Sync, Durability::Os] {
            done(self.lowest_latency(durability)?);
        }
        done(self.idle()?);
        // A cluster whose leader is fixed does nothing while that is dead.
        if self.options.combination.leader != LeaderName::Fixed {
            done(self.leader_kills(KILLS)?);
        }
        Ok(())
    }

    fn settings(&self, name: &'static str, durability: Durability) -> Settings {
        Settings {
            name,
            choices: self.options.combination.into(),
            replicas: self.replicas,
            durability: durability.name(),
            batch: BATCH,
            payload: 0,
            clients: 0,
            outstanding: 0,
            frame: 0,
            send_to: "all",
            seconds: 0.0,
            cores: std::thread::available_parallelism().map_or(0, usize::from),
        }
    }

    fn new_homes(
        &self,
        name: &Path,
        durability: Durability,
    ) -> Result<testnet::Testnet, BenchError> {
        let options = testnet::Options {
            chain: "bench".to_owned(),
            batch_commands: Some(BATCH),
            durability,
            ..self.options.clone()
        };
        Ok(testnet::init(&self.folder.join(name), self.replicas, &options)?)
    }
}
