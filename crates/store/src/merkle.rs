//! The Merkle root of a store's content, and proofs about it, for stores and for clients without a
//! store. [`quorate_merkle`] has the definitions, and the map in memory with the same roots. `k` is
//! the hash of an item's key ([`Hash`](crate::lazy_trie::Hash)); `d` is the BLAKE3 of its value, or
//! another digest if the owner defines one.

pub(crate) use quorate_merkle::{Domain, Message, ProofLeaf, hashes::BATCH, lanes, message};
pub use quorate_merkle::{
    EMPTY_ROOT, Hash as Digest, PROOF_LIMIT_BYTES, PROOF_VERSION, Prefix, Proof, ProofError,
    value_digest,
};

/// Computes the `d` of values. It must fill the whole list, which has the same length.
pub type ValueDigest = fn(&[&[u8]], &mut [Digest]);

/// The default `d` of several values.
pub(crate) fn value_digests(values: &[&[u8]], digests: &mut [Digest]) {
    values.iter().zip(digests).for_each(|(value, digest)| *digest = value_digest(value));
}

/// The digest of a leaf.
pub(crate) fn leaf(hashing: ValueDigest, key: &Digest, value: &[u8]) -> Digest {
    Domain::leaf().hash(&message(key, &one(hashing, value)))
}

/// The `d` of one value.
pub(crate) fn one(hashing: ValueDigest, value: &[u8]) -> Digest {
    let mut digest = [[0; 32]];
    hashing(&[value], &mut digest);
    digest[0]
}

/// The digests of leaves, by key and value.
pub(crate) fn leaves(hashing: ValueDigest, keys: &[&Digest], values: &[&[u8]]) -> Vec<Digest> {
    let mut digests = vec![[0; 32]; values.len()];
    hashing(values, &mut digests);
    let domain = Domain::leaf();
    let mut messages: [Message; BATCH] = [[0; 64]; BATCH];
    for (keys, digests) in keys.chunks(BATCH).zip(digests.chunks_mut(BATCH)) {
        for (place, (key, digest)) in messages.iter_mut().zip(keys.iter().zip(&*digests)) {
            *place = message(key, digest);
        }
        let places = messages.each_ref();
        let hashes = domain.hash_together(&places[..lanes(keys.len())]);
        digests.iter_mut().zip(hashes).for_each(|(digest, hash)| *digest = hash);
    }
    digests
}
