//! Writers of replies: each appends one element to `out`. Where RESP2 and RESP3 differ, the writer
//! takes the [`Protocol`].

use quorate_app::kv::decimal::Digits;

/// The version of the protocol that a connection's replies have (HELLO).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// What every connection begins with.
    #[default]
    Resp2,
    /// With types for maps, sets and nothing.
    Resp3,
}

impl Protocol {
    /// Its number.
    #[must_use]
    pub const fn number(self) -> i64 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }
}

/// `+text`.
pub fn simple(out: &mut Vec<u8>, text: &str) {
    line(out, b'+', text.as_bytes());
}

/// `-text`; the text begins with the error's class, such as `ERR`.
pub fn error(out: &mut Vec<u8>, text: impl AsRef<[u8]>) {
    line(out, b'-', text.as_ref());
}

/// `:number`.
pub fn integer(out: &mut Vec<u8>, number: i64) {
    head(out, b':', Digits::of(number));
}

/// `$length`, then the bytes.
pub fn bulk(out: &mut Vec<u8>, bytes: impl AsRef<[u8]>) {
    let bytes = bytes.as_ref();
    head(out, b'$', Digits::of_unsigned(bytes.len() as u64));
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// Nothing: `$-1` or `_`.
pub fn nil(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"$-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// No list: `*-1` or `_`.
pub fn nil_array(out: &mut Vec<u8>, protocol: Protocol) {
    out.extend_from_slice(match protocol {
        Protocol::Resp2 => b"*-1\r\n",
        Protocol::Resp3 => b"_\r\n",
    });
}

/// A map, whose `pairs` keys and values must follow in turn: an array of twice as many, or
/// `%pairs`.
pub fn map(out: &mut Vec<u8>, protocol: Protocol, pairs: usize) {
    match protocol {
        Protocol::Resp2 => array(out, 2 * pairs),
        Protocol::Resp3 => head(out, b'%', Digits::of_unsigned(pairs as u64)),
    }
}

/// A set, whose `count` elements must follow: an array, or `~count`.
pub fn set(out: &mut Vec<u8>, protocol: Protocol, count: usize) {
    match protocol {
        Protocol::Resp2 => array(out, count),
        Protocol::Resp3 => head(out, b'~', Digits::of_unsigned(count as u64)),
    }
}

/// Text for people: `$length`, or `=length` with the format `txt:` in front of the text.
pub fn text(out: &mut Vec<u8>, protocol: Protocol, text: impl AsRef<[u8]>) {
    let text = text.as_ref();
    match protocol {
        Protocol::Resp2 => bulk(out, text),
        Protocol::Resp3 => {
            let format = b"txt:";
            head(out, b'=', Digits::of_unsigned((format.len() + text.len()) as u64));
            out.extend_from_slice(format);
            out.extend_from_slice(text);
            out.extend_from_slice(b"\r\n");
        }
    }
}

/// `*count`, which `count` elements must follow.
pub fn array(out: &mut Vec<u8>, count: usize) {
    head(out, b'*', Digits::of_unsigned(count as u64));
}

fn head(out: &mut Vec<u8>, marker: u8, number: Digits) {
    out.push(marker);
    out.extend_from_slice(number.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A line break inside would end the element early: it becomes a space, as in Redis.
fn line(out: &mut Vec<u8>, marker: u8, text: &[u8]) {
    out.push(marker);
    out.extend(text.iter().map(|&byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { byte }));
    out.extend_from_slice(b"\r\n");
}
