//! Random schedules: loss, partitions, delays, crashes at any write, liars; the oracles look on
//! all the time, and after the network has healed everything must be answered.
//!
//! `QUORATE_SEEDS=from..to` runs these seeds instead of the usual ones; `QUORATE_TRACE=1` prints
//! what happened. A seed that fails prints itself.
#![allow(
    clippy::disallowed_methods,
    reason = "the core is pure; who runs the test says which seeds"
)]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_sim::family::HotStuffs;
use quorate_sim::swarm::{self, Plan, Trouble};
use quorate_sim::trace::Trace;

fn seeds(usual: Range<u64>) -> Range<u64> {
    let Ok(range) = std::env::var("QUORATE_SEEDS") else { return usual };
    let (from, to) = range.split_once("..").expect("QUORATE_SEEDS=from..to");
    from.parse().expect("a number")..to.parse().expect("a number")
}

fn trace() -> Trace {
    if std::env::var_os("QUORATE_TRACE").is_some() { Trace::on() } else { Trace::default() }
}

/// Runs all seeds, so that a wide run names every one that fails.
fn withstand(trouble: Trouble, usual: Range<u64>) {
    let plan = Plan { trouble: Some(trouble), ..Plan::default() };
    let mut failed = Vec::new();
    for seed in seeds(usual) {
        let mut place = None;
        let run = || swarm::run::<HotStuffs>(seed, &plan, trace(), &mut place);
        if catch_unwind(AssertUnwindSafe(run)).is_err() {
            eprintln!("seed {seed} fails: QUORATE_SEEDS={seed}..{} QUORATE_TRACE=1", seed + 1);
            if let Some(cluster) = place.as_mut().filter(|cluster| cluster.trace.on) {
                eprintln!("{}", cluster.trace.take().join("\n"));
            }
            failed.push(seed);
        }
    }
    assert!(failed.is_empty(), "these seeds fail: {failed:?}");
}

#[test]
fn faults_come_and_go() {
    withstand(Trouble::Faults, 0..200);
}

/// Up to f replicas lie: they run twice with one key, forget what they signed, and bend what they
/// send.
#[test]
fn liars_change_nothing() {
    withstand(Trouble::Liars, 0..150);
}

/// Up to f replicas lose their disks in the middle of it all, and never contradict themselves.
#[test]
fn lost_data_is_no_lie() {
    withstand(Trouble::LostData, 0..100);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let run = |seed| swarm::run::<HotStuffs>(seed, &Plan::default(), Trace::default(), &mut None);
    for seed in 0..20 {
        let (one, two) = (run(seed), run(seed));
        assert_eq!((one.hash, one.events), (two.hash, two.events), "seed {seed}");
        assert_ne!(one.hash, run(seed + 1000).hash);
    }
}
