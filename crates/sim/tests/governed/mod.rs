//! A cluster whose members change, for tests.

use quorate_core::Epoch;
use quorate_core::protocols::hotstuff::rules::TwoChain;
use quorate_sim::administrator::Administrator;
use quorate_sim::family::Family;
use quorate_sim::{Cluster, Config};

/// Virtual time, microseconds.
pub const SECOND: u64 = 1_000_000;

/// Eight replicas, the first four of which are the members.
pub fn config(seed: u64) -> Config {
    Config {
        replicas: 8,
        members: Some(4),
        rules: &TwoChain,
        second_vote: true,
        seed,
        clients: 2,
        ..Config::default()
    }
}

/// Members by their weights; `None`: none.
pub type Weights = [Option<u16>; 8];

/// The replicas that are members with weight 1, those that learn, and nobody else.
pub fn members(voters: std::ops::Range<usize>, learners: std::ops::Range<usize>) -> Weights {
    std::array::from_fn(|id| match id {
        id if voters.contains(&id) => Some(1),
        id if learners.contains(&id) => Some(0),
        _ => None,
    })
}

/// An administrator with a session.
pub fn administrator_of<F: Family>(cluster: &mut Cluster<F>) -> Administrator {
    Administrator::of(cluster, 5 * SECOND).expect("no session")
}

/// The epoch in which a replica executes.
pub fn epoch<F: Family>(cluster: &Cluster<F>, slot: usize) -> Epoch {
    cluster.core(slot).execution().members().committee().expect("it is governed").epoch()
}

/// Runs until these replicas are in an epoch.
pub fn run_to<F: Family>(cluster: &mut Cluster<F>, slots: &[usize], number: u64) {
    let there =
        |cluster: &Cluster<F>| slots.iter().all(|slot| epoch(cluster, *slot) >= Epoch(number));
    let came = cluster.run_until(20 * SECOND, there);
    let epochs: Vec<Epoch> = slots.iter().map(|slot| epoch(cluster, *slot)).collect();
    assert!(came, "epoch {number} was not reached: {epochs:?}");
}
