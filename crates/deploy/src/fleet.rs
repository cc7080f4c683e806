//! All hosts of an inventory, side by side.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;
use tokio::task::JoinSet;

use super::Trouble;
use super::connection::Connection;
use super::inventory::{Host, Inventory, Role};

/// Hears what is being done: the host's name, and what.
type Watch = Arc<dyn Fn(&str, &str) + Send + Sync>;

/// What came of it at one host.
#[derive(Debug)]
pub struct Outcome<T> {
    /// The host.
    pub host: Host,
    /// What came of it.
    pub result: Result<T, Trouble>,
}

/// The hosts of an inventory.
#[derive(Clone)]
pub struct Fleet {
    /// What they are.
    pub inventory: Arc<Inventory>,
    watch: Watch,
}

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inventory.fmt(f)
    }
}

/// A host that is being worked on.
#[derive(Clone)]
pub(super) struct Task {
    pub host: Host,
    pub inventory: Arc<Inventory>,
    watch: Watch,
}

impl Task {
    /// Tells what is being done.
    pub fn tell(&self, what: &str) {
        (self.watch)(&self.host.name, what);
    }

    /// Reaches the host.
    pub async fn open(&self) -> Result<Connection, Trouble> {
        self.tell("connecting");
        Connection::open(&self.host, &self.inventory.ssh).await
    }
}

impl Fleet {
    /// The hosts of an inventory; `watch` hears what is done at which.
    #[must_use]
    pub fn new(inventory: Inventory, watch: impl Fn(&str, &str) + Send + Sync + 'static) -> Self {
        Self { inventory: Arc::new(inventory), watch: Arc::new(watch) }
    }

    pub(super) fn task(&self, host: &Host) -> Task {
        let (inventory, watch) = (Arc::clone(&self.inventory), Arc::clone(&self.watch));
        Task { host: host.clone(), inventory, watch }
    }

    /// Does something at each of these hosts at once. What came of it, in their order.
    pub(super) async fn at<T, F>(
        &self,
        hosts: impl Iterator<Item = &Host>,
        job: impl Fn(Task) -> F,
    ) -> Vec<Outcome<T>>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Trouble>> + Send + 'static,
    {
        let mut set = JoinSet::new();
        for (place, host) in hosts.enumerate() {
            let task = self.task(host);
            let job = job(task.clone());
            set.spawn(async move {
                let result = job.await;
                task.tell(if result.is_ok() { "done" } else { "failed" });
                (place, Outcome { host: task.host, result })
            });
        }
        let mut outcomes = set.join_all().await;
        outcomes.sort_by_key(|(place, _)| *place);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }

    /// Starts the replicas that do not run. `true`: it did not.
    pub async fn start(&self) -> Vec<Outcome<bool>> {
        self.at(self.inventory.replicas(), |task| async move {
            let replica = task.inventory.replica_of(&task.host).unwrap_or_default();
            let connection = task.open().await?;
            task.tell("starting");
            let done = connection.start(&task.inventory.chain, replica).await;
            connection.close().await;
            done
        })
        .await
    }

    /// Stops the replicas that run. `true`: it did.
    pub async fn stop(&self) -> Vec<Outcome<bool>> {
        self.at(self.inventory.replicas(), |task| async move {
            let connection = task.open().await?;
            task.tell("stopping");
            let done = connection.stop().await;
            connection.close().await;
            done
        })
        .await
    }

    /// What each replica says of itself (`quorate status`), and how far its host's clock is ahead
    /// of this machine's, in milliseconds, at least and at most. No replica runs where there is no
    /// answer.
    pub async fn status(&self) -> Vec<Outcome<(Option<Value>, (i64, i64))>> {
        self.at(self.inventory.hosts.iter(), |task| async move {
            let connection = task.open().await?;
            task.tell("asking");
            let clock = connection.clock().await?;
            let has_replica = task.host.is(Role::Replica) && connection.has_folder().await?;
            let status = if has_replica { connection.status().await? } else { None };
            connection.close().await;
            Ok((status, clock))
        })
        .await
    }

    /// Runs a shell's command in the folder of each host. What it printed.
    pub async fn execute(&self, command: &str) -> Vec<Outcome<String>> {
        self.at(self.inventory.hosts.iter(), |task| {
            let command = command.to_owned();
            async move {
                let connection = task.open().await?;
                task.tell("running");
                let said = connection.run("running", &command).await;
                connection.close().await;
                said
            }
        })
        .await
    }

    /// Runs `quorate load` at each host with the role `client`, at the same time. Its report.
    pub async fn load(&self, arguments: &[String]) -> Vec<Outcome<Value>> {
        let quoted = arguments.iter().map(|one| format!("'{}'", one.replace('\'', "'\\''")));
        let arguments = quoted.collect::<Vec<_>>().join(" ");
        let clients = self.inventory.hosts.iter().filter(|host| host.is(Role::Client));
        self.at(clients, |task| {
            let script = format!("bin/quorate -o json load --home client {arguments}");
            async move {
                let connection = task.open().await?;
                task.tell("putting load on the cluster");
                let said = connection.run("load", &script).await;
                connection.close().await;
                serde_json::from_str(&said?).map_err(|error| Trouble {
                    what: format!("load: its report cannot be read: {error}"),
                    remedy: "use one version of quorate here and there: quorate deploy up"
                        .to_owned(),
                })
            }
        })
        .await
    }

    /// Logs, configuration and status of each host, as a compressed archive each.
    pub async fn collect(&self) -> Vec<Outcome<Vec<u8>>> {
        self.at(self.inventory.hosts.iter(), |task| async move {
            let connection = task.open().await?;
            task.tell("collecting");
            let archive = connection.collect().await;
            connection.close().await;
            archive
        })
        .await
    }

    /// Takes everything away from the hosts, keys and data included, and then the clients' home
    /// here. `true`: something was there.
    pub async fn down(&self) -> Vec<Outcome<bool>> {
        let outcomes = self
            .at(self.inventory.hosts.iter(), |task| async move {
                let connection = task.open().await?;
                task.tell("removing");
                let done = connection.remove().await;
                connection.close().await;
                done
            })
            .await;
        if outcomes.iter().all(|outcome| outcome.result.is_ok()) {
            let home = quorate_node::config::Home::new(self.inventory.home());
            // Nothing of it may be there, and what else is in these folders stays.
            let _ = std::fs::remove_file(home.cluster_file());
            let _ = std::fs::remove_dir(home.config_folder());
            let _ = std::fs::remove_dir(home.root());
        }
        outcomes
    }
}
