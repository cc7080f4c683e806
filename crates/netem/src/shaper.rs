//! What happens to a packet on a link: decided when it is sent, without clock or system.

use std::collections::BinaryHeap;
use std::time::Duration;

use crate::link::{Distribution, Link};
use crate::pool::Slot;
use crate::random::Random;

/// What a link did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LinkCounters {
    /// Packets that were sent into it.
    pub sent: u64,
    /// Bytes of them, with IP headers.
    pub sent_bytes: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Dropped because the queue before the bandwidth was full.
    pub overflowed: u64,
    /// Not passed because the link was cut.
    pub cut: u64,
    /// That arrived a second time.
    pub duplicated: u64,
    /// That skipped the delay.
    pub reordered: u64,
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It does not arrive.
    Dropped,
    /// It arrives at this time, and perhaps once more.
    Arrives { at_ns: u64, again_at_ns: Option<u64> },
}

/// A link and where it stands.
#[derive(Debug)]
pub(crate) struct Shaper {
    link: Link,
    random: Random,
    /// When the last packet that was accepted has left the bottleneck.
    free_at_ns: u64,
    pub(crate) counters: LinkCounters,
}

impl Shaper {
    pub(crate) fn new(link: Link, seed: u64, from: usize, to: usize) -> Self {
        let random = Random::of(seed, from, to);
        Self { link, random, free_at_ns: 0, counters: LinkCounters::default() }
    }

    /// From now on. What is under way arrives as it would have.
    pub(crate) fn set(&mut self, link: Link) {
        if link.rate_bits != self.link.rate_bits {
            self.free_at_ns = 0;
        }
        self.link = link;
    }

    /// A packet of `bytes` is sent at `now_ns`. Bandwidth comes first, then loss, then delay: the bottleneck carries
    /// also what is lost behind it.
    pub(crate) fn offer(&mut self, now_ns: u64, bytes: usize) -> Verdict {
        self.counters.sent += 1;
        self.counters.sent_bytes += bytes as u64;
        if self.link.cut {
            self.counters.cut += 1;
            return Verdict::Dropped;
        }
        let Some(leaves_ns) = self.through_bottleneck(now_ns, bytes as u64) else {
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

    /// When the packet has left the bottleneck; `None` if there is no room before it. A queue that is empty takes any packet.
    fn through_bottleneck(&mut self, now_ns: u64, bytes: u64) -> Option<u64> {
        let Some(rate) = self.link.rate_bits else { return Some(now_ns) };
        let starts_ns = self.free_at_ns.max(now_ns);
        let nanobits = u128::from(starts_ns - now_ns) * u128::from(rate);
        let waiting_bytes = (nanobits / 8_000_000_000) as u64;
        if waiting_bytes > 0 && waiting_bytes + bytes > self.link.queue_limit_bytes() {
            return None;
        }
        let takes_ns = u128::from(bytes) * 8_000_000_000 / u128::from(rate);
        self.free_at_ns = starts_ns + takes_ns as u64;
        Some(self.free_at_ns)
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
    /// The earliest is the greatest, as the heap gives the greatest first; of equal ones, the first to come.
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
    /// With room for `capacity`, so that none is made later.
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

    /// When the next arrives.
    pub(crate) fn next_at_ns(&self) -> Option<u64> {
        self.heap.peek().map(|flight| flight.at_ns)
    }

    /// The next, if it is due.
    pub(crate) fn due(&mut self, now_ns: u64) -> Option<Flight> {
        if self.next_at_ns()? <= now_ns { self.heap.pop() } else { None }
    }
}

#[cfg(test)]
mod tests;
