//! Clusters of a study on many hosts: each is made for one run, loaded from all clients at the same
//! time, and gone afterwards. They have folders of their own beside the inventory's.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::ReplicaId;
use quorate_node::config::{Application, Combination};
use quorate_transport::TransportName;
use serde_json::Value;
use tokio::sync::{Barrier, watch};

use super::Trouble;
use super::connection::Connection;
use super::fleet::{Fleet, Outcome, Task};
use super::inventory::{Host, Inventory, Role};

/// What the folders of a study's clusters are called behind the name of the inventory's.
const BESIDE: &str = "-study";
/// How often a replica is asked how it is, and how many times.
const ASKED_EVERY: Duration = Duration::from_millis(250);
const ASKED: u32 = 480;
/// From telling the clients when measuring begins until it does.
const LEAD_MS: i64 = 2_000;

/// A cluster that a study wants.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// How many replicas: the first hosts with the role `replica` run them.
    pub replicas: usize,
    /// What orders the blocks.
    pub combination: Combination,
    /// The leader, if that is fixed.
    pub fixed_leader: ReplicaId,
    /// What replicas reach each other by.
    pub transport: TransportName,
    /// What is replicated.
    pub application: Application,
    /// Most commands in a block.
    pub batch_commands: u32,
    /// Keys of `node.toml` and their values. They come before the inventory's.
    pub node: Vec<(String, String)>,
}

impl Inventory {
    /// The same hosts, with the cluster that a study wants, in folders beside the inventory's. The
    /// home on this machine is beside `file`.
    ///
    /// # Errors
    /// What does not fit.
    pub fn for_study(&self, file: PathBuf, wanted: &Wanted) -> Result<Self, String> {
        let there = self.replicas().count();
        if wanted.replicas > there {
            return Err(format!(
                "{} replicas are wanted, and {} has {there} hosts with the role \"replica\"",
                wanted.replicas,
                self.file.display()
            ));
        }
        let mut study = self.clone();
        study.file = file;
        study.chain = format!("{}{BESIDE}", self.chain);
        study.combination = wanted.combination;
        study.fixed_leader = Some(wanted.fixed_leader);
        study.transport = wanted.transport;
        study.application = wanted.application;
        study.batch_commands = Some(wanted.batch_commands);
        study.node.retain(|(key, _)| wanted.node.iter().all(|(other, _)| other != key));
        study.node.extend(wanted.node.iter().cloned());
        let mut left = wanted.replicas;
        for host in &mut study.hosts {
            host.folder = format!("{}{BESIDE}", host.folder.trim_end_matches('/'));
            if host.is(Role::Replica) {
                match left.checked_sub(1) {
                    Some(rest) => left = rest,
                    None => drop(host.roles.remove(&Role::Replica)),
                }
            }
        }
        study.hosts.retain(|host| !host.roles.is_empty());
        study.check()?;
        Ok(study)
    }
}

impl Fleet {
    /// The hosts from which load comes.
    pub fn clients(&self) -> impl Iterator<Item = &Host> {
        self.inventory.hosts.iter().filter(|host| host.is(Role::Client))
    }

    /// Whether a replica of the inventory's runs, at each of its hosts.
    pub async fn running(&self) -> Vec<Outcome<bool>> {
        self.at(self.inventory.replicas(), |task| async move {
            let connection = task.open().await?;
            task.tell("looking");
            let runs = connection.has_folder().await? && connection.runs().await?;
            connection.close().await;
            Ok(runs)
        })
        .await
    }

    /// Waits until each replica is ready.
    pub async fn wait_until_ready(&self) -> Vec<Outcome<()>> {
        self.at(self.inventory.replicas(), |task| async move {
            let connection = task.open().await?;
            task.tell("getting ready");
            let mut why = "it does not run".to_owned();
            for _ in 0..ASKED {
                match connection.status().await? {
                    Some(status) if status["ready"] == true => {
                        connection.close().await;
                        return Ok(());
                    }
                    Some(status) => {
                        why = status["not_ready"].as_str().unwrap_or("it does not answer").into();
                    }
                    None => {}
                }
                tokio::time::sleep(ASKED_EVERY).await;
            }
            Err(Trouble {
                what: format!("it is not ready after two minutes: {why}"),
                remedy: "see its log there: replica/replica.log, or its unit's".to_owned(),
            })
        })
        .await
    }

    /// Has the clients' hosts make load, each with the arguments of its place among them for
    /// `quorate load`; none for those that make none. They begin to measure at the same time, as
    /// far as their clocks can be compared, once all are warm, which may take `patience`. What each
    /// counted, as `load --told` writes it.
    pub async fn measure(
        &self,
        arguments: &[Vec<String>],
        patience: Duration,
    ) -> Vec<Outcome<Value>> {
        let hosts: Vec<_> = self.clients().take(arguments.len()).cloned().collect();
        let gate = Gate::new(hosts.len());
        let left = std::sync::Mutex::new(arguments.iter().cloned());
        self.at(hosts.iter(), |task| {
            // The jobs are made in the order of the hosts.
            let arguments = left.lock().ok().and_then(|mut left| left.next()).unwrap_or_default();
            let gate = gate.clone();
            async move {
                let counted = one_load(&task, &arguments, &gate, patience).await;
                if counted.is_err() {
                    gate.give_up();
                }
                counted
            }
        })
        .await
    }

    /// Takes the replicas and the clients' homes away, and leaves the program for the next run.
    pub async fn clear(&self) -> Vec<Outcome<()>> {
        let outcomes = self.at(self.inventory.hosts.iter(), |task| async move {
            let connection = task.open().await?;
            task.tell("clearing");
            if connection.has_folder().await? {
                connection.stop().await?;
                connection.clear().await?;
            }
            connection.close().await;
            Ok(())
        });
        outcomes.await
    }
}

/// Where the clients wait for each other before they measure.
#[derive(Clone)]
struct Gate {
    all: Arc<Barrier>,
    is_over: Arc<watch::Sender<bool>>,
}

impl Gate {
    fn new(clients: usize) -> Self {
        Self { all: Arc::new(Barrier::new(clients)), is_over: Arc::new(watch::Sender::new(false)) }
    }

    /// One client will not come: nobody waits for it.
    fn give_up(&self) {
        self.is_over.send_replace(true);
    }

    /// Waits for the others. `false`: one of them gave up, or is late.
    async fn pass(&self, patience: Duration) -> bool {
        let mut over = self.is_over.subscribe();
        tokio::select! {
            _ = self.all.wait() => true,
            _ = over.wait_for(|over| *over) => false,
            () = tokio::time::sleep(patience) => false,
        }
    }
}

async fn one_load(
    task: &Task,
    arguments: &[String],
    gate: &Gate,
    patience: Duration,
) -> Result<Value, Trouble> {
    let connection = task.open().await?;
    let (least, most) = connection.clock().await?;
    task.tell("warming up");
    let quoted = arguments.iter().map(|one| format!("'{}'", one.replace('\'', "'\\''")));
    let quoted = quoted.collect::<Vec<_>>().join(" ");
    let script = format!(
        "rm -f client/counted.json\n\
         bin/quorate -o json load --home client {quoted} --told client/counted.json"
    );
    let begin = async || {
        if !gate.pass(patience).await {
            return None;
        }
        task.tell("measuring");
        // When the others begin, by its own clock.
        let at_ms = super::steps::now_ms() + LEAD_MS + i64::midpoint(least, most);
        Some(format!("{at_ms}000000\n"))
    };
    connection.converse("load", &script, patience, begin).await?;
    let text = connection.run("reading what was counted", "cat client/counted.json").await?;
    connection.close().await;
    serde_json::from_str(&text).map_err(|error| Trouble {
        what: format!("load: what it counted cannot be read: {error}"),
        remedy: "use one version of quorate here and there".to_owned(),
    })
}

impl Connection {
    /// Whether its replica's supervisor runs.
    async fn runs(&self) -> Result<bool, Trouble> {
        Ok(!self.run("looking", &format!("{}runs", super::steps::RUNS)).await?.is_empty())
    }

    async fn clear(&self) -> Result<(), Trouble> {
        let script = "\
            if [ -e replica/unit ]; then rm -f \"/etc/systemd/system/$(cat replica/unit)\"; systemctl daemon-reload; fi\n\
            rm -rf replica client";
        self.change("clearing", script, &[]).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use quorate_node::config::Choices;

    use super::*;

    fn inventory(folder: &std::path::Path) -> Inventory {
        let file = folder.join("prod.toml");
        let host = |name: &str, roles: &str| {
            format!("[[host]]\nname = \"{name}\"\nroles = [{roles}]\nfolder = \"q\"\n")
        };
        let text = [
            "[node]\nstorage.durability = \"sync\"\nstorage.state = \"disk\"\n".to_owned(),
            host("a", "\"replica\""),
            host("b", "\"replica\", \"client\""),
            host("c", "\"replica\""),
        ];
        std::fs::write(&file, text.concat()).unwrap();
        Inventory::read(&file).unwrap()
    }

    fn wanted(replicas: usize) -> Wanted {
        Wanted {
            replicas,
            combination: Choices::default().among(replicas),
            fixed_leader: ReplicaId(0),
            transport: TransportName::Quic,
            application: Application::Kv,
            batch_commands: 7,
            node: vec![("storage.durability".to_owned(), "os".to_owned())],
        }
    }

    #[test]
    fn a_study_has_clusters_of_its_own_beside_the_inventory_s() {
        let folder = tempfile::tempdir().unwrap();
        let inventory = inventory(folder.path());
        let study = inventory.for_study(folder.path().join("s.toml"), &wanted(1)).unwrap();
        let roles = |host: &Host| (host.is(Role::Replica), host.is(Role::Client));
        let hosts: Vec<_> = study.hosts.iter().map(|host| (&*host.name, roles(host))).collect();
        assert_eq!(hosts, [("a", (true, false)), ("b", (false, true))]);
        assert!(study.hosts.iter().all(|host| host.folder == "q-study"));
        assert_eq!((study.chain.as_str(), study.batch_commands), ("prod-study", Some(7)));
        let node = study.node_text(0, &study.hosts[0]).unwrap();
        assert!(node.contains("\ndurability = \"os\"\n"), "{node}");
        assert!(node.contains("\nstate = \"disk\"\n"), "what the study does not say stays: {node}");
    }

    #[test]
    fn more_replicas_than_hosts_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let refused = inventory(folder.path()).for_study(folder.path().join("s.toml"), &wanted(4));
        let what = refused.unwrap_err();
        assert!(what.contains("4 replicas are wanted") && what.contains("has 3 hosts"), "{what}");
    }
}
