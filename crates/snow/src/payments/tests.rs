//! Small networks.

use std::collections::BTreeMap;

use quorate_core::protocols::snow::avalanche::Limits;
use quorate_core::protocols::snow::parameters::Parameters;

use super::*;
use crate::setting::{Stake, World};

fn setting(adversary: Adversary, nodes: usize, faulty: usize) -> Setting {
    let world = World::uniform(50_000_000);
    let (numbers, stake) = (Parameters::PAPER, Stake::Equal);
    Setting { nodes, faulty, adversary, numbers, stake, world, seed: 3 }
}

fn load(rate: u64) -> Load {
    Load {
        rate,
        issuers: 5,
        double_permille: 0,
        load_ns: 4_000_000_000,
        rest_ns: 20_000_000_000,
        batch: 40,
        counters: Counters::Glacier,
    }
}

#[test]
fn all_honest_payments_are_accepted_by_all() {
    let report = run(&setting(Adversary::Opposite, 60, 0), load(200)).unwrap();
    assert_eq!(report.violation, None);
    assert_eq!((report.honest, report.honest_by_all), (800, 800), "{report:?}");
    let again = run(&setting(Adversary::Opposite, 60, 0), load(200)).unwrap();
    assert_eq!((report.messages, report.last_ns), (again.messages, again.last_ns));
}

/// The longest chain of vertices in one node's memory: what is settled leaves it soon.
fn depth(network: &Network) -> usize {
    let depth_of = |node: &Avalanche<Coin>| {
        let mut seen: Vec<_> = node.vertices().map(|seen| (seen.added, seen.vertex)).collect();
        seen.sort_by_key(|(added, _)| *added);
        let mut depths = BTreeMap::new();
        // A parent came before its children, or in the same step.
        for _ in 0..2 {
            for (_, vertex) in &seen {
                let below = vertex.parents().iter().filter_map(|parent| depths.get(parent));
                let depth = below.max().copied().unwrap_or(0) + 1;
                depths.insert(vertex.id(), depth);
            }
        }
        depths.into_values().max().unwrap_or(0)
    };
    network.nodes.iter().take(3).map(depth_of).max().unwrap_or(0)
}

/// Honest vertices come nowhere near the bound on depth, under load and while too few answer.
#[test]
fn honest_chains_stay_far_below_the_bound_on_depth() {
    for (faulty, rate) in [(0, 2_000), (15, 200)] {
        let load = Load { load_ns: 10_000_000_000, ..load(rate) };
        let setting = setting(Adversary::Withhold, 60, faulty);
        let mut network = Network::new(setting, load).unwrap();
        let mut deepest = 0;
        for tick in 1..=100 {
            network.advance(tick * 100_000_000);
            deepest = deepest.max(depth(&network));
        }
        println!("{faulty} silent, {rate} payments a second: {deepest} deep");
        assert!(deepest < Limits::NODE.depth as usize / 8, "{faulty} silent: {deepest}");
    }
}

#[test]
fn of_double_spends_at_most_one_is_accepted_whatever_faulty_nodes_answer() {
    for adversary in [Adversary::Opposite, Adversary::Split, Adversary::Withhold] {
        let load = Load { double_permille: 100, load_ns: 2_000_000_000, ..load(40) };
        let load = Load { rest_ns: 60_000_000_000, ..load };
        let mut network = Network::new(setting(adversary, 40, 2), load).unwrap();
        for second in 1..=62 {
            network.advance(second * 1_000_000_000);
            assert_eq!(network.miscounted(), None, "{adversary:?}, {second} s");
        }
        let report = network.report();
        println!("{adversary:?} {report:?}");
        assert_eq!(report.violation, None, "{adversary:?}");
        assert!(report.contested > 2);
        assert_eq!(report.honest_by_all, report.honest, "{adversary:?} {report:?}");
    }
}

#[test]
fn rogue_children_delay_a_payment_under_the_white_papers_counters_alone() {
    let target = |counters| {
        let load = Load { counters, load_ns: 8_000_000_000, rest_ns: 0, ..load(100) };
        let report = run(&setting(Adversary::Liveness, 40, 1), load).unwrap();
        assert_eq!(report.violation, None);
        println!("{counters:?}: {report:?}");
        report.attacked_ns.unwrap()
    };
    let (attacked, cured) = (target(Counters::WhitePaper), target(Counters::Glacier));
    assert!(cured.is_some_and(|ns| ns < 4_000_000_000), "{cured:?}");
    assert!(attacked.is_none_or(|ns| ns > 5_000_000_000), "{attacked:?}");
}
