//! The nodes of a network as processes of this machine.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use quorate_lab::local::{Echo, Process, Start, Usage};
use quorate_node::http::ask_json;
use quorate_payments::setup::Made;
use serde_json::Value;

use crate::failure::Failure;
use crate::local::{failure, program};

/// How long a node may take to come up.
const UP_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take for an answer over HTTP.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Nodes that run. They end with it.
pub struct Nodes {
    processes: Vec<Process>,
    starts: Vec<Start>,
    http: Vec<String>,
    folder: PathBuf,
}

impl Nodes {
    /// Starts all of a network, and waits until each takes part.
    pub fn start(made: &Made, folder: &Path, durability: &str) -> Result<Self, Failure> {
        let program = program()?;
        let failed = |error: &dyn std::error::Error| failure(error, folder);
        let mut nodes = Self {
            processes: Vec::new(),
            starts: Vec::new(),
            http: Vec::new(),
            folder: folder.to_owned(),
        };
        for (id, home) in made.nodes.iter().enumerate() {
            let mut arguments: Vec<_> = ["-o", "json", "pay", "node"].map(Into::into).into();
            arguments.extend(["--durability", durability, "--exit-with-parent"].map(Into::into));
            arguments.extend(["--home".into(), home.into()]);
            let start = Start {
                name: format!("node-{id}"),
                program: program.clone(),
                arguments,
                log: home.join("log"),
                echo: Echo::No,
                namespace: None,
            };
            nodes.processes.push(Process::start(&start).map_err(|error| failed(&error))?);
            nodes.starts.push(start);
        }
        for process in &mut nodes.processes {
            let said = process.announced(UP_WITHIN).map_err(|error| failed(&error))?;
            nodes.http.push(said["http_address"].as_str().unwrap_or_default().to_owned());
        }
        nodes.await_all("every node takes part", |status| status["ready"] == true)?;
        Ok(nodes)
    }

    /// Kills some (SIGKILL).
    pub fn kill(&mut self, ids: std::ops::Range<usize>) {
        self.processes[ids].iter_mut().for_each(Process::kill);
    }

    /// Starts some again that were killed, and waits until all take part.
    pub fn start_again(&mut self, ids: std::ops::Range<usize>) -> Result<(), Failure> {
        let folder = self.folder.clone();
        let failed = |error: &dyn std::error::Error| failure(error, &folder);
        for id in ids.clone() {
            let process = Process::start(&self.starts[id]).map_err(|error| failed(&error))?;
            self.processes[id] = process;
        }
        for id in ids {
            let said = self.processes[id].announced(UP_WITHIN).map_err(|error| failed(&error))?;
            self.http[id] = said["http_address"].as_str().unwrap_or_default().to_owned();
        }
        self.await_all("every node takes part again", |status| status["ready"] == true)
    }

    /// How many there are.
    pub fn size(&self) -> usize {
        self.processes.len()
    }

    /// What a node says of itself, if it answers.
    pub fn status(&self, id: usize) -> Option<Value> {
        ask_json(self.http.get(id)?, "/status", PATIENCE).ok()
    }

    /// The processor time of all nodes so far, and the questions and answers that came to them.
    pub fn work(&self) -> (Duration, u64) {
        let times = self.processes.iter().filter_map(|process| Usage::of(process.id()));
        let counts = (0..self.size()).filter_map(|id| self.status(id)).map(|status| {
            let of = |name: &str| status["numbers"][name].as_u64().unwrap_or_default();
            of("queries_received") + of("answers_received")
        });
        (times.map(|usage| usage.processor).sum(), counts.sum())
    }

    /// Why a node has a transaction pending, if it answers.
    pub fn why(&self, id: usize, transaction: &str) -> Option<Value> {
        ask_json(self.http.get(id)?, &format!("/why/{transaction}"), PATIENCE).ok()
    }

    /// Waits until something holds of all.
    pub fn await_all(&self, what: &str, holds: impl Fn(&Value) -> bool) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let all =
                (0..self.size()).all(|id| self.status(id).is_some_and(|status| holds(&status)));
            if all {
                return Ok(());
            }
            if begun.elapsed() > UP_WITHIN {
                let error = std::io::Error::other(format!("waited in vain until {what}"));
                return Err(failure(&error, &self.folder));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Waits until all ledgers hold the same payments, as they do soon after the last one. Whether
    /// they came to.
    pub fn await_agreement(&self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < UP_WITHIN {
            let sums: Vec<_> = (0..self.size())
                .map(|id| self.status(id).map(|status| status["sum"].clone()))
                .collect();
            if sums[0].is_some() && sums.windows(2).all(|pair| pair[0] == pair[1]) {
                return true;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        false
    }
}
