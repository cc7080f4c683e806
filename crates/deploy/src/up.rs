//! A cluster comes up: programs, keys, the file that all agree on, data, processes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use quorate_node::config::{Cluster, Home, Member, load_cluster};

use super::Trouble;
use super::connection::Connection;
use super::fleet::{Fleet, Outcome, Task};
use super::inventory::{Inventory, Role};
use super::steps::{self, Program, PublicKeys};

/// A host that has the program, and keys if it is to run a replica.
struct Ready {
    connection: Connection,
    keys: Option<PublicKeys>,
    news: Vec<&'static str>,
}

impl Fleet {
    /// Brings the cluster up, or what is missing of it. Says what was new at each host; nothing if
    /// all of it was there.
    ///
    /// # Errors
    /// The inventory contradicts the cluster that there is.
    pub async fn up(&self, program: &Program) -> Result<Vec<Outcome<Vec<&'static str>>>, Trouble> {
        let ready =
            self.at(self.inventory.hosts.iter(), |task| prepare(task, program.clone())).await;
        let home = Home::new(self.inventory.home());
        let cluster = match agreed(&self.inventory, &home)? {
            Some(cluster) => cluster,
            None if ready.iter().all(|one| one.result.is_ok() || !one.host.is(Role::Replica)) => {
                begin(&self.inventory, &home, &ready)?
            }
            // The file that all agree on names all keys: it has to wait for those that failed.
            None => return Ok(ready.into_iter().map(waits).collect()),
        };
        let text = cluster.to_toml();
        let mut outcomes = Vec::new();
        let mut begun = Vec::new();
        for Outcome { host, result } in ready {
            match result {
                Ok(ready) => begun.push((host, ready)),
                Err(trouble) => outcomes.push(Outcome { host, result: Err(trouble) }),
            }
        }
        let hosts: Vec<_> = begun.iter().map(|(host, _)| host.clone()).collect();
        let readies = std::sync::Mutex::new(begun.into_iter().map(|(_, ready)| ready));
        let finished = self.at(hosts.iter(), |task| {
            // The jobs are made in the order of the hosts.
            let ready = readies.lock().ok().and_then(|mut left| left.next());
            finish(task, ready, cluster.clone(), text.clone())
        });
        outcomes.extend(finished.await);
        let place = |outcome: &Outcome<_>| {
            let name = &outcome.host.name;
            self.inventory.hosts.iter().position(|host| host.name == *name)
        };
        outcomes.sort_by_key(place);
        Ok(outcomes)
    }
}

async fn prepare(task: Task, program: Program) -> Result<Ready, Trouble> {
    let connection = task.open().await?;
    let mut news = Vec::new();
    task.tell("copying the program");
    if connection.install(&program).await? {
        news.push("program");
    }
    let keys = match task.host.is(Role::Replica) {
        true => {
            task.tell("making keys");
            let scheme = task.inventory.combination.signatures.as_str();
            let (keys, is_new) = connection.keys(scheme).await?;
            if is_new {
                news.push("keys");
            }
            Some(keys)
        }
        false => None,
    };
    Ok(Ready { connection, keys, news })
}

/// The cluster that there is already, if there is one.
fn agreed(inventory: &Inventory, home: &Home) -> Result<Option<Cluster>, Trouble> {
    let file = home.cluster_file();
    if !file.exists() {
        return Ok(None);
    }
    let (cluster, _) = load_cluster(&file).map_err(|error| Trouble {
        what: error.to_string(),
        remedy: format!("mend {}, or take the cluster down and up again", file.display()),
    })?;
    let differs = |what: String| Trouble {
        what: format!("{} differs from {}: {what}", inventory.file.display(), file.display()),
        remedy: "a cluster keeps what it began with: correct the inventory; or take the cluster \
                 down, with all its data, and up again"
            .to_owned(),
    };
    let (here, there) = (inventory.replicas().count(), cluster.members.len());
    if here != there {
        return Err(differs(format!("{here} replicas and {there}")));
    }
    if inventory.chain != cluster.chain
        || inventory.combination != cluster.combination()
        || inventory.transport != cluster.transport
        || inventory.application != cluster.application
    {
        return Err(differs("[cluster]".to_owned()));
    }
    for (host, member) in inventory.replicas().zip(&cluster.members) {
        let ports =
            [(host.peer_port, &member.peer_address), (host.client_port, &member.client_address)];
        for (port, address) in ports {
            let ours = super::inventory::host_port(host, port).map_err(&differs)?;
            if ours != *address {
                return Err(differs(format!("host \"{}\" is at {ours} and {address}", host.name)));
            }
        }
    }
    Ok(Some(cluster))
}

/// Writes down what all agree on, here first: a cluster begins once.
fn begin(inventory: &Inventory, home: &Home, ready: &[Outcome<Ready>]) -> Result<Cluster, Trouble> {
    let unfit = |what: String| Trouble { what, remedy: "correct the inventory".to_owned() };
    let with_keys = ready.iter().filter_map(|one| {
        let keys = one.result.as_ref().ok()?.keys.as_ref()?;
        Some((&one.host, keys))
    });
    let members =
        with_keys.enumerate().map(|(replica, (host, keys))| steps::member(host, replica, keys));
    let members: Vec<Member> = members.collect::<Result<_, _>>().map_err(unfit)?;
    let cluster = steps::cluster(inventory, members).map_err(unfit)?;
    let is_ours =
        write_once(&home.cluster_file(), &cluster.to_toml()).map_err(|error| Trouble {
            what: format!("{}: {error}", home.cluster_file().display()),
            remedy: "see to the disk and the permissions, and run the same again".to_owned(),
        })?;
    if is_ours {
        return Ok(cluster);
    }
    // Another `up` was faster: the cluster is that one's.
    agreed(inventory, home)?.ok_or_else(|| Trouble {
        what: "the cluster was begun and taken down meanwhile".to_owned(),
        remedy: "run the same again".to_owned(),
    })
}

/// Writes a file whole, or not at all. Says whether it did: a file that is there stays as it is.
/// Processes that do so at the same time wait for each other at the part that is not written yet.
fn write_once(file: &Path, text: &str) -> std::io::Result<bool> {
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let name = file.with_extension("part");
    let mut part = OpenOptions::new().create(true).truncate(false).write(true).open(&name)?;
    part.lock()?;
    if file.exists() {
        // It may be this very part, under its new name: only the old name goes.
        let _ = std::fs::remove_file(&name);
        return Ok(false);
    }
    // What is in it is of a process that was killed.
    part.set_len(0)?;
    part.write_all(text.as_bytes())?;
    part.sync_all()?;
    std::fs::rename(&name, file)?;
    // Hosts begin with what it says: it must not be gone after a power failure.
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(true)
}

fn waits(one: Outcome<Ready>) -> Outcome<Vec<&'static str>> {
    let result = one.result.and_then(|_| {
        Err(Trouble {
            what: "it has its keys, and waits for those of the other hosts".to_owned(),
            remedy: "mend the others, and run the same again".to_owned(),
        })
    });
    Outcome { host: one.host, result }
}

async fn finish(
    task: Task,
    ready: Option<Ready>,
    cluster: Cluster,
    text: String,
) -> Result<Vec<&'static str>, Trouble> {
    let Some(Ready { connection, keys, mut news }) = ready else { return Ok(Vec::new()) };
    task.tell("configuring");
    if task.host.is(Role::Client) && connection.configure_client(&text).await? {
        news.push("client");
    }
    if let (Some(replica), Some(keys)) = (task.inventory.replica_of(&task.host), keys) {
        let ours = steps::member(&task.host, replica, &keys).ok();
        if cluster.members.get(replica) != ours.as_ref() {
            return Err(Trouble {
                what: format!("its keys are not those of replica {replica}"),
                remedy: "its folder was removed: a replica that lost its keys is lost; take the \
                         cluster down and up again"
                    .to_owned(),
            });
        }
        if connection.configure(&task.inventory, &task.host, replica, &text).await? {
            news.push("configuration");
        }
        task.tell("starting");
        if connection.start(&task.inventory.chain, replica).await? {
            news.push("process");
        }
    }
    connection.close().await;
    Ok(news)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Eight that begin a cluster at the same time, beside the part of one that was killed: one
    /// does, and all see what it wrote.
    #[test]
    fn a_cluster_begins_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config/cluster.toml");
        for turn in 0..20 {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file.with_extension("part"), "x".repeat(100)).unwrap();
            let texts: Vec<String> = (0..8).map(|one| format!("{turn} {one}")).collect();
            let won: Vec<bool> = std::thread::scope(|scope| {
                let threads: Vec<_> = texts
                    .iter()
                    .map(|text| {
                        scope.spawn(|| {
                            let won = write_once(&file, text).unwrap();
                            assert!(texts.contains(&std::fs::read_to_string(&file).unwrap()));
                            won
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let first = won.iter().position(|won| *won).unwrap();
            assert_eq!(won.iter().filter(|won| **won).count(), 1);
            assert_eq!(std::fs::read_to_string(&file).unwrap(), texts[first]);
            assert!(!file.with_extension("part").exists());
            std::fs::remove_dir_all(file.parent().unwrap()).unwrap();
        }
    }
}
