//! Who takes part, and the one place where quorums are counted.
//!
//! With n replicas, f = ⌊(n − 1) / 3⌋ may lie and a quorum is q = n − f. (The papers write
//! 2f + 1, which is the same for n = 3f + 1 and wrong for every other n: two sets of 2f + 1 out
//! of 3f + 3 may share no correct replica.)

use crate::crypto::PublicKey;
use crate::types::{Digest, Epoch, ReplicaId};
use crate::wire::Encode;

/// The most replicas a committee may have: what the wire's caps are sized for.
pub const MAX_REPLICAS: usize = 256;

/// The replicas of one epoch, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    chain: Digest,
    epoch: Epoch,
    keys: Vec<PublicKey>,
}

/// Why a list of keys is no committee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitteeError {
    /// No replica at all, or more than [`MAX_REPLICAS`].
    #[error("a committee has 1 to {MAX_REPLICAS} replicas, not {0}")]
    Size(usize),
    /// Two replicas with one key would count twice for one will.
    #[error("replicas {0} and {1} have the same key")]
    SharedKey(ReplicaId, ReplicaId),
}

impl Committee {
    /// A committee of `chain` in `epoch`; `keys[i]` belongs to replica i.
    ///
    /// # Errors
    /// [`CommitteeError`] if the size is out of range or two keys are equal.
    pub fn new(chain: Digest, epoch: Epoch, keys: Vec<PublicKey>) -> Result<Self, CommitteeError> {
        if keys.is_empty() || keys.len() > MAX_REPLICAS {
            return Err(CommitteeError::Size(keys.len()));
        }
        for (i, key) in keys.iter().enumerate() {
            if let Some(j) = keys[..i].iter().position(|other| other == key) {
                return Err(CommitteeError::SharedKey(ReplicaId(j as u16), ReplicaId(i as u16)));
            }
        }
        Ok(Self { chain, epoch, keys })
    }

    /// The chain's identity: the digest of what all members agreed on at its start.
    #[must_use]
    pub fn chain(&self) -> Digest {
        self.chain
    }

    /// The epoch this committee serves.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// n: how many replicas there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.keys.len()
    }

    /// f = ⌊(n − 1) / 3⌋: how many may lie.
    #[must_use]
    pub fn faults(&self) -> usize {
        (self.size() - 1) / 3
    }

    /// q = n − f: any two quorums share a correct replica, and the correct ones alone make one.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.size() - self.faults()
    }

    /// f + 1: at least one of these is correct.
    #[must_use]
    pub fn honest_witness(&self) -> usize {
        self.faults() + 1
    }

    /// The key of `replica`, if there is such a replica.
    #[must_use]
    pub fn key(&self, replica: ReplicaId) -> Option<&PublicKey> {
        self.keys.get(replica.index())
    }

    /// All ids, ascending.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.keys.len() as u16).map(ReplicaId)
    }

    /// A digest of everything this committee is.
    #[must_use]
    pub fn digest(&self) -> Digest {
        let mut bytes = self.chain.to_bytes();
        self.epoch.encode(&mut bytes);
        for key in &self.keys {
            key.encode(&mut bytes);
        }
        Digest::of("quorate committee", &bytes)
    }
}
