//! One connection's packets, both ways: what is sent, acknowledged, lost and sent again (after RFC 9002). Pure: what
//! time it is comes from outside, as do packets; what to send is asked for.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::incoming::{Incoming, Misbehaved};
use super::outgoing::Outgoing;
use super::packet::{self, Header, PIECE_BYTES, Packet, Part};
use super::path::Path;

/// What DTLS adds to a packet: header 5, kind 1, tag 16 (RFC 9147, section 4).
pub(super) const RECORD_BYTES: usize = 22;
/// A packet is lost if one sent so many later arrived (RFC 9002, section 6.1.1): until packets are seen to overtake
/// each other by more.
const REORDERED: u64 = 3;
/// At most: DTLS here forgets what comes so much later.
const MOST_REORDERED: u64 = 64;
/// Asking somebody who takes nothing whether there is room by now.
const ASK_FOR_ROOM: Duration = Duration::from_millis(50);
/// Packets after a time-out.
const PROBES: u8 = 2;
/// The end takes that.
const END_BYTES: usize = 9;

/// A packet that is to be acknowledged.
#[derive(Debug)]
struct Sent {
    at: Instant,
    bytes: usize,
    /// Bytes of messages in it.
    ranges: Vec<Range<u64>>,
    /// The end is in it.
    end: bool,
    /// It was sent to see whether so long a datagram arrives.
    tries: Option<usize>,
}

/// What became of a packet.
#[derive(Debug)]
enum Fate {
    Waited(Sent),
    /// Taken for lost, and sent again: it may still arrive.
    Lost(Sent),
    Arrived,
}

/// How far the end of what is sent from here has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Not,
    Wanted,
    Sent,
    Acknowledged,
}

/// A connection's packets.
#[derive(Debug)]
pub(super) struct Exchange {
    path: Path,
    out: Outgoing,
    into: Incoming,
    /// What was sent that is to be acknowledged, by number.
    sent: VecDeque<(u64, Fate)>,
    /// The number of the next packet.
    next: u64,
    /// How many packets are waited for.
    unheard: usize,
    /// By how much packets overtake each other.
    reordered: u64,
    /// The highest number that arrived there.
    highest: Option<u64>,
    /// Since when an acknowledgement is waited for.
    asked_at: Instant,
    /// Packets to send though the window is full.
    probes: u8,
    ending: Ending,
    /// A longer datagram is under way.
    trying: bool,
}

impl Exchange {
    /// Messages come in order, `window` bytes of them. As many are sent until the other side says more.
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

    /// From now on messages come each when it is whole, and may be of other lengths.
    pub(super) fn open_up(&mut self, longest: usize, window: usize) -> Result<(), Misbehaved> {
        self.into.open_up(longest, window)
    }

    /// Sends whatever is written, though the other side has not allowed it.
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

    /// Whether something waits that was never sent, or was lost.
    pub(super) fn has_more(&self) -> bool {
        self.out.has_more() || self.out.is_held()
    }

    /// Nothing more will be written.
    pub(super) fn finish(&mut self) {
        if self.ending == Ending::Not {
            self.ending = Ending::Wanted;
        }
    }

    /// Whether the other side has everything and knows that it is all.
    pub(super) fn is_finished(&self) -> bool {
        self.ending == Ending::Acknowledged && self.out.is_acknowledged()
    }

    /// The next messages that came, each with its length in front; before [`Self::open_up`] one.
    pub(super) fn take(&mut self) -> Option<Bytes> {
        self.into.take()
    }

    /// Whether nothing more will come.
    pub(super) fn has_ended(&self) -> bool {
        self.into.has_ended()
    }

    /// Whether packets are to be acknowledged now.
    pub(super) fn owes(&self, now: Instant) -> bool {
        self.into.due().is_some_and(|due| due <= now)
    }

    /// Acknowledges at once what came.
    pub(super) fn hurry(&mut self, now: Instant) {
        self.into.hurry(now);
    }

    /// Takes a packet. What is none is passed over, as on any network.
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

    /// The packet at this place arrived. Which, and when it was sent, if that is news.
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

    /// Drops what nothing can be heard of any more.
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

    /// The packet that is waited for longest: its number, and what it was.
    fn oldest(&self) -> Option<(u64, &Sent)> {
        self.sent.iter().find_map(|(number, fate)| match fate {
            Fate::Waited(sent) => Some((*number, sent)),
            _ => None,
        })
    }

    /// The same, if a later one has overtaken it.
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
            // That it was too long says nothing of the way.
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

    /// When an acknowledgement is asked for again.
    fn probe_at(&self) -> Option<Instant> {
        let after = self.path.probe_after();
        if self.unheard > 0 {
            return Some(self.asked_at + after);
        }
        self.out.is_held().then(|| self.asked_at + after.max(ASK_FOR_ROOM))
    }

    /// When [`Self::transmit`] has something to send though nothing happens, if it has nothing now.
    pub(super) fn deadline(&mut self, now: Instant) -> Option<Instant> {
        let lost = self.overtaken().map(|sent| sent.at + self.path.lost_after());
        let wants = self.out.has_more() || self.ending == Ending::Wanted;
        let paced = wants.then(|| self.path.resumes(now, self.path.datagram()));
        let all = [self.into.due(), self.probe_at(), lost, paced.flatten()];
        all.into_iter().flatten().min()
    }

    /// What the time that has passed means.
    fn tick(&mut self, now: Instant) {
        self.find_lost(now);
        if self.probe_at().is_some_and(|at| at <= now) {
            self.path.timed_out(self.next);
            (self.asked_at, self.probes) = (now, PROBES);
            // What has waited longest is what a probe is for.
            let oldest = self.oldest().map(|(_, sent)| (sent.ranges.clone(), sent.end));
            if let Some((ranges, end)) = oldest {
                ranges.into_iter().for_each(|range| self.out.lost(range));
                if end && self.ending == Ending::Sent {
                    self.ending = Ending::Wanted;
                }
            }
        }
    }

    /// Writes the next packet to be sent into `packet`. Whether there is one.
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
            // Nobody acknowledges it: it is as if it were never sent, but for its number.
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

    /// Longer datagrams are tried one at a time, and not before this length works both ways.
    fn may_try(&self) -> bool {
        !self.trying && self.highest.is_some() && self.ending == Ending::Not
    }

    /// Puts what there is to send into a packet.
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
