//! A BLS committee whose replicas made their own keys. Signatures are joined by plain addition.

use super::claims::{Claims, Keys};
use super::curve::{G1, G2, read_known_signature, subtract_g2, sum_g1, sum_g2, write_signature};
use super::{SIGNATURE_BYTES, SIGNATURE_DOMAIN, possession};
use crate::committee_keys::{KeyProblem, MemberKey};

/// The public keys of such a committee, all checked.
pub struct Committee {
    keys: Vec<G2>,
    /// Their sum.
    total: G2,
}

impl Committee {
    /// Reads the keys, and verifies the proofs of possession.
    ///
    /// # Errors
    /// Names the member whose key cannot be trusted, and the reason.
    pub fn read(members: &[MemberKey<'_>]) -> Result<Self, (usize, KeyProblem)> {
        let keys = possession::read(members)?;
        let total = sum_g2(&keys);
        Ok(Self { keys, total })
    }

    /// An empty list of claims.
    #[must_use]
    pub fn claims<'m>(&self) -> Claims<'_, 'm> {
        Claims::new(self, SIGNATURE_DOMAIN)
    }

    /// Joins valid signatures. `None` if there are none, if one is malformed, or if they cancel out
    /// (which requires replicas that made their keys together).
    #[must_use]
    pub fn join<'s>(
        &self,
        signatures: impl Iterator<Item = &'s [u8]>,
    ) -> Option<[u8; SIGNATURE_BYTES]> {
        let points: Vec<G1> = signatures.map(read_known_signature).collect::<Option<_>>()?;
        write_signature(sum_g1(&points))
    }

    /// The sum of the keys of `signers`, which are all different. It subtracts the keys of the
    /// others if that is quicker. `None` if there are no signers or one is not a member.
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

impl Keys for Committee {
    fn member(&self, place: usize) -> Option<G2> {
        self.keys.get(place).copied()
    }

    fn group(&self) -> Option<G2> {
        None
    }

    fn sums(&self, parts: &[(&[u8], Vec<usize>)]) -> Option<Vec<G2>> {
        parts.iter().map(|(_, signers)| self.sum(signers)).collect()
    }
}
