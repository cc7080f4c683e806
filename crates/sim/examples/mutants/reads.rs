//! Worlds in which a client reads by an index.

use quorate_sim::Cluster;
use quorate_sim::rng::Rng;
use quorate_sim::swarm::{self, Plan};

use crate::schedules::{draw_rules, trace};

/// Random schedules, with reads.
pub fn swarm(seed: u64, place: &mut Option<Cluster>) {
    let rules = Some(draw_rules(&mut Rng::new(seed)));
    swarm::run(seed, &Plan { rules, reads: true, ..Plan::default() }, trace(), place);
}
