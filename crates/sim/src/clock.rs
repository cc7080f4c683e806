//! The clocks of replicas: each has its own origin and runs a little too fast or too slow.

use quorate_core::Time;

/// A replica's clock. A monotonic one: it says nothing of the time of day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What it shows at the beginning, in nanoseconds.
    pub offset: u64,
    /// How much it runs too fast, in millionths; negative: too slow.
    pub drift: i64,
}

impl Clock {
    /// What it shows at `now`.
    pub fn shows(&self, now: Time) -> Time {
        Time(self.offset + now.0.saturating_add_signed(scaled(now.0, self.drift)))
    }

    /// The first instant at which it shows `local`.
    pub fn when(&self, local: Time) -> Time {
        let elapsed = local.0.saturating_sub(self.offset);
        if self.drift == 0 {
            return Time(elapsed);
        }
        let rate = (1_000_000 + self.drift) as u128;
        // Roundings may be one off either way.
        let mut at = ((u128::from(elapsed) * 1_000_000 / rate) as u64).saturating_sub(2);
        while self.shows(Time(at)) < local {
            at += 1;
        }
        Time(at)
    }
}

fn scaled(nanos: u64, millionths: i64) -> i64 {
    (i128::from(nanos) * i128::from(millionths) / 1_000_000) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_due_when_the_clock_shows_it_and_not_before() {
        for offset in [0, 1, 5_000_000_000] {
            for drift in [-50_000, -1, 0, 3, 200, 50_000] {
                let clock = Clock { offset, drift };
                for elapsed in [0, 1, 999_999, 1_000_001, 123_456_789_012] {
                    let local = Time(offset + elapsed);
                    let at = clock.when(local);
                    assert!(clock.shows(at) >= local);
                    assert!(at.0 == 0 || clock.shows(Time(at.0 - 1)) < local);
                }
            }
        }
    }
}
