//! From a configuration to a running replica.

use std::io;

use quorate_app::{kv, ordering};
use quorate_core::replica;
use quorate_core::pacemaker::Timing;
use quorate_core::{Committee, mempool};
use tokio::net::TcpListener;

use crate::config::{Application, Cluster, HostPort, Keys, Loaded};
use crate::replica::{Running, Setup, StartError};
use crate::transport::Member;

/// Bodies of a proposal's frames up to this many bytes travel with it: sending them costs less
/// than a round trip to ask for them.
const INLINE_BYTES: usize = 16 << 10;

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
    /// The replica itself.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A replica that came up, and where it listens (ports that were 0 are known now).
pub struct Launched {
    /// The replica.
    pub running: Running,
    /// For other replicas.
    pub peer_address: std::net::SocketAddr,
    /// For clients.
    pub client_address: std::net::SocketAddr,
}

/// What a replica is set up with, by its configuration.
///
/// # Panics
/// Never: a configuration that was loaded holds a committee.
#[must_use]
pub fn setup(loaded: &Loaded, committee: Committee, keys: Keys, rejoin: bool) -> Setup {
    let Loaded { cluster, node, .. } = loaded;
    let base = node.view_timeout.base;
    Setup {
        committee,
        me: node.replica,
        consensus_key: keys.consensus,
        transport_key: keys.transport,
        members: cluster
            .members
            .iter()
            .map(|member| Member {
                key: member.transport_key,
                address: member.peer_address.to_string(),
            })
            .collect(),
        data: node.storage.folder.clone(),
        durability: node.storage.durability,
        rejoin,
        log_window_bytes: node.storage.log_window_bytes,
        settings: settings(cluster, node.replica, base, node.storage.snapshot_every_blocks),
        max_frame_commands: cluster.limits.max_frame_commands,
        max_frame_bytes: cluster.limits.max_frame_bytes as usize,
        sessions: cluster.sessions,
        timing: Timing {
            base,
            multiplier_percent: (node.view_timeout.multiplier * 100.0) as u32,
            max: node.view_timeout.max,
        },
        verifiers: std::thread::available_parallelism().map_or(1, |cores| (cores.get() / 2).max(1)),
    }
}

fn settings(
    cluster: &Cluster,
    me: quorate_core::ReplicaId,
    base: std::time::Duration,
    snapshot_blocks: u64,
) -> replica::Settings {
    replica::Settings {
        me,
        batch_commands: cluster.batch.max_commands as usize,
        batch_bytes: cluster.batch.max_bytes as usize,
        inline_bytes: INLINE_BYTES,
        relay_after: base / 2,
        snapshot_blocks,
        mempool: mempool::Limits::default(),
    }
}

async fn listen(address: &HostPort, purpose: &'static str) -> Result<TcpListener, LaunchError> {
    TcpListener::bind(address.to_string())
        .await
        .map_err(|source| LaunchError::Listen { address: address.clone(), purpose, source })
}

/// Starts the replica that `loaded` describes, on the current tokio runtime.
///
/// # Errors
/// [`LaunchError`], with the remedy.
pub async fn launch(
    loaded: &Loaded,
    committee: Committee,
    keys: Keys,
    rejoin: bool,
) -> Result<Launched, LaunchError> {
    let peer = listen(&loaded.node.listen.peer, "other replicas").await?;
    let client = listen(&loaded.node.listen.client, "clients").await?;
    let address = |socket: &TcpListener| socket.local_addr().map_err(StartError::System);
    let (peer_address, client_address) = (address(&peer)?, address(&client)?);
    let setup = setup(loaded, committee, keys, rejoin);
    let running = match loaded.cluster.application {
        Application::Kv => setup.start(peer, client, Box::new(kv::KeyValue::new))?,
        Application::Ordering => setup.start(peer, client, Box::new(ordering::Ordering::default))?,
    };
    Ok(Launched { running, peer_address, client_address })
}
