//! The hash of a key: 32 bytes, read as digits of seven bits, which give the place of an item.

/// Bits of a digit: nodes are 128-ary.
pub(super) const DIGIT_BITS: usize = 7;
/// Digits of a hash; the last has four bits, followed by zeros.
pub(super) const DIGITS: usize = (32 * 8usize).div_ceil(DIGIT_BITS);
/// The bits of an item's hash that an entry keeps as a tag.
pub(super) const TAG_BITS: u32 = 22;

/// The identity of an item: BLAKE3 of its key, or 32 bytes that the caller guarantees to be
/// distributed like a hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(pub [u8; 32]);

impl Hash {
    /// The lowest hash that is not [aside](Hash::aside).
    pub const FIRST_UNDER_ROOT: Hash = Hash([
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        0, 0,
    ]);

    /// A place *aside*: 16 zero bytes and a big-endian number. Items there are stored and committed
    /// like others, and come first in iterations. But the root of an authenticated store does not
    /// cover them, and they have no proofs. No key hashes to such a place.
    #[must_use]
    pub const fn aside(number: u128) -> Hash {
        let mut bytes = [0; 32];
        if let Some(last) = bytes.last_chunk_mut() {
            *last = number.to_be_bytes();
        }
        Hash(bytes)
    }

    /// Whether it is a place aside.
    #[must_use]
    pub fn is_aside(&self) -> bool {
        *self < Hash::FIRST_UNDER_ROOT
    }

    /// The hash of a key.
    #[must_use]
    pub fn of(key: &[u8]) -> Hash {
        Hash(*blake3::hash(key).as_bytes())
    }

    /// Its first bytes, which are enough for most comparisons.
    pub(super) fn begins(&self) -> u64 {
        self.0.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
    }

    /// Digit `index` from the front. The order of digits is the order of bytes.
    pub(super) fn digit(&self, index: usize) -> u8 {
        let bit = index * DIGIT_BITS;
        let (byte, within) = (bit / 8, bit % 8);
        let high = self.0.get(byte).copied().unwrap_or(0);
        let low = self.0.get(byte + 1).copied().unwrap_or(0);
        let pair = u16::from_be_bytes([high, low]);
        (pair >> (16 - DIGIT_BITS - within)) as u8 & 0x7f
    }

    /// The part of a [divided](super::readers::DIVIDED) tree that it belongs to: its first digit.
    pub(super) fn part(&self) -> usize {
        usize::from(self.digit(0))
    }

    /// The last bits, which no digit near the root contains. They tell apart neighbours in a
    /// bucket.
    pub(super) fn tag(&self) -> u32 {
        let [.., a, b, c, d] = self.0;
        u32::from_be_bytes([a, b, c, d]) & ((1 << TAG_BITS) - 1)
    }

    /// Bit `index` from the front.
    pub(crate) fn bit(&self, index: u8) -> bool {
        quorate_merkle::bit(&self.0, index)
    }

    /// The first bit in which the two differ; `None` if they are equal.
    pub(crate) fn parting(&self, other: &Hash) -> Option<u8> {
        quorate_merkle::parting(&self.0, &other.0)
    }

    /// The first index from `from` on at which the digits differ.
    pub(super) fn diverges(&self, other: &Hash, from: usize) -> Option<usize> {
        (from..DIGITS).find(|index| self.digit(*index) != other.digit(*index))
    }
}

impl std::fmt::Debug for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
