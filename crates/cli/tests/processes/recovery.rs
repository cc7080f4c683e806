//! Coming back: after a while, after very long, after the loss of all data.

use std::fs;

use rustix::process::Signal;

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, wait_until};

const ALL: [usize; 4] = [0, 1, 2, 3];
const SHAPE: Shape = Shape { frame: 500, value_bytes: 16, keys: 2000 };

#[test]
fn a_follower_that_was_away_catches_up_under_load() {
    let mut cluster = Cluster::start(&["--batch", "5000"], &["view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 8, SHAPE);
    writers.wait_for(2000);
    cluster.kill(3);
    writers.wait_for(50_000);
    cluster.start_replica(3, &[]);
    let height = cluster.height(0);
    cluster.wait_for_height(3, height);
    writers.wait_for(2000);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn a_stopped_replica_goes_on_where_the_others_are() {
    let cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(1000);
    for replica in [1, 2] {
        cluster.signal(replica, Signal::STOP);
        writers.wait_for(4000);
        cluster.signal(replica, Signal::CONT);
        let height = cluster.height(0);
        cluster.wait_for_height(replica, height);
    }
    writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
}

#[test]
fn a_wiped_replica_is_refused_and_rejoins_on_the_flag() {
    let mut cluster = Cluster::start(&[], &["view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 4, Shape { frame: 20, ..SHAPE });
    writers.wait_for(1000);
    cluster.kill(2);
    let present = cluster.refused(2, &["--rejoin-after-data-loss"]);
    assert_eq!(present.code, Some(2), "{}", present.stderr);
    assert!(present.stderr.contains("there is data here"), "{}", present.stderr);
    fs::remove_dir_all(cluster.data(2)).unwrap();
    let lost = cluster.refused(2, &[]);
    assert_eq!(lost.code, Some(4), "{}", lost.stderr);
    assert!(lost.stderr.contains("there is no safety record"), "{}", lost.stderr);
    assert!(lost.stderr.contains("--rejoin-after-data-loss"), "{}", lost.stderr);

    // Cut short before the others could answer, and repeated.
    for other in [0, 1, 3] {
        cluster.signal(other, Signal::STOP);
    }
    cluster.start_replica(2, &["--rejoin-after-data-loss"]);
    cluster.kill(2);
    for other in [0, 1, 3] {
        cluster.signal(other, Signal::CONT);
    }
    cluster.start_replica(2, &["--rejoin-after-data-loss"]);
    let height = cluster.height(0);
    cluster.wait_for_height(2, height);
    // Once it has moved on the others need its votes: with another one dead nothing is decided
    // without them.
    writers.wait_for(2000);
    cluster.kill(0);
    writers.wait_for(500);
    cluster.start_replica(0, &[]);
    cluster.kill(2);
    cluster.start_replica(2, &[]);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
    assert_written(&cluster, SHAPE, &written);
}

/// The log is cut behind snapshots: the disk comes back to its bounds, and who has less than the
/// log reaches back takes over a snapshot.
#[test]
fn the_log_is_cut_and_a_snapshot_takes_its_place() {
    const WINDOW: u64 = 64 << 20;
    const SEGMENT: u64 = 16 << 20;
    let shape = Shape { frame: 30, value_bytes: 30_000, keys: 90 };
    let settings = ["storage.log_window=64MiB", "view_timeout.base=300ms"];
    let mut cluster = Cluster::new(&["--durability", "os"], &settings);
    // Snapshots pass between replicas with their state on disk and those with it in memory.
    let on_disk = ["--set", "storage.state=disk"];
    for replica in ALL {
        cluster.start_replica(replica, if replica > 1 { &on_disk } else { &[] });
    }
    let writers = Writers::start(&cluster, 4, shape);
    writers.wait_for_each(120, "the log of a replica was cut", || {
        cluster.span(1).is_some_and(|(first, _)| first > 1)
    });
    // The window, which here is only four segments long: the segments at both ends and the one
    // prepared ahead come on top, and a few snapshots.
    let state = 4 * shape.keys * 2 * shape.value_bytes as u64;
    let bound = WINDOW + 3 * SEGMENT + 4 * state;
    // Nothing holds writers up while a snapshot is written: until the cut there may be more.
    wait_until("its disk is within bounds", || cluster.disk(1) < bound);
    writers.wait_for_each(120, "the log of the others was cut", || {
        [0, 2].iter().all(|replica| cluster.span(*replica).is_some_and(|(first, _)| first > 1))
    });
    cluster.kill(3);
    fs::remove_dir_all(cluster.data(3)).unwrap();
    cluster.start_replica(3, &[&["--rejoin-after-data-loss"], &on_disk[..]].concat());
    let height = cluster.height(0);
    cluster.wait_for_height(3, height);
    let mut first = None;
    wait_until("it shows what it has", || {
        first = cluster.span(3).map(|(first, _)| first);
        first.is_some()
    });
    assert!(first > Some(1), "no snapshot was taken over");
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    // From snapshot and log, or the state on disk.
    cluster.kill_all();
    for replica in ALL {
        cluster.start_replica(replica, if replica > 1 { &on_disk } else { &[] });
    }
    assert_written(&cluster, shape, &written);
    cluster.wait_until_equal(&ALL);
}
