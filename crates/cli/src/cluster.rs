//! What commands need to be clients of a cluster.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::{Route, SessionConfig};
use quorate_crypto::{SecretKey, key_file};
use quorate_node::client::{Authenticity, ClientConfig};
use quorate_node::config::{Cluster, Finding, Home, Place, load_cluster};
pub use quorate_service::client::addresses;

use crate::arguments::SendTo;
use crate::failure::{Exit, Failure};
use crate::output::warn;

/// Reads the cluster file of a client's home.
pub fn cluster_of(home: &Home) -> Result<Cluster, Failure> {
    let (cluster, warnings) = load_cluster(&home.cluster_file())?;
    warn(&warnings);
    Ok(cluster)
}

/// A key of no file, for sessions that nobody needs to find again.
pub fn fresh_key(home: &Home) -> Result<Arc<dyn ClientSigner>, Failure> {
    let key = SecretKey::generate().map_err(|error| usage(error.to_string(), home.root()))?;
    Ok(Arc::new(key))
}

/// The key of a client.
#[derive(Clone, Debug, Args)]
pub struct KeyArgument {
    /// The client's key file (`quorate keygen`), for clusters that take commands from listed
    /// clients alone. One process at a time may use it. Default: a fresh key for each run.
    #[arg(long, value_name = "KEYFILE")]
    client_key: Option<PathBuf>,
}

impl KeyArgument {
    /// The key of the file, or a fresh one.
    pub fn key(&self, home: &Home) -> Result<Arc<dyn ClientSigner>, Failure> {
        self.client_key.as_deref().map_or_else(|| fresh_key(home), key_of)
    }
}

/// The key that a client's file holds.
pub fn key_of(file: &Path) -> Result<Arc<dyn ClientSigner>, Failure> {
    let key = key_file::read(file).map_err(|error| {
        let remedy = "name a file that `quorate keygen` made, with mode 0600".to_owned();
        let place = Place::File(file.to_owned());
        Failure::new(Exit::Usage, Finding { what: error.to_string(), place, remedy })
    })?;
    Ok(Arc::new(key))
}

fn usage(what: String, file: &Path) -> Failure {
    let remedy = "name a client's home with --home: testnet init makes one".to_owned();
    Failure::new(Exit::Usage, Finding { what, place: Place::File(file.to_owned()), remedy })
}

/// How a session with the cluster goes.
pub fn session(cluster: &Cluster, send_to: SendTo) -> SessionConfig {
    let mut session = SessionConfig::new(cluster.chain_digest(), cluster.members.len());
    session.tentative = cluster.tentative;
    session.frame_commands = cluster.limits.max_frame_commands as usize;
    session.frame_bytes = cluster.limits.max_frame_bytes as usize;
    session.route = match send_to {
        SendTo::All => Route::All,
        SendTo::One => Route::One { first: ReplicaId(0) },
    };
    session
}

/// A client of the cluster.
pub fn client_config(
    cluster: &Cluster,
    send_to: SendTo,
    authenticity: Authenticity,
) -> ClientConfig {
    ClientConfig {
        replicas: addresses(cluster),
        session: session(cluster, send_to),
        give_up_after: None,
        authenticity,
        incarnation: None,
    }
}
