//! Alerts of whole clusters: each fires where its fault is, and nowhere else.
//!
//! The rules of `deploy/prometheus/alerts.yml` fire on `quorate_warning`, which is what these tests
//! read. `node/src/http/warnings/tests.rs` says which test causes the fault of which alert.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use bytes::Bytes;
use quorate_node::client::Client;
use quorate_node::http::ask;
use quorate_node::launch::last_http_address;

use crate::cluster::writers::set;
use crate::cluster::{Cluster, wait_until};

const HTTP: &str = "listen.http=127.0.0.1:0";
const PATIENCE: Duration = Duration::from_secs(60);
/// Other programs on this machine may be the cause of these.
const OF_THE_MACHINE: [&str; 2] = ["slow-disk", "memory-full"];

/// The alerts that fire at a replica and are about the cluster; none if it does not answer.
fn fire(cluster: &Cluster, replica: usize) -> Option<BTreeSet<String>> {
    let address = last_http_address(&cluster.data(replica))?;
    let text = ask(&address, "/metrics", PATIENCE).ok()?.body;
    let fires = |line: &str| {
        let name = line.strip_prefix("quorate_warning{name=\"")?.strip_suffix("\"} 1")?;
        (!OF_THE_MACHINE.contains(&name)).then(|| name.to_owned())
    };
    Some(text.lines().filter_map(fires).collect())
}

/// Waits until these fire at a replica, and no others.
fn wait_for(cluster: &Cluster, replica: usize, names: &[&str]) {
    let expected: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    wait_until(&format!("{names:?} fire at replica {replica}"), || {
        fire(cluster, replica) == Some(expected.clone())
    });
}

fn wait_for_none(cluster: &Cluster, replicas: impl IntoIterator<Item = usize>) {
    replicas.into_iter().for_each(|replica| wait_for(cluster, replica, &[]));
}

/// Has so many commands ordered, one after another.
fn work(cluster: &Cluster, client: &Client, commands: usize) {
    for number in 0..commands {
        let command: Bytes = set(&format!("key-{}", number % 10), b"value");
        cluster.runtime.block_on(client.submit(vec![command])).unwrap();
    }
}

/// The log of one replica may grow beyond what its disk has left.
#[test]
fn a_disk_without_room_for_the_log_is_told() {
    let mut cluster = Cluster::new(&[], &[HTTP]);
    for replica in 0..3 {
        cluster.start_replica(replica, &[]);
    }
    // As much as the disk has in all: what is left is less.
    let disk = rustix::fs::statvfs(cluster.folder()).unwrap();
    let window = format!("storage.log_window={}MiB", (disk.f_blocks * disk.f_frsize) >> 20);
    cluster.start_replica(3, &["--set", &window]);
    wait_for(&cluster, 3, &["disk-full"]);
    wait_for_none(&cluster, 0..3);
    cluster.kill(3);
    cluster.start_replica(3, &[]);
    wait_for_none(&cluster, 0..4);
}

/// A replica votes twice in views: the others say so.
#[test]
fn a_replica_that_votes_twice_is_told() {
    let mut cluster = Cluster::new(&["--laboratory"], &[HTTP]);
    for replica in 0..3 {
        cluster.start_replica(replica, &[]);
    }
    cluster.start_replica(3, &["--adversary", "double-voter"]);
    wait_for_none(&cluster, 0..4);
    let client = cluster.client();
    let named = |replica| fire(&cluster, replica).is_some_and(|fire| fire.contains("equivocation"));
    wait_until("a replica has seen two votes", || {
        work(&cluster, &client, 20);
        (0..3).any(named)
    });
    wait_until("nothing else is told", || {
        let only = |names: BTreeSet<String>| names.iter().all(|name| name == "equivocation");
        (0..4).all(|replica| fire(&cluster, replica).is_some_and(only))
    });
}

/// A leader of every fourth view says nothing, and its channels are there.
#[test]
fn views_that_are_lost_are_told() {
    let init = ["--laboratory", "--leader", "round-robin"];
    let mut cluster = Cluster::new(&init, &[HTTP, "view_timeout.base=300ms"]);
    for replica in 0..3 {
        cluster.start_replica(replica, &[]);
    }
    cluster.start_replica(3, &["--adversary", "silent-leader"]);
    wait_for_none(&cluster, 0..4);
    let client = cluster.client();
    wait_until("the views that are lost are told", || {
        work(&cluster, &client, 20);
        fire(&cluster, 0).is_some_and(|fire| fire.contains("timeouts"))
    });
    wait_for(&cluster, 0, &["timeouts"]);
}

/// A replica that lost its data waits for the others to testify, and does not vote for a while.
#[test]
fn a_replica_that_lost_its_data_tells_what_it_waits_for() {
    let mut cluster = Cluster::start(&[], &[HTTP, "view_timeout.base=300ms"]);
    let client = cluster.client();
    work(&cluster, &client, 20);
    wait_for_none(&cluster, 0..4);
    cluster.kill_all();
    fs::remove_dir_all(cluster.data(2)).unwrap();
    cluster.start_replica(0, &[]);
    cluster.start_replica(2, &["--rejoin-after-data-loss"]);
    wait_for(&cluster, 2, &["no-quorum", "rejoining"]);
    wait_for(&cluster, 0, &["no-quorum"]);
    cluster.start_replica(1, &[]);
    cluster.start_replica(3, &[]);
    // Nothing is ordered, so no view passes.
    wait_for(&cluster, 2, &["abstaining"]);
    for replica in [0, 1, 3] {
        wait_for(&cluster, replica, &[]);
    }
    wait_until("the views have passed in which it may have voted", || {
        work(&cluster, &client, 20);
        fire(&cluster, 2).is_some_and(|fire| !fire.contains("abstaining"))
    });
}
