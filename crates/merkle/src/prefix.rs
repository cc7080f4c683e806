//! Whether a list of pairs, in the order of their keys, is all that a set begins with.
//!
//! A set that is sent in pieces can be checked piece by piece. Behind each piece comes the
//! [presence](crate) of its last pair, `(k, d)`; the pairs received so far are those up to `k`.
//! Look at the joins above `k`'s leaf. Where `k` is on the right, the left side holds lesser keys
//! only: its digest follows from the pairs received, and the proof must have the same one. No such
//! join may be missing or too many. Where `k` is on the left, the other side is still to come, and
//! its digest is the proof's. All this leads to the root, so nothing up to `k` was changed, left
//! out or made up, unless the hash collides.

use crate::{Domain, EMPTY_ROOT, Hash, Proof, ProofError, ProofLeaf, bit, message, parting};

/// The pairs that a set begins with, of which digests alone are kept.
#[derive(Clone, Debug, Default)]
pub struct Prefix {
    last: Option<Last>,
    /// The joins above the last leaf where that is on the right, from the root on: the bit, and the
    /// digest of the left side.
    left: Vec<(u8, Hash)>,
}

#[derive(Clone, Debug)]
struct Last {
    key: Hash,
    /// That of its value.
    digest: Hash,
}

impl Prefix {
    /// The next pair: its key, which is a hash, and the digest of its value.
    ///
    /// # Errors
    /// [`ProofError::Key`]: its key is not above the last.
    pub fn push(&mut self, key: Hash, digest: Hash) -> Result<(), ProofError> {
        if let Some(last) = &self.last {
            let parts = parting(&last.key, &key).filter(|_| last.key < key);
            let at = parts.ok_or(ProofError::Key)?;
            let mut side = Domain::leaf().hash(&message(&last.key, &last.digest));
            while let Some((above, left)) = self.left.pop_if(|(above, _)| *above > at) {
                side = Domain::join(above).hash(&message(&left, &side));
            }
            self.left.push((at, side));
        }
        self.last = Some(Last { key, digest });
        Ok(())
    }

    /// Whether the set with this root begins with just these pairs, which `proof`, of the last one,
    /// shows; and whether they are all of it.
    ///
    /// # Errors
    /// [`ProofError`]: they are not, or the proof is of something else.
    pub fn verify(&self, root: &Hash, proof: &Proof) -> Result<bool, ProofError> {
        let Some(last) = &self.last else {
            return Err(ProofError::Key);
        };
        if proof.leaf != ProofLeaf::Own(last.digest) || proof.verify(root, &last.key)?.is_none() {
            return Err(ProofError::Value);
        }
        // From the leaf to the root.
        let on_the_right = proof.path.iter().filter(|(at, _)| bit(&last.key, *at));
        if !on_the_right.eq(self.left.iter().rev()) {
            return Err(ProofError::Value);
        }
        Ok(self.left.len() == proof.path.len())
    }

    /// Whether a set with this root has no pair, and none was pushed.
    #[must_use]
    pub fn is_all_of_none(&self, root: &Hash) -> bool {
        self.last.is_none() && *root == EMPTY_ROOT
    }
}
