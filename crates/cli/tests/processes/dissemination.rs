//! Clients that send to one replica each, whose frames travel ahead of proposals.

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, wait_until};

/// Frames that travel with no proposal: beyond 16 KiB.
const SHAPE: Shape = Shape { frame: 10, value_bytes: 2_000, keys: 1_000 };
const ALL: [usize; 4] = [0, 1, 2, 3];

/// Replicas change it one after the other, and are killed, under load.
#[test]
fn replicas_that_differ_in_it_and_are_killed_lose_nothing() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let writers = Writers::start_with_one(&cluster, 4, SHAPE);
    writers.wait_for(200);
    for value in ["ahead", "direct", "ahead"] {
        for replica in ALL {
            cluster.kill(replica);
            writers.wait_for(50);
            cluster.start_replica(replica, &["--set", &format!("dissemination={value}")]);
            let height = cluster.height((replica + 1) % 4);
            cluster.wait_for_height(replica, height);
        }
        writers.wait_for(200);
    }
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
    assert_written(&cluster, SHAPE, &written);
    wait_until("all agree", || ALL.iter().all(|id| cluster.height(*id) == cluster.height(0)));
}
