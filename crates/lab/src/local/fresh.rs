//! A cluster that is made for one measurement, and is gone afterwards.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use quorate_netem::{Namespace, Network};
use quorate_node::config::Home;
use quorate_node::testnet::{self, TestnetError};

use super::cluster::{LocalCluster, LocalError, Options};
use super::process::Echo;

/// The first port in an emulated network, where all are free: below those that connections come
/// from.
const NETWORK_PORT: u16 = 7000;

/// What kind of cluster.
#[derive(Clone, Debug)]
pub struct Fresh<'a> {
    /// The `quorate` program.
    pub program: &'a Path,
    /// Where its homes go: a folder without any. They stay, for whoever wants to look at them.
    pub folder: &'a Path,
    /// How many replicas.
    pub replicas: usize,
    /// Of which kind.
    pub options: testnet::Options,
    /// Arguments of every `quorate start`.
    pub arguments: Vec<OsString>,
    /// Arguments of one replica's `quorate start` alone, by id.
    pub own_arguments: BTreeMap<usize, Vec<OsString>>,
    /// The network that connects them, a namespace each; `None`: all are on the loopback interface.
    pub network: Option<&'a Network>,
}

/// A replica ended that nobody killed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("replica {id} {how}; see replica-{id}/replica.log")]
pub struct ReplicaEnded {
    /// Which.
    pub id: usize,
    /// How.
    pub how: String,
}

impl Fresh<'_> {
    /// Makes the homes, starts the replicas, lets `measure` do what it wants with them and with the
    /// home of a client, and stops them.
    ///
    /// # Errors
    /// Those of `measure`; but if a replica has ended by itself, that comes first: it is why.
    pub fn run<T, E>(
        self,
        measure: impl FnOnce(&mut LocalCluster, &Home) -> Result<T, E>,
    ) -> Result<T, E>
    where
        E: From<TestnetError> + From<LocalError> + From<ReplicaEnded>,
    {
        let replicas = (0..self.replicas).filter_map(|id| self.network?.replica(id).cloned());
        let namespaces: Vec<Namespace> = replicas.collect();
        let mut options = self.options;
        if self.network.is_some() {
            options.hosts = namespaces.iter().map(|one| one.address().to_string()).collect();
            options.base_port = Some(NETWORK_PORT);
        }
        let net = testnet::init(self.folder, self.replicas, &options)?;
        let options = Options {
            program: self.program.to_owned(),
            arguments: self.arguments,
            own_arguments: self.own_arguments,
            echo: Echo::No,
            namespaces,
        };
        let mut cluster = LocalCluster::start(net.cluster, net.replicas, options)?;
        let measured = measure(&mut cluster, &net.client);
        if let Some((id, how, _)) = cluster.ended().into_iter().next() {
            return Err(ReplicaEnded { id, how }.into());
        }
        cluster.stop();
        measured
    }
}
