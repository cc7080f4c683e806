use std::sync::Arc;

use crate::base::crypto::{Check, Share, ShareKeys, Signature, Statement};
use crate::base::types::{Digest, MAX_REPLICAS, ReplicaId};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};

/// The public shares of the key that the members of the next epoch generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NextShares {
    /// The [digest](crate::ledger::generation::Generation::digest) of the generation that made
    /// them, as it stands where the change executes.
    pub generation: Digest,
    /// The keys.
    pub keys: ShareKeys,
    /// What each member signed with its share, over
    /// [`SignedChange::possession`](super::SignedChange::possession).
    pub possessions: Vec<(ReplicaId, Signature)>,
}

impl NextShares {
    /// The digest of what a member is ready for, if it is ready for the change with this digest.
    pub(super) fn readiness(&self, change: &Digest) -> Digest {
        let mut bytes = change.to_bytes();
        self.generation.encode(&mut bytes);
        self.keys.digest().encode(&mut bytes);
        Digest::of("quorate change with shares", &bytes)
    }

    /// Whether a member signed with its share.
    pub(super) fn is_possessed_by(&self, id: ReplicaId) -> bool {
        self.possessions.iter().any(|(signer, _)| *signer == id)
    }

    /// The digest of what a member signs with its share. It names the member: from a quorum's
    /// signatures of one statement, anybody computes those of all others.
    pub(super) fn possession(&self, change: &Digest, id: ReplicaId) -> Digest {
        let mut bytes = self.readiness(change).to_bytes();
        id.encode(&mut bytes);
        Digest::of("quorate possession of a share", &bytes)
    }

    /// What has to hold: no signature by a share does unless the keys lie on one polynomial.
    pub(super) fn checks(
        &self,
        statement: impl Fn(ReplicaId) -> Statement,
    ) -> impl Iterator<Item = Check> {
        let keys = Arc::new(self.keys.clone());
        self.possessions.iter().map(move |(signer, signature)| {
            let statement = statement(*signer);
            let share = Share { signer: *signer, statement, signature: *signature };
            let (keys, check) = (Arc::clone(&keys), Box::new(Check::Replica(share)));
            Check::Joined { keys, check }
        })
    }
}

/// The digest of the generation 32 ‖ the keys ‖ the signatures u32, each its member u16 and itself.
impl Encode for NextShares {
    fn encode(&self, out: &mut Vec<u8>) {
        self.generation.encode(out);
        self.keys.encode(out);
        (self.possessions.len() as u32).encode(out);
        for (id, signature) in &self.possessions {
            id.encode(out);
            signature.encode(out);
        }
    }
}

impl Decode for NextShares {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let (generation, keys) = (Digest::decode(reader)?, ShareKeys::decode(reader)?);
        let count = reader.length("signatures by shares", MAX_REPLICAS)?;
        let possessions = (0..count)
            .map(|_| Ok((ReplicaId::decode(reader)?, Signature::decode(reader)?)))
            .collect::<Result<_, DecodeError>>()?;
        Ok(Self { generation, keys, possessions })
    }
}
