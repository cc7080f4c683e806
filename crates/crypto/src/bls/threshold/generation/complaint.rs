//! Complaints: a member shows that a dealer encrypted a wrong share to it.

use quorate_core::planted;

use super::Round;
use super::dealing::Dealing;
use super::encryption::{BASE, DecryptionKey, PROOF_BYTES, holds, prove, read_point};

/// The tag of proofs that a revealed secret is the shared one.
pub(super) const REVEALED: &str = "quorate bls12-381 generation complaint 1";

/// Bytes in a complaint, without the names of dealer and member.
pub const COMPLAINT_BYTES: usize = 32 + PROOF_BYTES;

/// The claim that the share which `dealer` encrypted to `recipient` does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The member that dealt.
    pub dealer: usize,
    /// The member that complains.
    pub recipient: usize,
    /// The shared secret of the two in this dealing, which shows the share to all, and the proof
    /// that it is the right one.
    pub evidence: [u8; COMPLAINT_BYTES],
}

/// The reason why a complaint does not disqualify the dealer. The text continues "the complaint of
/// erin against carol".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ComplaintProblem {
    /// There is no dealing of that dealer, or no such member.
    #[error("is about a dealing that is not here")]
    NoDealing,
    /// The revealed secret is not that of this dealing and this member.
    #[error("comes with evidence that does not belong to this dealing and this member")]
    Evidence,
    /// The share fits the commitments.
    #[error("is false: the share fits")]
    ShareFits,
}

impl Round {
    /// The complaint of `recipient`, with its key, about `dealing`. It reveals this one share. Make
    /// it only if the share does not fit ([`super::Generation::complaints`] looks).
    pub(super) fn complain(
        &self,
        dealing: &Dealing,
        recipient: usize,
        key: &DecryptionKey,
    ) -> Complaint {
        let shared = dealing.shared_with(key);
        let pairs = [(BASE, key.public_key().point()), (dealing.randomness(), *shared)];
        let proof = prove(REVEALED, &message(dealing, recipient), key.secret(), &pairs);
        let mut evidence = [0; COMPLAINT_BYTES];
        evidence[..32].copy_from_slice(shared.compress().as_bytes());
        evidence[32..].copy_from_slice(&proof);
        Complaint { dealer: dealing.dealer(), recipient, evidence }
    }

    /// Whether `complaint` shows that the dealer of `dealing` cheated.
    ///
    /// # Errors
    /// [`ComplaintProblem`] if it does not.
    pub(super) fn judge(
        &self,
        dealing: &Dealing,
        complaint: &Complaint,
    ) -> Result<(), ComplaintProblem> {
        let recipient = complaint.recipient;
        let key = self.keys.get(recipient).ok_or(ComplaintProblem::NoDealing)?;
        let (shared, proof) =
            complaint.evidence.split_first_chunk::<32>().ok_or(ComplaintProblem::Evidence)?;
        let proof: &[u8; PROOF_BYTES] = proof.try_into().map_err(|_| ComplaintProblem::Evidence)?;
        let shared = read_point(shared).ok_or(ComplaintProblem::Evidence)?;
        let pairs = [(BASE, key.point()), (dealing.randomness(), shared)];
        let is_proved = holds(REVEALED, &message(dealing, recipient), &pairs, proof);
        if !planted!("complaint-unproved", true, is_proved) {
            return Err(ComplaintProblem::Evidence);
        }
        match self.share(dealing, recipient, &shared) {
            Some(_) => Err(ComplaintProblem::ShareFits),
            None => Ok(()),
        }
    }
}

/// The digest covers the round and the dealer.
pub(super) fn message(dealing: &Dealing, recipient: usize) -> [u8; 40] {
    let mut message = [0; 40];
    message[..32].copy_from_slice(&dealing.digest());
    message[32..].copy_from_slice(&(recipient as u64).to_le_bytes());
    message
}
