//! How large the protocol's words can become, in bytes of their canonical encoding.

use super::words::MAX_PRE_PREPARED;
use crate::base::crypto::Signature;

const DIGEST_BYTES: usize = 32;
const NUMBER_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;
const SIGNED_BYTES: usize = 2 + 1 + Signature::MAX_BYTES;

/// The most bytes of the memory of a replica in a committee of this size, with so many
/// blocks between the water marks.
#[must_use]
pub const fn memory_bytes(replicas: usize, window: u64) -> usize {
    let checkpoint = NUMBER_BYTES + 2 * DIGEST_BYTES;
    let stable = 1 + checkpoint + COUNT_BYTES + replicas * SIGNED_BYTES;
    let entry = 2 * NUMBER_BYTES + 2 * DIGEST_BYTES;
    let entries = 2 * COUNT_BYTES + window as usize * (1 + MAX_PRE_PREPARED) * entry;
    let awaits = 1 + NUMBER_BYTES;
    // A new view of all, and its height and signature.
    let change = SIGNED_BYTES + NUMBER_BYTES + stable + entries;
    let chosen = COUNT_BYTES + window as usize * DIGEST_BYTES;
    let new_view = NUMBER_BYTES + COUNT_BYTES + replicas * change + chosen;
    let forgotten = 1 + NUMBER_BYTES + new_view + SIGNED_BYTES;
    let committed = 1 + NUMBER_BYTES + DIGEST_BYTES;
    NUMBER_BYTES + 1 + stable + committed + entries + forgotten + awaits
}
