//! All replicas of a testnet as processes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use quorate_core::client::{Route, SessionConfig};
use quorate_netem::Namespace;
use quorate_node::client::ReplicaAddress;
use quorate_node::config::{Cluster, Home};
use quorate_node::http;
use serde_json::Value;

use super::process::{Echo, Process, ProcessError, Start};

/// How long a replica may take to come up.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(10);
/// How long an answer to a question about its status may take.
const STATUS_WITHIN: Duration = Duration::from_secs(2);
/// How often a replica is started again if it cannot have its addresses: between two processes of
/// one replica, a passing connection may hold one of its ports.
const START_ATTEMPTS: u32 = 20;
const ATTEMPT_EVERY: Duration = Duration::from_millis(250);

/// How the replicas run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `quorate` program.
    pub program: PathBuf,
    /// Arguments of every `quorate start`.
    pub arguments: Vec<OsString>,
    /// Arguments of one replica's `quorate start` alone, by id.
    pub own_arguments: BTreeMap<usize, Vec<OsString>>,
    /// Whether what they print is shown.
    pub echo: Echo,
    /// The network namespaces they run in, by id; empty: all in this process's.
    pub namespaces: Vec<Namespace>,
}

/// Why a local cluster is not of use.
#[derive(Debug, thiserror::Error)]
pub enum LocalError {
    /// A process.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// What was waited for did not come.
    #[error("{what} after {patience:?}")]
    Late {
        /// What is still so.
        what: String,
        /// How long it was waited.
        patience: Duration,
    },
}

/// A cluster of processes on this machine. Dropping it kills them.
#[derive(Debug)]
pub struct LocalCluster {
    options: Options,
    cluster: Cluster,
    homes: Vec<Home>,
    replicas: Vec<Option<Process>>,
    http: Vec<Option<String>>,
}

impl LocalCluster {
    /// Starts the replicas of `cluster` that live in `homes`, by id, and waits until all are up.
    ///
    /// # Errors
    /// [`LocalError`]; none is left running then.
    pub fn start(cluster: Cluster, homes: Vec<Home>, options: Options) -> Result<Self, LocalError> {
        let count = homes.len();
        let mut this = Self {
            options,
            cluster,
            homes,
            replicas: (0..count).map(|_| None).collect(),
            http: vec![None; count],
        };
        for id in 0..count {
            this.replicas[id] = Some(Process::start(&this.start_of(id))?);
        }
        for id in 0..count {
            this.await_up(id)?;
        }
        Ok(this)
    }

    fn start_of(&self, id: usize) -> Start {
        let home = self.homes[id].root();
        let mut arguments: Vec<OsString> = vec!["start".into(), "--home".into(), home.into()];
        arguments.extend(["-o".into(), "json".into(), "--exit-with-parent".into()]);
        arguments.extend(self.options.arguments.iter().cloned());
        arguments.extend(self.options.own_arguments.get(&id).into_iter().flatten().cloned());
        Start {
            name: format!("replica-{id}"),
            program: self.options.program.clone(),
            arguments,
            log: home.join("replica.log"),
            echo: self.options.echo,
            namespace: self.options.namespaces.get(id).cloned(),
        }
    }

    fn await_up(&mut self, id: usize) -> Result<(), LocalError> {
        for attempt in 1.. {
            let Some(process) = &mut self.replicas[id] else { break };
            match process.announced(UP_WITHIN) {
                Ok(said) => {
                    self.http[id] = said["http_address"].as_str().map(str::to_owned);
                    return Ok(());
                }
                Err(ProcessError::Ended { words, .. })
                    if words.contains("cannot listen") && attempt < START_ATTEMPTS =>
                {
                    std::thread::sleep(ATTEMPT_EVERY);
                    self.replicas[id] = Some(Process::start(&self.start_of(id))?);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// How many replicas there are, running or not.
    #[must_use]
    pub fn size(&self) -> usize {
        self.homes.len()
    }

    /// What they agreed on.
    #[must_use]
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Where a replica lives.
    #[must_use]
    pub fn home(&self, id: usize) -> Option<&Home> {
        self.homes.get(id)
    }

    /// The process of a replica, if it runs as far as is known.
    pub fn process(&mut self, id: usize) -> Option<&mut Process> {
        self.replicas.get_mut(id)?.as_mut()
    }

    /// The replicas that are not stopped or killed.
    pub fn up(&self) -> impl Iterator<Item = usize> {
        self.replicas.iter().enumerate().filter(|(_, process)| process.is_some()).map(|(id, _)| id)
    }

    /// Where a replica answers status and metrics, if it is up.
    #[must_use]
    pub fn http(&self, id: usize) -> Option<&str> {
        self.http.get(id)?.as_deref()
    }

    /// What a replica says about itself, if it answers.
    #[must_use]
    pub fn status(&self, id: usize) -> Option<Value> {
        self.ask(id, "/status")
    }

    /// What a replica tells at `path`, if it answers.
    #[must_use]
    pub fn ask(&self, id: usize, path: &str) -> Option<Value> {
        self.replicas.get(id)?.as_ref()?;
        let address = self.http.get(id)?.as_ref()?;
        let ask = || http::ask_json(address, path, STATUS_WITHIN).ok();
        match self.options.namespaces.get(id) {
            Some(namespace) => namespace.within(ask).ok()?,
            None => ask(),
        }
    }

    /// Waits until every replica that is up reaches a quorum.
    ///
    /// # Errors
    /// [`LocalError::Late`].
    pub fn await_ready(&self, patience: Duration) -> Result<(), LocalError> {
        self.await_all(patience, "not every replica is ready", |status| status["ready"] == true)
    }

    /// Waits until every replica that is up says what `wanted` wants to hear.
    ///
    /// # Errors
    /// [`LocalError::Late`], with `what` is still so.
    pub fn await_all(
        &self,
        patience: Duration,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<(), LocalError> {
        let began = Instant::now();
        while !self.up().all(|id| self.status(id).is_some_and(|status| wanted(&status))) {
            if began.elapsed() > patience {
                return Err(LocalError::Late { what: what.to_owned(), patience });
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// The leader of the highest view that a replica speaks of, if that leader is up.
    #[must_use]
    pub fn leader(&self) -> Option<usize> {
        let statuses = self.up().filter_map(|id| self.status(id));
        let newest = statuses.max_by_key(|status| status["view"].as_u64())?;
        let leader = usize::try_from(newest["leader"].as_u64()?).ok()?;
        self.replicas.get(leader)?.as_ref().map(|_| leader)
    }

    /// Kills a replica (SIGKILL). Whether it was up.
    pub fn kill(&mut self, id: usize) -> bool {
        self.http[id] = None;
        match self.replicas.get_mut(id).and_then(Option::take) {
            Some(mut process) => {
                process.kill();
                true
            }
            None => false,
        }
    }

    /// Starts a replica that was killed, and waits until it is up (not: until it has caught up).
    ///
    /// # Errors
    /// [`LocalError`].
    pub fn restart(&mut self, id: usize) -> Result<(), LocalError> {
        self.kill(id);
        self.replicas[id] = Some(Process::start(&self.start_of(id))?);
        self.await_up(id)
    }

    /// The highest executed height that a replica speaks of.
    #[must_use]
    pub fn height(&self) -> u64 {
        let heights = self.up().filter_map(|id| self.status(id)?["executed_height"].as_u64());
        heights.max().unwrap_or(0)
    }

    /// Waits until a replica has executed up to `height`.
    ///
    /// # Errors
    /// [`LocalError::Late`].
    pub fn await_height(
        &self,
        id: usize,
        height: u64,
        patience: Duration,
    ) -> Result<(), LocalError> {
        let began = Instant::now();
        let reached = || self.status(id)?["executed_height"].as_u64();
        while reached().is_none_or(|reached| reached < height) {
            if began.elapsed() > patience {
                let what = format!("replica {id} has not reached height {height}");
                return Err(LocalError::Late { what, patience });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Replicas that ended by themselves since the last call: which, how, and where their log is.
    pub fn ended(&mut self) -> Vec<(usize, String, PathBuf)> {
        let mut ended = Vec::new();
        for (id, slot) in self.replicas.iter_mut().enumerate() {
            if let Some(process) = slot
                && let Some(how) = process.ended()
            {
                ended.push((id, how, process.log().to_owned()));
                *slot = None;
            }
        }
        ended
    }

    /// Stops all in good order.
    pub fn stop(&mut self) {
        self.replicas.iter_mut().flatten().for_each(Process::ask_to_stop);
        for slot in &mut self.replicas {
            if let Some(mut process) = slot.take() {
                process.stop(STOP_WITHIN);
            }
        }
    }

    /// The replicas, as clients reach them.
    #[must_use]
    pub fn addresses(&self) -> Vec<ReplicaAddress> {
        let members = self.cluster.members.iter();
        members
            .map(|member| ReplicaAddress {
                address: member.client_address.to_string(),
                key: member.transport_key,
            })
            .collect()
    }

    /// How a client's session with it goes.
    #[must_use]
    pub fn session(&self) -> SessionConfig {
        let mut session = SessionConfig::new(self.cluster.chain_digest(), self.size());
        session.tentative = self.cluster.tentative;
        session.frame_commands = self.cluster.limits.max_frame_commands as usize;
        session.frame_bytes = self.cluster.limits.max_frame_bytes as usize;
        session.route = Route::All;
        session
    }
}
