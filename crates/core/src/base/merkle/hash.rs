//! The two hashes of the specification, computed in batches.

use super::Hash;
use crate::base::hashes::{BATCH, Kind};

/// The input of every hash here: one block of BLAKE3.
pub(super) type Message = [u8; 64];

const LEAF: &[u8; 32] = b"quorate merkle map v1: leaf     ";
const JOIN: &[u8; 31] = b"quorate merkle map v1: join at ";

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
    pub(super) fn hash(&self, messages: &[&Message]) -> [Hash; BATCH] {
        Kind::keyed(&self.0).of_blocks(messages)
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
                let hashes = domain.hash(&batch);
                for (i, hash) in hashes.iter().enumerate() {
                    let one = messages[..count].get(i);
                    let expected = one.map(|m| *blake3::keyed_hash(&domain.0, m).as_bytes());
                    assert_eq!(*hash, expected.unwrap_or_default(), "{i} of {count}");
                }
            }
        }
    }
}
