//! The second protocol that replicas can run, by real processes: ordering, restarts, and what it
//! says to those who ask for what it lacks.

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, quorate, wait_until};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const INIT: [&str; 3] = ["--protocol", "laboratory-sequencer", "--laboratory"];

#[test]
fn it_orders_and_comes_back_from_kills() {
    let mut cluster = Cluster::start(&INIT, &[]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(300);
    for replica in [2, 0] {
        cluster.kill(replica);
        cluster.start_replica(replica, &[]);
        writers.wait_for(100);
    }
    let written = writers.finish(&cluster);
    wait_until("all replicas hold the same keys", || {
        let keys = [0, 1, 2, 3].map(|replica| cluster.keys(replica));
        keys[0].is_some() && keys.windows(2).all(|pair| pair[0] == pair[1])
    });
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn what_it_lacks_is_refused_with_the_reason() {
    let mut cluster = Cluster::start(&INIT, &[]);
    cluster.kill(2);
    cluster.kill(3);
    let data = cluster.data(3);
    std::fs::remove_dir_all(&data).unwrap();
    let rejoin = cluster.refused(3, &["--rejoin-after-data-loss"]);
    let reason = "`--rejoin-after-data-loss`: this protocol has no way back for a replica that lost its data";
    assert!(rejoin.stderr.contains(reason), "{}", rejoin.stderr);

    let adversary = cluster.refused(2, &["--set", "laboratory.adversary=silent-leader"]);
    let reason = "`laboratory.adversary`: none is written for this protocol";
    assert!(adversary.stderr.contains(reason), "{}", adversary.stderr);

    let client = cluster.folder().join("client");
    let home = client.to_str().unwrap();
    for (arguments, lacks) in [
        (&["get", "--verified", "key", "--home", home][..], "has no verified reads"),
        (&["pull", "--home", home][..], "has no blocks that prove that they are decided"),
    ] {
        let output = quorate().args(arguments).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && stderr.contains(lacks), "{arguments:?}: {stderr}");
    }
}
