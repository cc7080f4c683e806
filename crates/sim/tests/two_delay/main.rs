//! The laboratory's protocol of two delays in clusters in which anything may go wrong.

mod liars;

use std::collections::BTreeMap;

use quorate_core::ledger::block::BlockId;
use quorate_core::protocols::two_delay::{FAST_DELAYS, SLOW_DELAYS};
use quorate_sim::campaign::{Campaign, Progress};
use quorate_sim::family::TwoDelays;
use quorate_sim::network::Link;
use quorate_sim::swarm::Plan;
use quorate_sim::trace::Trace;
use quorate_sim::twins::two_delay as twins;
use quorate_sim::{Cluster, Config};

/// More by `quorate sim --protocol laboratory-two-delay`.
#[test]
fn storms_pass() {
    let campaign = Campaign {
        first: 0,
        seeds: 400,
        time: None,
        threads: 2,
        most_violations: 3,
        plan: Plan::default(),
    };
    let report = campaign.run::<TwoDelays>(&Progress::default());
    assert_eq!(report.violations, []);
    assert!(report.tally.commits > 400 && report.tally.views > 400, "{:?}", report.tally);
}

/// Scenarios of Twins, with kinds of messages partitioned by themselves: f replicas of four and of
/// seven run twice, over eight views, sampled.
#[test]
fn twins_never_part_the_others() {
    let (mut parted, mut views) = (0, 0);
    for seed in 0..scenarios() {
        let scenario = twins::Scenario::draw(seed);
        let mut place = None;
        let run = std::panic::AssertUnwindSafe(|| {
            twins::run(&scenario, Trace::default(), &mut place);
        });
        assert!(std::panic::catch_unwind(run).is_ok(), "scenario {seed}: {scenario:?}");
        let cluster = place.expect("it ran");
        let told = |kind| cluster.noted.get(kind).copied().unwrap_or(0);
        parted += u64::from(told("equivocation") + told("double-vote") > 0);
        views += u64::from(told("gave-up") > 0);
    }
    // The twins do say two things, and views are given up.
    assert!(parted * 4 > scenarios() && views * 4 > scenarios(), "{parted} and {views}");
}

/// How many scenarios; more where the environment asks for them.
fn scenarios() -> u64 {
    let asked = std::env::var("QUORATE_TEST_TWINS").ok();
    asked.map_or(400, |number| number.parse().expect("QUORATE_TEST_TWINS is a number"))
}

/// Every link takes so long, and nothing else takes any time.
const DELTA: u64 = 10_000;

/// A cluster whose client has a session, and in which these replicas are dead.
fn cluster(replicas: usize, dead: &[usize]) -> Cluster<TwoDelays> {
    let config = Config {
        replicas,
        link: Link::steady(DELTA),
        client_patience: 3_600_000_000,
        relay_after: 3_600_000_000,
        ..Config::default()
    };
    let mut cluster = Cluster::<TwoDelays>::of(config, Trace::default());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(1000 * DELTA), "no session");
    cluster.run_for(10 * DELTA);
    dead.iter().for_each(|slot| cluster.crash(*slot));
    cluster
}

/// In how many delays each block with commands was committed, at each replica that committed it.
fn delays(cluster: &Cluster<TwoDelays>) -> BTreeMap<BlockId, Vec<u64>> {
    let mut delays = BTreeMap::<_, Vec<u64>>::new();
    for (at, _, block) in &cluster.committed {
        let proposed = cluster.proposed.iter().find(|(_, _, proposed)| proposed == block);
        let (sent, ..) = proposed.expect("every block was proposed");
        let took = at.since(*sent).as_micros() as u64;
        assert_eq!(took % DELTA, 0, "something takes time");
        delays.entry(*block).or_default().push(took / DELTA);
    }
    delays
}

/// The delays of the blocks of a few requests, with all leaders alive.
fn delays_of(replicas: usize, dead: &[usize]) -> Vec<Vec<u64>> {
    let mut cluster = cluster(replicas, dead);
    let mut found = Vec::new();
    // Fewer than there are views until a dead replica leads.
    for _ in 0..2 {
        cluster.proposed.clear();
        cluster.committed.clear();
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(100 * DELTA), "no answer");
        cluster.run_for(3 * DELTA);
        found.extend(delays(&cluster).into_values());
    }
    found
}

#[test]
fn a_block_takes_two_delays_if_all_vote() {
    for replicas in [4, 7] {
        let found = delays_of(replicas, &[]);
        assert_eq!(found, vec![vec![FAST_DELAYS; replicas]; 2], "{replicas} replicas");
    }
}

#[test]
fn one_silent_follower_costs_nothing() {
    for replicas in [4, 7] {
        let found = delays_of(replicas, &[0]);
        assert_eq!(found, vec![vec![FAST_DELAYS; replicas - 1]; 2], "{replicas} replicas");
    }
}

#[test]
fn two_silent_followers_of_seven_cost_one_delay() {
    let found = delays_of(7, &[0, 6]);
    assert_eq!(found, vec![vec![SLOW_DELAYS; 5]; 2]);
}
