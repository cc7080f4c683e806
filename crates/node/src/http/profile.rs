//! `/profile`: where the time goes, as one JSON object of histograms. Each has the sum of its
//! durations, and how many there are of each class by the class's upper bound; all grow from the
//! start of the process on. A stage also has the items that it dealt with, the lengths of the queue
//! that its visits found (their sum, and the longest), and the threads that may be in it at once.

use quorate_transport::measure::{Histogram, Measure};
use serde_json::{Map, Value, json};

use super::Facts;
use crate::replica::profile::WAITS;

/// How often the waits are read again while a frame is being counted, which takes far less than a
/// microsecond unless the deciding thread is interrupted just then.
const ATTEMPTS: u32 = 1000;

/// The object.
pub(super) fn of(facts: &Facts) -> Value {
    let profile = &facts.metrics.profile;
    let stages = facts.metrics.stages();
    let stages: Map<String, Value> =
        stages.map(|(name, stage, threads)| (name.to_owned(), of_stage(stage, threads))).collect();
    json!({
        "replica": facts.replica,
        "stages": stages,
        "led": waits(&profile.led),
        "followed": waits(&profile.followed),
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

/// What frames waited for. Each frame is counted in all of `histograms`, one after the other: if
/// one was being counted meanwhile, they are read again.
fn waits(histograms: &[Histogram; WAITS.len()]) -> Map<String, Value> {
    let read = || histograms.each_ref().map(|one| (one.sum_ns(), one.classes()));
    let frames = |classes: &[(u64, u64)]| classes.iter().map(|(_, count)| count).sum::<u64>();
    let mut told = read();
    for _ in 0..ATTEMPTS {
        if told.windows(2).all(|pair| frames(&pair[0].1) == frames(&pair[1].1)) {
            break;
        }
        std::thread::yield_now();
        told = read();
    }
    let named = WAITS.into_iter().zip(told);
    named
        .map(|(name, (sum_ns, classes))| {
            (name.to_owned(), json!({ "sum_ns": sum_ns, "classes_ns": classes }))
        })
        .collect()
}
