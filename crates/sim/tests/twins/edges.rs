//! A twin while the members change.

use std::panic::{AssertUnwindSafe, catch_unwind};

use quorate_sim::family::{Family, HotStuffs, Pbfts};
use quorate_sim::trace::Trace;
use quorate_sim::twins::edges::{Scenario, run};

/// How many scenarios; more where the environment asks for them.
fn scenarios() -> u64 {
    let asked = std::env::var("QUORATE_TEST_TWINS").ok();
    asked.map_or(150, |number| number.parse().expect("QUORATE_TEST_TWINS is a number"))
}

fn each<F: Family>() {
    let mut ended = 0;
    for seed in 0..scenarios() {
        let scenario = Scenario::draw(seed);
        let ran =
            catch_unwind(AssertUnwindSafe(|| run::<F>(&scenario, Trace::default(), &mut None)));
        ended += ran.unwrap_or_else(|_| panic!("scenario {seed}: {scenario:?}"));
    }
    assert!(ended > scenarios(), "only {ended} epochs end in the scripts");
}

#[test]
fn a_twin_over_the_edges_of_epochs_never_parts_the_others() {
    each::<HotStuffs>();
    each::<Pbfts>();
}
