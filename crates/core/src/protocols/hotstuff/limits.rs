//! How large the protocol's words can become, in bytes of their canonical encoding.
//!
//! Certificates may name every replica, not q of them alone: nobody refuses a certificate for
//! having more signers than it needs.

use super::certificate::Domain;
use crate::base::crypto::Signature;
use crate::ledger::block::MAX_FRAMES;

const DIGEST_BYTES: usize = 32;
const COUNT_BYTES: usize = 4;
const REPLICA_BYTES: usize = 2;
const NUMBER_BYTES: usize = 8;
const BALLOT_BYTES: usize = NUMBER_BYTES + 1 + DIGEST_BYTES;
const SIGNATURE_BYTES: usize = 1 + Signature::MAX_BYTES;

/// A certificate of votes. The form with a list of signatures is the longest.
#[must_use]
pub const fn qc_bytes(replicas: usize) -> usize {
    BALLOT_BYTES + 1 + COUNT_BYTES + replicas * (REPLICA_BYTES + SIGNATURE_BYTES)
}

/// A certificate of time-outs, with the highest certificate of votes or with every signer's.
#[must_use]
pub const fn tc_bytes(replicas: usize, carries_all_qcs: bool) -> usize {
    let qcs = if carries_all_qcs { replicas } else { 1 };
    let entries = replicas * (REPLICA_BYTES + NUMBER_BYTES + SIGNATURE_BYTES);
    NUMBER_BYTES + 3 * COUNT_BYTES + entries + qcs * qc_bytes(replicas)
}

/// The safety record of a replica of `domain`.
#[must_use]
pub fn safety_bytes(domain: &Domain) -> usize {
    safety_bytes_of(domain.committee().size(), domain.carries_all_qcs())
}

/// The same by what it depends on.
#[must_use]
pub const fn safety_bytes_of(replicas: usize, carries_all_qcs: bool) -> usize {
    let (lock, high_qc) = (qc_bytes(replicas), qc_bytes(replicas));
    1 + (1 + BALLOT_BYTES)
        + lock
        + high_qc
        + (1 + tc_bytes(replicas, carries_all_qcs))
        + 3 * NUMBER_BYTES
}

/// A block's header.
#[must_use]
pub const fn header_bytes(replicas: usize) -> usize {
    let signers = 1 + replicas.div_ceil(8);
    3 * NUMBER_BYTES + REPLICA_BYTES + BALLOT_BYTES + signers + 2 * DIGEST_BYTES
}

/// A block without the bodies of its frames.
#[must_use]
pub const fn block_bytes(replicas: usize) -> usize {
    let frames = COUNT_BYTES + MAX_FRAMES * DIGEST_BYTES;
    3 * NUMBER_BYTES + REPLICA_BYTES + qc_bytes(replicas) + DIGEST_BYTES + frames
}

/// A proposal with `inline_bytes` of frames, or the word of a replica that gives up on a view.
#[must_use]
pub const fn protocol_message_bytes(replicas: usize, inline_bytes: usize) -> usize {
    let certificates = 2 * qc_bytes(replicas) + 1 + tc_bytes(replicas, true);
    // Kind, epoch, statement and last vote.
    let words = 1 + 8 + 1 + 2 * (2 * BALLOT_BYTES + SIGNATURE_BYTES);
    words + certificates + block_bytes(replicas) + COUNT_BYTES + inline_bytes
}
