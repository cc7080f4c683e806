//! Snowman in clusters in which anything may go wrong.

use quorate_core::ReplicaId;
use quorate_core::protocols::protocol::Protocol as _;
use quorate_core::replica::message::PeerMessage;
use quorate_sim::campaign::{self, Campaign, Progress};
use quorate_sim::family::Snowmans;
use quorate_sim::network::Fate;
use quorate_sim::swarm::Plan;
use quorate_sim::trace::Trace;
use quorate_sim::{Cluster, Config};

/// Longer than anything here takes, in microseconds of the simulated clock.
const PATIENCE: u64 = 60_000_000;

/// More by `quorate sim --protocol snowman`.
#[test]
fn storms_pass() {
    let campaign = Campaign {
        first: 0,
        seeds: 200,
        time: None,
        threads: 2,
        most_violations: 3,
        plan: Plan::default(),
    };
    let report = campaign.run::<Snowmans>(&Progress::default());
    assert_eq!(report.violations, []);
    assert!(report.tally.commits > 400, "{:?}", report.tally);
}

/// Ten replicas poll five others each, and one of the ten runs twice. Two blocks that were even in
/// a sample that lacked answers turned replicas to the one that most did not prefer.
#[test]
fn a_storm_with_a_tie_that_lacks_answers_passes() {
    let (outcome, _) = campaign::run::<Snowmans>(7453, &Plan::default(), Trace::default());
    assert_eq!(outcome.err(), None);
}

/// The first replica that names what another one lacks does not send it. Those who name it later
/// are asked as well.
#[test]
fn those_who_name_a_block_later_are_asked_for_it_too() {
    let config = Config { replicas: 4, ..Config::default() };
    let mut cluster = Cluster::<Snowmans>::of(config, Trace::default());
    cluster.crash(3);
    cluster.network.link(1, 3).cut = true;
    cluster.network.link(2, 3).cut = true;
    for _ in 0..3 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(PATIENCE));
    }
    cluster.meddler = Some(Box::new(|from, _, message| match message {
        PeerMessage::Chain(_) if from == 0 => Fate::Lost,
        _ => Fate::Goes,
    }));
    cluster.boot(3);
    cluster.run_for(1_000_000);
    let behind = cluster.slots[3].core.as_ref().expect("it runs");
    let missing = behind.protocol().missing().expect("it knows that it lacks blocks");
    assert_eq!(missing.holders, [ReplicaId(0)]);
    cluster.network.heal();
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(PATIENCE));
    assert!(cluster.run_until(PATIENCE, Cluster::is_level), "it stays behind");
}
