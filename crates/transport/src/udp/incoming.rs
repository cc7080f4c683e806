//! Messages on their way in: put together from pieces, and handed on whole.
//!
//! **Each when it is whole.** A message does not wait for one before it of which a piece is missing: what is lost
//! on a stream holds up everything behind it, here it holds up itself. Protocols take messages in any
//! order. Until [`Incoming::open_up`] they come in order: hellos do.
//!
//! **Bounded.** The other side may have sent so many bytes more than were taken, and no more. Room for a message is zeroed
//! pages that the system gives when they are written to, so that memory grows with what came.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::outgoing::LENGTH_BYTES;
use super::packet::{MAX_RANGES, Place};
use super::path::ACKNOWLEDGE_WITHIN;
use super::ranges::Ranges;

/// So many packets are acknowledged at once, if not earlier.
const ACKNOWLEDGED_TOGETHER: u32 = 8;
/// Most gaps, in all messages and between them: what a whole window has if a third of its pieces are lost.
const MOST_GAPS: usize = 1 << 13;
/// Messages below this are put behind each other, as long as there are fewer bytes of them than that.
const SMALL_BYTES: usize = 2 << 10;
const TOGETHER_BYTES: usize = 64 << 10;

/// What no participant that keeps to this protocol does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Misbehaved(pub(super) &'static str);

/// A message of which something is missing, or an earlier one.
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
    /// Bytes that may have come and not been taken.
    window: u64,
    /// The longest message, with its length.
    longest: usize,
    in_order: bool,
    /// Of packets.
    numbers: Ranges,
    newest_at: Instant,
    /// Packets to acknowledge, and until when.
    unacknowledged: u32,
    due: Option<Instant>,
    unfinished: BTreeMap<u64, Unfinished>,
    /// Gaps in those.
    gaps: usize,
    /// Bytes of messages that were whole.
    done: Ranges,
    whole: VecDeque<Bytes>,
    /// Small ones behind those: millions of the smallest must not take more than their bytes.
    small: Vec<u8>,
    taken: u64,
    /// The limit that was told last.
    told: u64,
    end: Option<u64>,
    /// A message is too long: its length is the last that is handed on.
    oversized: bool,
}

impl Incoming {
    /// Takes messages in order, `window` bytes before they are taken, and none longer than that.
    pub(super) fn new(now: Instant, window: usize) -> Self {
        Self {
            window: window as u64,
            longest: window,
            in_order: true,
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

    /// From now on each message when it is whole, of `longest` bytes at most; at least one must fit into `window`.
    pub(super) fn open_up(&mut self, longest: usize, window: usize) -> Result<(), Misbehaved> {
        (self.longest, self.window, self.in_order) = (longest, window as u64, false);
        let starts: Vec<u64> = self.unfinished.keys().copied().collect();
        starts.into_iter().try_for_each(|start| self.hand_on(start))
    }

    /// The numbers of packets that came, the newest first.
    pub(super) fn numbers(&self) -> impl Iterator<Item = &Range<u64>> {
        self.numbers.newest()
    }

    /// Up to where bytes may be sent here.
    pub(super) fn limit(&self) -> u64 {
        self.taken + self.window
    }

    /// Whether the limit has moved so far that it should be told.
    pub(super) fn has_room_to_tell(&self) -> bool {
        self.limit() - self.told.min(self.limit()) >= self.window / 4
    }

    /// When packets must be acknowledged.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What came is to be acknowledged without waiting for more.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.due = self.due.map(|due| due.min(now));
    }

    /// All that came is acknowledged now. How long the newest has waited.
    pub(super) fn acknowledge(&mut self, now: Instant) -> Duration {
        (self.unacknowledged, self.due, self.told) = (0, None, self.limit());
        now.saturating_duration_since(self.newest_at)
    }

    /// Notes that a packet came; whether it is new. `asks`: it is to be acknowledged.
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

    /// Takes a piece.
    pub(super) fn piece(&mut self, place: &Place, bytes: &[u8]) -> Result<(), Misbehaved> {
        let total = place.total as usize;
        if self.oversized || self.done.contains(place.start) {
            return Ok(());
        }
        if total < LENGTH_BYTES {
            return Err(Misbehaved("a message shorter than its length"));
        }
        if total > self.longest {
            // Whoever reads refuses it for its length.
            if let Some(length) = bytes.get(..LENGTH_BYTES).filter(|_| place.at.start == 0) {
                self.put(Bytes::copy_from_slice(length));
                self.oversized = true;
            }
            return Ok(());
        }
        if place.range().end > self.told {
            return Err(Misbehaved("more than it may send"));
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

    /// Whether a message shares bytes with another one. Each is where the one before it ends, so that room for all is no more
    /// than may come.
    fn overlaps(&self, start: u64, total: u64) -> bool {
        let end = start + total;
        let before = self.unfinished.range(..end).next_back();
        let unfinished = before.is_some_and(|(other, there)| {
            *other != start && other + there.bytes.len() as u64 > start
        });
        unfinished || self.done.overlaps(&(start..end))
    }

    /// Hands on the message that begins at `start`, and those that waited for it, if they are whole.
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

    /// Notes that a message is whole.
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
    }

    /// Whether everything that was sent was handed on, but for a message whose rest will never come.
    pub(super) fn has_ended(&self) -> bool {
        let handed_on = self.done.prefix();
        let rest = self.unfinished.get(&handed_on).map_or(0, |message| message.there.prefix());
        self.whole.is_empty()
            && self.small.is_empty()
            && (self.oversized || self.end == Some(handed_on + rest))
    }

    /// The next messages, each with its length in front; in order: one.
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

    /// Part of that message, which begins at `start`.
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
            // Again is nothing new.
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
            // The same one of another length.
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
