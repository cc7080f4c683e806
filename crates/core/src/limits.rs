//! How large things can become: in one place, because whoever keeps or sends them needs a bound.
//!
//! Everything here is derived from the largest committee ([`MAX_REPLICAS`]), window
//! ([`MAX_WINDOW`]), block ([`MAX_FRAMES`](crate::ledger::block::MAX_FRAMES), [`MAX_BATCH_BYTES`])
//! and frame ([`MAX_BODY_BYTES`]) that a configuration may ask for. A room of fixed size elsewhere
//! (slots of the log, metadata of snapshots, frames of the transport, queues) is made from these
//! functions, or held against them by `node/src/config/limits.rs`.
//!
//! Sizes are those of the canonical encoding, in bytes. Certificates may name every replica, not
//! q of them alone: nobody refuses a certificate for having more signers than it needs.

use crate::base::membership::MAX_REPLICAS;
pub use crate::ledger::block::MAX_BATCH_BYTES;
use crate::ledger::frame::{MAX_BODY_BYTES, OVERHEAD_BYTES};
use crate::ledger::state_machine::MAX_CHUNK_BYTES;
use crate::protocols::hotstuff::leader::MAX_WINDOW;
pub use crate::protocols::hotstuff::limits::{
    block_bytes, header_bytes, protocol_message_bytes, qc_bytes, safety_bytes, safety_bytes_of,
    tc_bytes,
};
use crate::replica::MAX_ROOTS;
use crate::replica::catch_up::BUDGET_BYTES;
use crate::replica::message::MAX_BLOCKS_SENT;
pub use crate::replica::message::MAX_PEER_MESSAGE_BYTES;

const DIGEST_BYTES: usize = 32;
const COUNT_BYTES: usize = 4;
const NUMBER_BYTES: usize = 8;
const FRAME_BYTES: usize = MAX_BODY_BYTES + OVERHEAD_BYTES;

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
    NUMBER_BYTES + 2 * block_bytes(replicas) + recent + qc_bytes(replicas)
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
