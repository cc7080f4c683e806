//! Checkpoints: the states that replicas came to, and the latest one that enough of them share.
//! They convince a replica that was not there (section 4.3 of *Practical Byzantine Fault
//! Tolerance*). PBFT asks for q signatures, Snowman for f + 1.

use std::collections::BTreeMap;

use crate::base::crypto::{Check, Share, Signature, Statement};
use crate::base::membership::{Committee, MAX_REPLICAS};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Digest, Height, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::Malformed;

/// The state behind a block (CHECKPOINT of the paper, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Checkpoint {
    /// The block's height.
    pub height: Height,
    /// The block.
    pub block: BlockId,
    /// The root of the state behind it.
    pub root: Digest,
}

/// A checkpoint that enough replicas signed. Signed even where all else is authenticated by MACs:
/// it convinces those who were not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stable {
    /// What they signed.
    pub checkpoint: Checkpoint,
    /// Their signatures, ascending by their ids.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Stable {
    /// What has to hold if it is proved by signatures of a weight, each of a statement.
    ///
    /// # Errors
    /// [`Malformed`] if fewer members signed it, or its signers are not in order.
    pub fn checks(
        &self,
        committee: &Committee,
        needed: usize,
        statement: Statement,
    ) -> Result<Vec<Check>, Malformed> {
        are_members_in_order(committee, self.signatures.iter().map(|(signer, _)| *signer))?;
        let weight: usize = self.signatures.iter().map(|(id, _)| committee.weight(*id)).sum();
        if weight < needed {
            return Err(Malformed::NoQuorum);
        }
        let share = |(signer, signature): &(ReplicaId, Signature)| {
            Check::Replica(Share { signer: *signer, statement, signature: *signature })
        };
        Ok(self.signatures.iter().map(share).collect())
    }
}

/// Whether these are members in strictly ascending order.
///
/// # Errors
/// [`Malformed`] says what they are instead.
pub fn are_members_in_order(
    committee: &Committee,
    replicas: impl Iterator<Item = ReplicaId>,
) -> Result<(), Malformed> {
    let mut last = None;
    for replica in replicas {
        if !committee.contains(replica) {
            return Err(Malformed::UnknownSigner);
        }
        if last.is_some_and(|last| last >= replica) {
            return Err(Malformed::UnorderedSigners);
        }
        last = Some(replica);
    }
    Ok(())
}

/// Where checkpoints stand.
#[derive(Clone, Debug)]
pub(super) struct Checkpoints {
    committee: Committee,
    /// Signatures of this weight make one stable.
    needed: usize,
    stable: Option<Stable>,
    votes: BTreeMap<Height, PerPeer<Option<(Checkpoint, Signature)>>>,
    /// The latest that this replica signed.
    signed: Height,
    /// The latest stable one that this replica came to as well, and told the ledger of.
    reached: Height,
}

impl Checkpoints {
    /// The genesis block's state is stable; further ones are by signatures of a weight.
    pub fn new(committee: Committee, needed: usize) -> Self {
        let genesis = committee.opening().height;
        let (signed, reached) = (genesis, genesis);
        Self { committee, needed, stable: None, votes: BTreeMap::new(), signed, reached }
    }

    /// The stable one; none where that is the genesis block.
    pub fn stable(&self) -> Option<&Stable> {
        self.stable.as_ref()
    }

    /// The low water mark h of the paper: the stable one's height.
    pub fn low(&self) -> Height {
        let genesis = self.committee.opening().height;
        self.stable.as_ref().map_or(genesis, |stable| stable.checkpoint.height)
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

    /// Takes in a signed one, of a height between the water marks. Returns the proof if enough
    /// replicas have signed the same by now.
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
        (weight >= self.needed).then_some(Stable { checkpoint, signatures })
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

    /// Forgets signatures below a height that made none stable.
    pub fn forget_below(&mut self, height: Height) {
        self.votes = self.votes.split_off(&height);
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

impl Encode for Checkpoint {
    fn encode(&self, out: &mut Vec<u8>) {
        self.height.encode(out);
        self.block.encode(out);
        self.root.encode(out);
    }
}

impl Decode for Checkpoint {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            height: Height::decode(reader)?,
            block: Digest::decode(reader)?,
            root: Digest::decode(reader)?,
        })
    }
}

/// A replica with its signature.
struct Signed(ReplicaId, Signature);

impl Decode for Signed {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self(ReplicaId::decode(reader)?, Signature::decode(reader)?))
    }
}

impl Encode for Stable {
    fn encode(&self, out: &mut Vec<u8>) {
        self.checkpoint.encode(out);
        (self.signatures.len() as u32).encode(out);
        for (signer, signature) in &self.signatures {
            signer.encode(out);
            signature.encode(out);
        }
    }
}

impl Decode for Stable {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let checkpoint = Checkpoint::decode(reader)?;
        let signed: Vec<Signed> = reader.list("signatures of a checkpoint", MAX_REPLICAS)?;
        let signatures = signed.into_iter().map(|Signed(signer, one)| (signer, one)).collect();
        Ok(Self { checkpoint, signatures })
    }
}
