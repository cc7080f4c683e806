//! Proofs that whoever brought a public key has its secret half.
//!
//! Without them, a replica that knows the others' keys Xᵢ could bring X' = x'·g₂ − Σ Xᵢ: the keys
//! then add up to x'·g₂, for which it alone signs what passes for a signature of all (Ristenpart,
//! Yilek, "The Power of Proofs-of-Possession", EUROCRYPT 2007). It cannot sign with X' by itself,
//! so it is asked to: the proof is the signature of the key's 96 bytes by itself, under a tag of
//! its own, since otherwise a signature of some message could be a proof
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
