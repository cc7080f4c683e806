//! Alerts of whole clusters: each fires where its fault is, and nowhere else.
//!
//! The tests evaluate the rules of `deploy/prometheus/alerts.yml` ([`rules`]) without their `for:`.
//! `node/src/http/warnings/tests.rs` says which test causes the fault of which alert.

mod groups;
mod rules;

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use bytes::Bytes;
use quorate_node::client::Client;
use quorate_node::http::ask_json;
use quorate_node::launch::last_http_address;
use rustix::process::{Pid, Signal};

use self::groups::{Group, Of};
use self::rules::{alert, firing};
use crate::cluster::writers::set;
use crate::cluster::{Cluster, wait_until, wait_until_seen};

const HTTP: &str = "listen.http=127.0.0.1:0";
/// Other programs on this machine may be the cause of it.
const OF_THE_MACHINE: &str = "slow-disk";

/// All alerts that fire at a replica.
fn all(cluster: &Cluster, replica: usize) -> BTreeSet<&'static str> {
    firing(last_http_address(&cluster.data(replica)).as_deref())
}

/// The alerts that fire at a replica and are no business of other programs.
fn fire(cluster: &Cluster, replica: usize) -> BTreeSet<&'static str> {
    let mut all = all(cluster, replica);
    all.remove(alert(OF_THE_MACHINE));
    all
}

/// The same without that of views that were given up, which a slow machine may cause too.
fn without_timeouts(mut alerts: BTreeSet<&'static str>) -> BTreeSet<&'static str> {
    alerts.remove(alert("timeouts"));
    alerts
}

fn alerts(names: &[&str]) -> BTreeSet<&'static str> {
    names.iter().map(|name| alert(name)).collect()
}

/// Waits until these fire at a replica, and no others.
fn wait_for(cluster: &Cluster, replica: usize, names: &[&str]) {
    let what = format!("{names:?} fire at replica {replica}");
    wait_until_seen(&what, &alerts(names), || fire(cluster, replica));
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
    let named = |replica| fire(&cluster, replica).contains(alert("equivocation"));
    wait_until("a replica has seen two votes", || {
        work(&cluster, &client, 20);
        (0..3).any(named)
    });
    wait_until("nothing else is told", || {
        (0..4).all(|replica| fire(&cluster, replica).is_subset(&alerts(&["equivocation"])))
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
        fire(&cluster, 0).contains(alert("timeouts"))
    });
    wait_for(&cluster, 0, &["timeouts"]);
    // What each of them cost beside its time-out is measured.
    let address = last_http_address(&cluster.data(0)).unwrap();
    let status = ask_json(&address, "/status", Duration::from_secs(60)).unwrap();
    let number = |name: &str| status["numbers"][name].as_u64().unwrap();
    let left = number("failed_views_left_total");
    assert!((1..=number("timeouts_total")).contains(&left), "{status}");
    assert!(number("failed_views_left_nanoseconds_total") > 0, "{status}");
}

/// A replica that lost its data waits for the others to testify, and does not vote for a while.
#[test]
fn a_replica_that_lost_its_data_tells_what_it_waits_for() {
    let init = ["--leader", "round-robin"];
    let mut cluster = Cluster::start(&init, &[HTTP, "view_timeout.base=1s"]);
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
    // Views pass although nothing is ordered, and those that it leads take a time-out each.
    wait_until_seen("replica 2 abstains", &alerts(&["abstaining"]), || {
        without_timeouts(fire(&cluster, 2))
    });
    for replica in [0, 1, 3] {
        wait_for(&cluster, replica, &[]);
    }
    wait_until("the views have passed in which it may have voted", || {
        work(&cluster, &client, 20);
        !fire(&cluster, 2).contains(alert("abstaining"))
    });
}

/// A replica was killed, or its process stands still: whoever asks for its page hears nothing. The
/// others miss a peer, which they told of nowhere else. A cluster that is well tells of nothing.
#[test]
fn a_replica_that_does_not_answer_is_told() {
    let mut cluster = Cluster::start(&[], &[HTTP]);
    let client = cluster.client();
    wait_for_none(&cluster, 0..4);
    work(&cluster, &client, 100);
    wait_for_none(&cluster, 0..4);
    let others_miss_it = |cluster: &Cluster| {
        wait_for(cluster, 3, &["replica-unreachable"]);
        (0..3).for_each(|other| wait_for(cluster, other, &["peer-missing"]));
    };
    cluster.kill(3);
    others_miss_it(&cluster);
    cluster.start_replica(3, &[]);
    wait_for_none(&cluster, 0..4);
    cluster.signal(3, Signal::STOP);
    others_miss_it(&cluster);
    cluster.signal(3, Signal::CONT);
    wait_for_none(&cluster, 0..4);
}

/// What a process takes in memory, files left out.
fn memory_bytes(process: Pid) -> u64 {
    let status = format!("/proc/{}/status", process.as_raw_nonzero());
    let status = fs::read_to_string(status).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

/// A replica takes nineteen of the twenty parts of the memory that it may take.
#[test]
#[cfg(target_os = "linux")]
fn memory_that_ends_is_told() {
    let Some(group) = Group::new(Of::Memory) else { return };
    let cluster = Cluster::start(&[], &[HTTP]);
    wait_for_none(&cluster, 0..4);
    group.take(cluster.pid(3));
    wait_until("one replica tells of its memory, and the others of nothing", || {
        let taken = memory_bytes(cluster.pid(3));
        group.bound_memory(Some(taken + taken / 19));
        let of_others = (0..3).flat_map(|replica| fire(&cluster, replica)).count();
        fire(&cluster, 3) == alerts(&["memory-full"]) && of_others == 0
    });
    group.bound_memory(None);
    wait_for_none(&cluster, 0..4);
}

/// The disk lets one replica write five times a second: a sync takes long however seldom it comes.
/// The replica never leads: otherwise the others would lose views by it, and tell so. It gives up
/// itself on views that it is late for, and on a slow machine so do the others.
#[test]
#[cfg(target_os = "linux")]
fn a_slow_disk_is_told() {
    let Some(group) = Group::new(Of::Disk) else { return };
    let cluster = Cluster::start(&["--leader", "fixed"], &[HTTP]);
    if !group.bound_writes(cluster.folder(), Some(5)) {
        return;
    }
    let client = cluster.client();
    wait_for_none(&cluster, 0..4);
    group.take(cluster.pid(3));
    let wanted = (alerts(&["slow-disk"]), BTreeSet::new());
    wait_until_seen("one replica tells of its disk, and the others of nothing", &wanted, || {
        work(&cluster, &client, 20);
        let of_others = (0..3).flat_map(|replica| fire(&cluster, replica)).collect();
        (without_timeouts(all(&cluster, 3)), without_timeouts(of_others))
    });
    group.bound_writes(cluster.folder(), None);
    wait_until_seen("it tells no more than the others", &BTreeSet::new(), || {
        work(&cluster, &client, 20);
        let of_others: BTreeSet<_> = (0..3).flat_map(|replica| all(&cluster, replica)).collect();
        all(&cluster, 3).difference(&of_others).copied().collect()
    });
}
