//! Signatures for tests: a keyed hash. Whoever does not know the secret is caught as with a real
//! scheme, because the adversaries here never compute one for another's key.

use std::collections::BTreeMap;

use quorate_core::crypto::{Check, PublicKey, Scheme, Signature, Signer, Statement};
use quorate_core::{Committee, Digest, Epoch};

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

impl Signer for Key {
    fn public_key(&self) -> PublicKey {
        PublicKey(Digest::of("test public key", &self.secret.0).0)
    }

    fn sign(&self, statement: &Statement) -> Signature {
        seal(&self.public_key(), statement)
    }
}

fn seal(key: &PublicKey, statement: &Statement) -> Signature {
    let mut bytes = key.0.to_vec();
    bytes.extend_from_slice(statement.as_bytes());
    let half = Digest::of("test signature", &bytes);
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&half.0);
    signature[32..].copy_from_slice(&half.0);
    Signature(signature)
}

/// The scheme of [`Key`].
pub struct Mock;

impl Scheme for Mock {
    fn verify(&self, checks: &[Check]) -> Vec<bool> {
        checks.iter().map(|check| seal(&check.key, &check.statement) == check.signature).collect()
    }
}

pub fn committee(n: usize) -> Committee {
    let keys = (0..n).map(|id| Key::of_replica(id).public_key()).collect();
    Committee::new(CHAIN, Epoch(0), keys).expect("a committee of distinct keys")
}

/// Which client a public key belongs to.
pub fn clients_by_key(count: usize) -> BTreeMap<PublicKey, usize> {
    (0..count).map(|id| (Key::of_client(id).public_key(), id)).collect()
}
