//! Carousel's blacklist: what leaders that sign and let their views fail can cost, and that correct
//! ones stay and come back.

use proptest::prelude::*;
use quorate_core::ReplicaId;
use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::leader::Election;

use crate::chain::{all_but, ids};
use crate::sim::{Led, Sim};

/// One view in so many is a second chance, among four, seven, ten replicas.
const CHANCES: [(usize, u64); 3] = [(4, 512), (7, 292), (10, 204)];

/// Runs `views` views in which everybody signs, with as many signatures as make a quorum, and the
/// leaders propose for which `proposes` says so.
fn run(
    replicas: usize,
    chain_length: u64,
    views: u64,
    mut proposes: impl FnMut(u64, u16) -> bool,
) -> Vec<(Led, bool)> {
    let faults = membership::faults(replicas);
    let mut sim = Sim::new(replicas, Election::Carousel, chain_length);
    let led = |view: u64| {
        let absent: Vec<u16> =
            (0..faults).map(|i| ((view as usize * 31 + i) % replicas) as u16).collect();
        let mut led_its_view = false;
        let led = sim.step(&all_but(replicas, &absent), |view, leader| {
            led_its_view = proposes(view.0, leader.0);
            led_its_view
        });
        (led, led_its_view)
    };
    (1..=views).map(led).collect()
}

fn lost(led: &[(Led, bool)]) -> usize {
    led.iter().filter(|(_, led)| !led).count()
}

#[test]
fn a_silent_signer_costs_a_view_and_then_its_second_chances() {
    for (replicas, chance) in CHANCES {
        for chain_length in 1..=3 {
            let faults = membership::faults(replicas) as u16;
            let led = run(replicas, chain_length, 20 * chance, |_, leader| leader >= faults);
            let (first, rest) = led.split_at(100);
            assert!(lost(first) <= usize::from(faults), "{} of {replicas}", lost(first));
            let in_chances = |it: &&(Led, bool)| !it.1 && it.0.view.0.is_multiple_of(chance);
            assert_eq!(rest.iter().filter(in_chances).count(), lost(rest), "of {replicas}");
            assert!(lost(rest) > 0, "it gets its chances");
        }
    }
}

#[test]
fn in_a_large_committee_f_silent_signers_cost_one_view_in_forty() {
    for replicas in [31, 64] {
        let faults = membership::faults(replicas) as u16;
        let led = run(replicas, 2, 2_000, |_, leader| leader >= faults);
        let lost = lost(&led[500..]);
        assert!(lost <= 1_500 / 40, "{lost} of {replicas}");
    }
}

#[test]
fn a_replica_whose_failure_is_over_leads_again() {
    for (replicas, chance) in CHANCES {
        let led = run(replicas, 2, 1_000 + 60 * chance, |view, leader| leader != 0 || view > 1_000);
        let back = led.iter().position(|(led, _)| led.leader == ReplicaId(0) && led.view.0 > 1_000);
        let back = back.expect("it leads again");
        assert!(led[back..].iter().all(|(_, led)| *led));
        let after = &led[back..back + 400];
        let its = after.iter().filter(|(led, _)| led.leader == ReplicaId(0)).count();
        assert!(its > 400 / (3 * replicas), "{its} of 400 views behind view {back}");
    }
}

#[test]
fn a_network_that_failed_lists_nobody() {
    for (replicas, _) in CHANCES {
        let led = run(replicas, 2, 600, |view, _| !(200..=300).contains(&view));
        let after = &led[301..];
        for id in 0..replicas as u16 {
            let its = after.iter().filter(|(led, _)| led.leader == ReplicaId(id)).count();
            assert!(its > 100 / replicas, "{id} led {its} of 300");
        }
    }
}

#[test]
fn without_a_tolerated_fault_nobody_is_left_out() {
    for replicas in [1, 2, 3] {
        let led = run(replicas, 2, 300, |view, leader| leader != 0 || view > 100);
        assert!(led[200..].iter().any(|(led, _)| led.leader == ReplicaId(0)));
    }
}

proptest! {
    // The same cases every time.
    #![proptest_config(ProptestConfig {
        rng_seed: proptest::test_runner::RngSeed::Fixed(1),
        ..ProptestConfig::with_cases(8)
    })]

    /// However f liars choose the views that they let fail, they lose one each, and one a second
    /// chance; and no correct replica is kept from leading.
    #[test]
    fn liars_cannot_spend_the_good_name_of_others(
        size in 0..CHANCES.len(),
        chain_length in 1u64..=3,
        spite in prop::collection::vec(0u64..100, 3),
        seed: u64,
    ) {
        let (replicas, chance) = CHANCES[size];
        let faults = membership::faults(replicas);
        let views = 12 * chance;
        let led = run(replicas, chain_length, views, |view, leader| {
            let dice = (view ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            usize::from(leader) >= faults || dice % 100 >= spite[usize::from(leader)]
        });
        prop_assert!(lost(&led) <= 2 * faults + 12, "{} of {replicas} lost", lost(&led));
        for id in faults..replicas {
            let its = led.iter().filter(|(led, _)| led.leader.index() == id).count() as u64;
            prop_assert!(its > views / (2 * replicas as u64), "{} led {} of {}", id, its, views);
        }
    }
}

#[test]
fn a_dead_leader_and_a_silent_one_cost_a_view_each() {
    let (dead, silent) = (ids(&[0]), ids(&[1]));
    let mut sim = Sim::new(7, Election::Carousel, 2);
    let (everyone, alive) = (all_but(7, &[]), all_but(7, &[0]));
    let mut lost = Vec::new();
    for view in 1..1_500u64 {
        let up = if view < 100 { &everyone } else { &alive };
        let led = sim.step(up, |_, leader| {
            view < 100 || !dead.contains(&leader) && !silent.contains(&leader)
        });
        if view >= 100 && (dead.contains(&led.leader) || silent.contains(&led.leader)) {
            lost.push(view);
        }
    }
    assert!(lost.len() <= 8, "{lost:?}");
}
