//! The inventory: a TOML file that names the hosts and what each is for.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_core::ReplicaId;
use quorate_node::config::{
    Application, AuthenticationName, Choices, Combination, Finding, HostPort, LeaderName,
    PacemakerName, Place, ProtocolName, VoteRoute, node_file_text,
};
use quorate_transport::TransportName;
use serde::Deserialize;

/// How long a host may take to answer, if the inventory does not say.
const CONNECT_TIMEOUT_S: u64 = 10;

/// A cluster on many hosts.
#[derive(Clone, Debug)]
pub struct Inventory {
    /// The file.
    pub file: PathBuf,
    /// The chain's name.
    pub chain: String,
    /// What orders the blocks.
    pub combination: Combination,
    /// What replicas reach each other by.
    pub transport: TransportName,
    /// What is replicated.
    pub application: Application,
    /// The leader, if that is fixed. An inventory's file does not say it; a study does.
    pub fixed_leader: Option<ReplicaId>,
    /// Most commands in a block; `None`: as by default. An inventory's file does not say it; a
    /// study does.
    pub batch_commands: Option<u32>,
    /// How the hosts are reached.
    pub ssh: Ssh,
    /// Keys and values of every `node.toml`, as TOML has them.
    pub node: Vec<(String, String)>,
    /// The hosts, in the order of the file. The n-th with the role `replica` runs replica n.
    pub hosts: Vec<Host>,
}

/// How the hosts are reached: by the operator's own `ssh`.
#[derive(Clone, Debug)]
pub struct Ssh {
    /// Its configuration; `None`: the operator's usual one.
    pub config: Option<PathBuf>,
    /// How long a host may take to answer.
    pub connect_timeout: Duration,
}

/// What a host is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It runs a replica.
    Replica,
    /// Load comes from it.
    Client,
}

/// A host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// What it is called here.
    pub name: String,
    /// What `ssh` is given: a name of its configuration, or `user@host`. Default: the name.
    #[serde(default)]
    pub ssh: String,
    /// Where other hosts reach it. Default: the name.
    #[serde(default)]
    pub address: String,
    /// What it is for.
    #[serde(default = "replica_only")]
    pub roles: BTreeSet<Role>,
    /// Where it is, for people.
    #[serde(default)]
    pub region: String,
    /// Everything of this cluster is below this folder: a path, or one in the login's home.
    #[serde(default = "default_folder")]
    pub folder: String,
    /// Its replica's port for peers.
    #[serde(default = "port::<7000>")]
    pub peer_port: u16,
    /// Its replica's port for clients.
    #[serde(default = "port::<7001>")]
    pub client_port: u16,
    /// Its replica's port for status and metrics, on the loopback interface.
    #[serde(default = "port::<7002>")]
    pub http_port: u16,
}

fn replica_only() -> BTreeSet<Role> {
    BTreeSet::from([Role::Replica])
}

fn default_folder() -> String {
    "quorate".to_owned()
}

fn port<const PORT: u16>() -> u16 {
    PORT
}

impl Host {
    /// Whether it has a role.
    #[must_use]
    pub fn is(&self, role: Role) -> bool {
        self.roles.contains(&role)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    cluster: ClusterTable,
    #[serde(default)]
    ssh: SshTable,
    #[serde(default)]
    node: toml::Table,
    #[serde(default, rename = "host")]
    hosts: Vec<Host>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct ClusterTable {
    chain: Option<String>,
    protocol: Option<String>,
    votes: Option<String>,
    second_vote: Option<bool>,
    pacemaker: Option<String>,
    leader: Option<String>,
    signatures: Option<String>,
    authentication: Option<String>,
    transport: Option<String>,
    application: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SshTable {
    config: Option<PathBuf>,
    connect_timeout_s: Option<u64>,
}

impl Inventory {
    /// Reads one.
    ///
    /// # Errors
    /// What is wrong with it, with the place and the remedy.
    pub fn read(file: &Path) -> Result<Self, Finding> {
        let wrong = |what: String, remedy: &str| Finding {
            what,
            place: Place::File(file.to_owned()),
            remedy: remedy.to_owned(),
        };
        let text = std::fs::read_to_string(file).map_err(|error| {
            wrong(error.to_string(), "name an inventory: docs/deploy.md shows one")
        })?;
        let read: File = toml::from_str(&text).map_err(|error| {
            wrong(
                error.to_string().trim_end().to_owned(),
                "correct it: docs/deploy.md lists the keys",
            )
        })?;
        let inventory = Self::of(file, read).map_err(|what| wrong(what, "correct it"))?;
        inventory.check().map_err(|what| wrong(what, "correct it"))?;
        Ok(inventory)
    }

    fn of(file: &Path, read: File) -> Result<Self, String> {
        let File { cluster, ssh, node, mut hosts } = read;
        for host in &mut hosts {
            for default in [&mut host.ssh, &mut host.address] {
                if default.is_empty() {
                    default.clone_from(&host.name);
                }
            }
        }
        let replicas = hosts.iter().filter(|host| host.is(Role::Replica)).count();
        let choices = Choices {
            protocol: named(cluster.protocol, "protocol", ProtocolName::named)?,
            votes: named(cluster.votes, "votes", VoteRoute::named)?,
            second_vote: cluster.second_vote,
            pacemaker: named(cluster.pacemaker, "pacemaker", PacemakerName::named)?,
            leader: named(cluster.leader, "leader", LeaderName::named)?,
            signatures: named(cluster.signatures, "signatures", |name| name.parse().ok())?,
            authentication: named(
                cluster.authentication,
                "authentication",
                AuthenticationName::named,
            )?,
        };
        let transport = named(cluster.transport, "transport", TransportName::named)?;
        let application = named(cluster.application, "application", Application::named)?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // A path in the inventory is one beside it.
        let beside = |path: PathBuf| file.parent().map_or(path.clone(), |at| at.join(path));
        Ok(Self {
            file: file.to_owned(),
            chain: cluster.chain.unwrap_or(stem),
            combination: choices.among(replicas),
            transport: transport.unwrap_or(TransportName::Tcp),
            application: application.unwrap_or(Application::Kv),
            fixed_leader: None,
            batch_commands: None,
            ssh: Ssh {
                config: ssh.config.map(beside),
                connect_timeout: Duration::from_secs(
                    ssh.connect_timeout_s.unwrap_or(CONNECT_TIMEOUT_S),
                ),
            },
            node: flat("", &node),
            hosts,
        })
    }

    pub(super) fn check(&self) -> Result<(), String> {
        if self.replicas().count() == 0 {
            return Err("no [[host]] has the role \"replica\"".to_owned());
        }
        if let Some(rule) = self.combination.refused().next() {
            return Err(format!("[cluster]: {}", rule.finding(Place::File(self.file.clone()))));
        }
        if self.combination.signatures.is_dealt() {
            return Err(format!(
                "[cluster]: keys of {} are dealt, and hosts make their keys themselves",
                self.combination.signatures.as_str()
            ));
        }
        if self.node_text(0, &self.hosts[0]).is_none() {
            return Err("[node]: a key is none of node.toml, or its value does not fit".to_owned());
        }
        if !is_name(&self.chain) {
            return Err(format!("[cluster]: chain = \"{}\": {A_NAME}", self.chain));
        }
        let mut names = BTreeSet::new();
        let mut places = BTreeSet::new();
        let mut addresses = BTreeSet::new();
        for host in &self.hosts {
            let Host { name, folder, ssh, .. } = host;
            if !is_name(name) {
                return Err(format!("host \"{name}\": {A_NAME}"));
            }
            if !names.insert(name) {
                return Err(format!("two hosts are called \"{name}\""));
            }
            if ssh.starts_with('-') {
                return Err(format!("host \"{name}\": ssh = \"{ssh}\" is no destination"));
            }
            let is_plain = folder.chars().all(|c| is_plain(c) || c == '/');
            let parts: Vec<_> = folder.split('/').filter(|part| !part.is_empty()).collect();
            let is_own = !parts.is_empty() && !parts.iter().any(|part| [".", ".."].contains(part));
            if !is_plain || !is_own || folder.starts_with('-') {
                return Err(format!("host \"{name}\": \"{folder}\" is no folder of its own"));
            }
            if host.roles.is_empty() {
                return Err(format!("host \"{name}\" has no role"));
            }
            if !places.insert((ssh, folder)) {
                return Err(format!("host \"{name}\" has the folder of another one"));
            }
            for port in [host.peer_port, host.client_port] {
                let address = host_port(host, port)?;
                if host.is(Role::Replica) && !addresses.insert(address.to_string()) {
                    return Err(format!("host \"{name}\": {address} is used twice"));
                }
            }
        }
        Ok(())
    }

    /// The hosts with replicas, by the replicas' ids.
    pub fn replicas(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().filter(|host| host.is(Role::Replica))
    }

    /// The id of a host's replica.
    #[must_use]
    pub fn replica_of(&self, host: &Host) -> Option<usize> {
        self.replicas().position(|other| other.name == host.name)
    }

    /// The client's home on this machine: beside the inventory, called like it.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.file.with_extension("")
    }

    /// The `node.toml` of a host; `None` if a key or a value does not fit.
    #[must_use]
    pub fn node_text(&self, replica: usize, host: &Host) -> Option<String> {
        let (id, http) = (replica.to_string(), HostPort::loopback(host.http_port).to_string());
        let mut values = vec![("replica", id.as_str()), ("listen.http", http.as_str())];
        values.extend(self.node.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        node_file_text(&values)
    }
}

/// The address of a port of a host.
///
/// # Errors
/// The host's address is none.
pub fn host_port(host: &Host, port: u16) -> Result<HostPort, String> {
    let (name, address) = (&host.name, &host.address);
    let parsed = format!("{address}:{port}").parse();
    parsed.map_err(|error| format!("host \"{name}\": \"{address}\" is no address: {error}"))
}

fn named<T>(
    value: Option<String>,
    key: &str,
    named: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, String> {
    let Some(value) = value else { return Ok(None) };
    let found = named(&value);
    let unknown = format!("[cluster]: {key} = \"{value}\" is unknown: see quorate protocols");
    found.map(Some).ok_or(unknown)
}

const A_NAME: &str = "a name is of letters, digits, - _ and .";

/// Whether a name can stand in a file's name, and in a script.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.".contains(c)
}

/// Keys with dots, and values as text.
fn flat(prefix: &str, table: &toml::Table) -> Vec<(String, String)> {
    let mut values = Vec::new();
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(table) => values.extend(flat(&key, table)),
            toml::Value::String(text) => values.push((key, text.clone())),
            other => values.push((key, other.to_string())),
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The inventory that docs/deploy.md shows.
    #[test]
    fn the_documented_inventory_is_one() {
        let page = include_str!("../../../docs/deploy.md");
        let text = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next());
        let read: File = toml::from_str(text.expect("it shows one")).unwrap();
        let inventory = Inventory::of(Path::new("folder/prod.toml"), read).unwrap();
        assert_eq!(inventory.check(), Ok(()));
        assert_eq!(inventory.ssh.config, Some(PathBuf::from("folder/ssh_config")));
        assert_eq!(inventory.home(), PathBuf::from("folder/prod"));
        let host = &inventory.hosts[0];
        assert_eq!((host.peer_port, host.client_port, host.http_port), (7000, 7001, 7002));
        let node = inventory.node_text(0, host).unwrap();
        assert!(node.contains("durability = \"sync\""), "{node}");
    }

    /// The chain's name stands in scripts, in the names of units and of the folder here.
    #[test]
    fn a_chain_is_called_by_a_name() {
        let checked = |chain: &str| {
            let text = format!("[cluster]\nchain = \"{chain}\"\n[[host]]\nname = \"a\"\n");
            let read = toml::from_str(&text).unwrap();
            Inventory::of(Path::new("prod.toml"), read).unwrap().check()
        };
        assert_eq!(checked("prod-1"), Ok(()));
        for chain in ["", "a b", "x; rm -rf y", "../x", "-x"] {
            assert!(checked(chain).unwrap_err().contains("a name is of letters"), "{chain}");
        }
    }
}
