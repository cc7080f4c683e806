//! `/profile`: where the time goes, as one JSON object of histograms. Each has the sum of its durations, and how many
//! there are of each class by the class's upper bound; all grow from the start of the process on.

use serde_json::{Map, Value, json};

use super::Facts;
use crate::replica::profile::{Histogram, STAGES, WAITS};

/// The object.
pub(super) fn of(facts: &Facts) -> Value {
    let profile = &facts.metrics.profile;
    json!({
        "replica": facts.replica,
        "stages": by_name(STAGES, &profile.stages),
        "led": by_name(WAITS, &profile.led),
        "followed": by_name(WAITS, &profile.followed),
    })
}

fn by_name<const N: usize>(names: [&str; N], histograms: &[Histogram; N]) -> Map<String, Value> {
    let of = |histogram: &Histogram| json!({ "sum_ns": histogram.sum_ns(), "classes_ns": histogram.classes() });
    names.into_iter().zip(histograms).map(|(name, one)| (name.to_owned(), of(one))).collect()
}
