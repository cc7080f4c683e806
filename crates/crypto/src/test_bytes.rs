//! Helpers for the tests of several schemes.

/// The bytes of hexadecimal digits.
pub(crate) fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().as_chunks::<2>().0.iter();
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// As [`hex`], for a known length.
pub(crate) fn hex_array<const N: usize>(digits: &str) -> [u8; N] {
    hex(digits).try_into().unwrap()
}
