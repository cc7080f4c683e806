//! The members of each epoch, and the one place where quorums are counted.
//!
//! With n replicas, f = ⌊(n − 1) / 3⌋ may lie and a quorum is q = n − f. (The papers write
//! 2f + 1, which is the same for n = 3f + 1 and wrong for every other n: two sets of 2f + 1 out
//! of 3f + 3 may share no correct replica.)
//!
//! Members have weights, and n is their sum. Every weight is 1.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::base::types::{Digest, Epoch, ReplicaId};

/// The most replicas a committee may have: what the wire's caps are sized for.
pub const MAX_REPLICAS: usize = 256;

/// f = ⌊(n − 1) / 3⌋: how many of n may lie.
#[must_use]
pub const fn faults(n: usize) -> usize {
    n.saturating_sub(1) / 3
}

/// q = n − f: any two quorums share a correct replica, and the correct ones alone make one.
#[must_use]
pub const fn quorum(n: usize) -> usize {
    n - faults(n)
}

/// f + 1: at least one of these is correct.
#[must_use]
pub const fn honest_witness(n: usize) -> usize {
    faults(n) + 1
}

/// ⌊(n − 1) / 5⌋: how many of n may lie under Frosty, which wants fewer than a fifth (arXiv
/// 2404.14250, abstract).
#[must_use]
pub const fn faults_of_a_fifth(n: usize) -> usize {
    n.saturating_sub(1) / 5
}

/// a: the least number with 3a > 2 (n + f), where f = ⌊(n − 1) / 5⌋. Where a − f correct replicas
/// of n stand by a block, every set of a or more replicas has more of them than of all others:
/// 2a − n − f against n + f − a. It is n − f for n = 5f + 1, never more, and never less than
/// [q](quorum): two sets of a share a correct replica, and the correct ones alone are a.
#[must_use]
pub const fn quorum_of_a_fifth(n: usize) -> usize {
    2 * (n + faults_of_a_fifth(n)) / 3 + 1
}

/// f + 1 with f = ⌊(n − 1) / 5⌋: at least one of these is correct.
#[must_use]
pub const fn witness_of_a_fifth(n: usize) -> usize {
    faults_of_a_fifth(n) + 1
}

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

/// A replica in a committee.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    key: ReplicaKey,
    weight: usize,
}

/// The replicas of one epoch, in the order of their ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committee {
    chain: Digest,
    epoch: Epoch,
    /// Shared: every part of a replica has a committee of its own.
    members: Arc<[Member]>,
    /// The sum of the weights.
    weight: usize,
    quorum: usize,
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
        let members: Arc<[_]> = keys.into_iter().map(|key| Member { key, weight: 1 }).collect();
        let weight = members.iter().map(|member| member.weight).sum();
        Ok(Self { chain, epoch, members, weight, quorum: quorum(weight) })
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

    /// The same with another quorum: a bug put in on purpose.
    #[cfg(quorate_mutants)]
    #[must_use]
    pub fn with_quorum(self, quorum: usize) -> Self {
        Self { quorum, ..self }
    }

    /// How many replicas there are.
    #[must_use]
    pub fn size(&self) -> usize {
        self.members.len()
    }

    /// How much `replica` counts: 1, or 0 if there is no such replica.
    #[must_use]
    pub fn weight(&self, replica: ReplicaId) -> usize {
        self.members.get(replica.index()).map_or(0, |member| member.weight)
    }

    /// [f](faults): how many may lie.
    #[must_use]
    pub fn faults(&self) -> usize {
        faults(self.weight)
    }

    /// [q](quorum): any two quorums share a correct replica, and the correct ones alone make one.
    #[must_use]
    pub fn quorum(&self) -> usize {
        self.quorum
    }

    /// [f + 1](honest_witness): at least one of these is correct.
    #[must_use]
    pub fn honest_witness(&self) -> usize {
        honest_witness(self.weight)
    }

    /// [a](quorum_of_a_fifth): where fewer than a fifth lie, the correct ones are the majority of
    /// any such set, and of any larger one, if a − f of them agree.
    #[must_use]
    pub fn quorum_of_a_fifth(&self) -> usize {
        quorum_of_a_fifth(self.weight)
    }

    /// [f + 1](witness_of_a_fifth), where fewer than a fifth lie: at least one of these is correct.
    #[must_use]
    pub fn witness_of_a_fifth(&self) -> usize {
        witness_of_a_fifth(self.weight)
    }

    /// The key of `replica`, if there is such a replica.
    #[must_use]
    pub fn key(&self, replica: ReplicaId) -> Option<&ReplicaKey> {
        self.members.get(replica.index()).map(|member| &member.key)
    }

    /// Whether there is such a replica.
    #[must_use]
    pub fn contains(&self, replica: ReplicaId) -> bool {
        replica.index() < self.members.len()
    }

    /// All ids, ascending.
    pub fn replicas(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.members.len() as u16).map(ReplicaId)
    }
}

/// The committees of a chain, each from an epoch on. There is one until members change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    latest: Committee,
    /// By epoch.
    earlier: BTreeMap<Epoch, Committee>,
}

impl Membership {
    /// Of a chain that has had one committee.
    #[must_use]
    pub fn new(first: Committee) -> Self {
        Self { latest: first, earlier: BTreeMap::new() }
    }

    /// The committee of `epoch`, if it has begun.
    #[must_use]
    pub fn committee(&self, epoch: Epoch) -> Option<&Committee> {
        if epoch == self.latest.epoch { Some(&self.latest) } else { self.earlier.get(&epoch) }
    }

    /// The committee of the latest epoch.
    #[must_use]
    pub fn latest(&self) -> &Committee {
        &self.latest
    }

    /// The committee of the epoch that begins now. `None`, and nothing changes, unless it is of
    /// this chain and its epoch follows the latest.
    #[must_use]
    pub fn begin(&mut self, next: Committee) -> Option<&Committee> {
        if next.chain != self.latest.chain || next.epoch.0 != self.latest.epoch.0.checked_add(1)? {
            return None;
        }
        let ended = std::mem::replace(&mut self.latest, next);
        self.earlier.insert(ended.epoch, ended);
        Some(&self.latest)
    }
}
