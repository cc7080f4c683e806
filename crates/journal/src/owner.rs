//! The owner of a data folder.

use std::sync::Arc;

use quorate_core::Digest;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::ledger::clients::Clients;
use quorate_core::protocols::protocol::{BlockOf, Origin, Types};
use quorate_store::wal;

/// Bytes of the epoch that precedes a memory in the log's slot.
const EPOCH_BYTES: u64 = 8;

/// The replica that a data folder belongs to.
#[derive(Clone, Debug)]
pub struct Owner<T: Types> {
    /// The origin of its data.
    pub origin: Origin<T>,
    /// Its consensus key. The folder records what this key has signed.
    pub key: ReplicaKey,
    /// The root of the application that the chain begins with, if that was restored from a backup;
    /// `None`: it begins with an application in its first state.
    pub first_state: Option<Digest>,
    /// The list of clients that the chain begins with.
    pub clients: Arc<Clients>,
}

impl<T: Types> Owner<T> {
    /// The replica whose data begins with `origin` and whose consensus key is `key`.
    #[must_use]
    pub fn new(origin: Origin<T>, key: ReplicaKey) -> Self {
        Self { origin, key, first_state: None, clients: Arc::default() }
    }

    /// The same, of a chain that begins with an application of this root.
    #[must_use]
    pub fn beginning_with(self, first_state: Option<Digest>) -> Self {
        Self { first_state, ..self }
    }

    /// The same, of a chain that begins with this list of clients.
    #[must_use]
    pub fn serving(self, clients: Arc<Clients>) -> Self {
        Self { clients, ..self }
    }

    /// The identity that marks the files.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        let mut bytes = self.origin.committee.chain().0.to_vec();
        bytes.extend_from_slice(self.key.as_bytes());
        let digest = Digest::of("quorate data folder", &bytes);
        let mut identity = [0; 16];
        identity.copy_from_slice(&digest.0[..16]);
        identity
    }

    /// The log's layout: `log`, with room for the longest memory of this replica and for records of
    /// `record_bytes`.
    #[must_use]
    pub fn log_options(&self, log: wal::Options, record_bytes: usize) -> wal::Options {
        log.with_room_for(EPOCH_BYTES + self.origin.memory_bytes as u64, record_bytes as u64)
    }

    /// The genesis block.
    #[must_use]
    pub fn genesis(&self) -> BlockOf<T> {
        Arc::clone(&self.origin.genesis)
    }
}
