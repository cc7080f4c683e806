//! BLAKE3 hashes of several short messages side by side.
//!
//! The messages are independent, so their compressions share vector registers. The functions of the
//! `blake3` crate do that only within one message of several kilobytes. So this uses the crate's
//! lower layer, which is exempt from its promise of stability. Should that layer go,
//! `blake3::hash` and `blake3::keyed_hash` in a loop are the same functions.

use blake3::IncrementCounter;
use blake3::platform::{Platform, le_bytes_from_words_32, words_from_le_bytes_32};

/// How many messages are hashed at a time at most: twice the widest vector unit in use.
pub const BATCH: usize = 16;

/// The longest message whose hash shares the vector unit with others: one chunk of BLAKE3.
pub const LONGEST: usize = 1024;
const BLOCK: usize = 64;

// The flags of a message that is one chunk long at most (BLAKE3 specification, 2.2).
const CHUNK_START: u8 = 1 << 0;
const CHUNK_END: u8 = 1 << 1;
const ROOT: u8 = 1 << 3;
const KEYED_HASH: u8 = 1 << 4;

/// What the chaining of an unkeyed hash begins with (BLAKE3 specification, 2.1).
const IV: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// A hash function: BLAKE3 with a key, or without.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    words: [u32; 8],
    flags: u8,
    platform: Platform,
}

impl Kind {
    /// `blake3::hash`.
    #[must_use]
    pub fn plain() -> Self {
        Self { words: IV, flags: 0, platform: Platform::detect() }
    }

    /// `blake3::keyed_hash` with this key.
    #[must_use]
    pub fn keyed(key: &[u8; 32]) -> Self {
        Self { words: words_from_le_bytes_32(key), flags: KEYED_HASH, platform: Platform::detect() }
    }

    /// The hashes of `messages`; `hashes` must be as long. Of each [`BATCH`] those of one length,
    /// from 64 to 1,024 bytes, are computed side by side: with AVX-512 five to ten times as fast as
    /// one by one.
    pub fn of(&self, messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
        for (messages, hashes) in messages.chunks(BATCH).zip(hashes.chunks_mut(BATCH)) {
            self.of_batch(messages, hashes);
        }
    }

    fn of_batch(&self, messages: &[&[u8]], hashes: &mut [[u8; 32]]) {
        let mut left = (1_u32 << messages.len()) - 1;
        while left != 0 {
            let length = messages[left.trailing_zeros() as usize].len();
            let (mut places, mut count) = ([0; BATCH], 0);
            for (at, message) in messages.iter().enumerate() {
                if left >> at & 1 == 1 && message.len() == length {
                    places[count] = at;
                    count += 1;
                    left &= !(1 << at);
                }
            }
            let alike = places.map(|at| messages[at]);
            let found = self.of_alike(&alike[..count]);
            places[..count].iter().zip(found).for_each(|(at, hash)| hashes[*at] = hash);
        }
    }

    /// The hashes of messages of one block each, at most [`BATCH`]; the rest of the result is zero.
    pub(crate) fn of_blocks(&self, messages: &[&[u8; BLOCK]]) -> [[u8; 32]; BATCH] {
        self.chain(messages, CHUNK_END | ROOT)
    }

    /// How many messages are computed side by side.
    pub(crate) fn lanes(&self) -> usize {
        self.platform.simd_degree()
    }

    /// The hashes of messages of one length.
    fn of_alike(&self, messages: &[&[u8]]) -> [[u8; 32]; BATCH] {
        if messages.len() == 1 || !(BLOCK..=LONGEST).contains(&messages[0].len()) {
            return self.one_by_one(messages);
        }
        let rest = messages[0].len() % BLOCK;
        let mut hashes = self.chain_blocks(messages, if rest == 0 { CHUNK_END | ROOT } else { 0 });
        if rest > 0 {
            for (message, hash) in messages.iter().zip(&mut hashes) {
                let mut block = [0; BLOCK];
                block[..rest].copy_from_slice(&message[message.len() - rest..]);
                let mut words = words_from_le_bytes_32(hash);
                let flags = self.flags | CHUNK_END | ROOT;
                self.platform.compress_in_place(&mut words, &block, rest as u8, 0, flags);
                *hash = le_bytes_from_words_32(&words);
            }
        }
        hashes
    }

    fn one_by_one(&self, messages: &[&[u8]]) -> [[u8; 32]; BATCH] {
        let mut hashes = [[0; 32]; BATCH];
        let key = le_bytes_from_words_32(&self.words);
        for (message, hash) in messages.iter().zip(&mut hashes) {
            let keyed = self.flags & KEYED_HASH != 0;
            let found =
                if keyed { blake3::keyed_hash(&key, message) } else { blake3::hash(message) };
            *hash = *found.as_bytes();
        }
        hashes
    }

    /// The chaining values behind the whole blocks of messages of one length; the last block has
    /// the flags `last`.
    fn chain_blocks(&self, messages: &[&[u8]], last: u8) -> [[u8; 32]; BATCH] {
        macro_rules! of_blocks {
            ($($blocks:literal)*) => {
                match messages[0].len() / BLOCK {
                    $($blocks => self.chain(&beginnings::<{ $blocks * BLOCK }>(messages), last),)*
                    _ => unreachable!("a message is one block to one chunk long"),
                }
            };
        }
        of_blocks!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16)
    }

    fn chain<const BYTES: usize>(&self, inputs: &[&[u8; BYTES]], last: u8) -> [[u8; 32]; BATCH] {
        let mut hashes = [[0; 32]; BATCH];
        self.platform.hash_many(
            inputs,
            &self.words,
            0,
            IncrementCounter::No,
            self.flags,
            CHUNK_START,
            last,
            hashes.as_flattened_mut(),
        );
        hashes
    }
}

fn beginnings<'a, const BYTES: usize>(messages: &[&'a [u8]]) -> Vec<&'a [u8; BYTES]> {
    messages.iter().filter_map(|message| message.first_chunk()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], lengths: &[usize]) {
        let key = &[7; 32];
        let messages: Vec<&[u8]> =
            lengths.iter().enumerate().map(|(at, length)| &bytes[at..][..*length]).collect();
        let mut hashes = vec![[0; 32]; messages.len()];
        Kind::keyed(key).of(&messages, &mut hashes);
        for (message, hash) in messages.iter().zip(&hashes) {
            assert_eq!(hash, blake3::keyed_hash(key, message).as_bytes(), "{lengths:?}");
        }
        Kind::plain().of(&messages, &mut hashes);
        for (message, hash) in messages.iter().zip(&hashes) {
            assert_eq!(hash, blake3::hash(message).as_bytes(), "{lengths:?}");
        }
    }

    #[test]
    fn messages_of_any_lengths_have_the_hash_of_each() {
        let bytes: Vec<u8> = (0..1200_u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for length in (0..=130).chain(500..=520).chain(955..=1100) {
            for count in [0, 1, 2, 7, 8, 9, BATCH, BATCH + 3] {
                check(&bytes, &vec![length; count]);
            }
        }
        check(&bytes, &[64, 512, 64, 3, 512, 1024, 1025, 64, 0, 100, 100, 512, 64, 63, 65, 1024]);
    }
}
