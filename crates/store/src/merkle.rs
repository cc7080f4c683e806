//! The Merkle root of a set of items, and proofs of what is in it: pure functions, for stores and for clients that have none.
//!
//! # The root
//! A function of the set of pairs `(k, d)` alone: `k` the hash of an item's key ([`Hash`](crate::lazy_trie::Hash)), `d` the BLAKE3 of
//! its value. It is the definition of `quorate_core::base::merkle`, so that a map in memory and a
//! store on disk with the same pairs have the same root. `H(K, m)` is BLAKE3 in keyed mode, of 64
//! bytes; the keys `K` are public and separate domains. Bits are counted from 0, the most
//! significant of the first byte.
//! ```text
//! digest({})         = 32 zero bytes
//! digest({(k, d)})   = H(LEAF,    k ‖ d)
//! digest(S), |S| > 1 = H(JOIN(b), digest(S0) ‖ digest(S1))
//!     b  = the first bit in which two keys of S differ
//!     S0 = the pairs of S whose key has bit b clear;  S1 = those with bit b set
//!
//! LEAF    = the 32 ASCII bytes "quorate merkle map v1: leaf     "   (5 trailing spaces)
//! JOIN(b) = the 31 ASCII bytes "quorate merkle map v1: join at " then the byte b
//! ```
//!
//! # Proofs
//! ```text
//! 0 version u8 = 1 | 1 kind u8: 0 the set is empty, 1 the key is there, 2 it is not
//! 2 kind 1: d [32]; kind 2: another key k' [32] ‖ its d' [32]
//! … number of joins u16 (at most 256), little-endian | for each, from the leaf to the root: b u8 ‖ the digest of the other side [32]
//! ```
//! The bits fall strictly. *Presence* of `(k, d)`: from its leaf, joined with the other sides, follows the root; bit `b` of `k` says which side
//! `k` is on. *Absence* of `k`: the presence of `(k', d')`, where `k' ≠ k` and both have the same bit at each `b`: this is the only leaf
//! that a search for `k` can end at, and no `b` can be forged, being part of what is hashed.

mod prefix;
mod proof;

pub use prefix::Prefix;
pub(crate) use proof::Leaf as ProofLeaf;
pub use proof::{PROOF_LIMIT_BYTES, PROOF_VERSION, Proof, ProofError};

use blake3::IncrementCounter;
use blake3::platform::{Platform, words_from_le_bytes_32};

/// A BLAKE3 hash: of a value, of a pair, or of a set of pairs.
pub type Digest = [u8; 32];

/// The root of the empty set.
pub const EMPTY_ROOT: Digest = [0; 32];

const LEAF: &[u8; 32] = b"quorate merkle map v1: leaf     ";
const JOIN: &[u8; 31] = b"quorate merkle map v1: join at ";

/// The input of every hash but that of values: one block of BLAKE3.
pub(crate) type Message = [u8; 64];

/// How many messages are hashed together: twice the widest vector unit in use.
pub(crate) const TOGETHER: usize = 16;

// The flags of an input that is one block long, in keyed mode (BLAKE3 specification, 2.2).
const KEYED_HASH: u8 = 1 << 4;
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;

/// How the `d` of pairs come from their values: into a list that is as long, all of which is to be filled.
pub type ValueDigest = fn(&[&[u8]], &mut [Digest]);

/// The `d` of a pair, where no other was asked for.
#[must_use]
pub fn value_digest(value: &[u8]) -> Digest {
    *blake3::hash(value).as_bytes()
}

/// The same of several.
pub(crate) fn value_digests(values: &[&[u8]], digests: &mut [Digest]) {
    values.iter().zip(digests).for_each(|(value, digest)| *digest = value_digest(value));
}

/// The digest of a leaf.
pub(crate) fn leaf(hashing: ValueDigest, key: &Digest, value: &[u8]) -> Digest {
    Domain::LEAF.hash(&message(key, &one(hashing, value)))
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
    let platform = Platform::detect();
    let mut messages: [Message; TOGETHER] = [[0; 64]; TOGETHER];
    for (keys, digests) in keys.chunks(TOGETHER).zip(digests.chunks_mut(TOGETHER)) {
        for (place, (key, digest)) in messages.iter_mut().zip(keys.iter().zip(&*digests)) {
            *place = message(key, digest);
        }
        let places = messages.each_ref();
        let hashes = Domain::LEAF.hash_together(platform, &places[..lanes(platform, keys.len())]);
        digests.iter_mut().zip(hashes).for_each(|(digest, hash)| *digest = hash);
    }
    digests
}

/// What a message is: the key of the keyed hash.
#[derive(Clone, Copy)]
pub(crate) struct Domain([u8; 32]);

impl Domain {
    pub(crate) const LEAF: Domain = Domain(*LEAF);

    /// The join of two sets that part at bit `bit`.
    pub(crate) fn join(bit: u8) -> Domain {
        let mut key = [bit; 32];
        if let Some(front) = key.first_chunk_mut() {
            *front = *JOIN;
        }
        Domain(key)
    }

    /// The hash of one message.
    pub(crate) fn hash(self, message: &Message) -> Digest {
        *blake3::keyed_hash(&self.0, message).as_bytes()
    }

    /// The hashes of at most [`TOGETHER`] messages, whose compressions share vector registers; the rest of the result is zero.
    pub(crate) fn hash_together(
        self,
        platform: Platform,
        messages: &[&Message],
    ) -> [Digest; TOGETHER] {
        let mut hashes = [[0; 32]; TOGETHER];
        platform.hash_many(
            messages.get(..messages.len().min(TOGETHER)).unwrap_or(messages),
            &words_from_le_bytes_32(&self.0),
            0,
            IncrementCounter::No,
            KEYED_HASH,
            CHUNK_START,
            CHUNK_END | ROOT,
            hashes.as_flattened_mut(),
        );
        hashes
    }
}

/// With how many messages to call [`Domain::hash_together`] for so many that count: where eight are computed side by side, or sixteen, three and more
/// of a rest take longer than eight.
pub(crate) fn lanes(platform: Platform, messages: usize) -> usize {
    let over = messages % 8;
    if platform.simd_degree() < 8 || over < 3 { messages } else { messages - over + 8 }
}

/// The message of two halves.
pub(crate) fn message(left: &Digest, right: &Digest) -> Message {
    let mut message = [0; 64];
    let (front, behind) = message.split_at_mut(32);
    front.copy_from_slice(left);
    behind.copy_from_slice(right);
    message
}
