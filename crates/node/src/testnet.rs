//! The homes of a cluster on one machine: keys, configuration and empty data folders.
//!
//! ```text
//! FOLDER/replica-0/config/{cluster.toml, node.toml, consensus.key, transport.key, begun}   data/
//! FOLDER/replica-1/…           with a share beside consensus.key, where members generate keys
//! FOLDER/client/config/cluster.toml
//! FOLDER/administrator-0.key …    where members may change
//! FOLDER/testnet.json             with a service: the program that runs its replicas
//! ```

pub mod keys;

use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::membership::{Governance, MAX_REPLICAS, Rules};
use quorate_core::ledger::sessions;
use quorate_crypto::SecretKey;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_transport::TransportName;

use crate::begin::begin_in;
use crate::config::{
    Application, BatchLimits, Cluster, ClusterLimits, Combination, Cores, Durability, Finding,
    Home, HostPort, LivenessName, Member, Place, Restored, SamplingName, canonical_table,
    combination, node_file_text, public_half,
};
use crate::replica::shares::ShareFiles;
use keys::CommitteeSecrets;

/// What kind of cluster to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The chain's name.
    pub chain: String,
    /// The first of three ports a replica, one replica after the other; `None`: whichever are
    /// free now.
    pub base_port: Option<u16>,
    /// The host of each replica, by id, where others and clients reach it; empty: all are on the
    /// loopback interface. Status and metrics are on each host's loopback interface in any case.
    pub hosts: Vec<String>,
    /// What orders the blocks, and how.
    pub combination: Combination,
    /// Who leads, if the leader is fixed; `None`: replica 0.
    pub fixed_leader: Option<ReplicaId>,
    /// How Snowman samples; `None`: as by default. Refused with other protocols.
    pub sampling: Option<SamplingName>,
    /// Whether replicas answer tentatively. Refused with other protocols than PBFT.
    pub tentative: bool,
    /// What Snowman does where sampling decides nothing; `None`: as by default. Refused with other
    /// protocols.
    pub liveness: Option<LivenessName>,
    /// Whether the replicas are for experiments (`laboratory.enabled`).
    pub laboratory: bool,
    /// What replicas reach each other by.
    pub transport: TransportName,
    /// What is replicated.
    pub application: Application,
    /// The service, with [`Application::Service`].
    pub service: Service,
    /// Most commands in a block, if not the default.
    pub batch_commands: Option<u32>,
    /// What a vote waits for.
    pub durability: Durability,
    /// How many administrators may change the members; 0: the members are fixed.
    pub administrators: usize,
    /// How many of them must sign; `None`: more than half.
    pub approvals: Option<u16>,
    /// What comes from the backup that it begins with, if it does.
    pub restored: Option<FromBackup>,
}

/// What a cluster takes over from the one that was backed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromBackup {
    /// Where its first state comes from.
    pub restored: Restored,
    /// The rules that the state was executed by.
    pub rules: Rules,
    /// What a block may hold.
    pub batch: BatchLimits,
    /// What client sessions may use up.
    pub sessions: sessions::Limits,
    /// What is taken from clients and peers.
    pub limits: ClusterLimits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            chain: "testnet".to_owned(),
            base_port: None,
            hosts: Vec::new(),
            combination: Combination::default(),
            fixed_leader: None,
            sampling: None,
            tentative: false,
            liveness: None,
            laboratory: false,
            transport: TransportName::Tcp,
            application: Application::Kv,
            service: Service::default(),
            batch_commands: None,
            durability: Durability::Sync,
            administrators: 0,
            approvals: None,
            restored: None,
        }
    }
}

/// The service of a cluster that is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// The table `service` of `cluster.toml`, as TOML.
    pub agreed: String,
    /// The table `service` of each `node.toml`, as TOML.
    pub own: String,
    /// The program that runs a replica; `None`: `quorate` itself does.
    pub program: Option<PathBuf>,
}

/// The program that runs the replicas of the testnet in `folder`; `None`: `quorate` itself.
#[must_use]
pub fn program_of(folder: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(folder.join(PROGRAM_FILE)).ok()?;
    let kept: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(PathBuf::from(kept.get("program")?.as_str()?))
}

/// The file of a testnet that names its program.
const PROGRAM_FILE: &str = "testnet.json";

/// A cluster on one machine.
#[derive(Clone, Debug)]
pub struct Testnet {
    /// The replicas' homes, by id.
    pub replicas: Vec<Home>,
    /// A client's home.
    pub client: Home,
    /// What the replicas agree on.
    pub cluster: Cluster,
    /// Where each replica answers status and metrics, by id.
    pub http_addresses: Vec<HostPort>,
    /// The key files of the administrators.
    pub administrator_keys: Vec<PathBuf>,
    /// What is doubtful about what was asked for.
    pub warnings: Vec<Finding>,
}

/// Why no cluster was made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TestnetError {
    /// What was asked for cannot be made. Nothing was written.
    #[error("{0}")]
    Refused(Finding),
    /// The system did not let it be made. Homes may be there in part.
    #[error("{0}")]
    Failed(Finding),
}

/// How many ports that are free for TCP are tried until one is free for UDP as well.
const PORT_ATTEMPTS: u32 = 100;

/// The ports of a replica: for peers, clients, and HTTP.
type Ports = [u16; 3];

/// Makes the homes of `replicas` replicas and of a client in `folder`, which is made if need be.
/// Never writes over a home.
///
/// # Errors
/// [`TestnetError`], with the place and the remedy.
pub fn init(folder: &Path, replicas: usize, options: &Options) -> Result<Testnet, TestnetError> {
    if !(1..=MAX_REPLICAS).contains(&replicas) {
        let what = format!("a cluster of {replicas} replicas cannot be made");
        let remedy = format!("ask for 1 to {MAX_REPLICAS} replicas");
        return Err(refused(what, folder, remedy));
    }
    if !options.hosts.is_empty() && options.hosts.len() != replicas {
        let what = format!("{replicas} replicas cannot be on {} hosts", options.hosts.len());
        return Err(refused(what, folder, "name one host a replica, or none"));
    }
    refuse_combination(replicas, options)?;
    refuse_existing(folder)?;
    let ports = match options.base_port {
        Some(base) => ports_from(base, replicas, folder)?,
        None => free_ports(replicas).map_err(|error| failed(&error, folder))?,
    };
    let generate = match options.administrators {
        0 => keys::generate,
        _ => keys::generate_governed,
    };
    let secrets = generate(options.combination.signatures, replicas)
        .map_err(|error| failed(&std::io::Error::other(error), folder))?;
    let transport: Vec<SecretKey> =
        (0..replicas).map(|_| new_key(folder)).collect::<Result<_, _>>()?;
    refuse_governance(options)?;
    let administrators: Vec<SecretKey> =
        (0..options.administrators).map(|_| new_key(folder)).collect::<Result<_, _>>()?;
    let governance = governance_of(&administrators, options);
    let cluster = cluster_of((&secrets, governance), &transport, &ports, options, folder)?;
    let cluster_text = cluster.to_toml();
    let mut homes = Vec::with_capacity(replicas);
    let keys = secrets.replicas.iter().zip(&transport).zip(&ports);
    for (id, ((consensus, transport), [_, _, http])) in keys.enumerate() {
        let home = Home::new(folder.join(format!("replica-{id}")));
        let data = home.root().join("data");
        make_folder(&home.config_folder())?;
        write_new(&home.cluster_file(), &cluster_text)?;
        write_new(&home.node_file(), &node_text(id, *http, options))?;
        let file = home.config_folder().join("consensus.key");
        written(key_file::write_consensus(&file, consensus), &file)?;
        if let Some(share) = secrets.shares.get(id) {
            written(ShareFiles::beside(&file).keep_share(cluster.epoch, share), &file)?;
        }
        let file = home.config_folder().join("transport.key");
        written(key_file::write(&file, transport), &file)?;
        begin_in(&home, &data, &cluster, consensus)
            .map_err(|error| failed(&std::io::Error::other(error), &data))?;
        homes.push(home);
    }
    let mut administrator_keys = Vec::with_capacity(administrators.len());
    for (number, key) in administrators.iter().enumerate() {
        let file = folder.join(format!("{ADMINISTRATOR}{number}.key"));
        written(key_file::write(&file, key), &file)?;
        administrator_keys.push(file);
    }
    // Last: a folder with a client is whole.
    let client = Home::new(folder.join("client"));
    make_folder(&client.config_folder())?;
    write_new(&client.cluster_file(), &cluster_text)?;
    if let Some(program) = &options.service.program {
        let kept = serde_json::json!({ "program": program.to_string_lossy() });
        write_new(&folder.join(PROGRAM_FILE), &format!("{kept}\n"))?;
    }
    let http_addresses = ports.iter().map(|[_, _, http]| HostPort::loopback(*http)).collect();
    let warned = options.combination.warned();
    let warnings = warned.map(|rule| rule.finding(flag(rule.key))).collect();
    Ok(Testnet { replicas: homes, client, cluster, http_addresses, administrator_keys, warnings })
}

/// What the key files of administrators begin with.
const ADMINISTRATOR: &str = "administrator-";

fn refuse_governance(options: &Options) -> Result<(), TestnetError> {
    let refused = |what: String, flag: &str, remedy: String| {
        let place = Place::Flag(flag.to_owned());
        Err(TestnetError::Refused(Finding { what, place, remedy }))
    };
    let (count, most) = (options.administrators, Governance::MAX_ADMINISTRATORS);
    if count > most {
        let what = format!("a cluster cannot have {count} administrators");
        return refused(what, "--administrators", format!("ask for at most {most}"));
    }
    match options.approvals {
        Some(_) if count == 0 => refused(
            "there are no administrators to approve of anything".to_owned(),
            "--approvals",
            "add --administrators, or leave it out".to_owned(),
        ),
        Some(approvals) if approvals == 0 || usize::from(approvals) > count => refused(
            format!("{approvals} of {count} administrators cannot have to sign"),
            "--approvals",
            format!("ask for 1 to {count}"),
        ),
        _ => Ok(()),
    }
}

fn governance_of(administrators: &[SecretKey], options: &Options) -> Governance {
    let half = (administrators.len() / 2 + 1) as u16;
    let approvals = if administrators.is_empty() { 0 } else { options.approvals.unwrap_or(half) };
    let administrators = administrators.iter().map(SecretKey::public_key).collect();
    Governance { administrators, approvals }
}

/// The flag of `quorate testnet init` that sets a key of `cluster.toml`.
fn flag(key: &str) -> Place {
    Place::Flag(format!("--{}", key.replace('_', "-")))
}

fn refuse_combination(replicas: usize, options: &Options) -> Result<(), TestnetError> {
    let refused = |what: String, key, remedy: &str| {
        TestnetError::Refused(Finding { what, place: flag(key), remedy: remedy.to_owned() })
    };
    if let Some(rule) = options.combination.refused().next() {
        return Err(TestnetError::Refused(rule.finding(flag(rule.key))));
    }
    let leader = options.combination.leader;
    let named = options.fixed_leader;
    let refusal =
        named.and_then(|named| combination::fixed_leader_refusal(leader, named, replicas));
    if let Some((what, remedy)) = refusal {
        return Err(refused(what, "fixed_leader", remedy));
    }
    let refusal =
        options.sampling.and_then(|_| combination::sampling_refusal(options.combination.protocol));
    if let Some((what, remedy)) = refusal {
        return Err(refused(what, "sampling", remedy));
    }
    let refusal = combination::tentative_refusal(options.combination.protocol);
    if let Some((what, remedy)) = refusal.filter(|_| options.tentative) {
        return Err(refused(what, "tentative", remedy));
    }
    let sampling = options.sampling.unwrap_or(SamplingName::LaterPractice);
    let refusal = options.liveness.and_then(|named| {
        combination::liveness_refusal(options.combination.protocol, named, sampling, replicas)
    });
    if let Some((what, remedy)) = refusal {
        return Err(refused(what, "liveness", remedy));
    }
    if let Some((key, value, instead)) = options.combination.laboratory()
        && !options.laboratory
    {
        let what = format!("`{key}` is \"{value}\", and this is not for the laboratory");
        let remedy = format!("{instead}, or add --laboratory where nothing is at stake");
        return Err(refused(what, key, &remedy));
    }
    Ok(())
}

fn refuse_existing(folder: &Path) -> Result<(), TestnetError> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| failed(&error, folder))?,
    };
    let mut homes: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| failed(&error, folder))?;
        let name = entry.file_name();
        if name == "client"
            || name == PROGRAM_FILE
            || name.to_string_lossy().starts_with("replica-")
            || name.to_string_lossy().starts_with(ADMINISTRATOR)
        {
            homes.push(entry.path());
        }
    }
    homes.sort();
    let Some(first) = homes.first() else { return Ok(()) };
    let more = match homes.len() - 1 {
        0 => String::new(),
        more => format!(" (and {more} more)"),
    };
    let what = format!("there is a home already: {}{more}", first.display());
    let remedy = "name another folder, or remove these homes: their keys and data go with them";
    Err(refused(what, folder, remedy))
}

fn ports_from(base: u16, replicas: usize, folder: &Path) -> Result<Vec<Ports>, TestnetError> {
    let needed = 3 * replicas;
    let last = usize::from(base) + needed - 1;
    if base == 0 || last > usize::from(u16::MAX) {
        let what = format!("{replicas} replicas need the {needed} ports from {base}");
        let remedy = format!("choose a base port from 1 to {}", 65536 - needed);
        return Err(refused(what, folder, remedy));
    }
    let port = |index: usize| u16::try_from(usize::from(base) + index).unwrap_or(u16::MAX);
    Ok((0..replicas).map(|id| [port(3 * id), port(3 * id + 1), port(3 * id + 2)]).collect())
}

/// Ports that are free now. All are held until the last is known, so that none comes twice. All
/// are free for TCP and for UDP.
fn free_ports(replicas: usize) -> std::io::Result<Vec<Ports>> {
    let held = (0..3 * replicas).map(|_| free_port()).collect::<std::io::Result<Vec<_>>>()?;
    let mut ports = vec![[0; 3]; replicas];
    for (port, (held, _)) in ports.as_flattened_mut().iter_mut().zip(&held) {
        *port = held.local_addr()?.port();
    }
    Ok(ports)
}

fn free_port() -> std::io::Result<(TcpListener, UdpSocket)> {
    let mut attempt = 1;
    loop {
        let tcp = TcpListener::bind(("127.0.0.1", 0))?;
        match UdpSocket::bind(tcp.local_addr()?) {
            Ok(udp) => return Ok((tcp, udp)),
            Err(error) if attempt == PORT_ATTEMPTS => return Err(error),
            Err(_) => attempt += 1,
        }
    }
}

fn cluster_of(
    (secrets, governance): (&CommitteeSecrets, Governance),
    transport: &[SecretKey],
    ports: &[Ports],
    options: &Options,
    folder: &Path,
) -> Result<Cluster, TestnetError> {
    let mut genesis = [0; 32];
    getrandom::fill(&mut genesis)
        .map_err(|error| failed(&std::io::Error::other(error.to_string()), folder))?;
    let members = secrets.replicas.iter().zip(transport).zip(ports).enumerate();
    let members = members.map(|(id, ((consensus, transport), [peer, client, _]))| {
        Ok(Member {
            id: ReplicaId(id as u16),
            consensus_key: public_half(consensus),
            share_key: secrets.shares.get(id).and_then(|it| it.public_key().try_into().ok()),
            proof_of_possession: consensus.proof_of_possession(),
            transport_key: transport.public_key(),
            peer_address: address(options, id, *peer, folder)?,
            client_address: address(options, id, *client, folder)?,
            name: None,
        })
    });
    let members = members.collect::<Result<_, TestnetError>>()?;
    let mut cluster = Cluster::new(options.chain.clone(), genesis, members);
    cluster.set_combination(options.combination);
    cluster.fixed_leader = options.fixed_leader.unwrap_or(ReplicaId(0));
    cluster.sampling = options.sampling.unwrap_or(cluster.sampling);
    cluster.tentative = options.tentative;
    cluster.liveness = options.liveness.unwrap_or(cluster.liveness);
    cluster.group_key = secrets.group_key;
    cluster.transport = options.transport;
    cluster.application = options.application;
    cluster.service = canonical_table(&options.service.agreed).ok_or_else(|| {
        refused("the service's settings are no TOML", folder, "mend the program's `agrees_on`")
    })?;
    if let Some(from) = options.restored.clone() {
        let FromBackup { restored, rules, batch, sessions, limits } = from;
        if rules != Rules::FIRST && options.administrators == 0 {
            return Err(refused(
                format!(
                    "the backup is of a state under rules {rules}, and fixed members have rules 1.1"
                ),
                folder,
                "name how many administrators there are to be (--administrators)",
            ));
        }
        (cluster.batch, cluster.sessions, cluster.limits) = (batch, sessions, limits);
        cluster.restored = Some(restored);
    }
    if let Some(commands) = options.batch_commands {
        cluster.batch.max_commands = commands;
    }
    cluster.governance = governance;
    cluster.rules = options.restored.as_ref().map_or(Rules::FIRST, |from| from.rules);
    if cluster.generates_keys() {
        cluster.rules.core = cluster.rules.core.max(Rules::GENERATED_KEYS);
    }
    match cluster.check() {
        Some(finding) => Err(TestnetError::Refused(finding)),
        None => Ok(cluster),
    }
}

/// Where others reach a port of a replica.
fn address(
    options: &Options,
    id: usize,
    port: u16,
    folder: &Path,
) -> Result<HostPort, TestnetError> {
    let Some(host) = options.hosts.get(id) else { return Ok(HostPort::loopback(port)) };
    format!("{host}:{port}")
        .parse()
        .map_err(|error| refused(format!("\"{host}\" is no host: {error}"), folder, "correct it"))
}

fn node_text(id: usize, http: u16, options: &Options) -> String {
    let (id, http) = (id.to_string(), HostPort::loopback(http).to_string());
    let mut values = vec![
        ("replica", id.as_str()),
        ("listen.http", http.as_str()),
        ("storage.durability", options.durability.name()),
        // They share one machine.
        ("processor.preempts", "false"),
        ("processor.network_cores", Cores::Share.name()),
        ("laboratory.enabled", if options.laboratory { "true" } else { "false" }),
    ];
    if !options.service.own.is_empty() {
        values.push(("service", options.service.own.as_str()));
    }
    match node_file_text(&values) {
        Some(text) => text,
        None => unreachable!("ids below {MAX_REPLICAS} and loopback addresses fit the schema"),
    }
}

fn new_key(folder: &Path) -> Result<SecretKey, TestnetError> {
    SecretKey::generate().map_err(|error| failed(&std::io::Error::other(error.to_string()), folder))
}

fn written(wrote: Result<(), KeyFileError>, path: &Path) -> Result<(), TestnetError> {
    wrote.map_err(|error| failed(&std::io::Error::other(error), path))
}

fn make_folder(path: &Path) -> Result<(), TestnetError> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.map_err(|error| failed(&error, path))
}

fn write_new(path: &Path, text: &str) -> Result<(), TestnetError> {
    std::fs::File::create_new(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| failed(&error, path))
}

fn refused(what: impl Into<String>, folder: &Path, remedy: impl Into<String>) -> TestnetError {
    let place = Place::File(folder.to_owned());
    TestnetError::Refused(Finding { what: what.into(), place, remedy: remedy.into() })
}

fn failed(error: &std::io::Error, path: &Path) -> TestnetError {
    TestnetError::Failed(Finding {
        what: format!("the testnet could not be made: {error}"),
        place: Place::File(path.to_owned()),
        remedy: "see to the cause, remove what was made, and try again".to_owned(),
    })
}
