//! Measures how busy a stage of a replica's pipeline is. It counts in relaxed atomics, without a
//! lock or an allocation; any number of threads may add.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Classes of durations within a factor of two. A duration is at most an eighth below its class's
/// bound.
const IN_A_DOUBLING: u32 = 8;
/// The factors of two covered: up to 2^40 ns, 18 minutes. Longer durations count in the last class.
const DOUBLINGS: u32 = 40;
const CLASSES: usize = (IN_A_DOUBLING * DOUBLINGS) as usize;

/// A histogram of durations, with their sum.
#[derive(Debug)]
pub struct Histogram {
    classes: [AtomicU64; CLASSES],
    sum_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { classes: std::array::from_fn(|_| AtomicU64::new(0)), sum_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one duration.
    pub fn record(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
        if let Some(class) = self.classes.get(class_of(ns)) {
            class.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The sum of all durations in nanoseconds.
    #[must_use]
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns.load(Ordering::Relaxed)
    }

    /// Adds to the time of a duration that was counted before.
    pub fn extend(&self, duration: Duration) {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// The number of durations.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.classes.iter().map(|class| class.load(Ordering::Relaxed)).sum()
    }

    /// The upper bound in nanoseconds of each class that is not empty, and its count.
    #[must_use]
    pub fn classes(&self) -> Vec<(u64, u64)> {
        let counts = self.classes.iter().map(|class| class.load(Ordering::Relaxed));
        let counts = counts.enumerate().filter(|(_, count)| *count > 0);
        counts.map(|(class, count)| (bound_ns(class), count)).collect()
    }
}

/// The class of a duration: linear within a factor of two.
fn class_of(ns: u64) -> usize {
    let eighths = u64::from(IN_A_DOUBLING);
    if ns < eighths {
        return ns as usize;
    }
    let doubling = ns.ilog2();
    let within = (ns >> (doubling - IN_A_DOUBLING.ilog2())) - eighths;
    let first = u64::from(doubling - IN_A_DOUBLING.ilog2() + 1) * eighths;
    ((first + within) as usize).min(CLASSES - 1)
}

/// The shortest duration above the class.
fn bound_ns(class: usize) -> u64 {
    let (class, eighths) = (class as u64, u64::from(IN_A_DOUBLING));
    match class / eighths {
        0 => class + 1,
        doubling => (eighths + class % eighths + 1) << (doubling - 1),
    }
}

/// The work of one stage. A *visit* is one stretch of a thread's time in the stage; it handles as
/// many items as it finds or may take.
#[derive(Debug, Default)]
pub struct Measure {
    /// The durations of visits.
    pub visits: Histogram,
    items: AtomicU64,
    waiting: AtomicU64,
    longest: AtomicU64,
}

impl Measure {
    /// Counts a visit that handled `items` items. `waiting` items waited when it began, these
    /// included.
    pub fn visit(&self, took: Duration, items: u64, waiting: u64) {
        self.visits.record(took);
        self.items.fetch_add(items, Ordering::Relaxed);
        self.waiting.fetch_add(waiting, Ordering::Relaxed);
        // A new maximum is rare, and a read does not take the cache line from other threads.
        if waiting > self.longest.load(Ordering::Relaxed) {
            self.longest.fetch_max(waiting, Ordering::Relaxed);
        }
    }

    /// Items handled so far.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items.load(Ordering::Relaxed)
    }

    /// The sum of the queue lengths that visits found. Divided by the visits it is the mean length.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The longest queue that a visit found.
    #[must_use]
    pub fn longest(&self) -> u64 {
        self.longest.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_duration_is_in_the_class_whose_bound_is_next_above() {
        for ns in (0..5_000).chain((0..40).map(|power| 1 << power)).chain([12_345_678, 999_999_999])
        {
            let class = class_of(ns);
            let below = class.checked_sub(1).map_or(0, bound_ns);
            assert!(below <= ns && ns < bound_ns(class), "{ns} in {below}..{}", bound_ns(class));
            assert!(bound_ns(class) <= ns + ns / 8 + 1, "{ns} is far below {}", bound_ns(class));
        }
        assert_eq!(class_of(u64::MAX), CLASSES - 1);
    }

    #[test]
    fn what_was_recorded_is_counted() {
        let histogram = Histogram::default();
        for ns in [5, 5, 1_000] {
            histogram.record(Duration::from_nanos(ns));
        }
        assert_eq!(histogram.classes(), [(6, 2), (1_024, 1)]);
        assert_eq!(histogram.sum_ns(), 1_010);
        assert_eq!(histogram.count(), 3);
    }

    #[test]
    fn a_stage_adds_up_its_items_and_the_queues_that_it_found() {
        let stage = Measure::default();
        stage.visit(Duration::from_nanos(10), 3, 7);
        stage.visit(Duration::from_nanos(20), 4, 4);
        assert_eq!((stage.visits.sum_ns(), stage.visits.count()), (30, 2));
        assert_eq!((stage.items(), stage.waiting(), stage.longest()), (7, 11, 7));
    }
}
