//! Worlds in which a client reads by an index.

use quorate_sim::swarm::{self, Plan};
use quorate_sim::{Cluster, Config};

use crate::schedules::{draw_rules, trace};

/// Virtual time, microseconds.
const SECOND: u64 = 1_000_000;

/// Random schedules, with reads.
pub fn swarm(seed: u64, place: &mut Option<Cluster>) {
    let rules = Some(draw_rules(&mut quorate_sim::rng::Rng::new(seed)));
    swarm::run(seed, &Plan { rules, reads: true, ..Plan::default() }, trace(), place);
}

/// How many attacks there are.
pub const COUNT: u64 = 1;

/// What an attack is called.
pub fn name(_: u64) -> &'static str {
    "a quorum that forgot"
}

/// Of four replicas one was away when a write was answered, two lose their data, and one is away
/// then: together the three that are there know of no write.
pub fn attacks(_: u64, place: &mut Option<Cluster>) {
    let cluster = place.insert(Cluster::traced(Config::default(), trace()));
    cluster.watch_reads();
    cluster.crash(3);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(60 * SECOND), "liveness: q of four do not answer");
    (0..3).for_each(|slot| cluster.crash(slot));
    cluster.boot(3);
    for slot in [0, 1] {
        cluster.rejoin(slot, 7);
    }
    // It is given up: who lost its data says nothing.
    cluster.read_now(20 * SECOND);
}
