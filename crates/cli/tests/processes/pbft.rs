//! PBFT by real processes: a primary that dies with blocks under way, a whole cluster that restarts
//! under load, and what it says to those who ask for what it lacks.

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, wait_until};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const ALL: [usize; 4] = [0, 1, 2, 3];

fn start() -> Cluster {
    Cluster::start(&["--protocol", "pbft"], &["view_timeout.base=300ms"])
}

fn assert_equal(cluster: &Cluster) {
    wait_until("all replicas hold the same keys", || {
        let keys = ALL.map(|replica| cluster.keys(replica));
        keys[0].is_some() && keys.windows(2).all(|pair| pair[0] == pair[1])
    });
}

#[test]
fn a_primary_that_dies_under_load_is_replaced_and_comes_back() {
    let mut cluster = start();
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(300);
    // The primaries of the first views, one after the other.
    for primary in [0, 1] {
        cluster.kill(primary);
        writers.wait_for(100);
        cluster.start_replica(primary, &[]);
        writers.wait_for(100);
    }
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn all_replicas_restart_at_once_under_load() {
    let mut cluster = start();
    let writers = Writers::start(&cluster, 4, SHAPE);
    for _ in 0..3 {
        writers.wait_for(200);
        cluster.kill_all();
        ALL.into_iter().for_each(|replica| cluster.start_replica(replica, &[]));
    }
    writers.wait_for(100);
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}
