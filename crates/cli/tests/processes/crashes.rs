//! kill −9 of one, of two, of all.

use crate::cluster::writers::{Shape, Writers, assert_written, set};
use crate::cluster::{Cluster, connect};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const ALL: [usize; 4] = [0, 1, 2, 3];

/// The leaders take turns, so each of the replicas is killed while it leads now and then; with
/// one dead, every fourth view is lost.
#[test]
fn a_leader_killed_under_load_loses_no_acknowledged_write() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(500);
    for victim in [0, 2] {
        cluster.kill(victim);
        writers.wait_for(1000);
        cluster.start_replica(victim, &[]);
        let others: Vec<usize> = ALL.into_iter().filter(|replica| *replica != victim).collect();
        let height = cluster.height(others[0]);
        cluster.wait_for_height(victim, height);
    }
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn all_killed_at_once_keep_what_was_acknowledged() {
    for durability in ["sync", "os"] {
        let mut cluster = Cluster::start(&["--durability", durability], &[]);
        let writers = Writers::start(&cluster, 4, SHAPE);
        for _ in 0..3 {
            writers.wait_for(400);
            let before = writers.so_far();
            cluster.kill_all();
            cluster.start_all();
            assert_written(&cluster, SHAPE, &before);
        }
        let written = writers.finish(&cluster);
        cluster.wait_until_equal(&ALL);
        cluster.assert_agreement(&ALL);
        assert_written(&cluster, SHAPE, &written);
    }
}

#[test]
fn two_of_four_do_not_answer_and_three_do_again() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(200);
    let written = writers.finish(&cluster);
    let client = cluster.client();
    cluster.wait_until_equal(&ALL);
    cluster.kill(1);
    cluster.kill(3);
    let before = cluster.keys_held(0);
    let pending = cluster.runtime.spawn(client.submit(vec![set("late", b"1")]));
    let mut impatient = cluster.client_config();
    impatient.incarnation = Some(1);
    let opening = cluster.runtime.block_on(async {
        tokio::time::timeout(std::time::Duration::from_secs(3), connect(impatient)).await
    });
    assert!(opening.is_err(), "two of four opened a session");
    assert!(!pending.is_finished(), "two of four acknowledged a write");
    // A proposal may be on its disk; nothing of it may have been executed.
    assert_eq!(cluster.keys_held(0), before, "two of four executed a command");
    cluster.start_replica(1, &[]);
    let reply = cluster.runtime.block_on(pending).unwrap().unwrap();
    assert_eq!(reply.len(), 1);
    assert_written(&cluster, SHAPE, &written);
    cluster.start_replica(3, &[]);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
}
