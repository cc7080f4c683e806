//! Verification of one committee's signatures and certificates together.

use super::batch::Batch;
use super::curve::G2;

/// The public keys of a committee, for verification.
pub(super) trait Keys {
    /// A member's key.
    fn member(&self, place: usize) -> Option<G2>;

    /// The committee's group key, if it has one.
    fn group(&self) -> Option<G2>;

    /// For each part, the key under which the joined signature of its signers must hold. Every part
    /// has signers, and no signer is in two parts. `None` if a signer is not a member.
    fn sums(&self, parts: &[(&[u8], Vec<usize>)]) -> Option<Vec<G2>>;
}

/// Signatures and certificates of a committee, to be verified together. Each has the `index` of its
/// verdict.
pub struct Claims<'c, 'm> {
    keys: &'c dyn Keys,
    batch: Batch<'m>,
}

impl<'c, 'm> Claims<'c, 'm> {
    /// An empty list. Messages are hashed under the tag `domain`.
    pub(super) fn new(keys: &'c dyn Keys, domain: &'static [u8]) -> Self {
        Self { keys, batch: Batch::new(domain) }
    }

    /// Adds the claim that `signer` signed `message`.
    pub fn share(&mut self, index: usize, signer: usize, message: &'m [u8], signature: &[u8]) {
        if let Some(key) = self.keys.member(signer) {
            self.batch.claim(index, signature, [(message, key)]);
        }
    }

    /// Adds the claim that `signature` joins one signature of each signer of each part's message.
    /// It is false if there is no part, if a part has no signer, or if a signer is in two parts.
    pub fn aggregate(&mut self, index: usize, parts: &[(&'m [u8], Vec<usize>)], signature: &[u8]) {
        let sums = if are_lists_of_signers(parts) { self.keys.sums(parts) } else { None };
        if let Some(sums) = sums {
            let messages = parts.iter().map(|(message, _)| *message);
            self.batch.claim(index, signature, messages.zip(sums));
        }
    }

    /// Adds the claim that `signature` is the committee's signature of `message`. It is false if
    /// the committee has no group key.
    pub fn group(&mut self, index: usize, message: &'m [u8], signature: &[u8]) {
        if let Some(key) = self.keys.group() {
            self.batch.claim(index, signature, [(message, key)]);
        }
    }

    #[cfg(test)]
    pub(super) fn coefficients(&self) -> Vec<[u8; 16]> {
        self.batch.coefficients()
    }

    /// Sets the verdicts of all valid claims.
    pub fn settle(self, verdicts: &mut [bool]) {
        self.batch.settle(verdicts);
    }
}

/// Whether every part has a signer, and no signer occurs twice.
fn are_lists_of_signers(parts: &[(&[u8], Vec<usize>)]) -> bool {
    let mut all: Vec<usize> = parts.iter().flat_map(|(_, signers)| signers).copied().collect();
    all.sort_unstable();
    !parts.is_empty()
        && parts.iter().all(|(_, signers)| !signers.is_empty())
        && all.is_sorted_by(|one, next| one < next)
}
