//! Glob patterns against Redis's own algorithm, which recurses.
#![allow(missing_docs)]

use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::matches;

/// Redis 7's `stringmatchlen` without its shortcuts, over pointers that are slices.
fn redis(mut pattern: &[u8], mut text: &[u8]) -> bool {
    while !pattern.is_empty() && !text.is_empty() {
        match pattern[0] {
            b'*' => {
                while pattern.get(1) == Some(&b'*') {
                    pattern = &pattern[1..];
                }
                return pattern.len() == 1
                    || (0..text.len()).any(|from| redis(&pattern[1..], &text[from..]));
            }
            b'?' => {}
            b'[' => {
                let (taken, end) = redis_class(pattern, text[0]);
                if !taken {
                    return false;
                }
                pattern = end;
            }
            first => {
                let escaped = first == b'\\' && pattern.len() >= 2;
                pattern = &pattern[usize::from(escaped)..];
                if pattern[0] != text[0] {
                    return false;
                }
            }
        }
        text = &text[1..];
        pattern = pattern.get(1..).unwrap_or_default();
    }
    pattern.iter().all(|byte| *byte == b'*') && text.is_empty()
}

/// Whether the class at the front takes `byte`, and the pattern from its last byte on.
fn redis_class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
    let mut rest = &pattern[1..];
    let not = rest.first() == Some(&b'^');
    if not {
        rest = &rest[1..];
    }
    let mut found = false;
    loop {
        if rest.len() >= 2 && rest[0] == b'\\' {
            rest = &rest[1..];
            found |= rest[0] == byte;
        } else if rest.is_empty() || rest[0] == b']' {
            return (found != not, rest);
        } else if rest.len() >= 3 && rest[1] == b'-' {
            let (low, high) = (rest[0].min(rest[2]), rest[0].max(rest[2]));
            found |= low <= byte && byte <= high;
            rest = &rest[2..];
        } else {
            found |= rest[0] == byte;
        }
        rest = &rest[1..];
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn is_redis(
        pattern in vec(prop::sample::select(b"ab*?[]^-\\\xff".to_vec()), 0..12),
        text in vec(prop::sample::select(b"ab*[]-\\^\xff".to_vec()), 0..8),
    ) {
        prop_assert_eq!(matches(&pattern, &text), redis(&pattern, &text));
    }
}

#[test]
fn known_cases() {
    for (pattern, text, expected) in [
        ("*", "", true),
        ("", "", true),
        ("", "a", false),
        ("a*", "a", true),
        ("h?llo", "hello", true),
        ("h*llo", "hllo", true),
        ("h*llo", "heeeello", true),
        ("h[ae]llo", "hillo", false),
        ("h[^e]llo", "hello", false),
        ("h[b-a]llo", "hallo", true),
        ("h\\?llo", "h?llo", true),
        ("h\\?llo", "hello", false),
        ("a[b", "ab", true),
        ("a\\", "a\\", true),
        ("*a*b*c*", "xxaxxbxxcxx", true),
        ("*abc", "ababcabcabc", true),
        ("user:*:name", "user:1:2:name", true),
    ] {
        assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
    }
}

/// Exponential in the number of stars for a matcher that tries every way to share out the text.
#[test]
fn many_stars_take_no_more_than_the_product_of_the_lengths() {
    let pattern = [b"*a".repeat(400), b"*b".to_vec()].concat();
    assert!(!matches(&pattern, &b"a".repeat(60_000)));
}
