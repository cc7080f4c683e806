//! RESP2, the protocol of Redis: requests are read ([`Requests`]), replies written ([`mod@write`]).
//!
//! Limits and the texts of errors are Redis 7's, except where a request could not be ordered
//! anyway ([`MAX_BULK_BYTES`], [`MAX_REQUEST_BYTES`]).

mod inline;
pub mod write;

use bytes::{Buf, BytesMut};
use memchr::memchr;
use quorate_app::kv::MAX_VALUE_BYTES;
use quorate_app::kv::decimal::parse_integer;

/// Longest line: an inline request, or a count or length (Redis: `PROTO_INLINE_MAX_SIZE`).
pub const MAX_LINE_BYTES: usize = 64 << 10;
/// Most arguments of a request.
pub const MAX_ARGUMENTS: i64 = 1 << 20;
/// Longest argument, bytes: no value may be longer (Redis: `proto-max-bulk-len`).
pub const MAX_BULK_BYTES: i64 = MAX_VALUE_BYTES as i64;
/// Longest argument that is passed over, so that its request can be refused and the connection goes
/// on (what Redis takes in by default).
const MAX_SKIPPED_BYTES: i64 = 512 << 20;
/// Longest request, bytes; a longer one is passed over and refused (Redis:
/// `client-query-buffer-limit`).
pub const MAX_REQUEST_BYTES: usize = 8 << 20;

/// How much to make room for when reading.
const READ_BYTES: usize = 16 << 10;
/// A buffer larger than this is given back once it is empty.
const KEPT_BYTES: usize = 256 << 10;

/// Bytes that are no request, or a request that is too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The line with the count of arguments does not end.
    #[error("Protocol error: too big mbulk count string")]
    LongCountLine,
    /// The line with the length of an argument does not end.
    #[error("Protocol error: too big bulk count string")]
    LongLengthLine,
    /// An inline request does not end.
    #[error("Protocol error: too big inline request")]
    LongInline,
    /// The count of arguments is no number, or too large.
    #[error("Protocol error: invalid multibulk length")]
    Count,
    /// The length of an argument is no number, or too large.
    #[error("Protocol error: invalid bulk length")]
    Length,
    /// Something else where an argument should begin.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    Marker(u8),
    /// An inline request with a quote that is not closed, or is followed by no space.
    #[error("Protocol error: unbalanced quotes in request")]
    Quotes,
    /// An argument is too long. All of its request was passed over.
    #[error("an argument is longer than {MAX_BULK_BYTES} bytes")]
    Argument,
    /// The arguments together are too long. All of them were passed over.
    #[error("request is larger than {MAX_REQUEST_BYTES} bytes")]
    Request,
}

impl ProtocolError {
    /// Whether the connection is of no use afterwards.
    #[must_use]
    pub const fn ends_connection(self) -> bool {
        !matches!(self, Self::Argument | Self::Request)
    }
}

/// The arguments of one request, the name first. There is at least one.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    ranges: &'a [(usize, usize)],
}

impl<'a> Args<'a> {
    /// The arguments at `ranges` (start and end) of `bytes`. A range outside counts as empty.
    #[must_use]
    pub const fn new(bytes: &'a [u8], ranges: &'a [(usize, usize)]) -> Self {
        Self { bytes, ranges }
    }

    /// How many there are, the name included.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether there is not even a name.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The argument at `at`; nothing behind the last one.
    #[must_use]
    pub fn get(&self, at: usize) -> &'a [u8] {
        let bytes = self.ranges.get(at).and_then(|&(start, end)| self.bytes.get(start..end));
        bytes.unwrap_or_default()
    }

    /// The arguments from `first` on.
    pub fn from(self, first: usize) -> impl ExactSizeIterator<Item = &'a [u8]> {
        (first.min(self.len())..self.len()).map(move |at| self.get(at))
    }

    /// Whether the argument at `at` is `word` (in lower case), in whatever case.
    #[must_use]
    pub fn is(&self, at: usize, word: &str) -> bool {
        self.get(at).eq_ignore_ascii_case(word.as_bytes())
    }
}

/// What a connection has received, and how far it was read.
///
/// Bytes are looked at once: an incomplete request is taken up where it was left.
#[derive(Debug, Default)]
pub struct Requests {
    buffer: BytesMut,
    /// Bytes in front that belong to requests already handed out.
    done: usize,
    /// Where reading goes on.
    at: usize,
    /// Up to where the line at `at` is known not to end.
    searched: usize,
    /// Arguments that the request at hand still lacks; 0 between requests.
    missing: usize,
    /// The length of the argument at `at`, if that was read already.
    length: Option<usize>,
    /// Where the arguments of the request at hand are.
    ranges: Vec<(usize, usize)>,
    /// The arguments of an inline request, unquoted.
    inline: Vec<u8>,
    /// Why nothing is kept of the request at hand.
    refused: Option<ProtocolError>,
    /// Bytes of the argument at hand that are yet to be passed over.
    skipped: usize,
}

/// What reading on has led to.
enum Step {
    /// More bytes are needed.
    Starved,
    /// A request without arguments, which counts for nothing.
    Nothing,
    /// A request is complete, its arguments in the buffer.
    Complete,
    /// An inline request is complete, its arguments apart.
    CompleteInline,
}

impl Requests {
    /// Where received bytes are to be appended. Call [`Requests::next_request`] until there is
    /// nothing before appending more.
    pub fn space(&mut self) -> &mut BytesMut {
        self.buffer.reserve(READ_BYTES);
        &mut self.buffer
    }

    /// How many bytes are kept of what has been received.
    #[must_use]
    pub fn buffered(&self) -> usize {
        self.buffer.len() - self.done
    }

    /// Whether a request has begun to arrive, and not ended.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.missing > 0 || self.buffered() > 0
    }

    /// The next complete request, or nothing if more bytes are needed for one.
    ///
    /// # Errors
    /// [`ProtocolError`]: tell the client, and close if it [ends the
    /// connection](ProtocolError::ends_connection).
    pub fn next_request(&mut self) -> Result<Option<Args<'_>>, ProtocolError> {
        loop {
            if self.missing == 0 {
                self.ranges.clear();
                self.done = self.at;
            }
            let bytes = match self.step()? {
                Step::Nothing => continue,
                Step::Complete => &self.buffer[..],
                Step::CompleteInline => &self.inline[..],
                Step::Starved => {
                    self.release();
                    return Ok(None);
                }
            };
            if let Some(refused) = self.refused.take() {
                return Err(refused);
            }
            return Ok(Some(Args { bytes, ranges: &self.ranges }));
        }
    }

    /// Lets go of what was handed out.
    fn release(&mut self) {
        let done = std::mem::take(&mut self.done);
        if done == 0 {
            return;
        }
        self.buffer.advance(done);
        self.at -= done;
        self.searched = self.searched.saturating_sub(done);
        for (start, end) in &mut self.ranges {
            (*start, *end) = (*start - done, *end - done);
        }
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BYTES {
            self.buffer = BytesMut::new();
        }
    }

    fn step(&mut self) -> Result<Step, ProtocolError> {
        if self.missing == 0 {
            match self.buffer.get(self.at) {
                None => return Ok(Step::Starved),
                Some(b'*') => {}
                Some(_) => return self.inline(),
            }
            let Some(count) = self.number(ProtocolError::LongCountLine, ProtocolError::Count)?
            else {
                return Ok(Step::Starved);
            };
            if count > MAX_ARGUMENTS {
                return Err(ProtocolError::Count);
            }
            if count <= 0 {
                return Ok(Step::Nothing);
            }
            self.missing = count as usize;
        }
        while self.missing > 0 {
            if !self.argument()? {
                return Ok(Step::Starved);
            }
        }
        Ok(Step::Complete)
    }

    /// Reads an argument; says whether it is complete.
    fn argument(&mut self) -> Result<bool, ProtocolError> {
        if self.skipped > 0 {
            return Ok(self.skip());
        }
        let length = match self.length {
            Some(length) => length,
            None => {
                match self.buffer.get(self.at) {
                    None => return Ok(false),
                    Some(b'$') => {}
                    Some(other) => return Err(ProtocolError::Marker(*other)),
                }
                let length = self.number(ProtocolError::LongLengthLine, ProtocolError::Length)?;
                match length {
                    None => return Ok(false),
                    Some(length @ 0..=MAX_SKIPPED_BYTES) => length as usize,
                    Some(_) => return Err(ProtocolError::Length),
                }
            }
        };
        if length > MAX_VALUE_BYTES {
            self.refused.get_or_insert(ProtocolError::Argument);
        } else if self.at - self.done + length > MAX_REQUEST_BYTES {
            self.refused.get_or_insert(ProtocolError::Request);
        }
        if self.refused.is_some() {
            self.length = None;
            self.ranges.clear();
            self.skipped = length + 2;
            return Ok(self.skip());
        }
        // As in Redis, the two bytes behind an argument are passed over unseen.
        if self.buffer.len() - self.at < length + 2 {
            self.length = Some(length);
            return Ok(false);
        }
        self.length = None;
        self.ranges.push((self.at, self.at + length));
        self.at += length + 2;
        self.missing -= 1;
        Ok(true)
    }

    /// Passes over what has arrived of an argument that is not kept; says whether that is all of
    /// it.
    fn skip(&mut self) -> bool {
        let arrived = (self.buffer.len() - self.at).min(self.skipped);
        self.at += arrived;
        self.skipped -= arrived;
        self.done = self.at;
        let complete = self.skipped == 0;
        self.missing -= usize::from(complete);
        complete
    }

    /// Reads the number behind the marker at `at`, up to the end of its line.
    fn number(
        &mut self,
        too_long: ProtocolError,
        invalid: ProtocolError,
    ) -> Result<Option<i64>, ProtocolError> {
        let Some(end) = self.find(b'\r') else {
            return if self.searched - self.at > MAX_LINE_BYTES { Err(too_long) } else { Ok(None) };
        };
        if end + 1 >= self.buffer.len() {
            return Ok(None);
        }
        let number = parse_integer(&self.buffer[self.at + 1..end]).ok_or(invalid)?;
        self.at = end + 2;
        Ok(Some(number))
    }

    fn inline(&mut self) -> Result<Step, ProtocolError> {
        let Some(end) = self.find(b'\n') else {
            return match self.searched - self.at > MAX_LINE_BYTES {
                true => Err(ProtocolError::LongInline),
                false => Ok(Step::Starved),
            };
        };
        let line = &self.buffer[self.at..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        inline::split(line, &mut self.inline, &mut self.ranges)?;
        self.at = end + 1;
        Ok(if self.ranges.is_empty() { Step::Nothing } else { Step::CompleteInline })
    }

    /// Where `byte` is next, from `at` on.
    fn find(&mut self, byte: u8) -> Option<usize> {
        let from = self.searched.max(self.at);
        match memchr(byte, &self.buffer[from..]) {
            Some(distance) => {
                // The line may lack its second byte yet; then it is found again at once.
                self.searched = from + distance;
                Some(from + distance)
            }
            None => {
                self.searched = self.buffer.len();
                None
            }
        }
    }
}
