//! Signatures for tests: a keyed hash. Whoever does not know the secret is caught as with a real
//! scheme, because the adversaries here never compute one for another's key.

use std::collections::BTreeMap;

use quorate_core::committee::ReplicaKey;
use quorate_core::crypto::{
    Check, ClientSigner, Form, PublicKey, Scheme, Share, Signature, Signer, Statement,
};
use quorate_core::{Committee, Digest, Epoch, ReplicaId};

pub const CHAIN: Digest = Digest([0xC4; 32]);

/// A secret key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    secret: Digest,
}

impl Key {
    pub fn of_replica(id: usize) -> Self {
        Self { secret: Digest::of("test replica key", &(id as u64).to_le_bytes()) }
    }

    pub fn of_client(id: usize) -> Self {
        Self { secret: Digest::of("test client key", &(id as u64).to_le_bytes()) }
    }
}

impl ClientSigner for Key {
    fn public_key(&self) -> PublicKey {
        PublicKey(Digest::of("test public key", &self.secret.0).0)
    }
}

impl Signer for Key {
    fn sign(&self, statement: &Statement) -> Signature {
        seal(&self.public_key(), statement.as_bytes())
    }
}

fn seal(key: &PublicKey, statement: &[u8]) -> Signature {
    let mut bytes = key.0.to_vec();
    bytes.extend_from_slice(statement);
    let half = Digest::of("test signature", &bytes);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&half.0);
    signature[32..].copy_from_slice(&half.0);
    Signature::from(signature)
}

/// Signatures joined into one: the exclusive or of all.
fn join(signatures: impl Iterator<Item = Signature>) -> Signature {
    let mut joined = [0; 64];
    for signature in signatures {
        joined.iter_mut().zip(signature.as_bytes()).for_each(|(byte, other)| *byte ^= other);
    }
    Signature::from(joined)
}

/// What the committee signs as one. The adversaries here never compute it.
fn seal_of_all(statement: &Statement) -> Signature {
    seal(&PublicKey([0xA1; 32]), statement.as_bytes())
}

/// What `signer` makes of these bytes.
pub fn replica_seal(signer: ReplicaId, statement: &[u8]) -> Signature {
    seal(&Key::of_replica(signer.index()).public_key(), statement)
}

fn holds(check: &Check) -> bool {
    match check {
        Check::Client { key, statement, signature } => {
            seal(key, statement.as_bytes()) == *signature
        }
        Check::Replica(Share { signer, statement, signature }) => {
            replica_seal(*signer, statement.as_bytes()) == *signature
        }
        Check::Aggregate { parts, signature } => {
            let seals = parts.iter().flat_map(|(statement, signers)| {
                signers.iter().map(move |signer| replica_seal(signer, statement.as_bytes()))
            });
            join(seals) == *signature
        }
        Check::Threshold { statement, signature } => seal_of_all(statement) == *signature,
    }
}

/// The scheme of [`Key`].
pub struct Mock;

impl Scheme for Mock {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        checks.iter().map(holds).collect()
    }

    fn combine(&self, form: Form, shares: &[Share]) -> Option<Signature> {
        match form {
            Form::List => None,
            Form::Aggregate => Some(join(shares.iter().map(|share| share.signature))),
            // A share that is none spoils the whole.
            Form::Threshold if shares.iter().all(|share| holds(&Check::Replica(*share))) => {
                shares.first().map(|share| seal_of_all(&share.statement))
            }
            Form::Threshold => Some(join(shares.iter().map(|share| share.signature))),
        }
    }
}

pub fn committee(n: usize) -> Committee {
    let keys = (0..n).map(|id| ReplicaKey::from(Key::of_replica(id).public_key().0)).collect();
    Committee::new(CHAIN, Epoch(0), keys).expect("a committee of distinct keys")
}

/// Which client a public key belongs to.
pub fn clients_by_key(count: usize) -> BTreeMap<PublicKey, usize> {
    (0..count).map(|id| (Key::of_client(id).public_key(), id)).collect()
}
