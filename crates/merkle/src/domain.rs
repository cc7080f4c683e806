//! The two hashes of the specification, computed in batches.

use crate::Hash;
use crate::hashes::{BATCH, Kind};

/// The input of every hash here: one block of BLAKE3.
pub type Message = [u8; 64];

const LEAF: &[u8; 32] = b"quorate merkle map v1: leaf     ";
const JOIN: &[u8; 31] = b"quorate merkle map v1: join at ";

/// What a message is: the key of the keyed hash.
#[derive(Clone, Copy, Debug)]
pub struct Domain(Kind);

impl Domain {
    /// A key and the digest of its value.
    #[must_use]
    pub fn leaf() -> Self {
        Self(Kind::keyed(LEAF))
    }

    /// The join of two sets that part at bit `bit`.
    #[must_use]
    pub fn join(bit: u8) -> Self {
        let mut key = [bit; 32];
        key[..JOIN.len()].copy_from_slice(JOIN);
        Self(Kind::keyed(&key))
    }

    /// The hash of one message.
    #[must_use]
    pub fn hash(&self, message: &Message) -> Hash {
        let [hash, ..] = self.0.of_blocks(&[message]);
        hash
    }

    /// The hash of each message, at most [`BATCH`] of them, whose compressions share vector
    /// registers; the rest of the result is zero.
    #[must_use]
    pub fn hash_together(&self, messages: &[&Message]) -> [Hash; BATCH] {
        self.0.of_blocks(messages.get(..BATCH).unwrap_or(messages))
    }
}

/// With how many messages to call [`Domain::hash_together`] for so many that count: where eight are
/// computed side by side, or sixteen, three and more of a rest take longer than eight.
#[must_use]
pub fn lanes(messages: usize) -> usize {
    let over = messages % 8;
    if Kind::plain().lanes() < 8 || over < 3 { messages } else { messages - over + 8 }
}

/// The message of two halves.
#[must_use]
pub fn message(left: &Hash, right: &Hash) -> Message {
    let mut message = [0; 64];
    message[..32].copy_from_slice(left);
    message[32..].copy_from_slice(right);
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_of_any_length_is_the_keyed_hash_of_each() {
        let messages: Vec<Message> = (0..BATCH as u8)
            .map(|i| std::array::from_fn(|j| i.wrapping_mul(67) ^ j as u8))
            .collect();
        let key = |name: &[u8], last| {
            let mut key = [last; 32];
            key[..name.len()].copy_from_slice(name);
            key
        };
        for (domain, key) in [
            (Domain::leaf(), key(LEAF, 0)),
            (Domain::join(0), key(JOIN, 0)),
            (Domain::join(255), key(JOIN, 255)),
        ] {
            for count in 0..=BATCH {
                let batch: Vec<&Message> = messages[..count].iter().collect();
                let hashes = domain.hash_together(&batch);
                for (i, hash) in hashes.iter().enumerate() {
                    let one = messages[..count].get(i);
                    let expected = one.map(|m| *blake3::keyed_hash(&key, m).as_bytes());
                    assert_eq!(*hash, expected.unwrap_or_default(), "{i} of {count}");
                }
            }
            assert_eq!(domain.hash(&messages[3]), domain.hash_together(&[&messages[3]])[0]);
        }
    }
}
