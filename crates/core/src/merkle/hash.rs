//! The two hashes of the specification, computed in batches.

use super::Hash;
use blake3::IncrementCounter;
use blake3::platform::{Platform, words_from_le_bytes_32};

/// The input of every hash here: one block of BLAKE3.
pub(super) type Message = [u8; 64];

/// How many messages [`Domain::hash`] takes at most: twice the widest vector unit in use.
pub(super) const BATCH: usize = 16;

const LEAF: &[u8; 32] = b"quorate merkle map v1: leaf     ";
const JOIN: &[u8; 31] = b"quorate merkle map v1: join at ";

// The flags of a whole input that is one block long, in keyed mode (BLAKE3 specification, 2.2).
const KEYED_HASH: u8 = 1 << 4;
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;

/// What a message is: the key of the keyed hash.
pub(super) struct Domain([u8; 32]);

impl Domain {
    pub(super) fn leaf() -> Self {
        Self(*LEAF)
    }

    /// The join of two sets that part at bit `bit`.
    pub(super) fn join(bit: u8) -> Self {
        let mut key = [bit; 32];
        key[..JOIN.len()].copy_from_slice(JOIN);
        Self(key)
    }

    /// The keyed BLAKE3 of each message, at most [`BATCH`] of them; the rest of the result is zero.
    ///
    /// The messages being independent, their compressions share vector registers, which the
    /// one-message functions of the `blake3` crate cannot do: hence its lower layer, exempt from its
    /// promise of stability. Should that go, `blake3::keyed_hash` in a loop is the same function.
    pub(super) fn hash(&self, platform: Platform, messages: &[&Message]) -> [Hash; BATCH] {
        let mut hashes = [[0; 32]; BATCH];
        platform.hash_many(
            messages,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_any_length_is_the_keyed_hash_of_each() {
        let messages: Vec<Message> = (0..BATCH as u8)
            .map(|i| std::array::from_fn(|j| i.wrapping_mul(67) ^ j as u8))
            .collect();
        for domain in [Domain::leaf(), Domain::join(0), Domain::join(255)] {
            for count in 0..=BATCH {
                let batch: Vec<&Message> = messages[..count].iter().collect();
                let hashes = domain.hash(Platform::detect(), &batch);
                for (i, hash) in hashes.iter().enumerate() {
                    let one = messages[..count].get(i);
                    let expected = one.map(|m| *blake3::keyed_hash(&domain.0, m).as_bytes());
                    assert_eq!(*hash, expected.unwrap_or_default(), "{i} of {count}");
                }
            }
        }
    }
}
