//! Received messages: reassembled from pieces and handed on whole.
//!
//! **No waiting between messages.** A complete message does not wait for an earlier one that lacks
//! a piece. On a stream a lost piece delays everything behind it; here it delays its own message
//! only. Protocols accept messages in any order. Until [`Incoming::open_up`] messages are handed on
//! in order, because hellos require it.
//!
//! **Bounded.** The other side may be ahead of the reader by a fixed number of bytes. The memory
//! for a message is zeroed pages. The system provides a page when it is written to, so memory grows
//! with the bytes received.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::outgoing::LENGTH_BYTES;
use super::packet::{MAX_RANGES, Place};
use super::path::ACKNOWLEDGE_WITHIN;
use super::ranges::Ranges;

/// At this number of packets an acknowledgement is due at once.
const ACKNOWLEDGED_TOGETHER: u32 = 8;
/// The most gaps in all messages and between them: as many as a full window has if a third of its
/// pieces are lost.
const MOST_GAPS: usize = 1 << 13;
/// Messages below this length are joined, up to the same total length.
const SMALL_BYTES: usize = 2 << 10;
const TOGETHER_BYTES: usize = 64 << 10;

/// A violation of this protocol by the other side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misbehaved(pub(super) &'static str);

/// A message that is incomplete, or waits for an earlier one.
#[derive(Debug)]
struct Unfinished {
    bytes: Vec<u8>,
    there: Ranges,
}

impl Unfinished {
    fn is_whole(&self) -> bool {
        self.there.prefix() == self.bytes.len() as u64
    }
}

/// The receiving half of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Bytes that may be received and not yet taken.
    window: u64,
    /// The longest message, length prefix included.
    longest: usize,
    in_order: bool,
    /// Whether the other side sends nothing again.
    gives_up: bool,
    /// The numbers of received packets.
    numbers: Ranges,
    newest_at: Instant,
    /// Packets to acknowledge, and the deadline for that.
    unacknowledged: u32,
    due: Option<Instant>,
    unfinished: BTreeMap<u64, Unfinished>,
    /// The number of gaps in incomplete messages.
    gaps: usize,
    /// The bytes of complete messages.
    done: Ranges,
    whole: VecDeque<Bytes>,
    /// Small messages, joined. Millions of tiny messages must not take more memory than their
    /// bytes.
    small: Vec<u8>,
    taken: u64,
    /// The limit that the other side was told last.
    told: u64,
    end: Option<u64>,
    /// Whether a message is too long. Its length prefix is then the last thing handed on.
    oversized: bool,
}

impl Incoming {
    /// A new receiving half. It takes messages in order, within a window of `window` bytes, which
    /// also bounds their length.
    pub(super) fn new(now: Instant, window: usize) -> Self {
        Self {
            window: window as u64,
            longest: window,
            in_order: true,
            gives_up: false,
            numbers: Ranges::default(),
            newest_at: now,
            unacknowledged: 0,
            due: None,
            unfinished: BTreeMap::new(),
            gaps: 0,
            done: Ranges::default(),
            whole: VecDeque::new(),
            small: Vec::new(),
            taken: 0,
            told: window as u64,
            end: None,
            oversized: false,
        }
    }

    /// From now on each message is handed on when it is complete. It may have `longest` bytes;
    /// `window` must have room for at least one.
    pub(super) fn open_up(&mut self, longest: usize, window: usize) -> Result<(), Misbehaved> {
        (self.longest, self.window, self.in_order) = (longest, window as u64, false);
        let starts: Vec<u64> = self.unfinished.keys().copied().collect();
        starts.into_iter().try_for_each(|start| self.hand_on(start))
    }

    /// From now on the other side does not send again what was lost: a message that lacks a piece
    /// when half a window more has come is forgotten.
    pub(super) fn give_up_lost(&mut self) {
        self.gives_up = true;
    }

    /// Forgets what has not come before `end`, as if it had been taken.
    fn give_up_before(&mut self, end: u64) {
        while let Some(first) = self.unfinished.first_entry().filter(|first| *first.key() < end) {
            self.gaps -= first.remove().there.len();
        }
        let missing = self.done.missing(&(0..end)).into_iter();
        self.taken += missing.map(|range| range.end - range.start).sum::<u64>();
        self.done.insert(0..end);
    }

    /// The numbers of received packets, the newest first.
    pub(super) fn numbers(&self) -> impl Iterator<Item = &Range<u64>> {
        self.numbers.newest()
    }

    /// The position up to which the other side may send.
    pub(super) fn limit(&self) -> u64 {
        self.taken + self.window
    }

    /// Whether the limit has moved far enough to tell the other side.
    pub(super) fn has_room_to_tell(&self) -> bool {
        self.limit() - self.told.min(self.limit()) >= self.window / 4
    }

    /// The time by which packets must be acknowledged.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Requests an acknowledgement without waiting for more packets.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = self.due.map(|due| due.min(now));
    }

    /// Marks all received packets as acknowledged. Returns how long the newest has waited.
    pub(super) fn acknowledge(&mut self, now: Instant) -> Duration {
        (self.unacknowledged, self.due, self.told) = (0, None, self.limit());
        now.saturating_duration_since(self.newest_at)
    }

    /// Records a received packet and returns whether it is new. `asks`: it must be acknowledged.
    pub(super) fn note(&mut self, now: Instant, number: u64, asks: bool) -> bool {
        if self.numbers.contains(number) {
            return false;
        }
        let expected = self.numbers.newest().next().map_or(0, |range| range.end);
        self.numbers.insert(number..number + 1);
        self.numbers.keep_newest(MAX_RANGES);
        if number >= expected {
            self.newest_at = now;
        }
        if asks {
            self.unacknowledged += 1;
            let at_once = number != expected || self.unacknowledged >= ACKNOWLEDGED_TOGETHER;
            let by = if at_once { now } else { now + ACKNOWLEDGE_WITHIN };
            self.due = Some(self.due.map_or(by, |due| due.min(by)));
        }
        true
    }

    /// Handles a piece.
    pub(super) fn piece(&mut self, place: &Place, bytes: &[u8]) -> Result<(), Misbehaved> {
        let total = place.total as usize;
        if self.oversized || self.done.contains(place.start) {
            return Ok(());
        }
        if total < LENGTH_BYTES {
            return Err(Misbehaved("a message shorter than its length"));
        }
        if total > self.longest {
            // The reader refuses the message because of its length.
            if let Some(length) = bytes.get(..LENGTH_BYTES).filter(|_| place.at.start == 0) {
                self.put(Bytes::copy_from_slice(length));
                self.oversized = true;
            }
            return Ok(());
        }
        if place.range().end > self.told {
            return Err(Misbehaved("more than it may send"));
        }
        if self.gives_up {
            self.give_up_before(place.start.saturating_sub(self.window / 2));
        }
        if self.overlaps(place.start, total as u64) {
            return Err(Misbehaved("messages that overlap"));
        }
        if bytes.len() == total && (!self.in_order || self.done.prefix() == place.start) {
            if let Some(part) = self.unfinished.remove(&place.start) {
                self.gaps -= part.there.len();
            }
            self.check(place.start, bytes)?;
            match bytes.len() < SMALL_BYTES && !self.in_order {
                true => self.put_small(bytes),
                false => self.put(Bytes::copy_from_slice(bytes)),
            }
            return self.hand_on(self.done.prefix());
        }
        let there = self
            .unfinished
            .entry(place.start)
            .or_insert_with(|| Unfinished { bytes: vec![0; total], there: Ranges::default() });
        let at = place.at.start as usize..place.at.end as usize;
        let is_same = there.bytes.len() == total;
        let Some(into) = there.bytes.get_mut(at).filter(|_| is_same) else {
            return Err(Misbehaved("two lengths of one message"));
        };
        into.copy_from_slice(bytes);
        let before = there.there.len();
        there.there.insert(u64::from(place.at.start)..u64::from(place.at.end));
        self.gaps = self.gaps + there.there.len() - before;
        if self.gaps + self.unfinished.len() + self.done.len() > MOST_GAPS {
            return Err(Misbehaved("too many gaps"));
        }
        self.hand_on(place.start)
    }

    /// Whether a message shares bytes with another one. Messages may not overlap, so all of them
    /// together need no more memory than the window.
    fn overlaps(&self, start: u64, total: u64) -> bool {
        let end = start + total;
        let before = self.unfinished.range(..end).next_back();
        let unfinished = before.is_some_and(|(other, there)| {
            *other != start && other + there.bytes.len() as u64 > start
        });
        unfinished || self.done.overlaps(&(start..end))
    }

    /// Hands on the message that begins at `start`, and those that waited for it, if they are
    /// complete.
    fn hand_on(&mut self, mut start: u64) -> Result<(), Misbehaved> {
        while !self.in_order || start == self.done.prefix() {
            if !self.unfinished.get(&start).is_some_and(Unfinished::is_whole) {
                break;
            }
            let Some(whole) = self.unfinished.remove(&start) else { break };
            self.gaps -= whole.there.len();
            let next = start + whole.bytes.len() as u64;
            self.check(start, &whole.bytes)?;
            self.put(whole.bytes.into());
            start = next;
        }
        Ok(())
    }

    /// Checks a complete message and records it.
    fn check(&mut self, start: u64, message: &[u8]) -> Result<(), Misbehaved> {
        let length =
            message.first_chunk::<LENGTH_BYTES>().map(|length| u32::from_le_bytes(*length));
        if length.map(|length| length as usize + LENGTH_BYTES) != Some(message.len()) {
            return Err(Misbehaved("a message of another length than it says"));
        }
        self.done.insert(start..start + message.len() as u64);
        if self.done.len() > MOST_GAPS {
            return Err(Misbehaved("too many gaps"));
        }
        Ok(())
    }

    fn put(&mut self, message: Bytes) {
        if !self.small.is_empty() {
            self.whole.push_back(std::mem::take(&mut self.small).into());
        }
        self.whole.push_back(message);
    }

    fn put_small(&mut self, message: &[u8]) {
        if self.small.len() + message.len() > TOGETHER_BYTES {
            self.whole.push_back(std::mem::take(&mut self.small).into());
        }
        self.small.extend_from_slice(message);
    }

    /// The other side sends nothing beyond `at`.
    pub(super) fn end(&mut self, at: u64) {
        self.end = Some(at);
        if self.gives_up && at <= self.told {
            self.give_up_before(at);
        }
    }

    /// Whether everything sent was handed on, except a message whose rest will never come.
    pub(super) fn has_ended(&self) -> bool {
        let handed_on = self.done.prefix();
        let rest = self.unfinished.get(&handed_on).map_or(0, |message| message.there.prefix());
        self.whole.is_empty()
            && self.small.is_empty()
            && (self.oversized || self.end == Some(handed_on + rest))
    }

    /// The next messages, each with its length in front. In order mode it is one.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        let messages = match self.whole.pop_front() {
            Some(message) => message,
            None if self.small.is_empty() => return None,
            None => std::mem::take(&mut self.small).into(),
        };
        self.taken += messages.len() as u64;
        Some(messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(length: u8) -> Vec<u8> {
        let body = vec![length; usize::from(length)];
        [&u32::from(length).to_le_bytes()[..], &body].concat()
    }

    /// A piece of the message that begins at `start`.
    fn put(into: &mut Incoming, start: u64, length: u8, at: Range<u32>) -> Result<(), Misbehaved> {
        let bytes = message(length)[at.start as usize..at.end as usize].to_vec();
        into.piece(&Place { start, total: u32::from(length) + 4, at }, &bytes)
    }

    fn taken(into: &mut Incoming) -> Vec<usize> {
        let mut bytes = std::iter::from_fn(|| into.take()).flatten().peekable();
        let mut lengths = Vec::new();
        while bytes.peek().is_some() {
            let length: Vec<u8> = bytes.by_ref().take(4).collect();
            lengths.push(u32::from_le_bytes(length.try_into().unwrap()) as usize);
            bytes.by_ref().take(lengths[lengths.len() - 1]).for_each(drop);
        }
        lengths
    }

    fn incoming(window: usize) -> Incoming {
        Incoming::new(Instant::now(), window)
    }

    #[test]
    fn a_message_does_not_wait_for_one_before_it_once_that_is_allowed() {
        for (allowed, first) in [(false, vec![]), (true, vec![20])] {
            let mut into = incoming(1000);
            if allowed {
                into.open_up(104, 1000).unwrap();
            }
            put(&mut into, 0, 10, 0..6).unwrap();
            put(&mut into, 14, 20, 0..24).unwrap();
            assert_eq!(taken(&mut into), first);
            put(&mut into, 0, 10, 4..14).unwrap();
            let then = if allowed { vec![10] } else { vec![10, 20] };
            assert_eq!(taken(&mut into), then);
            // A repeated piece changes nothing.
            put(&mut into, 14, 20, 0..24).unwrap();
            put(&mut into, 0, 10, 0..14).unwrap();
            assert_eq!(taken(&mut into), [0; 0]);
            into.end(38);
            assert!(into.has_ended());
        }
    }

    #[test]
    fn what_waited_for_its_turn_is_handed_on_when_turns_end() {
        let mut into = incoming(1000);
        put(&mut into, 14, 20, 0..24).unwrap();
        assert_eq!(taken(&mut into), [0; 0]);
        into.open_up(104, 1000).unwrap();
        assert_eq!(taken(&mut into), [20]);
    }

    #[test]
    fn a_message_whose_rest_will_never_come_is_not_waited_for() {
        let mut into = incoming(1000);
        put(&mut into, 0, 10, 0..6).unwrap();
        into.end(9);
        assert!(!into.has_ended());
        put(&mut into, 0, 10, 6..9).unwrap();
        assert!(into.has_ended() && into.take().is_none());
    }

    #[test]
    fn no_more_may_come_than_was_taken_and_the_window() {
        let mut into = incoming(50);
        put(&mut into, 0, 46, 0..50).unwrap();
        let more = put(&mut into, 50, 1, 0..5);
        assert_eq!(more, Err(Misbehaved("more than it may send")));
        assert!(!into.has_room_to_tell());
        assert_eq!(taken(&mut into), [46]);
        assert!(into.has_room_to_tell());
        into.acknowledge(Instant::now());
        put(&mut into, 50, 1, 0..5).unwrap();
    }

    #[test]
    fn lengths_that_contradict_each_other_are_refused() {
        let place = |total, at| Place { start: 0, total, at };
        for (pieces, reason) in [
            (vec![(place(3, 0..3), &b"abc"[..])], "a message shorter than its length"),
            (
                vec![(place(6, 0..6), &b"\x01\0\0\0ab"[..])],
                "a message of another length than it says",
            ),
            (
                vec![(place(9, 0..1), &b"\x05"[..]), (place(8, 1..2), &b"\0"[..])],
                "two lengths of one message",
            ),
        ] {
            let mut into = incoming(1000);
            let last = pieces.iter().map(|(place, bytes)| into.piece(place, bytes)).last();
            assert_eq!(last, Some(Err(Misbehaved(reason))));
        }
    }

    #[test]
    fn of_a_message_that_is_too_long_only_its_length_is_handed_on() {
        let mut into = incoming(150);
        put(&mut into, 0, 200, 0..100).unwrap();
        assert_eq!(into.take().unwrap(), &200u32.to_le_bytes()[..]);
        assert!(into.has_ended());
    }

    #[test]
    fn messages_do_not_share_bytes() {
        for (start, length) in [(0, 30), (4, 1), (10, 20), (13, 1), (20, 2)] {
            let mut into = incoming(1000);
            put(&mut into, 10, 10, 0..6).unwrap();
            let result = put(&mut into, start, length, 0..1);
            let (end, there) = (start + u64::from(length) + 4, 10..24);
            let shares = start != there.start && start < there.end && end > there.start;
            let found = if shares { Err(Misbehaved("messages that overlap")) } else { Ok(()) };
            // The same message with another length.
            let same = Err(Misbehaved("two lengths of one message"));
            assert_eq!(result, if start == there.start { same } else { found }, "{start} {length}");
        }
        let mut into = incoming(1000);
        into.open_up(104, 1000).unwrap();
        put(&mut into, 10, 10, 0..14).unwrap();
        assert!(put(&mut into, 5, 10, 0..1).is_err(), "it was handed on");
    }

    #[test]
    fn gaps_are_counted() {
        let mut into = incoming(1 << 20);
        let mut result = Ok(());
        for at in (0..1 << 20).step_by(2) {
            let place = Place { start: 0, total: 1 << 20, at: at..at + 1 };
            result = into.piece(&place, b"\0");
            if result.is_err() {
                break;
            }
        }
        assert_eq!(result, Err(Misbehaved("too many gaps")));
    }

    #[test]
    fn packets_are_acknowledged_together_but_gaps_at_once() {
        let now = Instant::now();
        let mut into = incoming(1000);
        assert!(into.note(now, 0, true));
        assert!(!into.note(now, 0, true), "twice");
        assert_eq!(into.due(), Some(now + ACKNOWLEDGE_WITHIN));
        into.note(now, 1, false);
        into.note(now, 3, true);
        assert_eq!(into.due(), Some(now), "2 is missing");
        into.acknowledge(now);
        assert_eq!(into.numbers().cloned().collect::<Vec<_>>(), [3..4, 0..2]);
        for number in 4..11 {
            into.note(now, number, true);
            assert_eq!(into.due(), Some(now + ACKNOWLEDGE_WITHIN), "{number}");
        }
        into.note(now, 11, true);
        assert_eq!(into.due(), Some(now));
    }
}
