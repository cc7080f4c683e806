//! Inline requests: a line of words, some of them quoted, as typed into telnet.

use super::ProtocolError;

/// Splits `line` into words as Redis's `sdssplitargs`: `"..."` with the escapes `\xHH`, `\n`,
/// `\r`, `\t`, `\b`, `\a` and `\` before any other byte; `'...'` with the escape `\'`. The words
/// replace the content of `words`, `ranges` says where each is.
pub(super) fn split(
    line: &[u8],
    words: &mut Vec<u8>,
    ranges: &mut Vec<(usize, usize)>,
) -> Result<(), ProtocolError> {
    words.clear();
    ranges.clear();
    let mut rest = skip_spaces(line);
    while !rest.is_empty() {
        let start = words.len();
        rest = word(rest, words)?;
        ranges.push((start, words.len()));
        rest = skip_spaces(rest);
    }
    Ok(())
}

fn skip_spaces(line: &[u8]) -> &[u8] {
    let spaces = line.iter().take_while(|byte| is_space(**byte)).count();
    &line[spaces..]
}

/// Appends the word at the front of `rest` to `words`; gives what is behind it.
fn word<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match *rest {
            [] => return Ok(rest),
            [b'"', ref quoted @ ..] => {
                rest = double_quoted(quoted, words)?;
                return end_of_quotes(rest);
            }
            [b'\'', ref quoted @ ..] => {
                rest = single_quoted(quoted, words)?;
                return end_of_quotes(rest);
            }
            [byte, ref behind @ ..] if !is_space(byte) => {
                words.push(byte);
                rest = behind;
            }
            _ => return Ok(rest),
        }
    }
}

const fn is_space(byte: u8) -> bool {
    // C's isspace: the vertical tab counts, which is_ascii_whitespace leaves out. NUL ends a word
    // in Redis as well.
    byte.is_ascii_whitespace() || byte == 0x0b || byte == 0
}

fn end_of_quotes(rest: &[u8]) -> Result<&[u8], ProtocolError> {
    match rest.first() {
        Some(byte) if !is_space(*byte) => Err(ProtocolError::Quotes),
        _ => Ok(rest),
    }
}

fn double_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match *rest {
            [b'"', ref behind @ ..] => return Ok(behind),
            [b'\\', b'x', high, low, ref behind @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                words.push(hex(high) << 4 | hex(low));
                rest = behind;
            }
            [b'\\', escaped, ref behind @ ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => other,
                });
                rest = behind;
            }
            [byte, ref behind @ ..] => {
                words.push(byte);
                rest = behind;
            }
            [] => return Err(ProtocolError::Quotes),
        }
    }
}

fn single_quoted<'a>(mut rest: &'a [u8], words: &mut Vec<u8>) -> Result<&'a [u8], ProtocolError> {
    loop {
        match *rest {
            [b'\'', ref behind @ ..] => return Ok(behind),
            [b'\\', b'\'', ref behind @ ..] => {
                words.push(b'\'');
                rest = behind;
            }
            [byte, ref behind @ ..] => {
                words.push(byte);
                rest = behind;
            }
            [] => return Err(ProtocolError::Quotes),
        }
    }
}

const fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}
