//! How large things can become: in one place, because whoever keeps or sends them needs a bound.
//!
//! Everything here is derived from the largest committee ([`MAX_REPLICAS`]), window
//! ([`MAX_WINDOW`]), block ([`MAX_FRAMES`], [`MAX_BATCH_BYTES`]) and frame ([`MAX_BODY_BYTES`])
//! that a configuration may ask for. A room of fixed size elsewhere (slots of the log, metadata of
//! snapshots, frames of the transport, queues) is made from these functions, or held against them
//! by `node/src/config/limits.rs`.
//!
//! Sizes are those of the canonical encoding, in bytes. Certificates may name every replica, not
//! q of them alone: nobody refuses a certificate for having more signers than it needs.

use crate::base::committee::MAX_REPLICAS;
use crate::base::crypto::Signature;
use crate::ledger::block::MAX_FRAMES;
use crate::ledger::frame::{MAX_BODY_BYTES, OVERHEAD_BYTES};
use crate::ledger::state_machine::MAX_CHUNK_BYTES;
use crate::protocols::hotstuff::certificate::Domain;
use crate::protocols::hotstuff::leader::MAX_WINDOW;
use crate::replica::catch_up::BUDGET_BYTES;
use crate::replica::message::MAX_BLOCKS_SENT;

/// The most bytes of frames that a configuration may allow a block with several: an answer with
/// two of the largest blocks still has to fit a peer's message.
pub const MAX_BATCH_BYTES: usize = 4 << 20;
/// The longest message between two replicas.
pub const MAX_PEER_MESSAGE_BYTES: usize = 16 << 20;
/// Roots kept beside a snapshot: blocks right above it name states this far below.
pub const MAX_ROOTS: usize = 64;

const DIGEST_BYTES: usize = 32;
const COUNT_BYTES: usize = 4;
const REPLICA_BYTES: usize = 2;
const NUMBER_BYTES: usize = 8;
const BALLOT_BYTES: usize = NUMBER_BYTES + 1 + DIGEST_BYTES;
const SIGNATURE_BYTES: usize = 1 + Signature::MAX_BYTES;
const FRAME_BYTES: usize = MAX_BODY_BYTES + OVERHEAD_BYTES;

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

/// A block with the bodies of its frames, as it is recorded in the log: those fit `batch_bytes`,
/// or there is a single one.
#[must_use]
pub const fn full_block_bytes(replicas: usize, batch_bytes: usize) -> usize {
    let bodies = if batch_bytes > FRAME_BYTES { batch_bytes } else { FRAME_BYTES };
    block_bytes(replicas) + COUNT_BYTES + bodies
}

/// What is kept beside a snapshot ([`SnapshotMeta`](crate::replica::SnapshotMeta)).
#[must_use]
pub const fn snapshot_meta_bytes(replicas: usize) -> usize {
    let recent = COUNT_BYTES + MAX_WINDOW * header_bytes(replicas);
    let roots = COUNT_BYTES + MAX_ROOTS * DIGEST_BYTES;
    block_bytes(replicas) + NUMBER_BYTES + recent + roots
}

/// The offer of a snapshot ([`Offer`](crate::replica::message::Offer)).
#[must_use]
pub const fn offer_bytes(replicas: usize) -> usize {
    let recent = COUNT_BYTES + MAX_WINDOW * header_bytes(replicas);
    2 * block_bytes(replicas) + recent + qc_bytes(replicas)
}

/// An answer with blocks ([`within`](crate::replica::message::within)): two, or as many as fit the
/// budget.
#[must_use]
pub const fn chain_bytes(replicas: usize, batch_bytes: usize) -> usize {
    let two = 2 * full_block_bytes(replicas, batch_bytes);
    let budget = BUDGET_BYTES as usize;
    // `within` counts about the bytes of each block.
    let slack = MAX_BLOCKS_SENT * (header_bytes(replicas) + COUNT_BYTES);
    1 + COUNT_BYTES + qc_bytes(replicas) + slack + if two > budget { two } else { budget }
}

/// A proposal with `inline_bytes` of frames, or the word of a replica that gives up on a view.
#[must_use]
pub const fn protocol_message_bytes(replicas: usize, inline_bytes: usize) -> usize {
    let certificates = 2 * qc_bytes(replicas) + 1 + tc_bytes(replicas, true);
    // Kind, statement and last vote.
    let words = 1 + 1 + 2 * (2 * BALLOT_BYTES + SIGNATURE_BYTES);
    words + certificates + block_bytes(replicas) + COUNT_BYTES + inline_bytes
}

/// The largest message that a replica of the largest committee sends, `inline_bytes` of frames
/// beside a proposal.
#[must_use]
pub const fn largest_peer_message_bytes(inline_bytes: usize) -> usize {
    let n = MAX_REPLICAS;
    let frames = 1 + COUNT_BYTES + BUDGET_BYTES as usize + FRAME_BYTES;
    let chunk = 1 + NUMBER_BYTES + 2 * COUNT_BYTES + 1 + MAX_CHUNK_BYTES;
    let mut largest = chain_bytes(n, MAX_BATCH_BYTES);
    let others = [frames, chunk, 1 + offer_bytes(n), protocol_message_bytes(n, inline_bytes)];
    let mut at = 0;
    while at < others.len() {
        if others[at] > largest {
            largest = others[at];
        }
        at += 1;
    }
    largest
}

const _: () = assert!(largest_peer_message_bytes(1 << 20) <= MAX_PEER_MESSAGE_BYTES);

#[cfg(test)]
mod tests;
