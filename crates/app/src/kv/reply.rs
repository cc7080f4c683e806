//! The replies, and their one binary encoding: a tag of one byte and what belongs to it.

use quorate_core::base::wire::{DecodeError, put_bytes};

/// A reply, borrowing from the bytes it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// Nothing: what the empty command is answered with.
    Empty,
    /// It was done.
    Ok,
    /// A number.
    Integer(i64),
    /// A byte string.
    Bulk(&'a [u8]),
    /// There is nothing there.
    Nil,
    /// Several replies.
    Array(Items<'a>),
    /// One word, such as a type.
    Status(&'a str),
    /// The command had no effect.
    Error(ErrorKind, &'a str),
}

/// The class of an error: Redis's word in front of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// `ERR`.
    General,
    /// `WRONGTYPE`.
    WrongType,
    /// `TRYAGAIN`.
    TryAgain,
    /// `OOM`.
    OutOfMemory,
    /// `NOPERM`.
    NoPermission,
}

impl ErrorKind {
    /// Redis's word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::General => "ERR",
            Self::WrongType => "WRONGTYPE",
            Self::TryAgain => "TRYAGAIN",
            Self::OutOfMemory => "OOM",
            Self::NoPermission => "NOPERM",
        }
    }
}

/// Replies that lie one after the other, already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items<'a> {
    count: usize,
    body: &'a [u8],
}

impl<'a> Items<'a> {
    /// How many there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The replies, in order.
    pub fn iter(&self) -> impl Iterator<Item = Reply<'a>> + use<'a> {
        let mut rest = self.body;
        std::iter::from_fn(move || {
            let (reply, behind) = split(rest, MAX_DEPTH).ok()?;
            rest = behind;
            (reply != Reply::Empty).then_some(reply)
        })
    }
}

const OK: u8 = 1;
const INTEGER: u8 = 2;
const BULK: u8 = 3;
const NIL: u8 = 4;
const ARRAY: u8 = 5;
const STATUS: u8 = 6;
const ERROR: u8 = 7;

/// Arrays within arrays: SCAN's are the deepest.
const MAX_DEPTH: usize = 2;

impl<'a> Reply<'a> {
    /// Reads the reply that fills `bytes`.
    ///
    /// # Errors
    /// [`DecodeError`] if they are no reply.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (reply, rest) = split(bytes, MAX_DEPTH)?;
        match rest.len() {
            0 => Ok(reply),
            count => Err(DecodeError::Trailing { count }),
        }
    }
}

fn split(bytes: &[u8], depth: usize) -> Result<(Reply<'_>, &[u8]), DecodeError> {
    let Some((&tag, rest)) = bytes.split_first() else {
        return Ok((Reply::Empty, bytes));
    };
    Ok(match tag {
        OK => (Reply::Ok, rest),
        NIL => (Reply::Nil, rest),
        INTEGER => {
            let (number, rest) = array::<8>(rest)?;
            (Reply::Integer(i64::from_le_bytes(number)), rest)
        }
        BULK => {
            let (bytes, rest) = byte_string(rest)?;
            (Reply::Bulk(bytes), rest)
        }
        STATUS => {
            let (word, rest) = text(rest)?;
            (Reply::Status(word), rest)
        }
        ERROR => {
            let ([kind], rest) = array::<1>(rest)?;
            let kind = match kind {
                0 => ErrorKind::General,
                1 => ErrorKind::WrongType,
                2 => ErrorKind::TryAgain,
                3 => ErrorKind::OutOfMemory,
                4 => ErrorKind::NoPermission,
                _ => return Err(DecodeError::Invalid { field: "error kind" }),
            };
            let (message, rest) = text(rest)?;
            (Reply::Error(kind, message), rest)
        }
        ARRAY if depth > 0 => items(rest, depth - 1)?,
        _ => return Err(DecodeError::Invalid { field: "reply tag" }),
    })
}

fn items(bytes: &[u8], depth: usize) -> Result<(Reply<'_>, &[u8]), DecodeError> {
    let (count, body) = array::<4>(bytes)?;
    let count = u32::from_le_bytes(count) as usize;
    let mut rest = body;
    for _ in 0..count {
        if rest.is_empty() {
            return Err(DecodeError::Truncated { missing: 1 });
        }
        (_, rest) = split(rest, depth)?;
    }
    Ok((Reply::Array(Items { count, body: &body[..body.len() - rest.len()] }), rest))
}

fn array<const N: usize>(bytes: &[u8]) -> Result<([u8; N], &[u8]), DecodeError> {
    match bytes.split_first_chunk::<N>() {
        Some((array, rest)) => Ok((*array, rest)),
        None => Err(DecodeError::Truncated { missing: N - bytes.len() }),
    }
}

fn byte_string(bytes: &[u8]) -> Result<(&[u8], &[u8]), DecodeError> {
    let (length, rest) = array::<4>(bytes)?;
    let length = u32::from_le_bytes(length) as usize;
    match rest.split_at_checked(length) {
        Some(parts) => Ok(parts),
        None => Err(DecodeError::Truncated { missing: length - rest.len() }),
    }
}

fn text(bytes: &[u8]) -> Result<(&str, &[u8]), DecodeError> {
    let (bytes, rest) = byte_string(bytes)?;
    let text = str::from_utf8(bytes).map_err(|_| DecodeError::Invalid { field: "message" })?;
    Ok((text, rest))
}

/// Writers of replies: each appends to `out`.
pub mod encode {
    use super::{ARRAY, BULK, ERROR, ErrorKind, INTEGER, NIL, OK, STATUS, put_bytes};

    /// [`super::Reply::Ok`].
    pub fn ok(out: &mut Vec<u8>) {
        out.push(OK);
    }

    /// [`super::Reply::Nil`].
    pub fn nil(out: &mut Vec<u8>) {
        out.push(NIL);
    }

    /// [`super::Reply::Integer`].
    pub fn integer(out: &mut Vec<u8>, number: i64) {
        out.push(INTEGER);
        out.extend_from_slice(&number.to_le_bytes());
    }

    /// A count as [`super::Reply::Integer`].
    pub fn count(out: &mut Vec<u8>, count: usize) {
        integer(out, i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// [`super::Reply::Bulk`].
    pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
        out.push(BULK);
        put_bytes(out, bytes);
    }

    /// [`super::Reply::Bulk`], or [`super::Reply::Nil`] for nothing.
    pub fn maybe_bulk(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
        match bytes {
            Some(bytes) => bulk(out, bytes),
            None => nil(out),
        }
    }

    /// [`super::Reply::Status`].
    pub fn status(out: &mut Vec<u8>, word: &str) {
        out.push(STATUS);
        put_bytes(out, word.as_bytes());
    }

    /// [`super::Reply::Error`].
    pub fn error(out: &mut Vec<u8>, kind: ErrorKind, message: &str) {
        out.extend_from_slice(&[ERROR, kind as u8]);
        put_bytes(out, message.as_bytes());
    }

    /// The head of an [`super::Reply::Array`], which `count` replies must follow.
    pub fn array(out: &mut Vec<u8>, count: usize) {
        out.push(ARRAY);
        out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    /// Sets the count of the array whose head begins at `at`.
    pub(in crate::kv) fn set_array_count(out: &mut [u8], at: usize, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes();
        out[at + 1..at + 5].copy_from_slice(&count);
    }
}
