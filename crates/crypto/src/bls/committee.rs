//! A committee whose replicas made their own keys: signatures are added as they are.

use super::batch::Batch;
use super::curve::{G1, G2, read_known_signature, subtract_g2, sum_g1, sum_g2, write_signature};
use super::{SIGNATURE_BYTES, SIGNATURE_DOMAIN, possession};
use crate::committee_keys::{KeyProblem, MemberKey};

/// The public keys of such a committee, all checked.
pub struct Committee {
    keys: Vec<G2>,
    /// Their sum.
    total: G2,
}

/// Signatures and certificates of a committee, to be verified together.
pub struct Claims<'c, 'm> {
    committee: &'c Committee,
    batch: Batch<'m>,
}

impl Committee {
    /// Reads the keys, and verifies the proofs of possession.
    ///
    /// # Errors
    /// Which member's key is not to be trusted, and why.
    pub fn read(members: &[MemberKey<'_>]) -> Result<Self, (usize, KeyProblem)> {
        let keys = possession::read(members)?;
        let total = sum_g2(&keys);
        Ok(Self { keys, total })
    }

    /// No claims yet.
    #[must_use]
    pub fn claims<'m>(&self) -> Claims<'_, 'm> {
        Claims { committee: self, batch: Batch::new(SIGNATURE_DOMAIN) }
    }

    /// Joins signatures that hold. `None` if there are none, one of them is no signature, or they
    /// cancel out (which takes replicas that made up their keys together).
    #[must_use]
    pub fn join<'s>(
        &self,
        signatures: impl Iterator<Item = &'s [u8]>,
    ) -> Option<[u8; SIGNATURE_BYTES]> {
        let points: Vec<G1> = signatures.map(read_known_signature).collect::<Option<_>>()?;
        write_signature(sum_g1(&points))
    }

    /// The sum of the keys of `signers`, all of them different: of those who did not sign if that
    /// is quicker. `None` if there are no signers or one is no member.
    fn sum(&self, signers: &[usize]) -> Option<G2> {
        let mut signed = vec![false; self.keys.len()];
        for signer in signers {
            *signed.get_mut(*signer)? = true;
        }
        let keys_where = |side: bool| -> Vec<G2> {
            let pairs = self.keys.iter().zip(&signed);
            pairs.filter(|(_, signed)| **signed == side).map(|(key, _)| *key).collect()
        };
        match signers.len() {
            0 => None,
            most if 2 * most > self.keys.len() => {
                Some(subtract_g2(self.total, sum_g2(&keys_where(false))))
            }
            _ => Some(sum_g2(&keys_where(true))),
        }
    }
}

impl<'m> Claims<'_, 'm> {
    /// `signer` signed `message`.
    pub fn share(&mut self, index: usize, signer: usize, message: &'m [u8], signature: &[u8]) {
        if let Some(key) = self.committee.keys.get(signer) {
            self.batch.claim(index, signature, [(message, *key)]);
        }
    }

    /// `signature` joins one of each of `parts`' signers of that part's message. Never so if a
    /// part has no signer or somebody is in two parts.
    pub fn aggregate(&mut self, index: usize, parts: &[(&'m [u8], Vec<usize>)], signature: &[u8]) {
        let sums =
            parts.iter().map(|(message, signers)| Some((*message, self.committee.sum(signers)?)));
        if let (true, Some(sums)) = (are_disjoint(parts), sums.collect::<Option<Vec<_>>>()) {
            self.batch.claim(index, signature, sums);
        }
    }

    /// Sets the verdicts of all claims that hold.
    pub fn settle(self, verdicts: &mut [bool]) {
        self.batch.settle(verdicts);
    }
}

/// Whether no replica is in two parts, or twice in one.
pub(super) fn are_disjoint(parts: &[(&[u8], Vec<usize>)]) -> bool {
    let mut all: Vec<usize> = parts.iter().flat_map(|(_, signers)| signers).copied().collect();
    all.sort_unstable();
    all.is_sorted_by(|one, next| one < next)
}
