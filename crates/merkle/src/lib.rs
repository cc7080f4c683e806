//! Authenticated maps: the root of a set of pairs, proofs of what is in it, and a map that has such
//! a root and is kept in memory. A store on disk (`quorate_store::lazy_trie`) keeps its digests in
//! its own blocks, and has the same root and the same proofs.
//!
//! # The root, specified
//!
//! The root is a function of the content alone: the set of pairs `(k, d)` of a key `k`, which is a
//! hash, and the digest `d` of its value. History, snapshots and the layout in memory or on disk do
//! not enter. `H(K, m)` is BLAKE3 in keyed mode, always of exactly 64 bytes (one compression), and
//! the keys `K` are public constants that separate domains. Bits are counted from 0 at the most
//! significant bit of a key's first byte, so bit order is the lexicographic order of keys.
//!
//! ```text
//! digest({})         = 32 zero bytes
//! digest({(k, d)})   = H(LEAF,    k ‖ d)
//! digest(S), |S| > 1 = H(JOIN(b), digest(S0) ‖ digest(S1))
//!     b  = the first bit at which two keys of S differ
//!     S0 = the pairs of S whose key has bit b clear;  S1 = those with bit b set
//!
//! LEAF    = the 32 ASCII bytes "quorate merkle map v1: leaf     "   (5 trailing spaces)
//! JOIN(b) = the 31 ASCII bytes "quorate merkle map v1: join at " then the byte b
//! ```
//!
//! This is a binary trie with its one-way paths left out: `n` pairs make `n` leaves and `n - 1`
//! joins, and hashed keys make its depth about `log2(n)`. Keys mined to share long prefixes
//! lengthen the paths to those keys only, to 256 joins at most.
//!
//! Binding: `H` does not collide, leaves carry whole keys and a join's key carries its bit, so
//! equal roots mean equal content. The all-zero digest has no known preimage.
//!
//! # Proofs
//!
//! ```text
//! 0 version u8 = 1 | 1 kind u8: 0 the set is empty, 1 the key is there, 2 it is not
//! 2 kind 1: d [32]; kind 2: another key k' [32] ‖ its d' [32]
//! … number of joins u16 (at most 256), little-endian
//!   | for each, from the leaf to the root: b u8 ‖ the digest of the other side [32]
//! ```
//!
//! * *Presence* of `(k, d)`: from its leaf, joined with the other sides, follows the root. The bits
//!   `b` fall strictly, and bit `b` of `k` says which side `k` is on.
//! * *Absence* of `k` (root not zero): the presence of some `(k', d')`, `k' ≠ k`, where at every
//!   bit `b` of its path `k` and `k'` agree. That is the only leaf at which a search for `k` can
//!   end; `b` cannot be forged, being part of the hash.
#![forbid(unsafe_code)]

mod domain;
pub mod hashes;
mod map;
mod prefix;
mod proof;

pub use domain::{Domain, Message, lanes, message};
pub use map::{Iter, Leaf, MerkleMap};
pub use prefix::Prefix;
pub use proof::{PROOF_LIMIT_BYTES, PROOF_VERSION, Proof, ProofError, ProofLeaf};

/// A BLAKE3 hash: of a key (its place in a set), of a value, or of a set of pairs.
pub type Hash = [u8; 32];

/// The root of the empty set.
pub const EMPTY_ROOT: Hash = [0; 32];

/// The digest of a value, where no other was asked for: its BLAKE3.
#[must_use]
pub fn value_digest(value: &[u8]) -> Hash {
    *blake3::hash(value).as_bytes()
}

/// Bit `index` of a key, from the front.
#[must_use]
pub fn bit(key: &Hash, index: u8) -> bool {
    let [byte, within] = [index / 8, index % 8];
    key.get(usize::from(byte)).is_some_and(|byte| byte << within & 0x80 != 0)
}

/// The first bit in which two keys differ; `None` if they do not.
#[must_use]
pub fn parting(one: &Hash, other: &Hash) -> Option<u8> {
    let mut pairs = one.iter().zip(other).map(|(a, b)| a ^ b).enumerate();
    let (byte, difference) = pairs.find(|(_, difference)| *difference != 0)?;
    Some(byte as u8 * 8 + difference.leading_zeros() as u8)
}
