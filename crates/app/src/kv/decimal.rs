//! Integers as Redis reads and writes them.

/// The integer that `text` spells, as strictly as Redis: no sign but a minus, no leading zeros,
/// no spaces.
#[must_use]
pub fn parse_integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    match digits {
        [b'0'] if digits.len() == text.len() => return Some(0),
        [b'1'..=b'9', rest @ ..] if digits.len() <= 19 && rest.iter().all(u8::is_ascii_digit) => {}
        _ => return None,
    }
    str::from_utf8(text).ok()?.parse().ok()
}

/// A number in decimal, without a place on the heap.
#[derive(Clone, Copy, Debug)]
pub struct Digits {
    bytes: [u8; 20],
    start: usize,
}

impl Digits {
    /// The digits of `number`, behind a minus if it is negative.
    #[must_use]
    pub fn of(number: i64) -> Self {
        let mut digits = Self::of_unsigned(number.unsigned_abs());
        if number < 0 {
            digits.start -= 1;
            digits.bytes[digits.start] = b'-';
        }
        digits
    }

    /// The digits of `number`.
    #[must_use]
    pub fn of_unsigned(number: u64) -> Self {
        let mut digits = Self { bytes: [0; 20], start: 20 };
        let mut left = number;
        loop {
            digits.start -= 1;
            digits.bytes[digits.start] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                return digits;
            }
        }
    }

    /// What was written.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}
