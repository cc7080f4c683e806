//! Signatures and certificates of one committee, verified together.

use super::batch::Batch;
use super::curve::G2;

/// The public keys of a committee, as verification needs them.
pub(super) trait Keys {
    /// A member's key.
    fn member(&self, place: usize) -> Option<G2>;

    /// The committee's own key, if it has one.
    fn group(&self) -> Option<G2>;

    /// For each part, the key under which a joined signature of all its signers holds. No part is
    /// without signers, and nobody in two. `None` if somebody is no member.
    fn sums(&self, parts: &[(&[u8], Vec<usize>)]) -> Option<Vec<G2>>;
}

/// Signatures and certificates of a committee, to be verified together. Each has the `index` of its
/// verdict.
pub struct Claims<'c, 'm> {
    keys: &'c dyn Keys,
    batch: Batch<'m>,
}

impl<'c, 'm> Claims<'c, 'm> {
    /// No claims yet; messages are hashed under the tag `domain`.
    pub(super) fn new(keys: &'c dyn Keys, domain: &'static [u8]) -> Self {
        Self { keys, batch: Batch::new(domain) }
    }

    /// `signer` signed `message`.
    pub fn share(&mut self, index: usize, signer: usize, message: &'m [u8], signature: &[u8]) {
        if let Some(key) = self.keys.member(signer) {
            self.batch.claim(index, signature, [(message, key)]);
        }
    }

    /// `signature` joins one of each of `parts`' signers of that part's message. Never so if there
    /// is no part, a part has no signer, or somebody is in two parts.
    pub fn aggregate(&mut self, index: usize, parts: &[(&'m [u8], Vec<usize>)], signature: &[u8]) {
        let sums = if are_lists_of_signers(parts) { self.keys.sums(parts) } else { None };
        if let Some(sums) = sums {
            let messages = parts.iter().map(|(message, _)| *message);
            self.batch.claim(index, signature, messages.zip(sums));
        }
    }

    /// `signature` is the committee's of `message`. Never so if it has no key of its own.
    pub fn group(&mut self, index: usize, message: &'m [u8], signature: &[u8]) {
        if let Some(key) = self.keys.group() {
            self.batch.claim(index, signature, [(message, key)]);
        }
    }

    #[cfg(test)]
    pub(super) fn coefficients(&self) -> Vec<[u8; 16]> {
        self.batch.coefficients()
    }

    /// Sets the verdicts of all claims that hold.
    pub fn settle(self, verdicts: &mut [bool]) {
        self.batch.settle(verdicts);
    }
}

/// Whether there is somebody in every part, and nobody in two or twice in one.
fn are_lists_of_signers(parts: &[(&[u8], Vec<usize>)]) -> bool {
    let mut all: Vec<usize> = parts.iter().flat_map(|(_, signers)| signers).copied().collect();
    all.sort_unstable();
    !parts.is_empty()
        && parts.iter().all(|(_, signers)| !signers.is_empty())
        && all.is_sorted_by(|one, next| one < next)
}
