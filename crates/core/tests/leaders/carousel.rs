//! Carousel: who may lead, that the dead do not, and how long liars can follow liars.

use quorate_core::base::membership;
use quorate_core::protocols::hotstuff::leader::{Election, History, carousel};
use quorate_core::{ReplicaId, View};

use crate::chain::{Chain, all_but, committee, ids};
use crate::sim::Sim;

/// Who may lead `view` upon `chain` among `replicas`.
fn candidates(
    chain: &Chain,
    view: u64,
    replicas: usize,
    chain_length: usize,
) -> Option<Vec<ReplicaId>> {
    let tree = chain.tree(0, 0);
    let head = chain.head().id();
    let history = History { tree: &tree, head: &head, committed: chain.committed(chain_length) };
    carousel::candidates(View(view), &committee(replicas), chain_length as u64, &history)
}

/// A chain of consecutive views by `proposers`; `signers` is who certified each.
fn chain_of(proposers: &[u16], signers: &[ReplicaId]) -> Chain {
    let mut chain = Chain::new();
    for (i, proposer) in proposers.iter().enumerate() {
        chain.push(i as u64 + 1, ReplicaId(*proposer), signers);
    }
    chain
}

#[test]
fn round_robin_leads_until_the_committed_head_is_as_near_as_can_be() {
    let committee = committee(4);
    let mut chain = Chain::new();
    for view in 1..=3 {
        assert_eq!(candidates(&chain, view, 4, 3), None, "nothing is committed before view {view}");
        let turn = ReplicaId(view as u16 % 4);
        assert_eq!(chain.leader(Election::Carousel, view, &committee, 3), turn);
        chain.push(view, turn, &ids(&[1, 2, 3]));
    }
    // Block 1 is committed. Signers 1, 2, 3; its author was 1.
    assert_eq!(candidates(&chain, 4, 4, 3), Some(ids(&[2, 3])));
    let leader = chain.leader(Election::Carousel, 4, &committee, 3);
    assert!(ids(&[2, 3]).contains(&leader));
    // View 4 fails: the head stays, and its distance grows.
    assert_eq!(candidates(&chain, 5, 4, 3), None);
    assert_eq!(chain.leader(Election::Carousel, 5, &committee, 3), ReplicaId(1));
}

#[test]
fn the_genesis_block_elects_nobody() {
    // Its view is as far away as a committed head's would be, but nobody signed for it.
    for chain_length in 1..=3 {
        assert_eq!(candidates(&Chain::new(), chain_length as u64, 4, chain_length), None);
    }
}

#[test]
fn the_signers_of_the_committed_heads_certificate_count() {
    let mut chain = Chain::new();
    chain.push(1, ReplicaId(1), &[]);
    chain.push(2, ReplicaId(2), &ids(&[0, 1, 2]));
    chain.push(3, ReplicaId(3), &ids(&[0, 1, 3]));
    chain.push(4, ReplicaId(0), &ids(&[1, 2, 3]));
    // Three-chain: block 2 is committed, certified in block 3. Two-chain: block 3, in block 4.
    assert_eq!(candidates(&chain, 5, 4, 3), Some(ids(&[0, 1, 3])));
    assert_eq!(candidates(&chain, 5, 4, 2), Some(ids(&[1, 2])));
    // Basic: block 4 itself, whose certificate is not in the chain; block 3's, in block 4, is.
    assert_eq!(candidates(&chain, 5, 4, 1), Some(ids(&[1, 2, 3])));
}

#[test]
fn the_last_authors_are_f_different_ones() {
    let all = all_but(7, &[]);
    // n = 7, f = 2; blocks 1 … 6 are committed, by the two-chain rule.
    let chain = chain_of(&[0, 5, 4, 6, 6, 6, 1], &all);
    assert_eq!(candidates(&chain, 8, 7, 2), Some(ids(&[0, 1, 2, 3, 5])), "without 6 and 4");
    let chain = chain_of(&[0, 5, 6, 4, 4, 3, 1], &all);
    assert_eq!(candidates(&chain, 8, 7, 2), Some(ids(&[0, 1, 2, 5, 6])), "without 3 and 4");
    // Too few authors so far: those there are.
    let chain = chain_of(&[6, 6, 6, 6], &all);
    assert_eq!(candidates(&chain, 5, 7, 2), Some(ids(&[0, 1, 2, 3, 4, 5])));
}

#[test]
fn there_is_always_a_candidate() {
    for replicas in 1..=50usize {
        let faults = membership::faults(replicas);
        // The worst: the bare quorum signs, and the last authors are all in it.
        let signers: Vec<ReplicaId> = (faults..replicas).map(|id| ReplicaId(id as u16)).collect();
        let authors: Vec<u16> = (0..12 + 3 * faults as u16)
            .map(|i| faults as u16 + i % (replicas - faults) as u16)
            .collect();
        let chain = chain_of(&authors, &signers);
        for chain_length in 1..=3 {
            let view = authors.len() as u64 + 1;
            let candidates = candidates(&chain, view, replicas, chain_length).expect("no gap");
            assert_eq!(candidates.len(), replicas - 2 * faults, "{replicas} replicas");
            assert!(candidates.is_sorted());
        }
    }
}

/// Runs `views` views with `dead` dead from `dies` on: the views after that which a dead one led.
fn led_by_the_dead(replicas: usize, chain_length: u64, dead: &[u16], dies: u64) -> Vec<u64> {
    let mut sim = Sim::new(replicas, Election::Carousel, chain_length);
    let (everyone, alive) = (all_but(replicas, &[]), all_but(replicas, dead));
    let mut lost = Vec::new();
    for view in 1..dies + 1_000 {
        let up = if view < dies { &everyone } else { &alive };
        let led = sim.step(up, |_, leader| up.contains(&leader));
        if view >= dies && !up.contains(&led.leader) {
            lost.push(view - dies);
        }
    }
    lost
}

#[test]
fn the_dead_never_lead_again_once_the_views_follow_each_other() {
    for chain_length in 1..=3 {
        for dies in [1, 100, 101, 102, 103] {
            for dead in 0..4 {
                let lost = led_by_the_dead(4, chain_length, &[dead], dies);
                assert!(lost.iter().all(|view| *view < 12), "of 4, {dead} dead: {lost:?}");
            }
            let lost = led_by_the_dead(7, chain_length, &[0, 3], dies);
            assert!(lost.iter().all(|view| *view < 21), "of 7, two dead: {lost:?}");
            let lost = led_by_the_dead(13, chain_length, &[0, 4, 8, 11], dies);
            assert!(lost.iter().all(|view| *view < 39), "of 13, four dead: {lost:?}");
        }
    }
}

/// The longest run of blocks by the f liars 0 … f − 1, who sign everything and leave as many
/// correct replicas out of every certificate as they can.
fn longest_run_of_liars(replicas: usize, chain_length: u64) -> usize {
    let faults = membership::faults(replicas);
    let mut sim = Sim::new(replicas, Election::Carousel, chain_length);
    let (mut longest, mut run) = (0, 0);
    for view in 1..20_000usize {
        let left_out = |i| (faults + (view * 31 + i) % (replicas - faults)) as u16;
        let signers = all_but(replicas, &(0..faults).map(left_out).collect::<Vec<_>>());
        let led = sim.step(&signers, |_, _| true);
        run = if led.leader.index() < faults { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    longest
}

#[test]
fn liars_follow_liars_for_no_more_than_f_times_k_blocks() {
    for (replicas, faults) in [(4, 1), (7, 2), (10, 3)] {
        for chain_length in 1..=3u64 {
            let longest = longest_run_of_liars(replicas, chain_length);
            assert!(longest <= faults * chain_length as usize, "{longest} of {replicas}");
            assert!(longest > 0, "they lead at times");
        }
    }
}
