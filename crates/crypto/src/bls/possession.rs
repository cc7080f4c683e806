//! Proofs of possession: proofs that the owner of a public key knows its secret half.
//!
//! Without them, a replica that knows the others' keys Xᵢ could announce X' = x'·g₂ − Σ Xᵢ. Then
//! all keys add up to x'·g₂, and this replica alone could make a signature of all (Ristenpart,
//! Yilek, "The Power of Proofs-of-Possession", EUROCRYPT 2007). It cannot sign with X' alone, so
//! that is what the proof demands: a signature of the key's 96 bytes by the key itself. A tag of
//! its own keeps signatures of messages from being proofs (draft-irtf-cfrg-bls-signature, section
//! 3.3).
//! (draft-irtf-cfrg-bls-signature, section 3.3).

use super::batch::Batch;
use super::curve::{G2, read_key};
use super::{POSSESSION_DOMAIN, SIGNATURE_BYTES, SecretKey};
use crate::committee_keys::{KeyProblem, MemberKey};

/// The proof for a key.
#[must_use]
pub fn prove(key: &SecretKey) -> [u8; SIGNATURE_BYTES] {
    key.sign(&key.public_key(), POSSESSION_DOMAIN)
}

/// Reads the keys of members and verifies their proofs, as one batch.
pub(super) fn read(members: &[MemberKey<'_>]) -> Result<Vec<G2>, (usize, KeyProblem)> {
    let mut keys = Vec::with_capacity(members.len());
    let mut proofs = Batch::new(POSSESSION_DOMAIN);
    for (place, member) in members.iter().enumerate() {
        let key = read_key(member.key).map_err(|problem| (place, problem))?;
        let proof = member.possession.ok_or((place, KeyProblem::NoPossession))?;
        proofs.claim(place, proof, [(member.key, key)]);
        keys.push(key);
    }
    let mut verdicts = vec![false; members.len()];
    proofs.settle(&mut verdicts);
    match verdicts.iter().position(|holds| !holds) {
        Some(place) => Err((place, KeyProblem::FalsePossession)),
        None => Ok(keys),
    }
}
