//! What honest parties do while a flood lasts, beside the load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use quorate_app::kv::command::encode;
use quorate_core::Height;
use quorate_core::base::crypto::ClientSigner;
use quorate_crypto::SecretKey;
use quorate_node::client::pull::Puller;
use quorate_node::client::{Authenticity, Client, ClientConfig, ReplicaAddress};
use quorate_node::config::Cluster;

use super::Target;

/// How long anything of it may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two attempts.
const EVERY: Duration = Duration::from_millis(500);

/// Lets a client of the attacker write, as any client may.
pub(super) async fn write_all(target: &Target, commands: Vec<Vec<u8>>) {
    let config = ClientConfig {
        replicas: target.replicas.clone(),
        session: target.session,
        give_up_after: Some(PATIENCE),
        authenticity: Authenticity::Channel,
        incarnation: None,
    };
    let Ok(key) = SecretKey::generate() else { return };
    let Ok(client) = Client::connect(config, Arc::new(key)).await else { return };
    for command in commands {
        // What cannot be written is not there to be read; the flood goes on.
        let _ = client.submit(vec![command.into()]).await;
    }
}

/// How attempts went.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    served: AtomicU64,
    failed: AtomicU64,
    longest: Mutex<Duration>,
}

impl Attempts {
    pub(super) fn note(&self, went_well: bool, took: Duration) {
        let counter = if went_well { &self.served } else { &self.failed };
        counter.fetch_add(1, Ordering::Relaxed);
        let mut longest = self.longest.lock().unwrap_or_else(PoisonError::into_inner);
        *longest = took.max(*longest);
    }

    pub(super) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }

    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    pub(super) fn longest(&self) -> Duration {
        *self.longest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// New clients, one after the other: each opens a session and has a command executed.
pub(super) async fn newcomers(config: ClientConfig, attempts: Arc<Attempts>) {
    loop {
        let began = Instant::now();
        let arrival = tokio::time::timeout(PATIENCE, arrive(config.clone())).await;
        attempts.note(arrival.unwrap_or(false), began.elapsed());
        tokio::time::sleep(EVERY).await;
    }
}

async fn arrive(config: ClientConfig) -> bool {
    let Ok(key) = SecretKey::generate() else { return false };
    let key: Arc<dyn ClientSigner> = Arc::new(key);
    let Ok(client) = Client::connect(config, key).await else { return false };
    let mut command = Vec::new();
    encode::incr_by(&mut command, b"newcomers", 1);
    client.submit(vec![command.into()]).await.is_ok()
}

/// Executors, one after the other: each pulls decided blocks from the first on, and believes what
/// is proven.
pub(super) async fn pulls(
    replicas: Vec<ReplicaAddress>,
    cluster: Cluster,
    attempts: Arc<Attempts>,
) {
    loop {
        let began = Instant::now();
        let pulled = tokio::time::timeout(PATIENCE, pull(&replicas, &cluster)).await;
        attempts.note(pulled.unwrap_or(false), began.elapsed());
        tokio::time::sleep(EVERY).await;
    }
}

/// Whether any replica hands out blocks: each is asked once.
async fn pull(replicas: &[ReplicaAddress], cluster: &Cluster) -> bool {
    let Ok(mut puller) = Puller::new(replicas.to_vec(), cluster, Height(1)) else { return false };
    for _ in replicas {
        if puller.pull().await.is_ok_and(|blocks| !blocks.is_empty()) {
            return true;
        }
    }
    false
}
