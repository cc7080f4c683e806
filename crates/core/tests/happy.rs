//! Clusters in which nothing goes wrong.

use quorate_sim as cluster;

use cluster::trace::Trace;
use cluster::{Cluster, Config};

#[test]
fn commands_are_executed_and_answered_at_every_size() {
    for replicas in [1, 2, 3, 4, 5, 7, 10] {
        let mut cluster = Cluster::new(Config { replicas, clients: 2, ..Config::default() });
        cluster.request(0, 3, 10);
        cluster.request(1, 1, 10);
        assert!(cluster.run_until_answered(2_000_000), "{replicas} replicas do not answer");
        cluster.request(0, 5, 10);
        assert!(cluster.run_until_answered(2_000_000), "{replicas} replicas stopped");
        assert_eq!(cluster.oracles.commands.len(), 9);
        cluster.run_for(1_000_000);
        assert!(cluster.is_level());
    }
}

#[test]
fn an_idle_cluster_is_silent_and_wakes_up() {
    let mut cluster = Cluster::new(Config::default());
    for round in 1..=5 {
        cluster.request(0, 1, 10);
        assert!(cluster.run_until_answered(2_000_000), "round {round}");
        cluster.run_for(200_000);
        assert_eq!(cluster.in_flight(), 0, "round {round}");
        assert!(!cluster.has_timer(), "a timer runs in round {round}");
        assert!(cluster.is_level());
    }
    let sent: u64 = cluster.slots.iter().map(|slot| slot.sent).sum();
    cluster.run_for(100_000_000);
    assert_eq!(cluster.slots.iter().map(|slot| slot.sent).sum::<u64>(), sent);
}

#[test]
fn a_frame_is_proposed_once() {
    let mut cluster = Cluster::traced(Config::default(), Trace::on());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(2_000_000));
    cluster.trace.take();
    for _ in 0..20 {
        cluster.request(0, 1, 10);
        cluster.run_for(500);
    }
    assert!(cluster.run_until_answered(2_000_000));
    let lines = cluster.trace.take();
    let proposed =
        lines.iter().filter_map(|line| line.split_once("proposes in view ")?.1.split_once(", "));
    let frames =
        proposed.filter_map(|(_, count)| count.split_once(" frames")?.0.parse::<u64>().ok());
    assert_eq!(frames.sum::<u64>(), 20, "{}", lines.join("\n"));
}

#[test]
fn what_is_committed_was_not_pruned() {
    let mut cluster = Cluster::traced(Config::default(), Trace::on());
    cluster.request(0, 1, 10);
    assert!(cluster.run_until_answered(2_000_000));
    assert!(!cluster.trace.take().iter().any(|line| line.contains("prunes")));
}
