//! Clusters in which nothing goes wrong.

mod cluster;

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
