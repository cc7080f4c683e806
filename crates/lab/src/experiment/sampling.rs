//! What replicas say about themselves while a run is measured.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::row::Samples;
use super::trial::TrialError;
use crate::local::{LocalCluster, Usage};

/// Sampled of every run.
const ALWAYS: [&str; 7] = [
    COMMANDS,
    "committed_full_blocks_total",
    "view",
    "timeouts_total",
    FAILED_VIEWS,
    FAILED_VIEWS_NANOSECONDS,
    "adversary_deeds_total",
];
const FAILED_VIEWS: &str = "failed_views_left_total";
const FAILED_VIEWS_NANOSECONDS: &str = "failed_views_left_nanoseconds_total";
const COMMANDS: &str = "committed_commands_total";

/// What is asked, and what was said.
pub(super) struct Sampling {
    names: Vec<String>,
    samples: Samples,
    /// Most memory of a replica so far, in bytes.
    pub(super) memory_bytes: u64,
}

impl Sampling {
    pub(super) fn new(more: &[String]) -> Self {
        let mut names: Vec<String> = ALWAYS.map(str::to_owned).to_vec();
        names.extend(more.iter().filter(|name| !ALWAYS.contains(&name.as_str())).cloned());
        Self { names, samples: Samples::default(), memory_bytes: 0 }
    }

    /// Asks every replica that is up.
    pub(super) fn sample(
        &mut self,
        cluster: &mut LocalCluster,
        began: Instant,
    ) -> Result<(), TrialError> {
        let at = began.elapsed().as_secs_f64();
        let statuses: Vec<Value> = cluster.up().filter_map(|id| cluster.status(id)).collect();
        let up: Vec<usize> = cluster.up().collect();
        for id in up {
            let usage = cluster.process(id).and_then(|process| Usage::of(process.id()));
            self.memory_bytes = self.memory_bytes.max(usage.map_or(0, |usage| usage.memory_bytes));
        }
        let Some(first) = statuses.first() else { return Ok(()) };
        self.samples.at.push(at);
        for name in &self.names {
            if first["numbers"].get(name).is_none() {
                return Err(TrialError::NoSuchNumber {
                    name: name.clone(),
                    known: names_of(&first["numbers"]),
                });
            }
            let value = together(name, &statuses);
            self.samples.values.entry(name.clone()).or_default().push(value);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Samples {
        self.samples
    }

    /// By how much a number grew from the first sample to the last.
    fn grown(&self, name: &str) -> f64 {
        let values = self.samples.values.get(name);
        let ends = values.and_then(|values| values.first().zip(values.last()));
        ends.map_or(0.0, |(first, last)| last - first)
    }

    /// By how much a number grew a second, from the first sample to the last.
    pub(super) fn per_second(&self, name: &str) -> f64 {
        let seconds =
            self.samples.at.last().unwrap_or(&0.0) - self.samples.at.first().unwrap_or(&0.0);
        if seconds > 0.0 { self.grown(name) / seconds } else { 0.0 }
    }

    /// How many failed views replicas left, each counted at each replica, and the mean of what one
    /// cost in milliseconds; if there were any. (A replica that is started anew counts from zero,
    /// so a run in which one was may have none.)
    pub(super) fn failed_views(&self) -> Option<(u64, f64)> {
        let left = self.grown(FAILED_VIEWS);
        let milliseconds = self.grown(FAILED_VIEWS_NANOSECONDS) / 1e6;
        (left >= 1.0 && milliseconds > 0.0).then(|| (left as u64, milliseconds / left))
    }
}

/// One number of all replicas: see [`Samples::values`].
fn together(name: &str, statuses: &[Value]) -> f64 {
    let said = statuses.iter().filter_map(|status| status["numbers"][name].as_f64());
    match name.ends_with("_total") && !name.starts_with("committed_") {
        true => said.sum(),
        false => said.fold(0.0, f64::max),
    }
}

fn names_of(numbers: &Value) -> String {
    let names = numbers.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// What the replicas that are up have spent and executed so far, by id.
#[derive(Clone, Debug, Default)]
pub(super) struct Spent(BTreeMap<usize, OfReplica>);

/// What one replica has.
#[derive(Clone, Debug, Default)]
struct OfReplica {
    /// Commands executed.
    commands: f64,
    /// Seconds by stage, of all its threads, by the clock.
    stages: BTreeMap<String, f64>,
    /// Processor time of all threads.
    processor: Duration,
}

impl Spent {
    pub(super) fn of(cluster: &mut LocalCluster) -> Self {
        let mut spent = Self::default();
        let up: Vec<usize> = cluster.up().collect();
        for id in up {
            let Some(status) = cluster.status(id) else { continue };
            let seconds = status["stage_seconds"].as_object().into_iter().flatten();
            let stages = seconds.map(|(stage, it)| (stage.clone(), it.as_f64().unwrap_or(0.0)));
            let usage = cluster.process(id).and_then(|process| Usage::of(process.id()));
            let one = OfReplica {
                commands: status["numbers"][COMMANDS].as_f64().unwrap_or(0.0),
                stages: stages.collect(),
                processor: usage.unwrap_or_default().processor,
            };
            spent.0.insert(id, one);
        }
        spent
    }

    /// Processor time of all of them.
    pub(super) fn processor(&self) -> Duration {
        self.0.values().map(|one| one.processor).sum()
    }

    /// Microseconds a command and replica since `before`: of each stage, and of everything. Only
    /// those count that were up both times.
    pub(super) fn per_command(&self, before: &Self) -> (BTreeMap<String, f64>, f64) {
        let (mut commands, mut seconds, mut stages) = (0.0, 0.0, BTreeMap::new());
        for (now, then) in self.0.iter().filter_map(|(id, now)| Some((now, before.0.get(id)?))) {
            commands += now.commands - then.commands;
            seconds += now.processor.saturating_sub(then.processor).as_secs_f64();
            for (stage, now) in &now.stages {
                let grown = now - then.stages.get(stage).copied().unwrap_or(0.0);
                *stages.entry(stage.clone()).or_insert(0.0) += grown.max(0.0);
            }
        }
        if commands <= 0.0 {
            return Default::default();
        }
        stages.values_mut().for_each(|seconds| *seconds *= 1e6 / commands);
        (stages, seconds * 1e6 / commands)
    }
}

#[cfg(test)]
pub(super) mod tests;
