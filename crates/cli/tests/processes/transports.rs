//! Replicas over QUIC and UDP, and one that uses another transport than the others.

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, wait_until};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const ALL: [usize; 4] = [0, 1, 2, 3];
const QUIC: [&str; 2] = ["--transport", "quic"];
const UDP: [&str; 2] = ["--transport", "udp"];

#[test]
fn over_quic_replicas_killed_under_load_come_back_and_nothing_is_lost() {
    replicas_killed_under_load_come_back_and_nothing_is_lost(&QUIC);
}

#[test]
fn over_udp_replicas_killed_under_load_come_back_and_nothing_is_lost() {
    replicas_killed_under_load_come_back_and_nothing_is_lost(&UDP);
}

/// Replica 0 dials all others, replica 3 is dialled by all, replica 1 does both.
fn replicas_killed_under_load_come_back_and_nothing_is_lost(transport: &[&str]) {
    let mut cluster = Cluster::start(transport, &["view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(500);
    for victim in [0, 3, 1] {
        cluster.kill(victim);
        writers.wait_for(500);
        cluster.start_replica(victim, &[]);
        let height = cluster.height(2);
        cluster.wait_for_height(victim, height);
    }
    let before = writers.so_far();
    cluster.kill_all();
    cluster.start_all();
    assert_written(&cluster, SHAPE, &before);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn a_replica_with_another_transport_is_not_reached_and_says_what_to_do() {
    for (all, theirs, own, spelled) in [
        (&[][..], "tcp", "quic", "QUIC"),
        (&QUIC[..], "quic", "tcp", "TCP"),
        (&QUIC[..], "quic", "udp", "UDP"),
    ] {
        let mut cluster = Cluster::new(all, &["view_timeout.base=300ms"]);
        let file = cluster.home(0).join("config/cluster.toml");
        let text = std::fs::read_to_string(&file).unwrap();
        let line = format!("\ntransport = \"{theirs}\"\n");
        assert!(text.contains(&line), "{text}");
        std::fs::write(&file, text.replace(&line, &format!("\ntransport = \"{own}\"\n"))).unwrap();
        cluster.start_all();
        let writers = Writers::start(&cluster, 2, SHAPE);
        writers.wait_for(200);
        let said = format!("nothing answers over {spelled}");
        wait_until("replica 0 says what is wrong", || cluster.log_text(0).contains(&said));
        let remedy = format!("does its cluster.toml say transport = \"{own}\" as the one here");
        assert!(cluster.log_text(0).contains(&remedy), "{}", cluster.log_text(0));
        let written = writers.finish(&cluster);
        assert_written(&cluster, SHAPE, &written);
    }
}
