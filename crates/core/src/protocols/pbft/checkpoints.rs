//! Checkpoints: the states that replicas came to, and the latest one that q of them share.

use std::collections::BTreeMap;

use super::words::{Checkpoint, Stable};
use crate::base::crypto::Signature;
use crate::base::membership::Committee;
use crate::base::per_peer::PerPeer;
use crate::base::types::{Height, ReplicaId};

/// Where checkpoints stand.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    committee: Committee,
    stable: Option<Stable>,
    votes: BTreeMap<Height, PerPeer<Option<(Checkpoint, Signature)>>>,
    /// The latest that this replica signed.
    signed: Height,
    /// The latest stable one that this replica came to as well, and told the ledger of.
    reached: Height,
}

impl Checkpoints {
    /// The genesis block's state is stable.
    pub fn new(committee: Committee) -> Self {
        let (signed, reached) = (Height(0), Height(0));
        Self { committee, stable: None, votes: BTreeMap::new(), signed, reached }
    }

    /// The stable one; none where that is the genesis block.
    pub fn stable(&self) -> Option<&Stable> {
        self.stable.as_ref()
    }

    /// The low water mark h of the paper: the stable one's height.
    pub fn low(&self) -> Height {
        self.stable.as_ref().map_or(Height(0), |stable| stable.checkpoint.height)
    }

    /// The latest that this replica signed.
    pub fn signed(&self) -> Height {
        self.signed
    }

    /// This replica signs the one at a height.
    pub fn sign(&mut self, height: Height) {
        self.signed = self.signed.max(height);
    }

    /// Those that a replica signed above a height, ascending.
    pub fn of(
        &self,
        replica: ReplicaId,
        above: Height,
    ) -> impl Iterator<Item = (Checkpoint, Signature)> {
        self.votes.range(above.next()..).filter_map(move |(_, votes)| *votes.get(replica)?)
    }

    /// Takes in a signed one, of a height between the water marks. Returns the proof if q replicas
    /// have signed the same by now.
    pub fn add(
        &mut self,
        from: ReplicaId,
        checkpoint: Checkpoint,
        signature: Signature,
    ) -> Option<Stable> {
        if checkpoint.height <= self.low() {
            return None;
        }
        let peers = self.committee.size();
        let votes = self.votes.entry(checkpoint.height).or_insert_with(|| PerPeer::new(peers));
        votes.get_mut(from)?.get_or_insert((checkpoint, signature));
        let same = |(id, held): (ReplicaId, &Option<(Checkpoint, Signature)>)| match held {
            Some((held, signature)) if *held == checkpoint => Some((id, *signature)),
            _ => None,
        };
        let signatures: Vec<_> = votes.of_each().filter_map(same).collect();
        let weight: usize = signatures.iter().map(|(id, _)| self.committee.weight(*id)).sum();
        (weight >= self.committee.quorum()).then_some(Stable { checkpoint, signatures })
    }

    /// A stable one, proved. Says whether it is later than the one known.
    pub fn raise(&mut self, stable: Stable) -> bool {
        let low = stable.checkpoint.height;
        if low <= self.low() {
            return false;
        }
        self.stable = Some(stable);
        self.votes = self.votes.split_off(&low.next());
        true
    }

    /// The stable one, once, when this replica has committed its block.
    pub fn reach(&mut self, committed: Height) -> Option<Stable> {
        let (reached, low) = (self.reached, self.low());
        if low <= reached || low > committed {
            return None;
        }
        self.reached = low;
        self.stable.clone()
    }
}
