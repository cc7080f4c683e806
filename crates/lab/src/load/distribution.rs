//! How often each latency occurred: what several client processes counted is added up exactly.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Latencies are counted in microseconds, to three digits, up to ten minutes.
pub(super) const LONGEST_US: u64 = 600_000_000;
const DIGITS: u8 = 3;

/// An empty histogram of latencies.
pub(super) fn histogram() -> Histogram<u64> {
    let Ok(histogram) = Histogram::new_with_bounds(1, LONGEST_US, DIGITS) else {
        unreachable!("the bounds are constants that the histogram allows");
    };
    histogram
}

/// How many commands had which latency, in microseconds: pairs of both, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts(pub Vec<(u64, u64)>);

impl Counts {
    pub(super) fn of(histogram: &Histogram<u64>) -> Self {
        let recorded = histogram.iter_recorded();
        Self(
            recorded
                .map(|step| (step.value_iterated_to(), step.count_since_last_iteration()))
                .collect(),
        )
    }

    pub(super) fn add_to(&self, histogram: &mut Histogram<u64>) {
        for (us, count) in &self.0 {
            histogram.saturating_record_n(*us, *count);
        }
    }
}

/// All latencies of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// Of the whole measured time.
    pub whole: Counts,
    /// Of what was answered in each interval.
    pub intervals: Vec<Counts>,
}
