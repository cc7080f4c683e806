//! The shaper: it decides the fate of a packet on a link when the packet is sent, without a clock
//! or the system.

use std::collections::BinaryHeap;
use std::time::Duration;

use crate::link::{Distribution, Link};
use crate::pool::Slot;
use crate::random::Random;

/// The counters of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LinkCounters {
    /// Packets sent into it.
    pub sent: u64,
    /// Their bytes, with IP headers.
    pub sent_bytes: u64,
    /// Packets lost by chance.
    pub lost: u64,
    /// Packets dropped because the queue before the bottleneck was full.
    pub overflowed: u64,
    /// Packets dropped because the link was cut.
    pub cut: u64,
    /// Packets that arrived twice.
    pub duplicated: u64,
    /// Packets that skipped the delay.
    pub reordered: u64,
}

/// The fate of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does not arrive.
    Dropped,
    /// It arrives at this time, and perhaps again.
    Arrives { at_ns: u64, again_at_ns: Option<u64> },
}

/// A link and its state.
#[derive(Debug)]
pub(crate) struct Shaper {
    link: Link,
    random: Random,
    /// The time when the last accepted packet has left the bottleneck.
    free_at_ns: u64,
    pub(crate) counters: LinkCounters,
}

impl Shaper {
    pub(crate) fn new(link: Link, seed: u64, from: usize, to: usize) -> Self {
        let random = Random::of(seed, from, to);
        Self { link, random, free_at_ns: 0, counters: LinkCounters::default() }
    }

    /// Changes the link from now on. Packets under way are not affected.
    pub(crate) fn set(&mut self, link: Link) {
        if link.rate_bits != self.link.rate_bits {
            self.free_at_ns = 0;
        }
        self.link = link;
    }

    /// Decides about a packet of `bytes` sent at `now_ns`. Bandwidth comes first, then loss, then
    /// delay: a packet that is lost later still occupies the bottleneck. `uplink_free_at_ns` is the
    /// time when the sender's uplink is free, for links that share it.
    pub(crate) fn offer(
        &mut self,
        now_ns: u64,
        bytes: usize,
        uplink_free_at_ns: &mut u64,
    ) -> Verdict {
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes as u64;
        if self.link.cut {
            self.counters.cut += 1;
            return Verdict::Dropped;
        }
        let mut free_at_ns = if self.link.shared { *uplink_free_at_ns } else { self.free_at_ns };
        let leaves_ns = self.through_bottleneck(now_ns, bytes as u64, &mut free_at_ns);
        let own = if self.link.shared { uplink_free_at_ns } else { &mut self.free_at_ns };
        *own = free_at_ns;
        let Some(leaves_ns) = leaves_ns else {
            self.counters.overflowed += 1;
            return Verdict::Dropped;
        };
        if self.random.happens(self.link.loss) {
            self.counters.lost += 1;
            return Verdict::Dropped;
        }
        let at_ns = leaves_ns + self.draw_delay_ns();
        let again_at_ns = self.random.happens(self.link.duplicate).then(|| {
            self.counters.duplicated += 1;
            leaves_ns + self.draw_delay_ns()
        });
        Verdict::Arrives { at_ns, again_at_ns }
    }

    /// The time when the packet has left the bottleneck; `None` if the queue is full. An empty
    /// queue accepts any packet.
    fn through_bottleneck(&self, now_ns: u64, bytes: u64, free_at_ns: &mut u64) -> Option<u64> {
        let Some(rate) = self.link.rate_bits else { return Some(now_ns) };
        let starts_ns = (*free_at_ns).max(now_ns);
        let nanobits = u128::from(starts_ns - now_ns) * u128::from(rate);
        let waiting_bytes = (nanobits / 8_000_000_000) as u64;
        if waiting_bytes > 0 && waiting_bytes + bytes > self.link.queue_limit_bytes() {
            return None;
        }
        let takes_ns = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
        *free_at_ns = starts_ns + takes_ns as u64;
        Some(*free_at_ns)
    }

    fn draw_delay_ns(&mut self) -> u64 {
        if self.random.happens(self.link.reorder) {
            self.counters.reordered += 1;
            return 0;
        }
        let nanoseconds = |time: Duration| time.as_nanos() as u64;
        let delay = nanoseconds(self.link.delay);
        if self.link.jitter.is_zero() {
            return delay;
        }
        let jitter = nanoseconds(self.link.jitter) as f64;
        let off = match self.link.distribution {
            Distribution::Uniform => self.random.unit() * 2.0 - 1.0,
            Distribution::Normal => self.random.normal(),
        };
        delay.saturating_add_signed((off * jitter) as i64)
    }
}

/// A packet under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flight {
    pub(crate) at_ns: u64,
    pub(crate) sequence: u64,
    pub(crate) slot: Slot,
    pub(crate) to: u16,
}

impl Ord for Flight {
    /// The earliest is the greatest, because the heap returns the greatest first. Of equal ones it
    /// is the first that came.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at_ns, other.sequence).cmp(&(self.at_ns, self.sequence))
    }
}

impl PartialOrd for Flight {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Packets under way, the next to arrive first.
#[derive(Debug)]
pub(crate) struct Flights {
    heap: BinaryHeap<Flight>,
    sequence: u64,
}

impl Flights {
    /// Has memory for `capacity` packets, so that it never allocates later.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { heap: BinaryHeap::with_capacity(capacity), sequence: 0 }
    }

    pub(crate) fn add(&mut self, at_ns: u64, slot: Slot, to: u16) {
        self.sequence += 1;
        self.heap.push(Flight { at_ns, sequence: self.sequence, slot, to });
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }

    /// The time of the next arrival.
    pub(crate) fn next_at_ns(&self) -> Option<u64> {
        self.heap.peek().map(|flight| flight.at_ns)
    }

    /// The next packet, if it is due.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Flight> {
        if self.next_at_ns()? <= now_ns { self.heap.pop() } else { None }
    }
}

#[cfg(test)]
mod tests;
