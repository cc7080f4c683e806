use crate::base::types::Digest;

/// Bytes in a key that shares are encrypted to.
pub const ENCRYPTION_KEY_BYTES: usize = 32;
/// Bytes in a proof that the owner of such a key knows its secret half.
pub const ENCRYPTION_PROOF_BYTES: usize = 64;
/// Bytes in the evidence of a complaint.
pub const COMPLAINT_BYTES: usize = 96;

/// What the dealers of a key generation agree on before they deal. A dealing counts in the round
/// with exactly these values. The arithmetic is in `quorate-crypto`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Round {
    /// The digest of all else that they agree on.
    pub context: Digest,
    /// What shares are encrypted to, in the order of the dealers.
    pub keys: Vec<[u8; ENCRYPTION_KEY_BYTES]>,
    /// How many shares sign for the committee, and how many dealers must qualify.
    pub quorum: usize,
}
