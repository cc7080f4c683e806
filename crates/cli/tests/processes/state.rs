//! Replicas with their state on disk, among others that have it in memory.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use quorate_node::http;
use quorate_node::launch::last_http_address;

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, wait_until};

const ALL: [usize; 4] = [0, 1, 2, 3];
const ON_DISK: [usize; 2] = [2, 3];
const DISK: [&str; 2] = ["--set", "storage.state=disk"];
const PATIENCE: Duration = Duration::from_secs(60);
const SHAPE: Shape = Shape { frame: 20, value_bytes: 100, keys: 500 };

fn start(cluster: &mut Cluster, replica: usize) {
    let arguments: &[&str] = if ON_DISK.contains(&replica) { &DISK } else { &[] };
    cluster.start_replica(replica, arguments);
}

fn mixed(settings: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(&[], settings);
    ALL.into_iter().for_each(|replica| start(&mut cluster, replica));
    cluster
}

/// A number among the metrics of a replica.
fn metric(cluster: &Cluster, replica: usize, name: &str) -> f64 {
    let address = last_http_address(&cluster.data(replica)).expect("it has said so");
    let text = http::ask(&address, "/metrics", PATIENCE).expect("it answers").body;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next();
    value.and_then(|value| value.parse().ok()).expect("a number")
}

/// Whether a replica has kept a state: what it offers others is written after that, behind the
/// checkpoint and what is beside it.
fn has_kept_state(cluster: &Cluster, replica: usize) -> bool {
    cluster.data(replica).join("snapshots/offer").exists()
}

#[test]
fn replicas_on_disk_and_in_memory_agree_through_kills() {
    let mut cluster = mixed(&["storage.snapshot_every=150", "view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(500);
    // A replica that is killed before it has kept a state once has none to go on from.
    wait_until("each of them has kept a state", || {
        ON_DISK.into_iter().all(|replica| has_kept_state(&cluster, replica))
    });
    for replica in [2, 0, 3, 2, 3] {
        // The others are just a quorum: replicas of both kinds vote for each block, and none votes
        // for a state root that it has not computed itself.
        cluster.kill(replica);
        writers.wait_for(500);
        start(&mut cluster, replica);
        let height = cluster.height((replica + 1) % 4);
        cluster.wait_for_height(replica, height);
    }
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
    assert_written(&cluster, SHAPE, &written);
    cluster.kill_all();
    ALL.into_iter().for_each(|replica| start(&mut cluster, replica));
    assert_written(&cluster, SHAPE, &written);
    cluster.wait_until_equal(&ALL);
    for replica in ON_DISK {
        let log = cluster.log_text(replica);
        assert!(!log.contains("kept state"), "a state was made again: {log}");
        assert!(cluster.data(replica).join("state").exists());
    }
    assert!(ALL.into_iter().all(|replica| cluster.runs(replica)));
}

/// What is in the folder of a replica's snapshots, by kind.
fn snapshots(cluster: &Cluster, replica: usize, kind: &str) -> usize {
    let files = fs::read_dir(cluster.data(replica).join("snapshots")).unwrap();
    files.filter(|file| file.as_ref().unwrap().path().extension() == Some(kind.as_ref())).count()
}

/// Which kind a replica keeps, and which it does not.
fn kinds(replica: usize) -> (&'static str, &'static str) {
    if ON_DISK.contains(&replica) { ("beside", "snapshot") } else { ("snapshot", "beside") }
}

#[test]
fn a_start_goes_on_from_disk_and_may_change_sides() {
    let mut cluster = mixed(&["storage.snapshot_every=100", "view_timeout.base=300ms"]);
    let writers = Writers::start(&cluster, 3, SHAPE);
    (0..10).for_each(|_| writers.wait_for(500));
    // One that is killed before it has kept a state goes on from the first block. How full blocks
    // are is the machine's affair. The blocks behind a state show its root: so writers go on.
    wait_until("each has kept a state", || {
        ALL.into_iter().all(|replica| has_kept_state(&cluster, replica))
    });
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    let (own, other) = (|replica| kinds(replica).0, |replica| kinds(replica).1);
    cluster.kill_all();
    ALL.into_iter().for_each(|replica| start(&mut cluster, replica));
    let executed = |replica| metric(&cluster, replica, "quorate_committed_commands_total");
    // What was decided before is executed with what is decided next.
    assert_written(&cluster, SHAPE, &written);
    cluster.wait_until_equal(&ALL);
    // Above the checkpoint, as above a snapshot.
    let (found, all) = (ALL.map(executed), written.iter().sum::<u64>());
    assert!(found.iter().all(|count| *count < all as f64), "{found:?} of {all}");
    for replica in ALL {
        assert!(snapshots(&cluster, replica, own(replica)) > 0);
        assert_eq!(snapshots(&cluster, replica, other(replica)), 0);
    }

    // Each the other way, and back.
    for round in 0..2 {
        for replica in [1, 2] {
            cluster.kill(replica);
            let disk = (round == 0) == (replica == 1);
            cluster.start_replica(replica, if disk { &DISK } else { &[] });
            cluster.wait_until_equal(&ALL);
            assert!(!disk || cluster.data(replica).join("state").exists());
        }
        let writers = Writers::start(&cluster, 2, Shape { keys: u64::MAX, ..SHAPE });
        writers.wait_for(300);
        writers.finish(&cluster);
        cluster.wait_until_equal(&ALL);
    }
    cluster.assert_agreement(&ALL);
}

#[test]
fn a_damaged_state_is_refused_and_taken_over_from_others_once_it_is_removed() {
    let mut cluster = mixed(&["storage.snapshot_every=100"]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    // The others have a snapshot then, and their logs need not reach back to the first block.
    while cluster.height(3) < 3 * 100 {
        writers.wait_for(100);
    }
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    cluster.kill_all();
    let state = cluster.data(3).join("state");
    let folder = fs::read_dir(&state).unwrap().next().unwrap().unwrap().path();
    let head = fs::File::options().write(true).open(folder.join("store.head")).unwrap();
    for page in 0..3 {
        head.write_all_at(&[0x5A; 64], page * 4096).unwrap();
    }
    let refused = cluster.refused(3, &DISK);
    assert!(refused.code.is_some_and(|code| code != 0), "{}", refused.stderr);
    let remedy = format!("remove {}", folder.display());
    assert!(refused.stderr.contains("store.head"), "{}", refused.stderr);
    assert!(refused.stderr.contains(&remedy), "{}", refused.stderr);
    fs::remove_dir_all(&folder).unwrap();
    ALL.into_iter().for_each(|replica| start(&mut cluster, replica));
    assert_written(&cluster, SHAPE, &written);
    cluster.wait_until_equal(&ALL);
    let log = cluster.log_text(3);
    assert!(log.contains("there is no kept state, and no snapshot to build it from"), "{log}");
}

/// Nobody has snapshots, and no log reaches back far enough: a checkpoint becomes one when somebody
/// asks, also where nothing goes on any more.
#[test]
fn a_state_that_is_gone_is_made_of_the_checkpoint_of_another() {
    let shape = Shape { frame: 30, value_bytes: 30_000, keys: 90 };
    let settings = ["storage.log_window=64MiB", "storage.state=disk", "view_timeout.base=300ms"];
    let mut cluster = Cluster::new(&["--durability", "os"], &settings);
    ALL.into_iter().for_each(|replica| cluster.start_replica(replica, &[]));
    let writers = Writers::start(&cluster, 4, shape);
    writers.wait_for_each(120, "the logs were cut", || {
        ALL.iter().all(|replica| cluster.span(*replica).is_some_and(|(first, _)| first > 1))
    });
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    for replica in [3, 1] {
        cluster.kill(replica);
        fs::remove_dir_all(cluster.data(replica).join("state")).unwrap();
        cluster.start_replica(replica, &[]);
        cluster.wait_until_equal(&ALL);
    }
    assert!(ALL.into_iter().all(|replica| snapshots(&cluster, replica, "snapshot") == 0));
    // As it would be had they stopped before blocks showed the roots of their checkpoints, and with
    // nothing to do since.
    cluster.kill_all();
    for replica in ALL {
        fs::remove_file(cluster.data(replica).join("snapshots/offer")).unwrap();
    }
    fs::remove_dir_all(cluster.data(2).join("state")).unwrap();
    ALL.into_iter().for_each(|replica| cluster.start_replica(replica, &[]));
    cluster.wait_until_equal(&ALL);
    cluster.kill_all();
    ALL.into_iter().for_each(|replica| cluster.start_replica(replica, &[]));
    assert_written(&cluster, shape, &written);
    cluster.wait_until_equal(&ALL);
    cluster.assert_agreement(&ALL);
}
