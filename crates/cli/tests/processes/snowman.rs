//! Snowman by real processes: kills under load, restarts of all, and what it says to those who ask
//! for what it lacks.

use std::time::Duration;

use quorate_node::http::{ask, ask_json};
use quorate_node::launch::last_http_address;
use serde_json::Value;

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, quorate, wait_until};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const ALL: [usize; 4] = [0, 1, 2, 3];

fn start(sampling: &str) -> Cluster {
    Cluster::start(&["--protocol", "snowman", "--sampling", sampling], &[])
}

fn assert_equal(cluster: &Cluster) {
    wait_until("all replicas hold the same keys", || {
        let keys = ALL.map(|replica| cluster.keys(replica));
        keys[0].is_some() && keys.windows(2).all(|pair| pair[0] == pair[1])
    });
}

#[test]
fn replicas_die_under_load_and_come_back_and_nothing_is_lost() {
    let mut cluster = start("later-practice");
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(300);
    for replica in [0, 2] {
        cluster.kill(replica);
        writers.wait_for(100);
        cluster.start_replica(replica, &[]);
        writers.wait_for(100);
    }
    // Counters begin anew, what was accepted stays.
    cluster.kill_all();
    ALL.into_iter().for_each(|replica| cluster.start_replica(replica, &[]));
    writers.wait_for(100);
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// With 150 polls in a row for each block it is slower, and does the same.
#[test]
fn the_papers_parameters_work_too() {
    let mut cluster = start("paper");
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(50);
    cluster.kill(3);
    writers.wait_for(50);
    cluster.start_replica(3, &[]);
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// Replicas that may fall back on a quorum write their epochs down, and are in nobody's way.
#[test]
fn with_the_fallback_a_replica_dies_and_comes_back() {
    let mut cluster = Cluster::start(&["--protocol", "snowman", "--liveness", "frosty"], &[]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(100);
    cluster.kill(3);
    writers.wait_for(100);
    cluster.start_replica(3, &[]);
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// Half of the replicas are dead: no poll succeeds, and the others fall back on a quorum that is
/// not there either. With the dead back it decides, sampling goes on, and all of that is told.
#[test]
fn a_stall_and_its_end_show_in_the_figures() {
    let mut cluster = Cluster::start(&["--protocol", "snowman", "--liveness", "frosty"], &[]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(50);
    let address = last_http_address(&cluster.data(0)).unwrap();
    let patience = Duration::from_secs(60);
    let details = || -> Value {
        let status = ask_json(&address, "/status", patience).unwrap();
        status["details"].clone()
    };
    wait_until("it samples", || details()["in_fallback"] == 0);
    wait_until("polls are told", || details()["polls"] != 0);
    (2..4).for_each(|replica| cluster.kill(replica));
    // Before they were dead a slow machine may have fallen back too, and be about to end that.
    wait_until("a replica falls back", || {
        let details = details();
        details["in_fallback"] == 1 && details["fallback_epoch"].as_u64().unwrap() % 2 == 1
    });
    let metrics = ask(&address, "/metrics", patience).unwrap().body;
    assert!(metrics.contains("quorate_protocol_detail{name=\"in_fallback\"} 1"), "{metrics}");
    (2..4).for_each(|replica| cluster.start_replica(replica, &[]));
    wait_until("the quorum decides, and replicas sample again", || {
        let details = details();
        details["in_fallback"] == 0 && details["fallback_epochs_decided"] != 0
    });
    assert_ne!(details()["fallback_epochs_begun"], 0);
    writers.wait_for(50);
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn what_it_lacks_is_refused_with_the_reason() {
    let mut cluster = start("later-practice");
    cluster.kill(3);
    std::fs::remove_dir_all(cluster.data(3)).unwrap();
    let rejoin = cluster.refused(3, &["--rejoin-after-data-loss"]);
    let reason = "`--rejoin-after-data-loss`: this protocol has no way back for a replica that lost its data";
    assert!(rejoin.stderr.contains(reason), "{}", rejoin.stderr);

    let client = cluster.folder().join("client");
    let home = client.to_str().unwrap();
    for (arguments, lacks) in [
        (&["get", "--verified", "key", "--home", home][..], "has no verified reads"),
        (&["pull", "--home", home][..], "has no blocks that prove that they are decided"),
    ] {
        let output = quorate().args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let is_told = stderr.contains(lacks) && stderr.contains("`protocol = \"snowman\"`");
        assert!(!output.status.success() && is_told, "{arguments:?}: {stderr}");
    }
}
