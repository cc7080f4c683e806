//! From a configuration to a running replica.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use quorate_app::kv::feed::{Bounds, Feed};
use quorate_app::{kv, ordering};
use quorate_core::base::crypto::Signer;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::replica;
use quorate_core::{Committee, Digest, ledger::mempool, planted};
use quorate_transport::PeerSocket;
use tokio::net::TcpListener;

use crate::accelerator::Device;
use crate::begin;
use crate::client::succession::Following;
use crate::config::{
    Application, Cluster, Durability, Finding, HostPort, Keys, Loaded, Node, StateStore,
};
use crate::family::{self, Family};
use crate::generation;
use crate::http::access::{Access, AccessError};
use crate::http::{self, Facts};
use crate::replica::keyring::Keyring;
use crate::replica::{Running, Setup, StartError, data};
use crate::scout;

/// Bodies of a proposal's frames up to this many bytes travel with it: sending them costs less
/// than a round trip to ask for them.
pub(crate) const INLINE_BYTES: usize = 16 << 10;

/// Bytes of one file of a state on disk.
const STATE_FILE_BYTES: u64 = 64 << 20;

/// Why a replica did not come up.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address} for {purpose}: {source}; is another process using it?")]
    Listen {
        /// The address.
        address: HostPort,
        /// Who was to be heard there.
        purpose: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Who may read over HTTP is not known.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The replica itself.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The cluster replicates something else than this program has.
    #[error("the cluster replicates `{agreed}`, and this program is for {own}")]
    OtherApplication {
        /// What the cluster agreed on.
        agreed: String,
        /// What the program has.
        own: String,
    },
    /// The application cannot undo a block.
    #[error(
        "`tentative` is true, and the application `{application}` cannot undo a block that is not \
         committed in the end"
    )]
    CannotUndo {
        /// What the cluster agreed on.
        application: String,
    },
}

/// The sockets of a replica.
struct Sockets {
    peer: PeerSocket,
    client: TcpListener,
    http: TcpListener,
}

impl Sockets {
    async fn open(loaded: &Loaded) -> Result<Self, LaunchError> {
        data::check_free(&loaded.node.storage.folder).map_err(StartError::Data)?;
        begin::check_whole(&loaded.home).map_err(StartError::Data)?;
        let (transport, peer) = (loaded.cluster.transport, &loaded.node.listen.peer);
        let peer = PeerSocket::bind(transport, &peer.to_string())
            .await
            .map_err(|source| taken(peer, "other replicas", source))?;
        let client = listen(&loaded.node.listen.client, "clients").await?;
        let http = listen(&loaded.node.listen.http, "status and metrics").await?;
        Ok(Self { peer, client, http })
    }
}

/// A replica that came up, and where it listens (ports that were 0 are known now).
pub struct Launched {
    /// The replica.
    pub running: Running,
    /// For other replicas.
    pub peer_address: SocketAddr,
    /// For clients.
    pub client_address: SocketAddr,
    /// For status and metrics.
    pub http_address: SocketAddr,
    /// What is told there.
    pub facts: Arc<Facts>,
}

/// The file in the data folder that says where a replica listens: ports that were 0 are known
/// there. It may be left of a process that has ended.
#[must_use]
pub fn addresses_file(data: &Path) -> PathBuf {
    data.join("addresses.json")
}

/// The address for HTTP that the last process on this data folder had, if it says so.
#[must_use]
pub fn last_http_address(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(addresses_file(data)).ok()?;
    let addresses: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(addresses.get("http_address")?.as_str()?.to_owned())
}

/// The file in the data folder that says why the last process ended by itself.
fn end_file(data: &Path) -> PathBuf {
    data.join("ended.json")
}

/// Notes why a replica ended by itself, for `quorate status`. The next launch forgets it.
///
/// # Errors
/// Of the file system.
pub fn note_end(data: &Path, causes: &[Finding]) -> io::Result<()> {
    let causes: Vec<String> = causes.iter().map(ToString::to_string).collect();
    let text = serde_json::json!({ "process": std::process::id(), "causes": causes });
    let mut options = std::fs::OpenOptions::new();
    let mut file =
        options.write(true).create(true).truncate(true).mode(0o600).open(end_file(data))?;
    file.write_all(format!("{text}\n").as_bytes())
}

/// Why the last process on this data folder ended by itself, if it did.
#[must_use]
pub fn last_end(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(end_file(data)).ok()?;
    let noted: serde_json::Value = serde_json::from_str(&text).ok()?;
    let causes = noted.get("causes")?.as_array()?.iter().filter_map(|cause| cause.as_str());
    Some(causes.collect::<Vec<_>>().join("; "))
}

/// What an operator asks for at one start of a replica.
#[derive(Clone, Debug, Default)]
pub struct Remedies {
    /// The data is lost: rejoin without it.
    pub rejoin: bool,
    /// Digests of commands that are not given to the application.
    pub skipped_commands: BTreeSet<Digest>,
}

/// What a replica is set up with, by its configuration.
///
/// # Panics
/// Never: a configuration that was loaded holds a committee.
#[must_use]
pub fn setup(loaded: &Loaded, committee: Committee, keys: Keys, remedies: Remedies) -> Setup {
    let Loaded { cluster, node, .. } = loaded;
    let keyring = Arc::new(Keyring::new(&node.keys.consensus, keys.consensus));
    let (mut scheme, mut signer): (_, Arc<dyn Signer>) =
        (family::scheme(cluster), Arc::clone(&keyring) as Arc<dyn Signer>);
    let mut inline_checks = family::inline_checks(cluster);
    if node.laboratory.accelerator.is_device() {
        let device = Device::new(node.laboratory.accelerator);
        (scheme, signer) = (device.verifying(scheme), device.signing(signer));
        // The deciding thread does not wait for the device.
        inline_checks = 0;
    }
    Setup {
        committee,
        me: node.replica,
        application: cluster.application_name(),
        feed: None,
        traces: node.tracing.settings(),
        protocol: Family::tuned(cluster, node),
        scheme,
        signs_outcomes: family::signs_outcomes(cluster),
        inline_checks,
        consensus_key: loaded.member.consensus_key.clone(),
        keyring,
        signer,
        transport_key: keys.transport,
        transport_file: node.keys.transport.clone(),
        versions: node.laboratory.versions,
        retransmission: node.laboratory.retransmission,
        newest_rules: node.laboratory.newest_rules,
        members: cluster.members.iter().map(|member| Some(member.contact().as_peer())).collect(),
        first_state: cluster.restored.as_ref().map(|restored| restored.root),
        clients: Arc::clone(&cluster.clients),
        data: node.storage.folder.clone(),
        durability: node.storage.durability,
        // Where each turn syncs the disk, nobody else has the time.
        helped: node.storage.durability == Durability::Os
            && cluster.application != Application::Service,
        rejoin: remedies.rejoin,
        skipped_commands: remedies.skipped_commands,
        log_window_bytes: node.storage.log_window_bytes,
        state_files: state_files(cluster, node),
        settings: settings(cluster, node),
        max_frame_commands: cluster.limits.max_frame_commands,
        max_frame_bytes: cluster.limits.max_frame_bytes as usize,
        sessions: cluster.sessions,
        clients_held_bytes: node.clients.max_held_bytes,
        adversary: node.laboratory.adversary.clone(),
        requests: node.pipeline.requests(),
        verifiers: node.pipeline.verify(),
    }
}

/// Files that a state on disk has open at most: what is stored may take twice what keys and values
/// count for, and a state that is fetched is made beside the one that there is.
fn state_files(cluster: &Cluster, node: &Node) -> usize {
    if cluster.application != Application::Kv || node.storage.state != StateStore::Disk {
        return 0;
    }
    let regions = cluster.limits.max_state_bytes / STATE_FILE_BYTES + 1;
    usize::try_from(4 * regions).unwrap_or(usize::MAX)
}

fn settings(cluster: &Cluster, node: &Node) -> replica::Settings {
    replica::Settings {
        me: node.replica,
        batch_commands: cluster.batch.max_commands as usize,
        batch_bytes: planted!(
            "blocks-as-large-as-frames",
            cluster.limits.max_frame_bytes,
            cluster.batch.max_bytes,
        ) as usize,
        inline_bytes: INLINE_BYTES,
        relay_after: node.view_timeout.base / 2,
        snapshot_blocks: node.storage.snapshot_every_blocks,
        filtering: node.laboratory.filtering,
        ancestors: family::ancestors(node.laboratory.ancestors),
        dissemination: family::dissemination(node.dissemination),
        certificate_cache: node.laboratory.certificate_cache,
        max_snapshot_bytes: cluster.limits.max_snapshot_bytes,
        mempool: mempool::Limits::default(),
    }
}

async fn listen(address: &HostPort, purpose: &'static str) -> Result<TcpListener, LaunchError> {
    TcpListener::bind(address.to_string()).await.map_err(|source| taken(address, purpose, source))
}

fn taken(address: &HostPort, purpose: &'static str, source: io::Error) -> LaunchError {
    LaunchError::Listen { address: address.clone(), purpose, source }
}

/// Starts the replica that `loaded` describes, of the key-value store or of pure ordering, on the
/// current tokio runtime.
///
/// # Errors
/// [`LaunchError`], with the remedy.
pub async fn launch(
    loaded: &Loaded,
    committee: Committee,
    keys: Keys,
    remedies: Remedies,
) -> Result<Launched, LaunchError> {
    let limit_bytes = loaded.cluster.limits.max_state_bytes;
    match (loaded.cluster.application, loaded.node.storage.state) {
        (Application::Kv, StateStore::Memory) => {
            let rejoin = remedies.rejoin;
            let sockets = Sockets::open(loaded).await?;
            let feed = Arc::new(Feed::new(Bounds::default()));
            let told = Some(Arc::clone(&feed));
            let setup = Setup { feed: told, ..setup(loaded, committee, keys, remedies) };
            if !rejoin {
                bring_into_memory(&setup)?;
            }
            let fresh = move || kv::KeyValue::new().limited_to(limit_bytes).telling(&feed);
            run(loaded, sockets, setup, Box::new(fresh))
        }
        (Application::Kv, StateStore::Disk) => {
            let sockets = Sockets::open(loaded).await?;
            let shelf = data::state_shelf(&loaded.node.storage.folder).map_err(StartError::Data)?;
            let feed = Arc::new(Feed::new(Bounds::default()));
            let told = Some(Arc::clone(&feed));
            let setup = Setup { feed: told, ..setup(loaded, committee, keys, remedies) };
            let fresh =
                move || kv::KeyValue::on_disk(&shelf).limited_to(limit_bytes).telling(&feed);
            run(loaded, sockets, setup, Box::new(fresh))
        }
        (Application::Ordering, _) => {
            let sockets = Sockets::open(loaded).await?;
            let fresh = Box::new(ordering::Ordering::default);
            run(loaded, sockets, setup(loaded, committee, keys, remedies), fresh)
        }
        (Application::Service, _) => {
            let own = "the applications `kv` and `ordering`".to_owned();
            Err(LaunchError::OtherApplication { agreed: loaded.cluster.application_name(), own })
        }
    }
}

/// Starts the replica that `loaded` describes, of the service called `name`, on the current tokio
/// runtime. `fresh` makes the service in its first state.
///
/// # Errors
/// [`LaunchError`], with the remedy.
pub async fn launch_with<S: StateMachine + 'static>(
    loaded: &Loaded,
    committee: Committee,
    keys: Keys,
    remedies: Remedies,
    name: &str,
    fresh: Box<dyn Fn() -> S + Send>,
) -> Result<Launched, LaunchError> {
    let agreed = loaded.cluster.application_name();
    if loaded.cluster.application != Application::Service || agreed != name {
        let own = format!("the service `{name}`");
        return Err(LaunchError::OtherApplication { agreed, own });
    }
    let sockets = Sockets::open(loaded).await?;
    run(loaded, sockets, setup(loaded, committee, keys, remedies), fresh)
}

fn run<S: StateMachine + 'static>(
    loaded: &Loaded,
    sockets: Sockets,
    setup: Setup,
    fresh: Box<dyn Fn() -> S + Send>,
) -> Result<Launched, LaunchError> {
    if loaded.cluster.tentative && !fresh().mark() {
        return Err(LaunchError::CannotUndo { application: setup.application });
    }
    let access = Access::of(&loaded.node.http)?;
    let Sockets { peer, client, http } = sockets;
    let peer_address = peer.local_addr().map_err(StartError::System)?;
    let client_address = client.local_addr().map_err(StartError::System)?;
    let http_address = http.local_addr().map_err(StartError::System)?;
    let running = setup.start(peer, client, fresh)?;
    // There is none after an end in good order.
    let _ = std::fs::remove_file(end_file(&loaded.node.storage.folder));
    let launched = Launched {
        facts: Facts::new(&loaded.node, loaded.cluster.clone(), &running),
        running,
        peer_address,
        client_address,
        http_address,
    };
    launched.write_addresses(&loaded.node.storage.folder).map_err(StartError::System)?;
    tokio::spawn(http::serve(http, access, Arc::clone(&launched.facts)));
    if let Some(following) = Following::of(&loaded.cluster) {
        let Launched { running, .. } = &launched;
        let (epochs, peers) = (Arc::clone(running.epochs()), Arc::clone(running.peers()));
        let transport = Arc::clone(running.transport_key());
        if loaded.cluster.generates_keys() {
            tokio::spawn(generation::run(generation::Part {
                cluster: Arc::new(loaded.cluster.clone()),
                following: following.clone(),
                epochs: Arc::clone(&epochs),
                board: Arc::clone(running.generating()),
                past: Arc::clone(running.past()),
                searched: Mutex::default(),
            }));
        }
        tokio::spawn(scout::run(loaded.node.replica, following, epochs, peers, transport));
    }
    Ok(launched)
}

/// What an earlier process left on disk.
fn bring_into_memory(setup: &Setup) -> Result<(), LaunchError> {
    setup
        .bring_into_memory()
        .map_err(StartError::Data)?
        .iter()
        .for_each(|note| tracing::warn!("{note}"));
    Ok(())
}

impl Launched {
    /// What it says about itself when it is up.
    #[must_use]
    pub fn announcement(&self, replica: quorate_core::ReplicaId) -> serde_json::Value {
        serde_json::json!({
            "replica": replica.0,
            "peer_address": self.peer_address.to_string(),
            "client_address": self.client_address.to_string(),
            "http_address": self.http_address.to_string(),
        })
    }

    /// Whole or not at all: a reader never sees half of it. Nothing rests on it after a crash of
    /// the system, so that it need not be synced.
    fn write_addresses(&self, data: &Path) -> io::Result<()> {
        let file = addresses_file(data);
        let new = file.with_extension("new");
        let text = serde_json::json!({
            "peer_address": self.peer_address.to_string(),
            "client_address": self.client_address.to_string(),
            "http_address": self.http_address.to_string(),
            "process": std::process::id(),
        });
        let mut options = std::fs::OpenOptions::new();
        let mut written = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        written.write_all(format!("{text}\n").as_bytes())?;
        std::fs::rename(&new, &file)
    }
}
