//! Reads that are not ordered, among everything that goes wrong: the oracle is in
//! `sim/src/reads.rs`.
//!
//! That it would see a stale read is shown by the mutants (`examples/mutants`).

use quorate_core::client::message::Unproven;
use quorate_core::client::reads::ReadError;
use quorate_core::protocols::hotstuff::rules::{self, TwoChain};
use quorate_core::{Epoch, Height};
use quorate_sim::family::{Family, HotStuffs, Pbfts, TwoDelays};
use quorate_sim::swarm::{self, Plan, Trouble};
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config, status_of};

const SECOND: u64 = 1_000_000;

/// Storms with reads; how many reads were answered in all.
fn storms<F: Family>(plan: &Plan, seeds: std::ops::Range<u64>) -> u64 {
    let mut answered = 0;
    for seed in seeds {
        let mut place: Option<Cluster<F>> = None;
        swarm::run(seed, &Plan { reads: true, ..plan.clone() }, Trace::default(), &mut place);
        answered += place.and_then(|cluster| cluster.reader).map_or(0, |reader| reader.answered);
    }
    answered
}

#[test]
fn reads_are_linearizable_in_every_variant_of_hotstuff() {
    for rules in rules::ALL {
        let plan = Plan { rules: Some(rules), ..Plan::default() };
        let answered = storms::<HotStuffs>(&plan, 0..12);
        assert!(answered > 50, "{}: {answered}", rules.facts().name);
    }
}

#[test]
fn reads_are_linearizable_in_pbft_and_with_two_delays() {
    assert!(storms::<Pbfts>(&Plan::default(), 0..25) > 100);
    assert!(storms::<TwoDelays>(&Plan::default(), 0..25) > 100);
}

#[test]
fn reads_are_linearizable_while_replicas_lie_and_lose_their_data() {
    for trouble in [Trouble::Liars, Trouble::LostData] {
        let plan = Plan { trouble: Some(trouble), ..Plan::default() };
        assert!(storms::<HotStuffs>(&plan, 100..120) > 50, "{trouble:?}");
    }
}

#[test]
fn reads_are_linearizable_while_members_change() {
    let plan = Plan { trouble: Some(Trouble::Changes), ..Plan::default() };
    assert!(storms::<HotStuffs>(&plan, 0..12) > 50);
}

fn cluster() -> Cluster {
    let config = Config { rules: &TwoChain, second_vote: true, ..Config::default() };
    let mut cluster = Cluster::new(config);
    cluster.watch_reads();
    cluster
}

#[test]
fn an_idle_cluster_answers_and_stays_idle() {
    let mut cluster = cluster();
    assert!(cluster.read_now(SECOND), "nothing was ever written");
    cluster.request(0, 3, 10);
    assert!(cluster.run_until_answered(SECOND));
    cluster.run_for(SECOND);
    let height = cluster.oracles.height();
    for _ in 0..5 {
        assert!(cluster.read_now(SECOND));
    }
    assert_eq!(cluster.oracles.height(), height, "no block is made for a read");
    assert_eq!(cluster.in_flight(), 0);
}

#[test]
fn a_read_waits_for_what_a_lagging_replica_lacks_and_is_given_up_without_a_quorum() {
    let mut cluster = cluster();
    cluster.crash(3);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(SECOND));
    assert!(cluster.read_now(SECOND), "q of four are there");
    cluster.crash(2);
    assert!(!cluster.read_now(20 * SECOND));
    let reader = cluster.reader.as_ref().expect("it is watched");
    assert!(reader.given_up.contains_key(&ReadError::TooFew.to_string()));
    cluster.boot(2);
    cluster.boot(3);
    cluster.run_for(SECOND);
    assert!(cluster.read_now(SECOND));
}

/// More than f replicas lose their data. Those that have it no more say so, and do not stand for a
/// quorum that knows of no write.
#[test]
fn replicas_that_lost_their_data_do_not_count() {
    let mut cluster = cluster();
    cluster.crash(3);
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(SECOND));
    for slot in [0, 1, 2] {
        cluster.crash(slot);
    }
    cluster.boot(3);
    for slot in [0, 1] {
        cluster.rejoin(slot, 7);
    }
    assert!(!cluster.read_now(20 * SECOND), "a write was answered, and three know of none");
    for slot in [0, 1] {
        let refused = cluster.core(slot).read_index(Epoch(0));
        assert_eq!(refused, Err(Unproven::Forgotten));
    }
    assert_eq!(cluster.core(3).read_index(Epoch(0)), Ok(Height(0)), "it was away");
}

/// One replica loses its data. It counts again when it knows a certificate that no write can be
/// above which it helped to commit.
#[test]
fn a_replica_that_comes_back_counts_when_it_knows_as_much_again() {
    let mut cluster = cluster();
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(SECOND));
    cluster.crash(0);
    cluster.rejoin(0, 7);
    cluster.run_for(SECOND);
    let core = cluster.core(0);
    assert!(!core.is_rejoining(), "it has testimonies");
    assert!(status_of(core).abstain_until > status_of(core).high_qc);
    assert_eq!(core.read_index(Epoch(0)), Err(Unproven::Forgotten), "it abstains");
    for _ in 0..30 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(10 * SECOND));
    }
    cluster.run_for(SECOND);
    let written = cluster.core(1).execution().written();
    assert!(cluster.core(0).read_index(Epoch(0)).is_ok_and(|index| index >= written));
    assert_eq!(cluster.core(0).read_index(Epoch(1)), Err(Unproven::Epoch));
}
