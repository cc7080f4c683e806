//! A study on the hosts of an inventory: each run is on a fresh cluster, in folders beside the
//! inventory's, and the hosts with the role client make the load.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quorate_core::ReplicaId;
use quorate_deploy::inventory::{Inventory, Role};
use quorate_deploy::{Fleet, Outcome, Program, Wanted};
use quorate_lab::experiment::{
    Attack, Counted, Figures, Kill, Plan, Point, Settings, Site, load_arguments, of_clients,
};
use quorate_node::config::{Finding, LeaderName, Place};
use tokio::runtime::Runtime;

use super::RunArguments;
use crate::commands::experiment::run::{self as experiment, run_at};
use crate::failure::{Exit, Failure};
use crate::output::Format;

/// How long clients may take from their start until every replica has answered, beside the warm-up.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whether it was told to stop.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Runs the study in `file`.
pub fn run(arguments: &RunArguments, file: &Path, format: Format) -> Result<(), Failure> {
    let inventory_file = &arguments.inventory.inventory;
    let inventory =
        Inventory::read(inventory_file).map_err(|finding| Failure::new(Exit::Usage, finding))?;
    let (program, program_file) = super::program(arguments.binary.as_deref())?;
    let of_experiment = experiment::Arguments {
        file: file.to_owned(),
        quick: arguments.quick,
        out: arguments.out.clone(),
        repeats: arguments.repeats,
        retry: arguments.retry,
    };
    let make = |plan: &Plan, told: &Arc<AtomicBool>| {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
        let runtime = runtime
            .map_err(|error| Failure::io(error, inventory_file, "see to the system's limits"))?;
        let hosts = Hosts {
            inventory: inventory.clone(),
            program: program.clone(),
            told: Arc::clone(told),
            runtime,
            has_begun: Cell::new(false),
        };
        hosts.check(plan, file)?;
        Ok((Box::new(hosts) as Box<dyn Site>, program_file.clone()))
    };
    run_at(Some(&make), &of_experiment, format)
}

/// The hosts. Dropping it takes away from them what its runs left there for each other.
struct Hosts {
    inventory: Inventory,
    program: Program,
    told: Arc<AtomicBool>,
    runtime: Runtime,
    /// Whether there is anything to take away.
    has_begun: Cell<bool>,
}

impl Hosts {
    /// Refuses, before any host is touched, what cannot be run there; then looks whether the ports
    /// are free and the clocks agree.
    fn check(&self, plan: &Plan, study: &Path) -> Result<(), Failure> {
        let refused = |what: String, place: &Path, remedy: &str| {
            let place = Place::File(place.to_owned());
            Err(Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() }))
        };
        for settings in &plan.settings {
            if let Some(what) = only_here(settings) {
                let remedy = "run it on this machine: quorate experiment run";
                return refused(format!("{what} is not for hosts"), study, remedy);
            }
            if let Err(what) = self.of(settings, study) {
                return refused(what, study, "correct the study, or the inventory");
            }
        }
        let inventory = &self.inventory.file;
        if !self.inventory.hosts.iter().any(|host| host.is(Role::Client)) {
            let remedy = "give it to the hosts that load is to come from";
            return refused("no host has the role \"client\"".to_owned(), inventory, remedy);
        }
        let fleet = Fleet::new(self.inventory.clone(), super::progress());
        let said = self.runtime.block_on(fleet.running());
        super::fail(&said)?;
        let running = said.iter().filter(|one| one.result == Ok(true));
        let running: Vec<_> = running.map(|one| one.host.name.as_str()).collect();
        if !running.is_empty() {
            let what = format!("its replicas run, and have the ports: {}", running.join(", "));
            return refused(what, inventory, "stop them first: quorate deploy stop");
        }
        super::warn_of_clocks(&self.runtime.block_on(fleet.status()));
        Ok(())
    }

    /// The inventory of a run, with its home on this machine in `folder`.
    fn of(&self, settings: &Settings, folder: &Path) -> Result<Inventory, String> {
        self.inventory.for_study(folder.join("cluster.toml"), &wanted(&settings.point))
    }

    /// Makes the cluster, and measures.
    async fn attempt(
        &self,
        fleet: &Fleet,
        settings: &Settings,
        seed: u64,
    ) -> Result<Figures, String> {
        let up = fleet.up(&self.program).await.map_err(|trouble| trouble.to_string())?;
        all_well(up)?;
        all_well(fleet.wait_until_ready().await)?;
        let clients = fleet.clients().count().min(settings.point.clients as usize) as u32;
        let arguments: Vec<_> =
            (0..clients).map(|number| load_arguments(settings, number, clients, seed)).collect();
        let patience = READY_WITHIN + Duration::from_secs_f64(settings.warm_up);
        let counted = all_well(fleet.measure(&arguments, patience).await)?;
        let counted: Result<Vec<Counted>, _> =
            counted.into_iter().map(serde_json::from_value).collect();
        let counted = counted.map_err(|error| format!("what clients counted: {error}"))?;
        of_clients(counted).map_err(|error| error.to_string())
    }

    async fn told_to_stop(&self) {
        while !self.told.load(Ordering::Relaxed) {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

impl Site for Hosts {
    fn measure(&self, settings: &Settings, seed: u64, folder: &Path) -> Result<Figures, String> {
        let fleet = Fleet::new(self.of(settings, folder)?, super::progress());
        self.runtime.block_on(async {
            if !self.has_begun.replace(true) {
                // What a study left that was killed.
                all_well(fleet.clear().await)?;
            }
            let figures = tokio::select! {
                figures = self.attempt(&fleet, settings, seed) => figures,
                () = self.told_to_stop() => Err("stopped".to_owned()),
            };
            all_well(fleet.clear().await)?;
            figures
        })
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if !self.has_begun.get() {
            return;
        }
        // All hosts: it does not matter which of them a run had.
        let wanted =
            wanted(&Point { replicas: self.inventory.replicas().count(), ..Point::default() });
        let file = self.inventory.file.with_extension("study.toml");
        let Ok(all) = self.inventory.for_study(file, &wanted) else { return };
        let fleet = Fleet::new(all, super::progress());
        for Outcome { host, result } in self.runtime.block_on(fleet.down()) {
            if let Err(trouble) = result {
                eprintln!("warning: {}: {trouble}", host.name);
            }
        }
    }
}

/// What each host said; the first failure, by the host's name, if there is one.
fn all_well<T>(outcomes: Vec<Outcome<T>>) -> Result<Vec<T>, String> {
    let named = |Outcome { host, result }: Outcome<T>| {
        result.map_err(|trouble| format!("{}: {trouble}", host.name))
    };
    outcomes.into_iter().map(named).collect()
}

/// What of these settings can be had on one machine alone.
fn only_here(settings: &Settings) -> Option<&'static str> {
    let Point { adversary, kill, cores, .. } = &settings.point;
    if settings.network.is_some() {
        Some("an emulated network")
    } else if adversary.0 != Attack(None) {
        Some("an adversary")
    } else if kill.0 != Kill::None {
        Some("a replica that is killed")
    } else if *cores != 0 {
        Some("a number of cores")
    } else {
        None
    }
}

fn wanted(point: &Point) -> Wanted {
    let set = point.set.iter().map(|(key, value)| (key.clone(), value.to_string()));
    let mut node = vec![("storage.durability".to_owned(), point.durability.0.name().to_owned())];
    if point.needs_laboratory() {
        node.push(("laboratory.enabled".to_owned(), "true".to_owned()));
    }
    node.retain(|(key, _)| !point.set.contains_key(key));
    node.extend(set);
    Wanted {
        replicas: point.replicas,
        combination: point.combination(),
        fixed_leader: match point.leader.0 {
            LeaderName::Fixed => ReplicaId(point.fixed_leader),
            _ => ReplicaId(0),
        },
        transport: point.transport.0,
        application: point.workload.application(),
        batch_commands: point.batch,
        node,
    }
}
