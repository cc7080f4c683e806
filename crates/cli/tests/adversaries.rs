//! A Byzantine replica among real processes: `quorate start --adversary`.

#[path = "cluster/ports.rs"]
mod ports;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ports::ports;
use quorate_core::base::crypto::ClientSigner;
use quorate_crypto::SecretKey;
use quorate_lab::load::{self, Arrivals, LoadConfig, LoadReport, Workload};
use quorate_lab::local::{Echo, LocalCluster, Options};
use quorate_node::client::Authenticity;
use quorate_node::config::{Choices, ProtocolName};
use quorate_node::{http, testnet};

const PATIENCE: Duration = Duration::from_secs(60);
/// Frames that a session keeps under way.
const FRAMES: usize = 4;
const PROGRAM: &str = env!("CARGO_BIN_EXE_quorate");

fn quorate(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Four replicas for experiments, of which these are Byzantine, and what holds their ports.
fn start(folder: &Path, liars: &[(usize, &str)]) -> (LocalCluster, TcpListener) {
    start_with(folder, testnet::Options::default(), "300ms", liars)
}

/// Starts replicas with these options. They wait `first_wait` for their first leader.
fn start_with(
    folder: &Path,
    options: testnet::Options,
    first_wait: &str,
    liars: &[(usize, &str)],
) -> (LocalCluster, TcpListener) {
    let (held, first_port) = ports(3 * 4);
    let options = testnet::Options { laboratory: true, base_port: Some(first_port), ..options };
    let net = testnet::init(&folder.join("net"), 4, &options).unwrap();
    let arguments =
        |schedule: &&str| -> Vec<OsString> { vec!["--adversary".into(), schedule.into()] };
    let own_arguments: BTreeMap<usize, Vec<OsString>> =
        liars.iter().map(|(id, schedule)| (*id, arguments(schedule))).collect();
    // No disk is lied about here. Where others keep it busy, blocks take as long as crawling ones.
    let first_wait = format!("view_timeout.base={first_wait}");
    let set = [&first_wait[..], "storage.durability=os"];
    let arguments = set.iter().flat_map(|value| ["--set".into(), value.into()]).collect();
    let (program, echo, namespaces) = (PROGRAM.into(), Echo::No, Vec::new());
    let options = Options { program, arguments, own_arguments, echo, namespaces };
    let cluster = LocalCluster::start(net.cluster, net.replicas, options).unwrap();
    cluster.await_ready(PATIENCE).unwrap();
    (cluster, held)
}

/// A load of one second.
fn put_load(cluster: &LocalCluster, outstanding: usize) -> LoadReport {
    let keys =
        [1, 2].map(|seed| Arc::new(SecretKey::from_seed(&[seed; 32])) as Arc<dyn ClientSigner>);
    let report = load::run(&LoadConfig {
        protocol: "hotstuff-chained".into(),
        replicas: cluster.addresses(),
        session: cluster.session(),
        authenticity: Authenticity::Channel,
        contacts: None,
        keys: keys.to_vec(),
        workload: Workload::noop(50, &[]).unwrap(),
        write_records: false,
        outstanding,
        callers: None,
        arrivals: Arrivals::Closed,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs(1),
        interval: Duration::from_secs(1),
        patience: PATIENCE,
        notice: |_| {},
    });
    report.unwrap()
}

/// The value of a number in what a replica tells monitoring.
fn metric(cluster: &LocalCluster, id: usize, name: &str) -> f64 {
    let text = http::ask(cluster.http(id).unwrap(), "/metrics", PATIENCE).unwrap().body;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    let value = line.unwrap_or_else(|| panic!("no {name} in {text}")).rsplit(' ').next();
    value.unwrap().parse().unwrap()
}

/// Puts load on the cluster three times. Nothing is wrong or lost in any of them. All of a second
/// may go by while a faulty leader is waited for, so something is answered in the three together.
fn all_is_right(cluster: &LocalCluster, outstanding: usize) {
    let mut answered = 0;
    for _ in 0..3 {
        let report = put_load(cluster, outstanding);
        assert_eq!((report.wrong, report.failed, report.unanswered), (0, 0, 0), "{report:?}");
        answered += report.commands;
    }
    assert!(answered > 0, "nothing was answered in three seconds of load");
}

#[test]
fn an_equivocating_leader_is_seen_and_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (mut cluster, _held) = start(folder.path(), &[(2, "equivocating-leader")]);
    let seen = |cluster: &LocalCluster| {
        [0, 1, 3].map(|id| metric(cluster, id, "quorate_equivocations_total")).iter().sum::<f64>()
    };
    // How many views it leads in a second is the machine's affair.
    for _ in 0..10 {
        all_is_right(&cluster, FRAMES);
        if seen(&cluster) > 0.0 {
            break;
        }
    }
    assert!(seen(&cluster) > 0.0);
    assert!(metric(&cluster, 2, "quorate_adversary_deeds_total") > 0.0);
    assert_eq!(metric(&cluster, 0, "quorate_adversary_deeds_total"), 0.0);
    cluster.stop();
}

#[test]
fn a_replica_that_does_everything_wrong_stops_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let everything = "slow-leader@0s..2s/4s,forged-certificates,replayer,double-voter,\
                      lying-replies,time-out-spammer";
    let (mut cluster, _held) = start(folder.path(), &[(1, everything)]);
    let deeds = |cluster: &LocalCluster| metric(cluster, 1, "quorate_adversary_deeds_total");
    let double = |cluster: &LocalCluster| {
        [0, 2, 3].map(|id| metric(cluster, id, "quorate_double_votes_total")).iter().sum::<f64>()
    };
    // How much it does in a second is the machine's affair.
    for _ in 0..10 {
        all_is_right(&cluster, FRAMES);
        if deeds(&cluster) > 100.0 && double(&cluster) > 0.0 {
            break;
        }
    }
    assert!(deeds(&cluster) > 100.0 && double(&cluster) > 0.0);
    assert!(cluster.ended().is_empty());
    cluster.stop();
}

#[test]
fn a_primary_of_pbft_that_equivocates_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let choices = Choices { protocol: Some(ProtocolName::Pbft), ..Choices::default() };
    let options = testnet::Options { combination: choices.among(4), ..Default::default() };
    let liar = "equivocating-primary,wrong-new-views,bad-view-changes,double-voter";
    let (mut cluster, _held) = start_with(folder.path(), options, "300ms", &[(0, liar)]);
    all_is_right(&cluster, FRAMES);
    assert!(metric(&cluster, 0, "quorate_adversary_deeds_total") > 0.0);
    assert!(metric(&cluster, 1, "quorate_view") > 1.0);
    assert!(cluster.ended().is_empty());
    cluster.stop();
}

/// A primary that orders each block just before the others give it up is given up for its rate.
#[test]
fn a_primary_of_pbft_that_crawls_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let choices = Choices { protocol: Some(ProtocolName::Pbft), ..Choices::default() };
    let options = testnet::Options { combination: choices.among(4), ..Default::default() };
    // Replica 0 draws 900 ms from one block to the next. That is too slow a rate for a group that
    // takes up to some 50 ms for a block; with one that takes longer, the view timer runs out.
    let liar = "crawling-primary";
    let (mut cluster, _held) = start_with(folder.path(), options, "950ms", &[(0, liar)]);
    // In the end each frame that is under way may be in a crawling block of its own.
    let outstanding = 1;
    let is_replaced = |cluster: &LocalCluster| metric(cluster, 1, "quorate_view") > 1.0;
    for _ in 0..7 {
        all_is_right(&cluster, outstanding);
        if is_replaced(&cluster) {
            break;
        }
    }
    assert!(is_replaced(&cluster), "it crawls on");
    assert!(metric(&cluster, 0, "quorate_adversary_deeds_total") > 0.0);
    all_is_right(&cluster, outstanding);
    assert!(cluster.ended().is_empty());
    cluster.stop();
}

#[test]
fn outside_of_a_laboratory_nobody_is_made_byzantine() {
    let folder = tempfile::tempdir().unwrap();
    testnet::init(&folder.path().join("net"), 4, &testnet::Options::default()).unwrap();
    let start = |schedule: &str| {
        quorate(folder.path(), &["start", "--home", "net/replica-0", "--adversary", schedule])
    };
    let refused = start("silent-leader@10s..25s");
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
    for words in [
        "`laboratory.adversary` is \"silent-leader@10s..25s\", but `laboratory.enabled` is false",
        "flag --adversary",
        "set laboratory.enabled = true",
    ] {
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    let unknown = start("silent-leder");
    assert_eq!(unknown.status.code(), Some(2), "{}", said(&unknown));
    for words in ["there is no such adversary, at character 1 (\"silent-leder\")", "replayer"] {
        assert!(said(&unknown).contains(words), "{}", said(&unknown));
    }
}
