//! Recording a run of the simulator.

use quorate_core::protocols::hotstuff::rules::{self, Rules};
use quorate_sim::campaign;
use quorate_sim::family::HotStuffs;
use quorate_sim::steps::{Step, Steps};
use quorate_sim::swarm::{Plan, Trouble};
use quorate_sim::trace::Trace;

use super::file::{FORMAT, Head, Run, VERSION};

/// The variants that there are specifications of.
pub const PROTOCOLS: [&str; 2] = ["hotstuff-chained", "hotstuff-two-chain"];

/// What a seed is run as: one after another the troubles, with four replicas mostly, or seven.
#[must_use]
pub fn plan(rules: &'static dyn Rules, seed: u64) -> Plan {
    let trouble = match seed % 5 {
        0 | 1 => Trouble::Faults,
        2 | 3 => Trouble::Liars,
        _ => Trouble::LostData,
    };
    let replicas = if seed % 4 == 3 { 7 } else { 4 };
    Plan {
        trouble: Some(trouble),
        rules: Some(rules),
        replicas: Some(replicas),
        storm_seconds: Some(4),
        ..Plan::default()
    }
}

/// Runs a seed of the simulator and writes down what correct replicas did. `None` if the seed has
/// drawn second votes, which the specification does not know.
///
/// # Errors
/// The violation, if an oracle of safety found one.
pub fn record(protocol: &str, seed: u64) -> Result<Option<Run>, String> {
    let rules =
        rules::named(protocol).filter(|_| PROTOCOLS.contains(&protocol)).ok_or_else(|| {
            format!("there is no specification of {protocol}: {}", PROTOCOLS.join(", "))
        })?;
    let steps = Steps::default();
    let (outcome, cluster) =
        campaign::run::<HotStuffs>(seed, &plan(rules, seed), Trace::of_steps(&steps));
    if let Err(violation) = outcome
        && !["liveness", "traffic"].contains(&violation.oracle)
    {
        return Err(format!("seed {seed}: {}: {}", violation.oracle, violation.what));
    }
    let Some(cluster) = cluster.filter(|cluster| !cluster.config.second_vote) else {
        return Ok(None);
    };
    let slots = cluster.slots.iter();
    let mut faulty: Vec<usize> =
        slots.filter(|slot| slot.faulty || slot.lost_data).map(|slot| slot.id).collect();
    faulty.sort_unstable();
    faulty.dedup();
    let told =
        |step: &Step| matches!(step, Step::Propose { .. }) || !faulty.contains(&step.replica());
    let head = Head {
        format: FORMAT.into(),
        version: VERSION,
        protocol: protocol.into(),
        replicas: cluster.config.replicas,
        faulty: faulty.clone(),
        seed,
    };
    Ok(Some(Run { head, steps: steps.take().into_iter().filter(told).collect() }))
}
