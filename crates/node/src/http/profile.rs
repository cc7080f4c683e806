//! `/profile`: where the time goes, as one JSON object of histograms. Each has the sum of its
//! durations, and how many there are of each class by the class's upper bound; all grow from the
//! start of the process on. A stage also has the items that it dealt with, the lengths of the queue
//! that its visits found (their sum, and the longest), and the threads that may be in it at once.

use quorate_transport::measure::{Histogram, Measure};
use serde_json::{Map, Value, json};

use super::Facts;
use crate::replica::profile::WAITS;

/// The object.
pub(super) fn of(facts: &Facts) -> Value {
    let profile = &facts.metrics.profile;
    let stages = facts.metrics.stages();
    let stages: Map<String, Value> =
        stages.map(|(name, stage, threads)| (name.to_owned(), of_stage(stage, threads))).collect();
    json!({
        "replica": facts.replica,
        "stages": stages,
        "led": by_name(WAITS, &profile.led),
        "followed": by_name(WAITS, &profile.followed),
    })
}

fn of_stage(stage: &Measure, threads: u64) -> Value {
    json!({
        "sum_ns": stage.visits.sum_ns(),
        "classes_ns": stage.visits.classes(),
        "items": stage.items(),
        "waiting": stage.waiting(),
        "longest": stage.longest(),
        "threads": threads,
    })
}

fn by_name<const N: usize>(names: [&str; N], histograms: &[Histogram; N]) -> Map<String, Value> {
    let of = |histogram: &Histogram| json!({ "sum_ns": histogram.sum_ns(), "classes_ns": histogram.classes() });
    names.into_iter().zip(histograms).map(|(name, one)| (name.to_owned(), of(one))).collect()
}
