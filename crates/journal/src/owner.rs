//! Whose data it is.

use std::sync::Arc;

use quorate_core::base::committee::ReplicaKey;
use quorate_core::ledger::block::{Block, SharedBlock};
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::{Digest, limits};
use quorate_store::wal;

/// Who a data folder belongs to.
#[derive(Clone, Debug)]
pub struct Owner {
    /// What the replica's signatures are bound to.
    pub domain: Domain,
    /// Its consensus key: the folder holds what this key has signed.
    pub key: ReplicaKey,
}

impl Owner {
    /// The replica whose signatures are bound to `domain` and whose consensus key is `key`.
    #[must_use]
    pub fn new(domain: Domain, key: ReplicaKey) -> Self {
        Self { domain, key }
    }

    /// What the files are marked with.
    #[must_use]
    pub fn identity(&self) -> [u8; 16] {
        let mut bytes = self.domain.committee().chain().0.to_vec();
        bytes.extend_from_slice(self.key.as_bytes());
        let digest = Digest::of("quorate data folder", &bytes);
        let mut identity = [0; 16];
        identity.copy_from_slice(&digest.0[..16]);
        identity
    }

    /// How the log is laid out: as `log` says, with room for the longest safety record that this
    /// replica can come to and for records of `record_bytes`.
    #[must_use]
    pub fn log_options(&self, log: wal::Options, record_bytes: usize) -> wal::Options {
        log.with_room_for(limits::safety_bytes(&self.domain) as u64, record_bytes as u64)
    }

    /// The block before the first one.
    #[must_use]
    pub fn genesis(&self) -> SharedBlock {
        let committee = self.domain.committee();
        Arc::new(Block::genesis(committee.chain(), committee.epoch()))
    }
}
