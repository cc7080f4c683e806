//! `quorate gateway`

use std::io;
use std::net::ToSocketAddrs as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use quorate_gateway::acl::gate::Gate;
use quorate_gateway::server::tls::TlsFiles;
use quorate_gateway::server::{Limits, Security, serve};
use quorate_gateway::{FrameLimits, Reads, SharedSession};
use quorate_node::client::{Client, State};
use quorate_node::config::{Cluster, Finding, HostPort, LogFormat, Place};
use quorate_node::descriptors;
use quorate_service::notify;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::{ReadsName, SendTo, reads_by_index, seconds};
use crate::client_home::ClientHome;
use crate::cluster::{KeyArgument, client_config, cluster_of};
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::output::{Format, print, print_json_line};
use crate::parent::ParentArgument;

/// Answer the Redis protocol, and order what comes in through the cluster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml. Each run has a session of its own.
    #[command(flatten)]
    pub home: ClientHome,
    #[command(flatten)]
    pub key: KeyArgument,
    /// Where to listen; port 0: any free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:6379", value_name = "ADDRESS")]
    pub listen: HostPort,
    /// How long a command may wait for the cluster, in seconds. It is then answered with
    /// CLUSTERDOWN if it is certain not to be executed, and with UNKNOWN if it may be.
    #[arg(long, default_value = "10", value_name = "N", value_parser = seconds)]
    pub give_up_after: Duration,
    /// How commands that only read are answered: by a read index, or ordered like writes. Both are
    /// linearizable. Default: by an index, where the protocol has one.
    #[arg(long, value_enum, value_name = "HOW")]
    pub reads: Option<ReadsName>,
    #[command(flatten)]
    pub security: SecurityArguments,
    #[command(flatten)]
    pub parent: ParentArgument,
}

/// Users, certificates, and the addresses that need them.
#[derive(Debug, Args)]
pub struct SecurityArguments {
    /// The users: a file as Redis's ACL files (docs/redis.md). It is read again after SIGHUP and by
    /// ACL LOAD. Without it everybody who reaches the port may do all.
    #[arg(long, value_name = "FILE")]
    pub acl_file: Option<PathBuf>,
    /// Encrypt with this certificate and its chain (PEM); read again after SIGHUP.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Clients must show a certificate of one of these authorities (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Listen beyond loopback though nobody needs a password.
    #[arg(long)]
    pub unprotected: bool,
}

/// Most bytes of replies that Redis clients have not taken yet, all together.
const MAX_REPLY_BYTES: usize = 512 << 20;

/// How often it is looked which replicas are reached.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Runs `gateway`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let mut parent = arguments.parent.watch();
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    logging::to_stderr(LevelFilter::INFO, LogFormat::Text);
    let limits = limits(&cluster, &arguments.listen)?;
    let reads = reads(&cluster, arguments.reads)?;
    // A session of its own for each run: nothing of an earlier one is to be found again.
    let key = arguments.key.key(&home)?;
    let authenticity = arguments.home.authenticity(&cluster)?;
    let failed = |error: std::io::Error| failure(error.to_string(), &arguments.listen);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let security = secure(&arguments.security)?;
        arguments.protect(&security.gate)?;
        let listener = TcpListener::bind(arguments.listen.to_string()).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let security = follow_files(&arguments.security, security).map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let client = Client::start(client_config(&cluster, SendTo::All, authenticity), key);
        match format {
            Format::Table => print(&format!("redis clients at {address}\n"))?,
            Format::Json => print_json_line(&json!({ "redis_address": address.to_string() }))?,
        }
        notify::ready();
        tokio::spawn(tell_of_replicas(client.clone()));
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = parent.wait() => {}
                // Nothing will be executed any more.
                _ = client.ended() => {}
            }
        };
        let session = session(client.clone(), &cluster, arguments.give_up_after).reading(reads);
        let session = Arc::new(session);
        serve(listener, session, limits, security, stop).await.map_err(failed)?;
        match client.state() {
            State::Ended(fatal) => Err(failure(fatal.to_string(), &arguments.listen)),
            State::Opening | State::Open(_) => Ok(()),
        }
    })
}

/// The users and the certificates as the files are now.
fn secure(arguments: &SecurityArguments) -> Result<Security, Failure> {
    let wrong = |flag: &str, what: String| {
        let place = Place::Flag(flag.to_owned());
        let remedy = "mend the file; docs/redis.md says what it holds".to_owned();
        Failure::new(Exit::Usage, Finding { what, place, remedy })
    };
    let gate = match &arguments.acl_file {
        None => Gate::default(),
        Some(file) => {
            Gate::of_file(file).map_err(|error| wrong("--acl-file", error.to_string()))?
        }
    };
    let tls = match arguments.tls_files() {
        None => None,
        Some(files) => {
            let config = files.load().map_err(|error| wrong("--tls-cert", error.to_string()))?;
            Some(watch::channel(config).1)
        }
    };
    Ok(Security { gate: Arc::new(gate), tls })
}

impl SecurityArguments {
    fn tls_files(&self) -> Option<TlsFiles> {
        let (certificate, key) = (self.tls_cert.clone()?, self.tls_key.clone()?);
        Some(TlsFiles { certificate, key, client_authorities: self.tls_client_ca.clone() })
    }
}

impl Arguments {
    /// Redis's protected mode: a port that others reach asks for a password or a certificate.
    fn protect(&self, gate: &Gate) -> Result<(), Failure> {
        let asks = gate.has_passwords() || self.security.tls_client_ca.is_some();
        if asks || self.security.unprotected {
            return Ok(());
        }
        // A name that is not known is told when it is listened on.
        let mut addresses = self.listen.to_string().to_socket_addrs().into_iter().flatten();
        let Some(address) = addresses.find(|address| !address.ip().is_loopback()) else {
            return Ok(());
        };
        let what = format!("{address} is reached from elsewhere, and nobody needs a password");
        let place = Place::Flag(format!("--listen {}", self.listen));
        let remedy = "give it users with --acl-file, ask for certificates with --tls-client-ca, \
                      listen on 127.0.0.1, or say --unprotected"
            .to_owned();
        Err(Failure::new(Exit::Usage, Finding { what, place, remedy }))
    }
}

/// Reads the files again after each SIGHUP. A bad file is logged, and changes nothing.
fn follow_files(arguments: &SecurityArguments, security: Security) -> io::Result<Security> {
    let Security { gate, tls } = security;
    let mut hang_up = signal(SignalKind::hangup())?;
    let (newest, followed) = match tls {
        None => (None, None),
        Some(first) => {
            let (sender, receiver) = watch::channel(Arc::clone(&first.borrow()));
            (Some(sender), Some(receiver))
        }
    };
    let (files, users) = (arguments.tls_files(), Arc::clone(&gate));
    tokio::spawn(async move {
        while hang_up.recv().await.is_some() {
            match users.reload() {
                Ok(()) => tracing::info!("SIGHUP: the users were read again"),
                Err(error) => tracing::warn!("SIGHUP: the users before stay in force: {error}"),
            }
            let (Some(files), Some(newest)) = (&files, &newest) else { continue };
            match files.load() {
                Ok(config) => {
                    // Connections that are open keep what they were opened with.
                    newest.send_replace(config);
                    tracing::info!("SIGHUP: the certificate was read again");
                }
                Err(error) => tracing::warn!("SIGHUP: the certificate before stays: {error}"),
            }
        }
    });
    Ok(Security { gate, tls: followed })
}

/// As many Redis clients as the system has file descriptors for.
fn limits(cluster: &Cluster, address: &HostPort) -> Result<Limits, Failure> {
    let (limit, usual) = (descriptors::raise(), Limits::default());
    let clients = descriptors::redis_clients(limit, cluster.members.len()).map_err(|error| {
        let place = Place::Flag(format!("--listen {address}"));
        let remedy = descriptors::REMEDY.to_owned();
        Failure::new(Exit::Failed, Finding { what: error.to_string(), place, remedy })
    })?;
    if clients < usual.max_clients {
        tracing::warn!(
            limit,
            clients,
            usual = usual.max_clients,
            "few open files are allowed: Redis clients beyond `clients` are refused; {}",
            descriptors::REMEDY
        );
    }
    Ok(Limits { max_clients: clients.min(usual.max_clients), ..usual })
}

/// How reads are answered.
fn reads(cluster: &Cluster, name: Option<ReadsName>) -> Result<Reads, Failure> {
    Ok(match reads_by_index(cluster, name)? {
        true => Reads::Index,
        false => Reads::Ordered,
    })
}

fn session(client: Client, cluster: &Cluster, give_up_after: Duration) -> SharedSession {
    let limits = &cluster.limits;
    let frame = FrameLimits::of_cluster(
        limits.max_frame_commands as usize,
        limits.max_frame_bytes as usize,
    );
    SharedSession::new(client, give_up_after, frame, MAX_REPLY_BYTES)
}

/// Logs which replicas are not reached and why, when that changes, and when the session is open.
async fn tell_of_replicas(client: Client) {
    let mut reached = vec![true; client.contacts().len()];
    let mut was_open = false;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let open = matches!(client.state(), State::Open(_));
        match (was_open, open) {
            (false, true) => tracing::info!("the cluster has opened a session for this gateway"),
            (true, false) => tracing::warn!("the session has expired; another one is asked for"),
            _ => {}
        }
        for (id, (contact, reached)) in client.contacts().iter().zip(&mut reached).enumerate() {
            match (&contact.trouble, *reached) {
                (Some(trouble), true) => tracing::warn!("replica {id} is not reached: {trouble}"),
                (None, false) => tracing::info!("replica {id} is reached again"),
                _ => {}
            }
            *reached = contact.trouble.is_none();
        }
        was_open = open;
    }
}

fn failure(what: String, address: &HostPort) -> Failure {
    let place = Place::Flag(format!("--listen {address}"));
    let remedy = "choose a free address, and see that the cluster runs".to_owned();
    Failure::new(Exit::Failed, Finding { what, place, remedy })
}
