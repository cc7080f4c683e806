//! Scenarios of Twins, by number: four replicas, one of which runs twice.

use std::cell::Cell;
use std::sync::OnceLock;

use quorate_sim::Cluster;
use quorate_sim::rng::Rng;
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Plan, Shape, Signatures, Space, Variant, run};

use crate::schedules::variants;

thread_local! {
    /// Messages that arrived in the last scenario of this thread.
    pub static DELIVERED: Cell<u64> = const { Cell::new(0) };
}

/// How many views are scripted.
const VIEWS: usize = 7;

fn space() -> &'static Space {
    static SPACE: OnceLock<Space> = OnceLock::new();
    SPACE.get_or_init(|| {
        let shape = Shape::new(4, 1).expect("one of four may lie");
        let kind = Kind { shape, partitions: 2, views: VIEWS, by_phase: false, one_way: true };
        Space::new(kind).expect("a space that can be numbered")
    })
}

/// The scenario that is drawn from a seed.
pub fn twins(seed: u64, _: &mut Option<Cluster>) {
    let mut rng = Rng::new(seed ^ 0x7415);
    let (space, rules) = (space(), variants());
    let rules = rules[rng.below(rules.len() as u64) as usize];
    let mut variants = Variant::all();
    variants.retain(|variant| variant.rules.facts().name == rules.facts().name);
    let variant = variants[rng.below(variants.len() as u64) as usize];
    let number = u128::from(rng.number()) << 32 | u128::from(rng.number() >> 32);
    let scenario = space.scenario(number % space.count()).expect("a number below the count");
    let outcome = run(&Plan::new(variant, Signatures::mixed(4)), &scenario);
    DELIVERED.set(outcome.delivered);
    if let Some(violation) = outcome.violation {
        panic!("{}: {}", violation.oracle, violation.what);
    }
}
