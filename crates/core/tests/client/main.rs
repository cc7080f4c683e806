//! The client session against scripts and against lying replicas.

mod checkpoints;
mod decided;
mod lying;
mod packed;
mod proven;
mod reads;
mod script;
mod transcripts;

use quorate_core::base::crypto::{ClientSigner, PublicKey, Signature, Signer, Statement};

/// Signs with the statement's first bytes: the session never looks at signatures.
struct MockSigner;

impl ClientSigner for MockSigner {
    fn public_key(&self) -> PublicKey {
        PublicKey([7; 32])
    }
}

impl Signer for MockSigner {
    fn sign(&self, statement: &Statement) -> Signature {
        let mut bytes = [0; 64];
        bytes.copy_from_slice(&statement.as_bytes()[..64]);
        Signature::from(bytes)
    }
}
