//! Redis's glob patterns, with a bound on the work.

/// Whether `text` matches `pattern`, byte for byte as Redis's `stringmatchlen` has it: `*`, `?`,
/// `[a-z]`, `[^a]`, and `\` before a byte to be taken as it is. A class that is never closed
/// reaches to the end of the pattern; a range may be given backwards. Ranges compare unsigned
/// bytes (Redis: the platform's `char`), and a pattern of stars alone matches the empty text as
/// well.
///
/// Takes time proportional to the product of the lengths at worst: [`Pattern::matches`] bounds it.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut steps = u64::MAX;
    Pattern::new(pattern).matches(text, &mut steps) == Some(true)
}

/// A pattern, read once: each part looks at a byte in constant time.
#[derive(Clone, Debug)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    /// Any bytes.
    Star,
    /// Any byte.
    Any,
    /// This byte.
    Byte(u8),
    /// One of these bytes: a bit for each.
    Class([u64; 4]),
}

impl Pattern {
    /// Reads a pattern, in time proportional to its length. Every sequence of bytes is one.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Self {
        let mut parts = Vec::with_capacity(pattern.len());
        let mut rest = pattern;
        loop {
            rest = match *rest {
                [] => return Self { parts },
                [b'*', ref behind @ ..] => {
                    if !matches!(parts.last(), Some(Part::Star)) {
                        parts.push(Part::Star);
                    }
                    behind
                }
                [b'?', ref behind @ ..] => {
                    parts.push(Part::Any);
                    behind
                }
                [b'[', ref class @ ..] => {
                    let (bits, behind) = read_class(class);
                    parts.push(Part::Class(bits));
                    behind
                }
                [b'\\', literal, ref behind @ ..] | [literal, ref behind @ ..] => {
                    parts.push(Part::Byte(literal));
                    behind
                }
            }
        }
    }

    /// Whether `text` matches. Each look of a part at a byte takes one of `steps`; `None` when none
    /// is left. At most (parts + 1) × (bytes of the text + 1) are taken: every part but a star
    /// takes exactly one byte, so only the last star passed ever has to take more.
    #[must_use]
    pub fn matches(&self, text: &[u8], steps: &mut u64) -> Option<bool> {
        let (mut at, mut byte_at) = (0, 0);
        // The part behind the last star, and the first byte that the star has not been given yet.
        let mut retry: Option<(usize, usize)> = None;
        while let Some(&byte) = text.get(byte_at) {
            *steps = steps.checked_sub(1)?;
            let taken = match self.parts.get(at) {
                Some(Part::Star) => {
                    at += 1;
                    if at == self.parts.len() {
                        return Some(true);
                    }
                    retry = Some((at, byte_at));
                    continue;
                }
                Some(part) => part.takes(byte),
                None => false,
            };
            if taken {
                (at, byte_at) = (at + 1, byte_at + 1);
                continue;
            }
            let Some((behind_star, given)) = retry else { return Some(false) };
            retry = Some((behind_star, given + 1));
            (at, byte_at) = (behind_star, given + 1);
        }
        // Stars that follow each other were read as one.
        Some(match self.parts.get(at..) {
            None | Some([] | [Part::Star]) => true,
            Some(_) => false,
        })
    }
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Star | Self::Any => true,
            Self::Byte(literal) => *literal == byte,
            Self::Class(bits) => bits[usize::from(byte >> 6)] & (1 << (byte & 63)) != 0,
        }
    }
}

/// The bytes that a class takes, and what is behind it. `class` begins behind the bracket.
fn read_class(class: &[u8]) -> ([u64; 4], &[u8]) {
    let inverted = class.first() == Some(&b'^');
    let mut rest = class.get(usize::from(inverted)..).unwrap_or_default();
    let mut bits = [0; 4];
    let mut add = |first: u8, last: u8| {
        for byte in first.min(last)..=first.max(last) {
            bits[usize::from(byte >> 6)] |= 1 << (byte & 63);
        }
    };
    loop {
        rest = match *rest {
            [] => break,
            [b'\\', escaped, ref behind @ ..] => {
                add(escaped, escaped);
                behind
            }
            [b']', ref behind @ ..] => {
                rest = behind;
                break;
            }
            [first, b'-', last, ref behind @ ..] => {
                add(first, last);
                behind
            }
            [literal, ref behind @ ..] => {
                add(literal, literal);
                behind
            }
        };
    }
    if inverted {
        bits = bits.map(|word: u64| !word);
    }
    (bits, rest)
}
