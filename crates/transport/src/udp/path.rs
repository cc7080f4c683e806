//! The state of the path to the other side: its round trip (RFC 9002, section 5, and RFC 6298), the
//! bytes that may be under way, the sending rate, and the longest datagram.
//!
//! **Window.** A window that is halved after every loss loses most of its throughput on long paths
//! at a loss of 1 %. So a lost packet is sent again, and the window shrinks only if more than a
//! tenth of a round was lost. Such a loss is a sign of a full queue, not of noise. The window
//! doubles each round until the first such loss, then grows by a 32nd each round (after Kelly's
//! Scalable TCP).

use std::time::{Duration, Instant};

/// The datagram lengths that are probed, in bytes. The second one fits the 1,500 bytes of Ethernet
/// with 48 bytes of IPv6 and UDP headers.
const TRIED_BYTES: [usize; 2] = [6500, 1452];
/// A length that fits everywhere (RFC 9000, section 14).
pub(super) const LEAST_BYTES: usize = 1200;
/// The first window. RFC 9002 (section 7.2) allows ten datagrams; these are ten of the longest.
const FIRST_WINDOW_BYTES: usize = 65_000;
/// The smallest window.
const LEAST_WINDOW_BYTES: usize = 10 * LEAST_BYTES;
/// One lost packet in this many does not shrink the window.
const NOISE: u64 = 10;
/// The round trip assumed before the first measurement.
const FIRST_ROUND_TRIP: Duration = Duration::from_millis(100);
/// The granularity of the timer.
const GRANULARITY: Duration = Duration::from_millis(1);
/// An acknowledgement waits this long for further packets.
pub(super) const ACKNOWLEDGE_WITHIN: Duration = Duration::from_millis(2);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(2);
/// After this many time-outs in a row, the path has changed.
const ANOTHER_WAY: u32 = 4;
/// After this many rounds that lose only the longer datagrams, the cause is their length.
const ONLY_LOST: u32 = 3;
/// On paths with shorter round trips the timer is too coarse for pacing.
const PACED_FROM: Duration = Duration::from_millis(4);

/// The path to the other side, as seen from here.
#[derive(Debug)]
pub(super) struct Path {
    /// The smoothed round trip, its variation, and the latest sample.
    round_trip: Option<(Duration, Duration, Duration)>,
    /// Time-outs in a row.
    timeouts: u32,
    window: usize,
    under_way: usize,
    /// Whether the window still doubles.
    searching: bool,
    /// Whether the window held anything back: in this round, in the previous one.
    filled: [bool; 2],
    /// The first packet number of the next round.
    round_ends: u64,
    /// Packets sent and lost in this round.
    sent: u64,
    lost: u64,
    /// The bytes that may be sent at once, and the time of that count. It has fractions of bytes
    /// because it may be updated often.
    allowance: f64,
    allowed_at: Option<Instant>,
    datagram: usize,
    /// Whether datagrams longer than the least were lost in this round, and whether any arrived.
    long: [bool; 2],
    /// The number of rounds in a row in which they were only lost.
    long_lost: u32,
    /// Packets sent before this one give no information on the path as it is now.
    learns_from: u64,
    /// The index of the next length to probe.
    tried: usize,
}

impl Path {
    pub(super) fn new() -> Self {
        Self {
            round_trip: None,
            timeouts: 0,
            window: FIRST_WINDOW_BYTES,
            under_way: 0,
            searching: true,
            filled: [false; 2],
            round_ends: 0,
            sent: 0,
            lost: 0,
            allowance: FIRST_WINDOW_BYTES as f64,
            allowed_at: None,
            datagram: LEAST_BYTES,
            long: [false; 2],
            long_lost: 0,
            learns_from: 0,
            tried: 0,
        }
    }

    fn smoothed(&self) -> Duration {
        self.round_trip.map_or(FIRST_ROUND_TRIP, |(smoothed, _, _)| smoothed)
    }

    /// Records a round trip. The other side waited for `delay` of it before it acknowledged.
    pub(super) fn measured(&mut self, taken: Duration, delay: Duration) {
        let taken =
            taken.saturating_sub(delay.min(ACKNOWLEDGE_WITHIN)).max(Duration::from_micros(1));
        self.round_trip = Some(match self.round_trip {
            None => (taken, taken / 2, taken),
            Some((smoothed, variation, _)) => {
                let variation = (variation * 3 + smoothed.abs_diff(taken)) / 4;
                ((smoothed * 7 + taken) / 8, variation, taken)
            }
        });
    }

    /// A packet older than this is lost if a later one arrived. RFC 9002 waits for an eighth of a
    /// round trip. Here the variation counts too, so that a path that reorders packets is not
    /// mistaken for one that loses them.
    pub(super) fn lost_after(&self) -> Duration {
        let Some((smoothed, variation, latest)) = self.round_trip else { return FIRST_ROUND_TRIP };
        (smoothed.max(latest) * 9 / 8).max(smoothed + variation * 4).max(GRANULARITY)
    }

    /// An acknowledgement is requested if none came for this long.
    pub(super) fn probe_after(&self) -> Duration {
        let variation = self.round_trip.map_or(FIRST_ROUND_TRIP / 2, |(_, variation, _)| variation);
        let base = self.smoothed() + (variation * 4).max(GRANULARITY) + ACKNOWLEDGE_WITHIN;
        (base * (1 << self.timeouts.min(10))).min(LONGEST_TIMEOUT)
    }

    /// Records that a requested acknowledgement did not come. After several in a row the path has
    /// changed, and is measured again.
    pub(super) fn timed_out(&mut self, next: u64) {
        self.timeouts += 1;
        if self.timeouts == ANOTHER_WAY {
            (self.datagram, self.tried) = (LEAST_BYTES, 0);
            (self.window, self.searching, self.learns_from) = (LEAST_WINDOW_BYTES, true, next);
        }
    }

    /// Whether `bytes` more may be sent now.
    pub(super) fn has_room(&mut self, now: Instant, bytes: usize) -> bool {
        let fits = self.under_way + bytes <= self.window;
        self.filled[0] |= !fits;
        fits && self.resumes(now, bytes).is_none()
    }

    /// The time at which `bytes`, which fit the window, may be sent. `None` means now.
    pub(super) fn resumes(&mut self, now: Instant, bytes: usize) -> Option<Instant> {
        let round = self.smoothed();
        if round < PACED_FROM {
            return None;
        }
        // A quarter faster than one window in a round, so that pacing is not the limit.
        let by_second = (self.window as f64 * 1.25 / round.as_secs_f64()).max(1.0);
        let burst = (by_second * 2.0 * GRANULARITY.as_secs_f64()).max(LEAST_WINDOW_BYTES as f64);
        let passed = self.allowed_at.map_or(Duration::MAX, |at| now.saturating_duration_since(at));
        let earned = passed.as_secs_f64().min(1.0) * by_second;
        (self.allowance, self.allowed_at) = ((self.allowance + earned).min(burst), Some(now));
        let lacking = bytes as f64 - self.allowance;
        let pause = Duration::from_secs_f64((lacking / by_second).clamp(0.0, 1.0));
        (lacking > 0.0).then(|| now + pause.max(GRANULARITY))
    }

    /// Records that a packet was sent that must be acknowledged.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.under_way += bytes;
        self.sent += 1;
        // Bytes sent without pacing must not delay the next ones for long.
        self.allowance = (self.allowance - bytes as f64).max(-(LEAST_WINDOW_BYTES as f64));
    }

    /// Records that packet `number` arrived. `next` is the next number to be sent.
    pub(super) fn arrived(&mut self, number: u64, bytes: usize, next: u64) {
        self.timeouts = 0;
        self.long[1] |= bytes > LEAST_BYTES;
        self.under_way = self.under_way.saturating_sub(bytes);
        if self.filled != [false; 2] {
            self.window += if self.searching { bytes } else { bytes / 32 };
        }
        if number >= self.round_ends {
            self.end_round(next);
        }
    }

    fn end_round(&mut self, next: u64) {
        if self.lost > 3 && self.lost * NOISE > self.sent {
            self.window = (self.window * 7 / 10).max(LEAST_WINDOW_BYTES);
            self.searching = false;
        }
        match self.long {
            [true, false] => self.long_lost += 1,
            [_, true] => self.long_lost = 0,
            [false, false] => {}
        }
        if self.long_lost == ONLY_LOST {
            // The path now carries shorter datagrams, and acknowledges them.
            let longer = TRIED_BYTES.iter().position(|bytes| *bytes == self.datagram);
            self.tried = longer.map_or(TRIED_BYTES.len(), |place| place + 1);
            (self.datagram, self.long_lost) = (LEAST_BYTES, 0);
        }
        self.long = [false; 2];
        (self.round_ends, self.sent, self.lost) = (next, 0, 0);
        self.filled = [false, self.filled[0]];
    }

    /// Records that packet `number` was lost.
    pub(super) fn lost(&mut self, number: u64, bytes: usize) {
        self.under_way = self.under_way.saturating_sub(bytes);
        self.long[0] |= bytes > LEAST_BYTES;
        self.lost += u64::from(number >= self.learns_from);
    }

    /// Records that a packet arrived after it was considered lost.
    pub(super) fn found(&mut self) {
        self.lost = self.lost.saturating_sub(1);
    }

    /// Records that a packet was lost because of its length. This is no sign of congestion.
    pub(super) fn withdrawn(&mut self, bytes: usize) {
        self.under_way = self.under_way.saturating_sub(bytes);
    }

    /// The length of datagrams, in bytes.
    pub(super) fn datagram(&self) -> usize {
        self.datagram
    }

    /// A greater length to probe, if there is one.
    pub(super) fn to_try(&self) -> Option<usize> {
        TRIED_BYTES.get(self.tried).copied()
    }

    /// Records the result of the probe.
    pub(super) fn tried(&mut self, bytes: usize, arrived: bool) {
        if self.to_try() == Some(bytes) {
            self.tried = if arrived { TRIED_BYTES.len() } else { self.tried + 1 };
            if arrived {
                self.datagram = bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: usize = 1200;

    /// Sends rounds of full windows, and loses one packet in `one_in`. Returns the last window.
    fn rounds(path: &mut Path, count: usize, one_in: u64) -> usize {
        let mut next = path.round_ends;
        for _ in 0..count {
            let first = next;
            let now = Instant::now();
            while path.has_room(now, PACKET) {
                path.sent(PACKET);
                next += 1;
            }
            for number in first..next {
                if number % one_in == 0 && number + 1 < next {
                    path.lost(number, PACKET);
                } else {
                    path.arrived(number, PACKET, next);
                }
            }
        }
        path.window
    }

    fn short() -> Path {
        let mut path = Path::new();
        path.measured(Duration::from_micros(100), Duration::ZERO);
        path
    }

    #[test]
    fn the_window_doubles_until_more_than_a_tenth_of_a_round_is_lost() {
        let mut path = short();
        let before = path.window;
        let doubled = rounds(&mut path, 4, u64::MAX);
        assert!((before * 12..=before * 17).contains(&doubled), "{before} {doubled}");
        let through_noise = rounds(&mut path, 2, 20);
        assert!(through_noise > doubled * 3, "5 %: {doubled} {through_noise}");
        // A round is judged when the next one is acknowledged.
        let full = rounds(&mut path, 4, 4);
        assert!(full < through_noise, "25 %: {through_noise} {full}");
        let later = rounds(&mut path, 8, u64::MAX);
        assert!((full / 2..full * 13 / 10).contains(&later), "slowly: {full} {later}");
    }

    #[test]
    fn a_short_datagram_is_what_is_left_when_longer_ones_are_lost() {
        let mut path = Path::new();
        assert_eq!((path.datagram(), path.to_try()), (LEAST_BYTES, Some(6500)));
        path.tried(6500, false);
        assert_eq!((path.datagram(), path.to_try()), (LEAST_BYTES, Some(1452)));
        path.tried(1452, true);
        assert_eq!((path.datagram(), path.to_try()), (1452, None));
        (1..ANOTHER_WAY).for_each(|_| path.timed_out(0));
        assert_eq!(path.datagram(), 1452);
        path.timed_out(0);
        assert_eq!((path.datagram(), path.to_try()), (LEAST_BYTES, Some(6500)));
    }

    #[test]
    fn however_often_it_is_asked_a_far_way_is_sent_what_its_window_allows() {
        for step in [5, 1000] {
            let mut path = Path::new();
            path.measured(Duration::from_secs(1), Duration::ZERO);
            let begun = Instant::now();
            let (mut now, mut sent) = (begun, 0);
            while now < begun + Duration::from_secs(1) {
                if path.resumes(now, PACKET).is_none() {
                    path.sent(PACKET);
                    sent += PACKET;
                }
                now += Duration::from_micros(step);
            }
            let expected = FIRST_WINDOW_BYTES * 9 / 8..FIRST_WINDOW_BYTES * 2;
            assert!(expected.contains(&sent), "asked every {step} us: {sent} bytes");
        }
    }

    #[test]
    fn a_way_that_becomes_slow_is_not_held_to_what_went_before() {
        let mut path = short();
        let now = Instant::now();
        for _ in 0..100_000 {
            assert!(path.resumes(now, PACKET).is_none());
            path.sent(PACKET);
        }
        (0..100).for_each(|_| path.measured(Duration::from_millis(100), Duration::ZERO));
        let resumes = path.resumes(now, PACKET);
        assert!(resumes.is_none_or(|at| at < now + Duration::from_millis(200)));
    }

    #[test]
    fn timeouts_follow_the_round_trip_and_double() {
        let mut path = Path::new();
        let first = path.probe_after();
        for _ in 0..50 {
            path.measured(Duration::from_millis(10), Duration::ZERO);
        }
        let known = path.probe_after();
        assert!(known < first && known >= Duration::from_millis(12), "{first:?} {known:?}");
        path.timed_out(0);
        assert_eq!(path.probe_after(), known * 2);
        path.arrived(0, 0, 1);
        assert_eq!(path.probe_after(), known);
    }
}
