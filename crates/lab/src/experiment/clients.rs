//! The processes that make the load of a run: `quorate load`, told when to begin.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use quorate_netem::Namespace;
use quorate_node::config::Home;
use serde::{Deserialize, Serialize};

use super::confine::Confined;
use super::row::Settings;
use super::trial::TrialError;
use super::value::{ArrivalName, PopularityName, Rate, SendTo};
use crate::load::{Distribution, LoadReport};
use crate::local::{Echo, Process, ProcessError, Start, Usage};

/// How long a client may take from its start until every replica has answered it, beside the
/// warm-up.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How long it may take to end after what it measured: answers that are under way are waited for.
const END_WITHIN: Duration = Duration::from_secs(40);

/// What a client process writes in the end.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counted {
    /// Its figures.
    pub report: LoadReport,
    /// Every latency.
    pub distribution: Distribution,
}

/// The client processes of a run. Dropping them kills them.
pub(super) struct Clients {
    processes: Vec<(Process, PathBuf)>,
}

impl Clients {
    /// Starts them, in this network namespace if there is one. In a closed loop each is one thread:
    /// it keeps to a core, from the last on, as replicas on the machine divide the cores from the
    /// first on. Where there is one client, its replicas' first core has the leader's work as well.
    pub(super) fn start(
        program: &Path,
        home: &Home,
        settings: &Settings,
        seed: u64,
        namespace: Option<&Namespace>,
    ) -> Result<Self, TrialError> {
        let mut processes = Vec::new();
        for number in 0..settings.point.client_processes {
            let counted = home.root().join(format!("counted-{number}.json"));
            let start = Start {
                name: format!("client-{number}"),
                program: program.to_owned(),
                arguments: arguments(home, settings, number, seed, &counted),
                log: home.root().join(format!("client-{number}.log")),
                echo: Echo::No,
                namespace: namespace.cloned(),
            };
            let is_closed = settings.point.rate == Rate::Closed;
            let confined = is_closed.then(|| Confined::to_one(number as usize)).transpose()?;
            processes.push((Process::start(&start)?, counted));
            drop(confined);
        }
        Ok(Self { processes })
    }

    /// Waits until every replica has answered each, and the warm-up is over.
    pub(super) fn await_ready(&mut self, warm_up: f64) -> Result<(), TrialError> {
        for (process, _) in &mut self.processes {
            process.announced(READY_WITHIN + Duration::from_secs_f64(warm_up))?;
        }
        Ok(())
    }

    /// Tells all when measuring begins.
    pub(super) fn begin(&mut self, at: SystemTime) -> Result<(), TrialError> {
        let at = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
        for (process, _) in &mut self.processes {
            process.tell(&at.to_string()).map_err(|_| ended(process))?;
        }
        Ok(())
    }

    /// Whether one has ended, though it is not over.
    pub(super) fn check(&mut self) -> Result<(), TrialError> {
        for (process, counted) in &mut self.processes {
            if process.ended().is_some() && !counted.exists() {
                return Err(ended(process));
            }
        }
        Ok(())
    }

    pub(super) fn processor(&self) -> Duration {
        let used = |(process, _): &(Process, PathBuf)| Usage::of(process.id());
        self.processes.iter().filter_map(used).map(|usage| usage.processor).sum()
    }

    /// Waits for their ends. What each counted.
    pub(super) fn counted(&mut self) -> Result<Vec<Counted>, TrialError> {
        let began = Instant::now();
        let mut reports = Vec::new();
        for (process, counted) in &mut self.processes {
            while process.ended().is_none() {
                if began.elapsed() > END_WITHIN {
                    return Err(ProcessError::Late {
                        name: process.name().to_owned(),
                        patience: END_WITHIN,
                        log: process.log().to_owned(),
                    }
                    .into());
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let text = std::fs::read(&*counted).map_err(|_| ended(process))?;
            reports.push(serde_json::from_slice(&text).map_err(|_| ended(process))?);
        }
        Ok(reports)
    }
}

fn ended(process: &mut Process) -> TrialError {
    ProcessError::Ended {
        name: process.name().to_owned(),
        how: process.ended().unwrap_or_else(|| "does not read what it is told".to_owned()),
        words: process.last_words(),
        log: process.log().to_owned(),
    }
    .into()
}

/// The share of `total` of the part `number` of `parts`; the first ones take what is left over.
fn share(total: u32, number: u32, parts: u32) -> u32 {
    total / parts + u32::from(number < total % parts)
}

fn arguments(
    home: &Home,
    settings: &Settings,
    number: u32,
    seed: u64,
    counted: &Path,
) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = vec!["load".into(), "--home".into(), home.root().into()];
    let of_place = load_arguments(settings, number, settings.point.client_processes, seed);
    arguments.extend(of_place.into_iter().map(OsString::from));
    arguments.extend(["--told".into(), counted.into()]);
    arguments
}

/// Arguments of `quorate load`, but for `--home` and `--told`, for the process `number` of
/// `processes` that make the load of these settings together.
#[must_use]
pub fn load_arguments(settings: &Settings, number: u32, processes: u32, seed: u64) -> Vec<String> {
    let point = &settings.point;
    let clients = share(point.clients, number, processes);
    let mut arguments = Vec::new();
    let mut flag = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
    flag("frame", point.frame_commands().to_string());
    flag("payload", point.payload.0.to_string());
    flag("clients", clients.to_string());
    flag("seconds", settings.seconds.to_string());
    flag("warmup", settings.warm_up.to_string());
    flag("interval", settings.interval.to_string());
    flag("workload", point.workload.name().to_owned());
    flag("keys", point.keys.to_string());
    match point.popularity {
        PopularityName::Usual => {}
        PopularityName::Uniform => flag("popularity", "uniform".to_owned()),
        PopularityName::Zipfian => flag("popularity", "zipfian".to_owned()),
        PopularityName::Latest => flag("popularity", "latest".to_owned()),
    }
    flag("seed", (seed.wrapping_add(u64::from(number))).to_string());
    let send_to = match point.send_to {
        SendTo::All => "all",
        SendTo::One => "one",
    };
    flag("send-to", send_to.to_owned());
    flag("outstanding", point.frames_in_flight().to_string());
    if let Rate::PerSecond(rate) = point.rate {
        let part = rate * f64::from(clients) / f64::from(point.clients);
        flag("rate", part.to_string());
        if point.arrivals == ArrivalName::Poisson {
            flag("arrivals", "poisson".to_owned());
        }
    }
    if number > 0 {
        // The first one writes them.
        arguments.push("--records-are-there".to_owned());
    }
    arguments
}
