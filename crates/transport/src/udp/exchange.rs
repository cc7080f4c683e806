//! The packets of one connection in both directions: what to send, what is acknowledged, lost and
//! sent again (after RFC 9002). The module is pure: the caller passes the time and received
//! packets, and asks for packets to send.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::incoming::{Incoming, Misbehaved};
use super::outgoing::Outgoing;
use super::packet::{self, Header, PIECE_BYTES, Packet, Part};
use super::path::Path;

/// The bytes that DTLS adds to a packet: header 5, kind 1, tag 16 (RFC 9147, section 4).
pub(super) const RECORD_BYTES: usize = 22;
/// A packet is lost if the packet with this distance in numbers has arrived (RFC 9002, section
/// 6.1.1). The distance grows when packets are seen to overtake each other by more.
const REORDERED: u64 = 3;
/// The limit of that distance: the DTLS library discards packets that arrive later than this.
const MOST_REORDERED: u64 = 64;
/// The pause before asking again whether the other side has room.
const ASK_FOR_ROOM: Duration = Duration::from_millis(50);
/// The number of packets sent after a time-out.
const PROBES: u8 = 2;
/// The length of the end part.
const END_BYTES: usize = 9;

/// A sent packet that must be acknowledged.
#[derive(Debug)]
struct Sent {
    at: Instant,
    bytes: usize,
    /// The bytes of messages in the packet.
    ranges: Vec<Range<u64>>,
    /// Whether the packet contains the end.
    end: bool,
    /// The datagram length that this packet probes, if it is a probe.
    tries: Option<usize>,
}

/// The fate of a packet.
#[derive(Debug)]
enum Fate {
    Waited(Sent),
    /// Considered lost, and sent again. It may still arrive.
    Lost(Sent),
    Arrived,
}

/// The progress of our end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Not,
    Wanted,
    Sent,
    Acknowledged,
}

/// The packets of a connection.
#[derive(Debug)]
pub(super) struct Exchange {
    path: Path,
    out: Outgoing,
    into: Incoming,
    /// Packets that must be acknowledged, by number.
    sent: VecDeque<(u64, Fate)>,
    /// The number of the next packet.
    next: u64,
    /// The number of packets whose acknowledgement is awaited.
    unheard: usize,
    /// By how many numbers packets overtake each other.
    reordered: u64,
    /// The highest number that the other side has received.
    highest: Option<u64>,
    /// The time since which an acknowledgement is awaited.
    asked_at: Instant,
    /// Packets to send even if the window is full.
    probes: u8,
    ending: Ending,
    /// Whether a probe of a longer datagram is under way.
    trying: bool,
}

impl Exchange {
    /// A new exchange. Messages come in order, within a window of `window` bytes; the same number
    /// is sent until the other side allows more.
    pub(super) fn new(now: Instant, window: usize) -> Self {
        let mut out = Outgoing::default();
        out.allow(window as u64);
        Self {
            path: Path::new(),
            out,
            into: Incoming::new(now, window),
            sent: VecDeque::new(),
            next: 0,
            unheard: 0,
            reordered: REORDERED,
            highest: None,
            asked_at: now,
            probes: 0,
            ending: Ending::Not,
            trying: false,
        }
    }

    /// From now on each message is handed on when it is complete, and the limits are these.
    pub(super) fn open_up(&mut self, longest: usize, window: usize) -> Result<(), Misbehaved> {
        self.into.open_up(longest, window)
    }

    /// From now on neither end sends lost bytes of messages again, nor waits for any: UDP as it is,
    /// for a laboratory.
    pub(super) fn give_up_lost(&mut self) {
        self.out.give_up_lost();
        self.into.give_up_lost();
    }

    /// Sends everything written, even if the other side has not allowed it.
    #[cfg(test)]
    pub(super) fn disregard_limits(&mut self) {
        self.out.allow(u64::MAX);
    }

    /// Queues bytes of messages.
    pub(super) fn write(&mut self, bytes: Bytes) {
        self.out.write(bytes);
    }

    /// Bytes that are not acknowledged.
    pub(super) fn kept(&self) -> usize {
        self.out.kept()
    }

    /// Whether bytes wait that were never sent, or were lost.
    pub(super) fn has_more(&self) -> bool {
        self.out.has_more() || self.out.is_held()
    }

    /// Declares that nothing more will be written.
    pub(super) fn finish(&mut self) {
        if self.ending == Ending::Not {
            self.ending = Ending::Wanted;
        }
    }

    /// Whether the other side has everything, and knows that it is all.
    pub(super) fn is_finished(&self) -> bool {
        self.ending == Ending::Acknowledged && self.out.is_acknowledged()
    }

    /// The next messages received, each with its length in front. Before [`Self::open_up`] it is
    /// one.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        self.into.take()
    }

    /// Whether no more messages will come.
    pub(super) fn has_ended(&self) -> bool {
        self.into.has_ended()
    }

    /// Whether an acknowledgement must be sent now.
    pub(super) fn owes(&self, now: Instant) -> bool {
        self.into.due().is_some_and(|due| due <= now)
    }

    /// Acknowledges received packets at once.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.into.hurry(now);
    }

    /// Handles a received packet. A malformed packet is ignored, as on any network.
    pub(super) fn receive(&mut self, now: Instant, bytes: &[u8]) -> Result<(), Misbehaved> {
        let Some(packet) = Packet::read(bytes) else { return Ok(()) };
        let asks = packet.parts().next().is_some();
        if packet.header.number == u64::MAX || !self.into.note(now, packet.header.number, asks) {
            return Ok(());
        }
        self.out.allow(packet.header.limit);
        self.acknowledged(now, &packet)?;
        for part in packet.parts() {
            match part {
                Ok(Part::Piece(place, bytes)) => self.into.piece(&place, bytes)?,
                Ok(Part::End(at)) => self.into.end(at),
                Ok(Part::Ping) => {}
                Err(_) => return Err(Misbehaved("a part of no known kind")),
            }
        }
        Ok(())
    }

    fn acknowledged(&mut self, now: Instant, packet: &Packet<'_>) -> Result<(), Misbehaved> {
        let (mut below, mut newest) = (self.next, None);
        for range in packet.arrived() {
            if range.end > below {
                return Err(Misbehaved("it acknowledges what was not sent, or twice"));
            }
            below = range.start;
            let first = self.sent.partition_point(|(number, _)| *number < range.start);
            let last = self.sent.partition_point(|(number, _)| *number < range.end);
            for place in (first..last).rev() {
                newest = newest.max(self.arrived(place));
            }
        }
        if let Some((number, at)) = newest {
            if self.highest < Some(number) {
                self.highest = Some(number);
                let delay = Duration::from_micros(packet.header.delay_us.into());
                self.path.measured(now.saturating_duration_since(at), delay);
            }
            self.find_lost(now);
        }
        Ok(())
    }

    /// Handles the acknowledgement of the packet at `place`. Returns its number and the time it was
    /// sent, if that is new.
    fn arrived(&mut self, place: usize) -> Option<(u64, Instant)> {
        let (number, fate) = self.sent.get_mut(place)?;
        let number = *number;
        let sent = match std::mem::replace(fate, Fate::Arrived) {
            Fate::Arrived => return None,
            Fate::Waited(sent) => {
                self.unheard -= 1;
                self.path.arrived(number, sent.bytes, self.next);
                sent
            }
            Fate::Lost(sent) => {
                let by = self.highest.map_or(0, |highest| highest.saturating_sub(number));
                self.reordered = self.reordered.max(by + 1).min(MOST_REORDERED);
                self.path.found();
                sent
            }
        };
        sent.ranges.into_iter().for_each(|range| self.out.arrived(range));
        if sent.end {
            self.ending = Ending::Acknowledged;
        }
        if let Some(bytes) = sent.tries {
            self.trying = false;
            self.path.tried(bytes, true);
        }
        Some((number, sent.at))
    }

    /// Drops packets whose fate cannot change any more.
    fn forget(&mut self) {
        let recent = self.highest.map_or(0, |highest| highest.saturating_sub(MOST_REORDERED));
        let is_over = |(number, fate): &(u64, Fate)| match fate {
            Fate::Arrived => true,
            Fate::Lost(_) => *number < recent,
            Fate::Waited(_) => false,
        };
        while self.sent.front().is_some_and(is_over) {
            self.sent.pop_front();
        }
    }

    /// The oldest packet whose acknowledgement is awaited, with its number.
    fn oldest(&self) -> Option<(u64, &Sent)> {
        self.sent.iter().find_map(|(number, fate)| match fate {
            Fate::Waited(sent) => Some((*number, sent)),
            _ => None,
        })
    }

    /// The same, if a later packet has overtaken it.
    fn overtaken(&self) -> Option<&Sent> {
        let highest = self.highest?;
        self.oldest().filter(|(number, _)| *number < highest).map(|(_, sent)| sent)
    }

    fn find_lost(&mut self, now: Instant) {
        let highest = self.highest.unwrap_or(0);
        let before = now.checked_sub(self.path.lost_after());
        let mut place = 0;
        while let Some((number, fate)) =
            self.sent.get(place).filter(|(number, _)| *number < highest)
        {
            if let Fate::Waited(sent) = fate {
                let is_late = before.is_some_and(|before| sent.at <= before);
                if highest - number < self.reordered && !is_late {
                    break;
                }
                self.lost(place);
            }
            place += 1;
        }
        self.forget();
    }

    fn lost(&mut self, place: usize) {
        let Some((number, fate)) = self.sent.get_mut(place) else { return };
        let sent = match std::mem::replace(fate, Fate::Arrived) {
            Fate::Waited(sent) => sent,
            other => {
                *fate = other;
                return;
            }
        };
        self.unheard -= 1;
        sent.ranges.iter().for_each(|range| self.out.lost(range.clone()));
        if sent.end && self.ending == Ending::Sent {
            self.ending = Ending::Wanted;
        }
        match sent.tries {
            // The datagram was too long. That is no sign of congestion.
            Some(bytes) => {
                self.trying = false;
                self.path.tried(bytes, false);
                self.path.withdrawn(sent.bytes);
            }
            None => {
                self.path.lost(*number, sent.bytes);
                *fate = Fate::Lost(sent);
            }
        }
    }

    /// The time at which to ask for an acknowledgement again.
    fn probe_at(&self) -> Option<Instant> {
        let after = self.path.probe_after();
        if self.unheard > 0 {
            return Some(self.asked_at + after);
        }
        self.out.is_held().then(|| self.asked_at + after.max(ASK_FOR_ROOM))
    }

    /// The time at which [`Self::transmit`] will have something to send, if it has nothing now.
    pub(super) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let lost = self.overtaken().map(|sent| sent.at + self.path.lost_after());
        let wants = self.out.has_more() || self.ending == Ending::Wanted;
        let paced = wants.then(|| self.path.resumes(now, self.path.datagram()));
        let all = [self.into.due(), self.probe_at(), lost, paced.flatten()];
        all.into_iter().flatten().min()
    }

    /// Handles the passage of time.
    fn tick(&mut self, now: Instant) {
        self.find_lost(now);
        if self.probe_at().is_some_and(|at| at <= now) {
            self.path.timed_out(self.next);
            (self.asked_at, self.probes) = (now, PROBES);
            // A probe repeats the bytes that have waited longest.
            let oldest = self.oldest().map(|(_, sent)| (sent.ranges.clone(), sent.end));
            if let Some((ranges, end)) = oldest {
                ranges.into_iter().for_each(|range| self.out.lost(range));
                if end && self.ending == Ending::Sent {
                    self.ending = Ending::Wanted;
                }
            }
        }
    }

    /// Writes the next packet into `packet`. Returns whether there was one.
    pub(super) fn transmit(&mut self, now: Instant, packet: &mut Vec<u8>) -> bool {
        self.tick(now);
        let ends = self.ending == Ending::Wanted && !self.has_more();
        let wanted = self.out.has_more() || ends;
        let probes = self.probes > 0;
        let carries = probes || (wanted && self.path.has_room(now, self.path.datagram()));
        let tries = self.path.to_try().filter(|_| !carries && self.may_try());
        if !carries && !self.owes(now) && tries.is_none() && !self.into.has_room_to_tell() {
            return false;
        }
        let delay = self.into.acknowledge(now).as_micros();
        let delay_us = u32::try_from(delay).unwrap_or(u32::MAX);
        let header = Header { number: self.next, limit: self.into.limit(), delay_us };
        packet::begin(packet, &header, self.into.numbers());
        self.next += 1;
        let mut sent = Sent { at: now, bytes: 0, ranges: Vec::new(), end: false, tries };
        if carries {
            self.fill(packet, &mut sent);
        }
        if let Some(length) = tries {
            packet::ping(packet);
            packet::pad(packet, length - RECORD_BYTES);
            self.trying = true;
        } else if probes && sent.ranges.is_empty() && !sent.end {
            packet::ping(packet);
        } else if sent.ranges.is_empty() && !sent.end {
            // It needs no acknowledgement, so only its number is remembered.
            return true;
        }
        self.probes = self.probes.saturating_sub(1);
        sent.bytes = packet.len() + RECORD_BYTES;
        self.path.sent(sent.bytes);
        self.sent.push_back((header.number, Fate::Waited(sent)));
        self.unheard += 1;
        self.asked_at = now;
        true
    }

    /// Longer datagrams are probed one at a time, and only after the current length works both
    /// ways.
    fn may_try(&self) -> bool {
        !self.trying && self.highest.is_some() && self.ending == Ending::Not
    }

    /// Fills a packet with everything that is ready to send.
    fn fill(&mut self, packet: &mut Vec<u8>, sent: &mut Sent) {
        let length = self.path.datagram() - RECORD_BYTES;
        loop {
            let room = length.saturating_sub(packet.len() + PIECE_BYTES);
            let Some(place) = (room > 0).then(|| self.out.take(room)).flatten() else { break };
            packet::piece(packet, &place);
            self.out.copy(&place, packet);
            sent.ranges.push(place.range());
        }
        let fits = packet.len() + END_BYTES <= length;
        if self.ending == Ending::Wanted && !self.has_more() && fits {
            packet::end(packet, self.out.end());
            (sent.end, self.ending) = (true, Ending::Sent);
        }
    }
}

#[cfg(test)]
mod tests;
