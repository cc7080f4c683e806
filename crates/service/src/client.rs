//! Clients of a service.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::SessionConfig;
use quorate_crypto::SecretKey;
use quorate_node::client::{Authenticity, ReplicaAddress};
use quorate_node::config::{Cluster, ConfigError, load_cluster};

pub use quorate_core::client::{ClientError, Fatal, NotExecuted, Unknown};
pub use quorate_node::client::{BlockingClient, Client, ClientConfig, QueryError};

/// Why there is no client.
#[derive(Debug)]
pub enum ConnectError {
    /// `cluster.toml` cannot be used.
    Config(ConfigError),
    /// The system gave no randomness for a key.
    Key(String),
    /// The cluster turns the client down.
    Refused(Fatal),
}

impl std::fmt::Display for ConnectError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Config(error) => error.fmt(f),
            Self::Key(error) => write!(f, "no key can be made: {error}"),
            Self::Refused(fatal) => fatal.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

/// The replicas of `cluster`, as clients reach them.
#[must_use]
pub fn addresses(cluster: &Cluster) -> Vec<ReplicaAddress> {
    let address = |member: &quorate_node::config::Member| ReplicaAddress {
        address: member.client_address.to_string(),
        key: member.transport_key,
    };
    cluster.members.iter().map(address).collect()
}

/// A client of `cluster` that gives each command up after `give_up_after`.
#[must_use]
pub fn config(cluster: &Cluster, give_up_after: Option<Duration>) -> ClientConfig {
    let mut session = SessionConfig::new(cluster.chain_digest(), cluster.members.len());
    session.tentative = cluster.tentative;
    session.frame_commands = cluster.limits.max_frame_commands as usize;
    session.frame_bytes = cluster.limits.max_frame_bytes as usize;
    ClientConfig {
        replicas: addresses(cluster),
        session,
        give_up_after,
        authenticity: Authenticity::of(cluster),
        incarnation: None,
    }
}

/// Connects to the cluster of a `cluster.toml`, under a fresh key. Waits until the session is open:
/// as long as it takes.
///
/// # Errors
/// [`ConnectError`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn connect(
    cluster_file: &Path,
    give_up_after: Option<Duration>,
) -> Result<Client, ConnectError> {
    let key = SecretKey::generate().map_err(|error| ConnectError::Key(error.to_string()))?;
    connect_as(Arc::new(key), cluster_file, give_up_after).await
}

/// The same under a key of the caller's, which a cluster may have to
/// [list](quorate_core::ledger::clients). One client at a time may use it.
///
/// # Errors
/// [`ConnectError`].
///
/// # Panics
/// Outside of a tokio runtime.
pub async fn connect_as(
    key: Arc<dyn ClientSigner>,
    cluster_file: &Path,
    give_up_after: Option<Duration>,
) -> Result<Client, ConnectError> {
    let (cluster, _) = load_cluster(cluster_file).map_err(ConnectError::Config)?;
    let client = Client::connect(config(&cluster, give_up_after), key);
    client.await.map_err(ConnectError::Refused)
}
