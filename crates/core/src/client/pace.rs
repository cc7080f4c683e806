//! How many frames may be in flight, and how long to wait for an answer.

use crate::base::types::{Duration, Time};

/// The pace of one session. The patience follows RFC 6298 (smoothed round trip plus four
/// deviations, doubled at every retry, round trips of frames sent twice not counted); the window
/// is halved when f + 1 replicas are busy and grows by one frame a window answered.
#[derive(Debug)]
pub(super) struct Pace {
    window: usize,
    window_most: usize,
    /// Frames answered since the window last changed.
    credit: usize,
    /// The window is not halved again before this.
    settled_at: Time,
    /// Smoothed round trip and its deviation, nanoseconds.
    round_trip: Option<(u64, u64)>,
    retry_least: Duration,
    retry_most: Duration,
}

impl Pace {
    pub(super) fn new(window: usize, retry_least: Duration, retry_most: Duration) -> Self {
        let window = window.max(1);
        Self {
            window,
            window_most: window,
            credit: 0,
            settled_at: Time(0),
            round_trip: None,
            retry_least,
            retry_most: retry_most.max(retry_least),
        }
    }

    /// Frames that may be in flight.
    pub(super) fn window(&self) -> usize {
        self.window
    }

    /// A frame was answered; `round_trip` if it had been sent once only.
    pub(super) fn answered(&mut self, round_trip: Option<Duration>) {
        self.credit += 1;
        if self.credit >= self.window && self.window < self.window_most {
            self.window += 1;
            self.credit = 0;
        }
        let Some(sample) = round_trip else { return };
        let sample = nanos(sample);
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((mean, deviation)) => (
                mean - mean / 8 + sample / 8,
                deviation - deviation / 4 + mean.abs_diff(sample) / 4,
            ),
        });
    }

    /// f + 1 replicas are busy: halve the window, once a round trip.
    pub(super) fn slow_down(&mut self, now: Time) {
        if now < self.settled_at {
            return;
        }
        self.window = (self.window / 2).max(1);
        self.credit = 0;
        self.settled_at = now.after(self.breath(0));
    }

    /// How long to wait for an answer to a frame sent `attempts` times. `salt` spreads the
    /// retries of many clients.
    pub(super) fn patience(&self, attempts: u32, salt: u64) -> Duration {
        let once = match self.round_trip {
            Some((mean, deviation)) => Duration::from_nanos(mean + 4 * deviation),
            None => Duration::ZERO,
        };
        let wait = doubled(once.max(self.retry_least), attempts.saturating_sub(1));
        let wait = wait.min(self.retry_most);
        wait + wait / 1024 * (scramble(salt ^ u64::from(attempts)) % 256) as u32
    }

    /// How long to leave busy replicas alone.
    pub(super) fn breath(&self, attempts: u32) -> Duration {
        let once = match self.round_trip {
            Some((mean, _)) => Duration::from_nanos(mean),
            None => self.retry_least / 4,
        };
        doubled(once, attempts).min(self.retry_most)
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 8).min(u64::MAX / 8)
}

fn doubled(span: Duration, times: u32) -> Duration {
    span.saturating_mul(1 << times.min(16))
}

/// SplitMix64's finaliser.
fn scramble(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
