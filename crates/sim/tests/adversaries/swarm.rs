//! Every adversary in storms: with all that else goes wrong, and on twinned replicas.

use quorate_adversary::ALL;
use quorate_sim::campaign;
use quorate_sim::family::HotStuffs;
use quorate_sim::swarm::Plan;
use quorate_sim::trace::Trace;

/// Seeds an adversary.
const SEEDS: u64 = 4;

#[test]
fn storms_with_every_adversary() {
    let (from, to) = match std::env::var("QUORATE_SEEDS") {
        Ok(range) => {
            let (from, to) = range.split_once("..").expect("QUORATE_SEEDS=from..to");
            (from.parse().expect("a number"), to.parse().expect("a number"))
        }
        Err(_) => (0, SEEDS),
    };
    let mut violations = Vec::new();
    for (name, _) in ALL {
        let plan = Plan { adversary: Some(name.parse().expect("a schedule")), ..Plan::default() };
        let mut acknowledged = 0;
        for seed in from..to {
            match campaign::run::<HotStuffs>(seed, &plan, Trace::default()).0 {
                Ok(tally) => {
                    assert!(tally.faults.of(name) > 0, "{name}, seed {seed}: nobody lied");
                    acknowledged += tally.acknowledged;
                }
                Err(violation) => violations.push(format!(
                    "--adversary {name} --replay {seed}: {}: {}",
                    violation.oracle, violation.what
                )),
            }
        }
        assert!(acknowledged > 0 || to == from, "{name}");
    }
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}
