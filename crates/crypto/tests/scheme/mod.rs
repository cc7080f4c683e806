//! A test committee of any scheme, always the same except for dealt keys.

use quorate_core::base::crypto::{Check, Scheme as _, Share, Signer as _, Statement};
use quorate_core::base::membership;
use quorate_core::base::types::{Digest, ReplicaId};
use quorate_crypto::bls::threshold;
use quorate_crypto::committee_keys::{GroupKey, MemberKey};
use quorate_crypto::{CommitteeScheme, ConsensusKey, SchemeName};

/// A committee that knows its secret keys.
pub struct Cluster {
    pub name: SchemeName,
    pub keys: Vec<ConsensusKey>,
    pub scheme: CommitteeScheme,
}

/// Statement `number`.
pub fn statement(number: u64) -> Statement {
    Statement::frame(&Digest([1; 32]), &Digest::of("test", &number.to_le_bytes()))
}

impl Cluster {
    pub fn new(name: SchemeName, members: usize) -> Self {
        let quorum = membership::quorum(members);
        let mut group = None;
        let keys: Vec<_> = if name.is_dealt() {
            let deal = threshold::deal(members, quorum).unwrap();
            group = Some(deal.group);
            deal.shares.into_iter().map(ConsensusKey::dealt).collect()
        } else {
            let seeds = (1..=members as u8).map(|seed| [seed; 32]);
            seeds.map(|seed| ConsensusKey::from_bytes(name, &seed).unwrap()).collect()
        };
        let parts: Vec<_> =
            keys.iter().map(|key| (key.public_key(), key.proof_of_possession())).collect();
        let public: Vec<_> = parts
            .iter()
            .map(|(key, proof)| MemberKey {
                key,
                possession: proof.as_ref().map(|proof| &proof[..]),
            })
            .collect();
        let group = group.as_ref().map(|key| GroupKey { key, quorum });
        let scheme = CommitteeScheme::new(name, &public, group).unwrap();
        Self { name, keys, scheme }
    }

    pub fn share(&self, at: usize, statement: Statement) -> Share {
        let signature = self.keys[at].sign(&statement);
        Share { signer: ReplicaId(at as u16), statement, signature }
    }

    pub fn verify(&self, checks: &[Check]) -> Vec<bool> {
        self.scheme.verify(checks)
    }
}
