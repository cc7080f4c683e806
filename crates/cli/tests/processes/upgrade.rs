//! Releases that are put in place one replica after another while clients write, and a switch at
//! the end. The laboratory lets one program pass for two: an old one, and a new one that speaks one
//! more version of the wire protocol and supports newer rules.

use std::process::{Command, Output};
use std::time::Duration;

use quorate_node::http::ask_json;
use quorate_node::launch::last_http_address;
use rustix::process::Signal;
use serde_json::Value;

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, quorate, turn, wait_until};
use crate::needs;

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const SETTINGS: [&str; 5] = [
    "view_timeout.base=300ms",
    "processor.preempts=false",
    "processor.network_cores=share",
    "listen.http=127.0.0.1:0",
    "laboratory.enabled=true",
];
/// The program as it is.
const OLD: [&str; 0] = [];
/// What a later release would say of itself.
const NEW: [&str; 4] =
    ["--set", "laboratory.newest_version=5", "--set", "laboratory.newest_rules=2"];

/// Runs `quorate upgrade` in the client's home.
fn upgrade(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = quorate();
    command.args(["--output", "json", "upgrade"]).args(arguments);
    command.arg("--home").arg(cluster.folder().join("client")).output().unwrap()
}

/// The same, signed by the administrator.
fn signed(cluster: &Cluster, arguments: &[&str]) -> Output {
    let key = cluster.folder().join("administrator-0.key").display().to_string();
    upgrade(cluster, &[arguments, &["--administrator", &key]].concat())
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refusal(output: &Output) -> String {
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Waits until the rules stand so. A replica that is late with its answer counts as unreached.
fn standing_with(cluster: &Cluster, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut standing = Value::Null;
    wait_until(what, || {
        standing = json(&upgrade(cluster, &["status"]));
        holds(&standing)
    });
    standing
}

/// Puts another program in a replica's place, and waits until all four are reached and clients go
/// on.
fn put(cluster: &mut Cluster, writers: &Writers, replica: usize, program: &[&str]) {
    cluster.signal(replica, Signal::TERM);
    assert!(cluster.ended(replica).success(), "it stops in good order");
    cluster.start_replica(replica, program);
    writers.wait_for(100);
    wait_until("all are ready again", || {
        let members = json(&upgrade(cluster, &["status"]))["members"].clone();
        members.as_array().unwrap().iter().all(|member| member["not_ready"] == "")
    });
}

/// What a replica says at `/status`.
fn status(cluster: &Cluster, replica: usize) -> Value {
    let address = last_http_address(&cluster.data(replica)).unwrap();
    ask_json(&address, "/status", Duration::from_secs(60)).unwrap()
}

/// The version that a replica speaks with each other one, by their ids.
fn versions(cluster: &Cluster, replica: usize) -> Vec<Option<u64>> {
    let status = status(cluster, replica);
    let members = status["members"].as_array().unwrap().clone();
    members.iter().map(|member| member["wire_version"].as_u64()).collect()
}

/// Waits until replica 0 speaks these versions with the others: a connection may just be made anew.
fn wait_for_versions(cluster: &Cluster, expected: &[Option<u64>]) {
    wait_until("replica 0 speaks these versions", || versions(cluster, 0) == expected);
}

fn upgraded(transport: &[&str]) {
    let init = [transport, &["--administrators", "1"]].concat();
    let mut cluster = Cluster::start(&init, &SETTINGS);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(100);
    // The core's own newest rules first: what is left to switch on is the application's. Rules 3
    // are for members with a threshold key, and not offered to others.
    standing_with(&cluster, "there are newer rules", |standing| {
        standing["possible"] != Value::Null
    });
    let first = json(&signed(&cluster, &["switch"]));
    assert_eq!((&first["rules"]["core"], &first["rules"]["application"]), (&2.into(), &1.into()));
    wait_until("all are in the next epoch", || {
        (0..4).all(|replica| status(&cluster, replica)["rules"]["core"] == 2)
    });
    // There, back again, and there: but for the last one.
    (0..4).for_each(|replica| put(&mut cluster, &writers, replica, &NEW));
    wait_for_versions(&cluster, &[None, Some(5), Some(5), Some(5)]);
    (0..4).for_each(|replica| put(&mut cluster, &writers, replica, &OLD));
    (0..3).for_each(|replica| put(&mut cluster, &writers, replica, &NEW));
    wait_for_versions(&cluster, &[None, Some(5), Some(5), Some(4)]);

    let is_held_up =
        |standing: &Value| standing["in_the_way"].as_array().is_some_and(|them| them[..] == [3]);
    let standing = standing_with(&cluster, "one holds up all", is_held_up);
    assert_eq!(standing["rules"], "2.1");
    assert_eq!(standing["possible"], Value::Null);
    assert_eq!(standing["newest"], "2.2");
    assert_eq!(standing["members"][0]["supports"], "3.2");
    assert_eq!(standing["members"][0]["wire_versions"]["newest"], 5);
    assert_eq!(standing["members"][3]["state"], "holds up rules 2.2: upgrade it");
    let nothing = refusal(&signed(&cluster, &["switch"]));
    assert!(nothing.contains("no newer rules than 2.1 to switch on"), "{nothing}");
    assert!(nothing.contains("upgrade or start replica 3"), "{nothing}");
    let early = refusal(&signed(&cluster, &["switch", "--rules", "2.2"]));
    assert!(
        early.contains("replica 3 is not ready: its program supports rules up to 3.1"),
        "{early}"
    );
    assert!(early.contains("must be ready for rules 2.2; not ready: 3"), "{early}");
    writers.wait_for(100);

    put(&mut cluster, &writers, 3, &NEW);
    standing_with(&cluster, "there are newer rules", |standing| {
        standing["possible"] != Value::Null
    });
    let planned = json(&signed(&cluster, &["plan"]));
    assert_eq!(planned["after"]["rules"]["application"], 2);
    let switched = json(&signed(&cluster, &["switch"]));
    assert_eq!(
        (switched["epoch"].as_u64(), &switched["rules"]["application"]),
        (Some(2), &2.into())
    );
    writers.wait_for(100);
    wait_until("all execute by the new rules", || {
        (0..4).all(|replica| status(&cluster, replica)["rules"]["application"] == 2)
    });
    let again = refusal(&signed(&cluster, &["switch"]));
    assert!(again.contains("no newer rules than 2.2"), "{again}");
    let down = refusal(&signed(&cluster, &["switch", "--rules", "2.1"]));
    assert!(down.contains("rules never go down"), "{down}");

    // There is no way back now.
    cluster.signal(2, Signal::TERM);
    cluster.ended(2);
    let old = cluster.refused(2, &OLD).stderr;
    assert!(old.contains("epoch 2 executes by rules 2.2"), "{old}");
    assert!(old.contains("supports none newer than 3.1"), "{old}");
    cluster.start_replica(2, &NEW);
    writers.wait_for(100);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn over_tcp_a_cluster_is_upgraded_one_by_one_and_nothing_is_lost() {
    upgraded(&[]);
}

#[test]
fn over_udp_a_cluster_is_upgraded_one_by_one_and_nothing_is_lost() {
    upgraded(&["--transport", "udp"]);
}

/// A release that speaks no version of the others' is named with both ranges, and they go on.
#[test]
fn a_release_that_is_two_steps_ahead_is_refused_by_name() {
    let mut cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(50);
    cluster.signal(3, Signal::TERM);
    cluster.ended(3);
    let ahead = ["laboratory.oldest_version=5", "laboratory.newest_version=6"];
    cluster.start_replica(3, &["--set", ahead[0], "--set", ahead[1]]);
    wait_until("both say so", || {
        let names = |replica: usize, text: &str| cluster.log_text(replica).contains(text);
        names(0, "speaks versions 5–6 of the protocol, and this one 3–4: upgrade this one first")
            && names(3, "speaks versions 3–4 of the protocol, and this one 5–6: upgrade it first")
    });
    writers.wait_for(50);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// The script of `make upgrade`, with this program as the old one and as the new one: it goes on
/// fitting the program.
#[test]
fn the_script_of_make_upgrade_upgrades_a_cluster() {
    if !needs::program("python3", "python3") {
        return;
    }
    let _turn = turn();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ci/upgrade.py");
    let program = env!("CARGO_BIN_EXE_quorate");
    let mut command = Command::new("python3");
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    let verdict = json(&command.args([script, "--programs", program, program]).output().unwrap());
    assert_eq!(verdict["steps_s"].as_array().unwrap().len(), 8, "{verdict}");
    assert!(verdict["commands"].as_u64().unwrap() > 0, "{verdict}");
    assert_eq!(verdict["unanswered"], 0, "{verdict}");
}
