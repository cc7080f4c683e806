//! Members that change and sign with a threshold key: they generate a fresh one for each epoch.
//! Operators change them with the same commands as any members.

use std::path::PathBuf;
use std::process::{Child, Output, Stdio};
use std::sync::Arc;

use quorate_core::Committee;
use quorate_core::base::crypto::Signer as _;
use quorate_core::client::Fatal;
use quorate_core::client::message::Rejection;
use quorate_core::ledger::generation::{Plan, Step};
use quorate_crypto::bls::threshold::generation::Round;
use quorate_crypto::{SecretKey, key_file};
use quorate_node::client::succession::Following;
use quorate_node::client::verified::VerifiedReader;
use quorate_node::client::{Client, generation};
use serde_json::Value;

use crate::cluster::writers::{Writers, assert_written};
use crate::cluster::{Cluster, quorate, wait_until};
use crate::members::{
    Counter, SETTINGS, SHAPE, change, changed, json, member, newcomer, once_ready, refusal, weights,
};

const INIT: [&str; 4] = ["--administrators", "1", "--signatures", "bls12-381-threshold"];

/// The secret files of key generations in a replica's home, by what their names begin with.
fn secrets(cluster: &Cluster, replica: usize, kind: &str) -> Vec<PathBuf> {
    let folder = cluster.home(replica).join("config");
    let prefix = format!("consensus.key.{kind}.");
    let named = |file: &PathBuf| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.starts_with(&prefix) && !name.contains("draft")
    };
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(named).collect();
    files.sort();
    files
}

/// Whether a replica has one share, and nothing of a generation.
fn is_tidy(cluster: &Cluster, replica: usize) -> bool {
    secrets(cluster, replica, "share").len() == 1
        && secrets(cluster, replica, "generation").is_empty()
}

/// Writes a change down, with the generation that it needs: all next members are asked for keys.
fn planned(cluster: &Cluster, arguments: &[&str]) -> String {
    let out = cluster.folder().join("change.bin").display().to_string();
    let plan = [&["plan", "--out", &out], arguments].concat();
    let planned = once_ready(cluster, 1, &plan);
    assert_eq!(planned["generates_key"], true, "{planned}");
    out
}

/// Starts to submit a change.
fn submits(cluster: &Cluster, file: &str) -> Child {
    let mut command = quorate();
    command.args(["--output", "json", "member", "submit", file]);
    command.arg("--home").arg(cluster.folder().join("client"));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Output {
    child.wait_with_output().unwrap()
}

/// What `quorate member status` tells of the generation under way: null if there is none; `None`
/// if it tells nothing.
fn told_of_generation(cluster: &Cluster) -> Option<Value> {
    let told = member(cluster, &["status"]);
    let is_told = told.status.success();
    let told: Value = serde_json::from_slice(&told.stdout).unwrap_or_default();
    is_told.then(|| told["generation"].clone())
}

fn generating(cluster: &Cluster) -> Value {
    told_of_generation(cluster).unwrap_or_default()
}

/// Adds a learner whose process runs. Returns the epoch.
fn learner(cluster: &mut Cluster, id: usize) -> u64 {
    let file = newcomer(cluster, id).display().to_string();
    cluster.start_replica(id, &[]);
    changed(cluster, &["add", &file])
}

#[test]
fn a_member_is_replaced_and_a_fifth_joins_under_load_each_with_a_fresh_key() {
    let mut cluster = Cluster::start(&INIT, &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    let counter = Counter::start(&cluster);
    writers.wait_for(50);
    let first = secrets(&cluster, 0, "share");
    assert_eq!(first.len(), 1);

    // A dead member is replaced: those that count after the second change are all alive.
    cluster.kill(2);
    let file = newcomer(&mut cluster, 4).display().to_string();
    cluster.start_replica(4, &[]);
    let replaced = change(&cluster, 1, &["replace", "2", &file]);
    assert_eq!(json(&replaced)["epoch"].as_u64(), Some(2));
    assert_eq!(weights(&cluster)[..5], [Some(1), Some(1), None, Some(1), Some(1)]);
    writers.wait_for(50);
    wait_until("former shares are erased", || [0, 1, 3, 4].iter().all(|id| is_tidy(&cluster, *id)));
    let second = secrets(&cluster, 0, "share");
    assert_ne!(first, second);
    // The dead one comes back, hears that it has left, and keeps nothing of the first epoch.
    cluster.start_replica(2, &[]);
    wait_until("the share of the one that left is erased", || {
        secrets(&cluster, 2, "share").is_empty() && secrets(&cluster, 2, "generation").is_empty()
    });
    cluster.kill(2);

    assert_eq!(learner(&mut cluster, 5), 3);
    assert_eq!(secrets(&cluster, 0, "share"), second, "a learner changes no key");
    assert_eq!(changed(&cluster, &["promote", "5"]), 4);
    let five = [Some(1), Some(1), None, Some(1), Some(1), Some(1)];
    assert_eq!(weights(&cluster)[..6], five);
    writers.wait_for(50);
    // The fifth one's signatures are needed now.
    cluster.kill(1);
    writers.wait_for(50);
    counter.finish(&cluster);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);

    // A client that knows genesis alone believes what the last members certify.
    let replicas = cluster.client_config().replicas;
    let mut reader = VerifiedReader::new(replicas, &cluster.agreed, 0).unwrap();
    let reading = cluster.runtime.block_on(reader.get(b"counter", 64)).unwrap();
    assert!(reading.verified.value.is_some(), "{reading:?}");
    let unequal = refusal(&change(&cluster, 1, &["weight", "0=2"]));
    assert!(unequal.contains("weigh differently") && unequal.contains("remedy:"), "{unequal}");
}

#[test]
fn members_killed_in_a_generation_come_to_the_same_share() {
    let mut cluster = Cluster::start(&INIT, &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(50);
    assert_eq!(learner(&mut cluster, 4), 1);

    // One is killed when its key for the generation is on disk, and nothing rests on it.
    let file = planned(&cluster, &["--promote", "4"]);
    cluster.kill(1);
    let key = secrets(&cluster, 1, "generation");
    assert_eq!(key.len(), 1, "{key:?}");
    let promotes = submits(&cluster, &file);
    let mut standing = Value::Null;
    wait_until("all others have dealt", || {
        standing = generating(&cluster);
        standing["dealt"] == serde_json::json!([0, 2, 3, 4])
    });
    assert_eq!(standing["must_qualify"], 4, "{standing}");
    let mut waiting = standing["waiting"].as_array().into_iter().flatten();
    assert!(waiting.any(|it| it["replica"] == 1), "{standing}");
    // Then everybody loses its power: dealings are in no memory any more.
    cluster.kill_all();
    cluster.start_all();
    // One is killed as soon as its share of what all have dealt is on disk.
    let shares = |cluster: &Cluster| secrets(cluster, 3, "share");
    wait_until("its share is on disk", || {
        let Some(told) = told_of_generation(&cluster) else { return false };
        let all = told["dealt"].as_array().map(Vec::len) == Some(5);
        let waits = told["waiting"].as_array().into_iter().flatten().any(|it| it["replica"] == 3);
        told.is_null() || (all && !waits)
    });
    cluster.kill(3);
    let kept = shares(&cluster);
    cluster.start_replica(3, &[]);
    assert_eq!(json(&ended(promotes))["epoch"].as_u64(), Some(2));
    // With two of five away there is no quorum: the share of the one that was killed counts.
    cluster.kill(0);
    writers.wait_for(50);
    wait_until("the former share is erased", || is_tidy(&cluster, 3));
    assert!(kept.contains(&shares(&cluster)[0]), "it came to another share");
    let written = writers.finish(&cluster);
    cluster.start_replica(0, &[]);
    assert_written(&cluster, SHAPE, &written);
}

/// The members of the newest epoch.
fn committee(cluster: &Cluster) -> Committee {
    let mut chain = Following::of(&cluster.agreed).unwrap().begin();
    cluster.runtime.block_on(chain.catch_up()).unwrap();
    chain.committee().clone()
}

/// Orders, in a session of a dealer that does not run, a dealing in which the shares of `victims`
/// do not fit.
fn deal_wrongly(cluster: &Cluster, plan: &Plan, dealer: usize, victims: &[usize]) {
    let chain = cluster.agreed.chain_digest();
    let id = quorate_core::ReplicaId(dealer as u16);
    let of = plan.round(&chain);
    let round = Round::new(of.context.0, &of.keys, of.quorum).unwrap();
    let dealing = round.deal_wrongly(plan.place(id).unwrap(), &[66; 32], victims).unwrap();
    let key = key_file::read(&cluster.home(dealer).join("config/consensus.key")).unwrap();
    let signature = key.sign(&plan.dealing(&chain, id, &dealing));
    let step = Step::Deal { plan: plan.clone(), dealer: id, dealing: dealing.into(), signature };
    // Nobody else's frame is looked at.
    let order = async {
        let client = Client::connect(cluster.client_config(), Arc::new(key)).await.unwrap();
        client.submit(vec![step.to_command().into()]).await.unwrap()
    };
    let reply = cluster.runtime.block_on(order);
    assert_eq!(reply[0][0], quorate_core::ledger::execution::CHANGED, "{reply:?}");
}

#[test]
fn a_dealer_that_cheats_is_named_and_the_others_make_the_key() {
    let mut cluster = Cluster::start(&INIT, &SETTINGS);
    assert_eq!(learner(&mut cluster, 4), 1);
    let file = planned(&cluster, &["--promote", "4"]);
    cluster.kill(3);
    let promotes = submits(&cluster, &file);
    wait_until("the generation is under way", || generating(&cluster)["serial"] == 1);
    let members = committee(&cluster);
    let mut plan = None;
    // Dealings are being ordered: members at work differ for a moment.
    wait_until("members agree on its plan", || {
        let said = cluster.runtime.block_on(generation::told(&members, None));
        let told = generation::witnessed(&members, &said);
        plan = told.and_then(|told| Some(told.current.as_ref()?.plan().clone()));
        plan.is_some()
    });
    let plan = plan.unwrap();
    let victim = plan.place(quorate_core::ReplicaId(0)).unwrap();
    deal_wrongly(&cluster, &plan, 3, &[victim]);
    let disqualified = serde_json::json!([{ "replica": 3, "shown_by": 0 }]);
    wait_until("the victim shows it", || generating(&cluster)["disqualified"] == disqualified);
    wait_until("the status says it in words", || {
        let mut command = quorate();
        command.args(["member", "status", "--home"]).arg(cluster.folder().join("client"));
        let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
        text.contains("replica 3 is disqualified: it dealt replica 0 a share")
    });
    // It deals rightly from now on, which counts no more; the key is that of the others.
    cluster.start_replica(3, &[]);
    assert_eq!(json(&ended(promotes))["epoch"].as_u64(), Some(2));
}

/// The members need no entry in the list to deal, and the list is as it was behind it.
#[test]
fn members_deal_where_clients_are_listed() {
    let mut cluster = Cluster::start(&INIT, &SETTINGS);
    assert_eq!(learner(&mut cluster, 4), 1);
    let mut command = quorate();
    command.args(["client", "policy", "listed", "--administrator"]);
    command.arg(cluster.folder().join("administrator-0.key"));
    command.arg("--home").arg(cluster.folder().join("client"));
    let closed = command.output().unwrap();
    assert!(closed.status.success(), "{}", String::from_utf8_lossy(&closed.stderr));
    assert_eq!(changed(&cluster, &["promote", "4"]), 2);
    let stranger = SecretKey::generate().unwrap();
    let connecting = Client::connect(cluster.client_config(), Arc::new(stranger));
    let rejected = cluster.runtime.block_on(connecting).map(drop);
    assert_eq!(rejected, Err(Fatal::Rejected(Rejection::NotListed)));
}

/// A member lost the key that a generation was begun with. Nobody needs to wait until the blocks of
/// that generation are over.
#[test]
fn administrators_begin_a_generation_anew_that_a_member_cannot_take_part_in() {
    let mut cluster = Cluster::start(&INIT, &SETTINGS);
    assert_eq!(learner(&mut cluster, 4), 1);
    let file = planned(&cluster, &["--promote", "4"]);
    cluster.kill(3);
    let lost = secrets(&cluster, 3, "generation");
    lost.iter().for_each(|file| std::fs::remove_file(file).unwrap());
    let mut waits = submits(&cluster, &file);
    wait_until("the others have dealt", || {
        generating(&cluster)["dealt"] == serde_json::json!([0, 1, 2, 4])
    });
    cluster.start_replica(3, &[]);
    wait_until("it says what is the matter, and what to do", || {
        generating(&cluster)["waiting"].to_string().contains("--begin-anew")
    });
    waits.kill().unwrap();
    waits.wait().unwrap();
    // The same command alone goes on with the generation that is under way.
    assert_eq!(changed(&cluster, &["promote", "4", "--begin-anew"]), 2);
}
