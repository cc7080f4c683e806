//! The encoding of a packet: the plain text that DTLS carries in one datagram.
//!
//! All numbers are little-endian: number u64 | limit u64 | delay u32 | count u8 | count × (first
//! u64, last u64) | parts.
//!
//! - *Number*: the packet's own number, ascending and never used again.
//! - *Limit*: the position up to which the receiver of this packet may send bytes of messages.
//! - *First* and *last*: ranges of packet numbers that the sender received, the newest range first.
//! - *Delay*: microseconds since the newest of them arrived.
//!
//! A part begins with its kind:
//!
//! | kind | | |
//! |---|---|---|
//! | 0 | padding | up to the end of the packet |
//! | 1 | piece | start u64, total u32, at u32, length u16, bytes |
//! | 2 | end | u64: the end of the stream |
//! | 3 | ping | nothing; it must be acknowledged, as pieces and ends are |
//!
//! Of a piece, *start* is the position of its message in the stream of all messages' bytes, *total*
//! is the message's length, and *at* is the position of the piece in the message.

use std::ops::Range;

/// The most ranges that a packet acknowledges.
pub(super) const MAX_RANGES: usize = 32;
/// The length of number, limit, delay and count.
const HEADER_BYTES: usize = 8 + 8 + 4 + 1;
/// The length of one range.
const RANGE_BYTES: usize = 16;
/// The length of a piece's header.
pub(super) const PIECE_BYTES: usize = 1 + 8 + 4 + 4 + 2;

const PADDING: u8 = 0;
const PIECE: u8 = 1;
const END: u8 = 2;
const PING: u8 = 3;

/// The sender's state in every packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) number: u64,
    pub(super) limit: u64,
    pub(super) delay_us: u32,
}

/// The place of bytes in a message, and of the message in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The beginning of the message in the stream of all messages.
    pub(super) start: u64,
    /// The message's length.
    pub(super) total: u32,
    /// The range within the message.
    pub(super) at: Range<u32>,
}

impl Place {
    /// The same bytes as a range of the stream of all messages.
    pub(super) fn range(&self) -> Range<u64> {
        self.start + u64::from(self.at.start)..self.start + u64::from(self.at.end)
    }
}

/// One part of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part<'a> {
    Piece(Place, &'a [u8]),
    End(u64),
    Ping,
}

/// Begins a packet in `out`, which is cleared.
pub(super) fn begin<'a>(
    out: &mut Vec<u8>,
    header: &Header,
    arrived: impl Iterator<Item = &'a Range<u64>>,
) {
    out.clear();
    out.extend_from_slice(&header.number.to_le_bytes());
    out.extend_from_slice(&header.limit.to_le_bytes());
    out.extend_from_slice(&header.delay_us.to_le_bytes());
    out.push(0);
    let mut count = 0;
    for range in arrived.take(MAX_RANGES) {
        out.extend_from_slice(&range.start.to_le_bytes());
        out.extend_from_slice(&(range.end - 1).to_le_bytes());
        count += 1;
    }
    if let Some(place) = out.get_mut(HEADER_BYTES - 1) {
        *place = count;
    }
}

/// Begins a piece. The caller appends its bytes.
pub(super) fn piece(out: &mut Vec<u8>, place: &Place) {
    out.push(PIECE);
    out.extend_from_slice(&place.start.to_le_bytes());
    out.extend_from_slice(&place.total.to_le_bytes());
    out.extend_from_slice(&place.at.start.to_le_bytes());
    let length = place.at.end - place.at.start;
    out.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes());
}

/// Adds the end of the stream.
pub(super) fn end(out: &mut Vec<u8>, at: u64) {
    out.push(END);
    out.extend_from_slice(&at.to_le_bytes());
}

/// Adds a request for an acknowledgement.
pub(super) fn ping(out: &mut Vec<u8>) {
    out.push(PING);
}

/// Pads the packet to a length.
pub(super) fn pad(out: &mut Vec<u8>, length: usize) {
    if out.len() < length {
        out.resize(length, PADDING);
    }
}

/// A received packet.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    pub(super) header: Header,
    ranges: &'a [u8],
    parts: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Returns `None` if this is no packet: it is too short, or has too many ranges.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        let number = u64::from_le_bytes(take(&mut rest)?);
        let limit = u64::from_le_bytes(take(&mut rest)?);
        let delay_us = u32::from_le_bytes(take(&mut rest)?);
        let [count] = take(&mut rest)?;
        let count = usize::from(count);
        if count > MAX_RANGES {
            return None;
        }
        let (ranges, parts) = rest.split_at_checked(count * RANGE_BYTES)?;
        Some(Self { header: Header { number, limit, delay_us }, ranges, parts })
    }

    /// The numbers that the sender received, the newest first as written. Malformed ranges are
    /// skipped.
    pub(super) fn arrived(&self) -> impl Iterator<Item = Range<u64>> + use<'a> {
        let (ranges, _) = self.ranges.as_chunks::<RANGE_BYTES>();
        ranges.iter().filter_map(|range| {
            let mut range = &range[..];
            let first = u64::from_le_bytes(take(&mut range)?);
            let last = u64::from_le_bytes(take(&mut range)?);
            Some(first..last.checked_add(1)?).filter(|range| range.start < range.end)
        })
    }

    /// The parts. An `Err` ends them: a part is malformed.
    pub(super) fn parts(&self) -> Parts<'a> {
        Parts { rest: self.parts }
    }
}

/// The parts of a packet.
pub(super) struct Parts<'a> {
    rest: &'a [u8],
}

/// A malformed packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

impl<'a> Iterator for Parts<'a> {
    type Item = Result<Part<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, rest) = self.rest.split_first()?;
        if kind == PADDING {
            self.rest = &[];
            return None;
        }
        self.rest = rest;
        let part = match kind {
            PIECE => self.piece(),
            END => take(&mut self.rest).map(|at| Part::End(u64::from_le_bytes(at))),
            PING => Some(Part::Ping),
            _ => None,
        };
        if part.is_none() {
            self.rest = &[];
        }
        Some(part.ok_or(Malformed))
    }
}

impl<'a> Parts<'a> {
    /// Reads a piece. It must lie within its message, and the message within the range of
    /// positions.
    fn piece(&mut self) -> Option<Part<'a>> {
        let start = u64::from_le_bytes(take(&mut self.rest)?);
        let total = u32::from_le_bytes(take(&mut self.rest)?);
        let at = u32::from_le_bytes(take(&mut self.rest)?);
        let length = u16::from_le_bytes(take(&mut self.rest)?);
        let (bytes, rest) = self.rest.split_at_checked(usize::from(length))?;
        self.rest = rest;
        let end = at.checked_add(u32::from(length)).filter(|end| *end <= total)?;
        start.checked_add(u64::from(total))?;
        Some(Part::Piece(Place { start, total, at: at..end }, bytes))
    }
}

fn take<const N: usize>(from: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = from.split_first_chunk::<N>()?;
    *from = rest;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let header = Header { number: 7, limit: 1 << 40, delay_us: 250 };
        let mut bytes = b"of before".to_vec();
        begin(&mut bytes, &header, [3..9, 0..1].iter());
        let place = Place { start: 100, total: 50, at: 10..13 };
        piece(&mut bytes, &place);
        bytes.extend_from_slice(b"abc");
        ping(&mut bytes);
        end(&mut bytes, 150);
        pad(&mut bytes, 200);
        assert_eq!(bytes.len(), 200);
        let packet = Packet::read(&bytes).unwrap();
        assert_eq!(packet.header, header);
        assert_eq!(packet.arrived().collect::<Vec<_>>(), [3..9, 0..1]);
        let parts: Vec<_> = packet.parts().collect();
        assert_eq!(parts, [Ok(Part::Piece(place, b"abc")), Ok(Part::Ping), Ok(Part::End(150))]);
    }

    #[test]
    fn a_piece_beyond_its_message_is_refused() {
        let mut bytes = Vec::new();
        begin(&mut bytes, &Header::default(), [].iter());
        piece(&mut bytes, &Place { start: 0, total: 2, at: 0..3 });
        bytes.extend_from_slice(b"abc");
        assert_eq!(Packet::read(&bytes).unwrap().parts().collect::<Vec<_>>(), [Err(Malformed)]);
    }

    proptest! {
        #[test]
        fn whatever_arrives_is_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Some(packet) = Packet::read(&bytes) {
                prop_assert!(packet.arrived().all(|range| range.start < range.end));
                prop_assert!(packet.parts().count() <= bytes.len());
            }
        }
    }
}
