//! What replicas sign with in scenarios.

use std::sync::Arc;

use clap::ValueEnum;
use quorate_core::base::crypto::{ClientSigner as _, PublicKey, Signer};
use quorate_core::base::membership::ReplicaKey;
use quorate_crypto::{Ed25519, SecretKey};
use quorate_node::config::{Finding, Place};
use quorate_sim::twins::Signatures;

use crate::failure::{Exit, Failure};

/// What replicas sign with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Signing {
    /// Sums of 64 bits: nobody forges here, and they cost nothing.
    #[default]
    Mock,
    /// Real signatures.
    Ed25519,
}

impl Signing {
    /// The keys of a committee.
    pub fn signatures(self, replicas: usize) -> Result<Signatures, Failure> {
        if self == Self::Mock {
            return Ok(Signatures::mixed(replicas));
        }
        let secrets: Vec<SecretKey> =
            (0..replicas).map(|id| SecretKey::from_seed(&[id as u8 + 1; 32])).collect();
        let public: Vec<PublicKey> = secrets.iter().map(|secret| secret.public_key()).collect();
        let keys = public.iter().map(|key| ReplicaKey::from(key.0)).collect();
        let scheme = Arc::new(Ed25519::new(&public));
        let signers = secrets.into_iter().map(|secret| Box::new(secret) as Box<dyn Signer>);
        Signatures::real(keys, signers.collect(), scheme).ok_or_else(|| {
            let what = format!("{replicas} keys are no committee");
            let place = Place::Flag("--replicas".to_owned());
            Failure::new(Exit::Usage, Finding { what, place, remedy: "use fewer".to_owned() })
        })
    }
}
