//! Who takes part, and the one place where quorums are counted.
//!
//! With n replicas, f = ⌊(n − 1) / 3⌋ may lie and a quorum is q = n − f. (The papers write
//! 2f + 1, which is the same for n = 3f + 1 and wrong for every other n: two sets of 2f + 1 out
//! of 3f + 3 may share no correct replica.)

use std::fmt;
use std::sync::Arc;

use crate::base::types::{Digest, Epoch, ReplicaId};

/// The most replicas a committee may have: what the wire's caps are sized for.
pub const MAX_REPLICAS: usize = 256;

/// A replica's public key, of whatever scheme the committee uses: the core compares keys and hashes
/// them, and no more.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaKey(Arc<[u8]>);

impl ReplicaKey {
    /// The longest key of any scheme (BLS12-381 in G2).
    pub const MAX_BYTES: usize = 96;

    /// A key of these bytes; `None` if they are too many.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        (bytes.len() <= Self::MAX_BYTES).then(|| Self(bytes.into()))
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<[u8; 32]> for ReplicaKey {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes.as_slice().into())
    }
}

/// In hexadecimal.
impl fmt::Display for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ReplicaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The replicas of one epoch, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    chain: Digest,
    epoch: Epoch,
    /// Shared: every part of a replica has a committee of its own.
    keys: Arc<[ReplicaKey]>,
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
    pub fn new(chain: Digest, epoch: Epoch, keys: Vec<ReplicaKey>) -> Result<Self, CommitteeError> {
        if keys.is_empty() || keys.len() > MAX_REPLICAS {
            return Err(CommitteeError::Size(keys.len()));
        }
        for (i, key) in keys.iter().enumerate() {
            if let Some(j) = keys[..i].iter().position(|other| other == key) {
                return Err(CommitteeError::SharedKey(ReplicaId(j as u16), ReplicaId(i as u16)));
            }
        }
        Ok(Self { chain, epoch, keys: keys.into() })
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
        let (n, f) = (self.size(), self.faults());
        let right = || mutant!("quorum-2f-plus-1", 2 * f + 1, n - f);
        mutant!("quorum-2f", 2 * f.max(1), mutant!("quorum-f-plus-1", f + 1, right()))
    }

    /// f + 1: at least one of these is correct.
    #[must_use]
    pub fn honest_witness(&self) -> usize {
        self.faults() + 1
    }

    /// The key of `replica`, if there is such a replica.
    #[must_use]
    pub fn key(&self, replica: ReplicaId) -> Option<&ReplicaKey> {
        self.keys.get(replica.index())
    }

    /// Whether there is such a replica.
    #[must_use]
    pub fn contains(&self, replica: ReplicaId) -> bool {
        replica.index() < self.keys.len()
    }

    /// All ids, ascending.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.keys.len() as u16).map(ReplicaId)
    }
}
