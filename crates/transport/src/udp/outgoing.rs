//! Messages to send: kept until they are acknowledged, and sent again where they were lost.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use super::packet::Place;
use super::ranges::Ranges;

/// The length of the prefix that tells a message's length, as on a stream. It is part of the
/// message.
pub(super) const LENGTH_BYTES: usize = 4;

/// The bytes that each side may send before the other knows its identity.
pub(super) const FIRST_WINDOW_BYTES: usize = 4 << 10;

/// One message, by its place in the stream of all messages.
#[derive(Clone, Copy, Debug)]
struct Message {
    start: u64,
    total: u32,
}

/// Finds the beginnings of messages in the written bytes, however these are cut.
#[derive(Debug, Default)]
struct Cutter {
    length: [u8; LENGTH_BYTES],
    /// The number of bytes of the length prefix that are there.
    known: usize,
    /// The number of bytes of the message behind it that are missing.
    missing: usize,
}

impl Cutter {
    /// Continues with `bytes` at `offset`. Calls `each` for every message whose length becomes
    /// known.
    fn go_on(&mut self, mut offset: u64, mut bytes: &[u8], mut each: impl FnMut(Message)) {
        while !bytes.is_empty() {
            let skipped = self.missing.min(bytes.len());
            self.missing -= skipped;
            offset += skipped as u64;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let Some((&byte, rest)) = bytes.split_first() else { return };
            if let Some(place) = self.length.get_mut(self.known) {
                *place = byte;
            }
            (bytes, offset, self.known) = (rest, offset + 1, self.known + 1);
            if self.known == LENGTH_BYTES {
                let length = u32::from_le_bytes(self.length);
                (self.known, self.missing) = (0, length as usize);
                let start = offset - LENGTH_BYTES as u64;
                each(Message { start, total: length.saturating_add(LENGTH_BYTES as u32) });
            }
        }
    }
}

/// The sending half of a connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    /// Written bytes from the first unacknowledged one on, with the position of each chunk.
    written: VecDeque<(u64, Bytes)>,
    /// The current end of the stream.
    end: u64,
    cutter: Cutter,
    /// Messages that are not completely acknowledged.
    messages: VecDeque<Message>,
    /// The first byte that was never sent.
    next: u64,
    /// The other side accepts bytes up to here.
    limit: u64,
    acknowledged: Ranges,
    /// Ranges that were lost.
    again: VecDeque<Range<u64>>,
    /// Lost bytes from this one on are not sent again.
    gives_up_from: Option<u64>,
}

impl Outgoing {
    /// Adds bytes; messages may be cut anywhere.
    pub(super) fn write(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let messages = &mut self.messages;
        self.cutter.go_on(self.end, &bytes, |message| messages.push_back(message));
        let start = self.end;
        self.end += bytes.len() as u64;
        self.written.push_back((start, bytes));
    }

    /// The number of bytes kept.
    pub(super) fn kept(&self) -> usize {
        (self.end - self.acknowledged.prefix()) as usize
    }

    /// The current end of the stream.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Whether the other side has everything.
    pub(super) fn is_acknowledged(&self) -> bool {
        self.acknowledged.prefix() == self.end
    }

    /// The other side accepts more. The limit never shrinks: a lower one comes from an overtaken
    /// packet.
    pub(super) fn allow(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// The end of the bytes whose message has a known length.
    fn known(&self) -> u64 {
        let last = self.messages.back();
        last.map_or(0, |message| message.start + u64::from(message.total)).min(self.end)
    }

    /// The position up to which new bytes may be sent now. A message that does not fit the first
    /// window is not begun in it: the other side accepts no long message before it knows our
    /// identity.
    fn reach(&self) -> u64 {
        let Some(message) = self.message(self.next) else { return self.next };
        let end = message.start + u64::from(message.total);
        let may_begin = end <= self.limit || self.limit > message.start + FIRST_WINDOW_BYTES as u64;
        if may_begin { self.known().min(self.limit).min(end) } else { self.next }
    }

    /// Whether only the other side's limit prevents sending.
    pub(super) fn is_held(&self) -> bool {
        self.again.is_empty() && self.next < self.known() && self.next >= self.reach()
    }

    /// Whether there are bytes to send.
    pub(super) fn has_more(&self) -> bool {
        !self.again.is_empty() || self.next < self.reach()
    }

    /// Takes the next place to send: at most `room` bytes of one message.
    pub(super) fn take(&mut self, room: usize) -> Option<Place> {
        let room = room.min(usize::from(u16::MAX)) as u64;
        while let Some(lost) = self.again.pop_front() {
            // A part of it may have arrived after all.
            let mut missing = self.acknowledged.missing(&lost).into_iter();
            let Some(first) = missing.next() else { continue };
            missing.rev().for_each(|later| self.again.push_front(later));
            let end = first.end.min(first.start + room);
            if end < first.end {
                self.again.push_front(end..first.end);
            }
            return self.place(first.start..end);
        }
        let end = self.reach().min(self.next + room);
        if self.next >= end {
            return None;
        }
        let place = self.place(self.next..end);
        self.next = end;
        place
    }

    /// The message that contains `byte`, if its length is known.
    fn message(&self, byte: u64) -> Option<Message> {
        let place = self.messages.partition_point(|message| message.start <= byte);
        let message = *self.messages.get(place.checked_sub(1)?)?;
        (byte < message.start + u64::from(message.total)).then_some(message)
    }

    fn place(&self, range: Range<u64>) -> Option<Place> {
        let message = self.message(range.start)?;
        let at = (range.start - message.start) as u32..(range.end - message.start) as u32;
        Some(Place { start: message.start, total: message.total, at })
    }

    /// Appends the bytes of `place` to `out`.
    pub(super) fn copy(&self, place: &Place, out: &mut Vec<u8>) {
        let Range { mut start, end } = place.range();
        let first = self.written.partition_point(|(at, bytes)| at + bytes.len() as u64 <= start);
        for (at, bytes) in self.written.range(first..) {
            if start >= end {
                return;
            }
            let from = start.saturating_sub(*at) as usize;
            let to = (end.saturating_sub(*at) as usize).min(bytes.len());
            let Some(part) = bytes.get(from..to) else { return };
            out.extend_from_slice(part);
            start = at + to as u64;
        }
    }

    /// Records that these bytes arrived.
    pub(super) fn arrived(&mut self, range: Range<u64>) {
        self.acknowledged.insert(range);
        let prefix = self.acknowledged.prefix();
        while self.written.front().is_some_and(|(at, bytes)| at + bytes.len() as u64 <= prefix) {
            self.written.pop_front();
        }
        let whole = |message: &Message| message.start + u64::from(message.total) <= prefix;
        while self.messages.front().is_some_and(whole) {
            self.messages.pop_front();
        }
    }

    /// From the current end of the stream on, what is lost is not sent again.
    pub(super) fn give_up_lost(&mut self) {
        self.gives_up_from = Some(self.end);
    }

    /// Records that these bytes were lost.
    pub(super) fn lost(&mut self, range: Range<u64>) {
        match self.gives_up_from {
            Some(from) if range.start >= from => self.arrived(range),
            _ => self.again.push_back(range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &[u8]) -> Vec<u8> {
        [&(text.len() as u32).to_le_bytes(), text].concat()
    }

    #[test]
    fn pieces_end_where_messages_do_however_they_were_written() {
        let all = [message(b"one"), message(b""), message(b"three")].concat();
        for cut in 1..all.len() {
            let mut out = Outgoing::default();
            out.allow(u64::MAX);
            all.chunks(cut).for_each(|part| out.write(Bytes::copy_from_slice(part)));
            let mut places = Vec::new();
            while let Some(place) = out.take(100) {
                let mut bytes = Vec::new();
                out.copy(&place, &mut bytes);
                assert_eq!(bytes, all[place.range().start as usize..place.range().end as usize]);
                places.push((place.start, place.total, place.at));
            }
            assert_eq!(places, [(0, 7, 0..7), (7, 4, 0..4), (11, 9, 0..9)]);
        }
    }

    #[test]
    fn what_was_lost_is_sent_again_but_what_arrived_after_all_is_not() {
        let mut out = Outgoing::default();
        out.write(message(&[7; 96]).into());
        out.allow(99);
        assert!(out.is_held() && out.take(50).is_none(), "it does not fit");
        out.allow(100);
        let sent: Vec<_> = std::iter::from_fn(|| out.take(50)).map(|place| place.at).collect();
        assert_eq!(sent, [0..50, 50..100]);
        out.lost(0..50);
        out.lost(50..80);
        out.arrived(80..90);
        out.arrived(10..20);
        out.arrived(70..80);
        let again: Vec<_> = std::iter::from_fn(|| out.take(30)).map(|place| place.at).collect();
        assert_eq!(again, [0..10, 20..50, 50..70]);
        out.arrived(20..100);
        assert_eq!((out.kept(), out.is_acknowledged()), (100, false));
        out.arrived(0..10);
        assert_eq!((out.kept(), out.is_acknowledged()), (0, true));
    }
}
