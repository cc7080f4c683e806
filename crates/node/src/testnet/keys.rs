//! The consensus keys of a whole committee, made at once.

use quorate_core::base::membership::{CommitteeError, MAX_REPLICAS, ReplicaKey};
use quorate_core::{Committee, Digest, Epoch};
use quorate_crypto::bls::threshold::{self, DealError};
use quorate_crypto::consensus_key::GenerateError;
use quorate_crypto::{ConsensusKey, SchemeName};

use crate::config::GROUP_KEY_BYTES;

/// The consensus keys of a committee: secret.
#[derive(Debug)]
pub struct CommitteeSecrets {
    /// Each replica's, by id.
    pub replicas: Vec<ConsensusKey>,
    /// Each replica's share of the first threshold key, by id, where members generate such keys.
    pub shares: Vec<ConsensusKey>,
    /// The committee's public key, of schemes whose keys are dealt.
    pub group_key: Option<[u8; GROUP_KEY_BYTES]>,
    /// How many replicas sign for the committee.
    pub quorum: usize,
}

/// Why no keys were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretsError {
    /// No committee has so many replicas.
    #[error(transparent)]
    Committee(#[from] CommitteeError),
    /// A key.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// The shares of one.
    #[error(transparent)]
    Deal(#[from] DealError),
}

/// Makes the keys of a committee of `replicas`: each by itself, or shares of one if the scheme's
/// keys are dealt.
///
/// # Errors
/// [`SecretsError`]: no committee is of this size, or the system gave no randomness.
pub fn generate(scheme: SchemeName, replicas: usize) -> Result<CommitteeSecrets, SecretsError> {
    let quorum = quorum(replicas)?;
    if scheme.is_dealt() {
        let dealt = threshold::deal(replicas, quorum)?;
        let replicas = dealt.shares.into_iter().map(ConsensusKey::dealt).collect();
        let shares = Vec::new();
        return Ok(CommitteeSecrets { replicas, shares, group_key: Some(dealt.group), quorum });
    }
    let keys = (0..replicas).map(|_| ConsensusKey::generate(scheme)).collect::<Result<_, _>>()?;
    Ok(CommitteeSecrets { replicas: keys, shares: Vec::new(), group_key: None, quorum })
}

/// The same where members may change: beside a share, each has a key of its own.
///
/// # Errors
/// As [`generate`].
pub fn generate_governed(
    scheme: SchemeName,
    replicas: usize,
) -> Result<CommitteeSecrets, SecretsError> {
    let secrets = generate(scheme, replicas)?;
    if !scheme.is_dealt() {
        return Ok(secrets);
    }
    let own = generate(SchemeName::Ed25519, replicas)?.replicas;
    Ok(CommitteeSecrets { shares: secrets.replicas, replicas: own, ..secrets })
}

/// The quorum of a committee whose keys are not made yet: that of any committee of its size.
fn quorum(replicas: usize) -> Result<usize, CommitteeError> {
    if replicas > MAX_REPLICAS {
        return Err(CommitteeError::Size(replicas));
    }
    let stand_ins = (0..replicas as u64).filter_map(|id| ReplicaKey::new(&id.to_le_bytes()));
    let committee = Committee::new(Digest([0; 32]), Epoch(0), stand_ins.collect())?;
    Ok(committee.quorum())
}
