//! Redis's glob patterns.

/// Whether `text` matches `pattern`, byte for byte as Redis's `stringmatchlen` has it: `*`, `?`,
/// `[a-z]`, `[^a]`, and `\` before a byte to be taken as it is. A class that is never closed
/// reaches to the end of the pattern; a range may be given backwards. Ranges compare unsigned
/// bytes (Redis: the platform's `char`), and a pattern of stars alone matches the empty text as
/// well.
///
/// Takes time proportional to the product of the lengths at worst: since every other part of a
/// pattern takes exactly one byte, only the last star passed ever has to take more.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut byte_at) = (0, 0);
    // The part behind the last star, and the first byte that the star has not been given yet.
    let mut retry: Option<(usize, usize)> = None;
    while byte_at < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            if at == pattern.len() {
                return true;
            }
            retry = Some((at, byte_at));
            continue;
        }
        match part(&pattern[at..], text[byte_at]) {
            Some(length) => {
                at += length;
                byte_at += 1;
            }
            None => {
                let Some((behind_star, given)) = retry else { return false };
                retry = Some((behind_star, given + 1));
                (at, byte_at) = (behind_star, given + 1);
            }
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// The length of the pattern's first part if it takes `byte`.
fn part(pattern: &[u8], byte: u8) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => {
            let (matched, length) = in_class(class, byte);
            matched.then_some(1 + length)
        }
        [b'\\', escaped, ..] => (escaped == byte).then_some(2),
        [literal, ..] => (literal == byte).then_some(1),
    }
}

/// Whether the class takes `byte`, and how long the class is, its closing bracket included.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let inverted = class.first() == Some(&b'^');
    let mut at = usize::from(inverted);
    let mut matched = false;
    loop {
        match class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                matched |= escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [first, b'-', last, ..] => {
                matched |= (first.min(last)..=first.max(last)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                matched |= literal == byte;
                at += 1;
            }
        }
    }
    (matched != inverted, at)
}
