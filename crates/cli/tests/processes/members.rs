//! Members that come and go while clients work, with the commands that operators use.

use std::path::PathBuf;
use std::process::Output;

use quorate_app::kv::Reply;
use quorate_app::kv::command::encode;
use quorate_node::client::verified::VerifiedReader;
use serde_json::Value;
use tokio::runtime::Builder;
use tokio::task::JoinHandle;

use crate::cluster::probe::last_from;
use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, connect, quorate, wait_until};

pub(crate) const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
pub(crate) const SETTINGS: [&str; 4] = [
    "view_timeout.base=300ms",
    "processor.preempts=false",
    "processor.network_cores=share",
    "listen.http=127.0.0.1:0",
];

/// Runs `quorate member` in the client's home.
pub(crate) fn member(cluster: &Cluster, arguments: &[&str]) -> Output {
    let mut command = quorate();
    command.args(["--output", "json", "member"]).args(arguments);
    command.arg("--home").arg(cluster.folder().join("client")).output().unwrap()
}

/// The same of a change, signed by the first administrators.
pub(crate) fn change(cluster: &Cluster, administrators: usize, arguments: &[&str]) -> Output {
    let keys = (0..administrators).map(|number| {
        cluster.folder().join(format!("administrator-{number}.key")).display().to_string()
    });
    let keys: Vec<String> = keys.flat_map(|key| ["--administrator".to_owned(), key]).collect();
    let keys = keys.iter().map(String::as_str);
    member(cluster, &arguments.iter().copied().chain(keys).collect::<Vec<_>>())
}

pub(crate) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Makes or plans a change, as soon as those who are to count have caught up.
pub(crate) fn once_ready(cluster: &Cluster, administrators: usize, arguments: &[&str]) -> Value {
    let mut done = change(cluster, administrators, arguments);
    wait_until("the members are ready", || {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let is_late = said.contains("caught up") || said.contains("that weigh");
        assert!(done.status.success() || is_late, "{said}");
        if !done.status.success() {
            done = change(cluster, administrators, arguments);
        }
        done.status.success()
    });
    json(&done)
}

/// Makes a change, as soon as those who are to count have caught up. Returns the epoch.
pub(crate) fn changed(cluster: &Cluster, arguments: &[&str]) -> u64 {
    once_ready(cluster, 1, arguments)["epoch"].as_u64().unwrap()
}

/// What the members weigh, by id; `None`: no member.
pub(crate) fn weights(cluster: &Cluster) -> Vec<Option<u64>> {
    let status = json(&member(cluster, &["status"]));
    let members = status["members"].as_array().unwrap().clone();
    let of = |id: u64| members.iter().find(|member| member["id"] == id)?["weight"].as_u64();
    (0..8).map(of).collect()
}

/// Makes the homes of four newcomers.
fn newcomers(cluster: &mut Cluster) -> Vec<String> {
    (4..8).map(|id| newcomer(cluster, id).display().to_string()).collect()
}

/// Where clients reach a replica.
fn client_address(cluster: &Cluster, id: usize) -> String {
    format!("127.0.0.1:{}", cluster.agreed.members[0].peer_address.port() + 3 * id as u16 + 1)
}

/// Makes the home of a newcomer, with its ports behind those of the others.
pub(crate) fn newcomer(cluster: &mut Cluster, id: usize) -> PathBuf {
    let base = cluster.agreed.members[0].peer_address.port();
    let address = |place: u16| format!("127.0.0.1:{}", base + 3 * id as u16 + place);
    let home = cluster.home(id);
    let mut command = quorate();
    command.args(["member", "new"]).arg(&home);
    command.arg("--cluster").arg(cluster.folder().join("client/config/cluster.toml"));
    command.args(["--peer", &address(0), "--client", &address(1), "--id", &id.to_string()]);
    let made = command.output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(cluster.add_home(), id);
    home.join("config/member.toml")
}

/// A client that counts up, one by one: a command that is lost or executed twice shows at once.
pub(crate) struct Counter {
    task: JoinHandle<()>,
    stop: tokio::sync::watch::Sender<bool>,
}

impl Counter {
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let (stop, stopped) = tokio::sync::watch::channel(false);
        let config = cluster.client_config();
        let task = cluster.runtime.spawn(async move {
            let client = connect(config).await;
            let mut command = Vec::new();
            encode::incr_by(&mut command, b"counter", 1);
            for expected in 1.. {
                if *stopped.borrow() {
                    return;
                }
                let replies = client.submit(vec![command.clone().into()]).await.unwrap();
                assert_eq!(Reply::decode(&replies[0]).unwrap(), Reply::Integer(expected));
            }
        });
        Self { task, stop }
    }

    pub(crate) fn finish(self, cluster: &Cluster) {
        let _ = self.stop.send(true);
        wait_until("the last count is answered", || self.task.is_finished());
        cluster.runtime.block_on(self.task).expect("no count is lost, and none comes twice");
    }
}

/// Four members grow to seven and shrink to four others, with none in common.
fn four_become_four_others(transport: &[&str]) {
    let init = [transport, &["--administrators", "1"]].concat();
    let mut cluster = Cluster::start(&init, &SETTINGS);
    let writers = Writers::start(&cluster, 2, SHAPE);
    let counter = Counter::start(&cluster);
    writers.wait_for(200);

    let files = newcomers(&mut cluster);
    (4..8).for_each(|id| cluster.start_replica(id, &[]));
    let add = ["add", &files[0], &files[1], &files[2], &files[3]];
    assert_eq!(changed(&cluster, &add), 1);
    assert_eq!(weights(&cluster), [1, 1, 1, 1, 0, 0, 0, 0].map(Some));
    writers.wait_for(200);
    assert_eq!(changed(&cluster, &["promote", "4", "5", "6"]), 2);
    writers.wait_for(200);

    // Everybody loses its power.
    cluster.kill_all();
    cluster.start_all();
    writers.wait_for(200);

    let others = ["change", "--promote", "7", "--remove", "0", "--remove", "1"];
    let others = [&others[..], &["--remove", "2", "--remove", "3"]].concat();
    assert_eq!(changed(&cluster, &others), 3);
    let none = [None; 4];
    assert_eq!(weights(&cluster), [&none[..], &[Some(1); 4]].concat());
    writers.wait_for(200);
    wait_until("who left says so", || cluster.log_text(0).contains("no member any more"));
    (0..4).for_each(|id| cluster.kill(id));
    writers.wait_for(200);
    counter.finish(&cluster);
    let written = writers.finish(&cluster);

    // A client that knows the first members alone finds the others by an address of one of them.
    let lost = refusal(&member(&cluster, &["status"]));
    assert!(
        lost.contains("no member of epoch 0 answers") && lost.contains("--member-at"),
        "{lost}"
    );
    let at = client_address(&cluster, 5);
    let found = json(&member(&cluster, &["status", "--member-at", &at]));
    assert_eq!(found["epoch"].as_u64(), Some(3));
    let get = |more: &[&str]| {
        let home = cluster.folder().join("client");
        let mut command = quorate();
        command.args(["--output", "json", "get", "--verified", "counter", "--home"]).arg(home);
        command.args(more).output().unwrap()
    };
    refusal(&get(&[]));
    let read = json(&get(&["--member-at", &at]));
    assert_eq!(read["found"], true, "{read}");

    // One that left tells a client with the first cluster.toml who the members are.
    cluster.start_replica(2, &[]);
    assert_written(&cluster, SHAPE, &written);
    let replicas = cluster.client_config().replicas;
    let mut reader = VerifiedReader::new(replicas, &cluster.agreed, 0).unwrap();
    let reading = cluster.runtime.block_on(reader.get(b"counter", 64)).unwrap();
    assert!(reading.verified.value.is_some() && reading.replica.0 >= 4, "{reading:?}");
}

#[test]
fn over_tcp_four_members_become_four_others_and_nothing_is_lost() {
    four_become_four_others(&[]);
}

#[test]
fn over_quic_four_members_become_four_others_and_nothing_is_lost() {
    four_become_four_others(&["--transport", "quic"]);
}

#[test]
fn over_udp_four_members_become_four_others_and_nothing_is_lost() {
    four_become_four_others(&["--transport", "udp"]);
}

#[test]
fn with_pbft_four_members_become_four_others_and_nothing_is_lost() {
    four_become_four_others(&["--protocol", "pbft"]);
}

/// A newcomer learns, counts once it has caught up, and another one leaves: one command.
#[test]
fn a_newcomer_takes_a_members_place_and_weights_change() {
    let mut cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(100);
    let file = newcomer(&mut cluster, 4).display().to_string();
    cluster.start_replica(4, &[]);
    let replaced = change(&cluster, 1, &["replace", "2", &file]);
    assert_eq!(json(&replaced)["epoch"].as_u64(), Some(2));
    assert_eq!(weights(&cluster)[..5], [Some(1), Some(1), None, Some(1), Some(1)]);
    cluster.kill(2);
    writers.wait_for(100);
    assert_eq!(changed(&cluster, &["weight", "0=2", "4=3"]), 3);
    assert_eq!(weights(&cluster)[..5], [Some(2), Some(1), None, Some(1), Some(3)]);
    writers.wait_for(100);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
    assert!(refusal(&change(&cluster, 1, &["replace", "2", &file])).contains("no member 2"));
    pulled_through_epochs(&cluster, &written);
}

/// The blocks of all epochs are printed, and the file proves itself to anybody with `cluster.toml`.
fn pulled_through_epochs(cluster: &Cluster, written: &[u64]) {
    let run = |arguments: &[&str]| {
        let home = cluster.folder().join("client");
        quorate().args(["-o", "json", "pull", "--home"]).arg(home).args(arguments).output().unwrap()
    };
    let pulled = run(&[]);
    assert!(pulled.status.success(), "{}", String::from_utf8_lossy(&pulled.stderr));
    let lines: Vec<Value> = String::from_utf8(pulled.stdout.clone())
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let (proof, blocks) = lines.split_last().unwrap();
    assert_eq!(proof["proof"]["handovers"].as_array().map(Vec::len), Some(3));
    // Each epoch has a genesis of its own, which is not printed.
    let heights: Vec<u64> = blocks.iter().map(|block| block["height"].as_u64().unwrap()).collect();
    let gaps = heights.windows(2).filter(|pair| pair[1] - pair[0] == 2).count();
    assert_eq!((heights[0], gaps, heights[heights.len() - 1]), (1, 3, heights.len() as u64 + 3));
    let frames = blocks.iter().flat_map(|block| block["frames"].as_array().unwrap());
    let commands: usize = frames.map(|frame| frame["commands"].as_array().unwrap().len()).sum();
    assert!(commands as u64 >= written.iter().sum(), "{commands} commands are in the blocks");

    let file = cluster.folder().join("pulled.json");
    std::fs::write(&file, &pulled.stdout).unwrap();
    let verified = json(&run(&["--verify", &file.display().to_string()]));
    assert_eq!(verified["through"].as_u64(), heights.last().copied());
    // Without the handovers nothing of later epochs is proven.
    let mut bare = blocks.to_vec();
    bare.push(serde_json::json!({ "proof": { "blocks": [], "newest": null } }));
    let text: Vec<String> = bare.iter().map(Value::to_string).collect();
    std::fs::write(&file, text.join("\n")).unwrap();
    refusal(&run(&["--verify", &file.display().to_string()]));
}

/// A member signs by another key from an epoch on, without a restart, and erases the one it had.
#[test]
fn a_member_s_key_is_rotated_while_it_runs_and_the_former_one_is_erased() {
    let mut cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(50);
    let (home, secret) = (cluster.home(3), cluster.home(3).join("config/consensus.key"));
    let former = std::fs::read(&secret).unwrap();
    // What is left of a line that a full disk cut off spoils no other.
    std::fs::write(home.join("config/consensus.key.public"), "02ab").unwrap();
    let made = quorate().args(["-o", "json", "member", "new-key", "--home"]).arg(&home).output();
    let key = json(&made.unwrap())["consensus_key"].as_str().unwrap().to_owned();
    assert_eq!(std::fs::read(&secret).unwrap(), former, "the old committee needs it still");

    let file = home.join("config/next-key.toml").display().to_string();
    assert_eq!(changed(&cluster, &["rotate-key", &file]), 1);
    assert_eq!(json(&member(&cluster, &["status"]))["members"][3]["consensus_key"], key);
    // Another one is away: without the replica's new signatures there is no quorum.
    cluster.kill(0);
    writers.wait_for(50);
    wait_until("the former key is erased", || std::fs::read(&secret).unwrap() != former);
    wait_until("all of it", || !home.join("config/consensus.key.old").exists());
    assert!(!home.join("config/consensus.key.next").exists());

    // It comes back with the new one, and counts.
    cluster.kill(3);
    cluster.start_replica(3, &[]);
    writers.wait_for(50);
    let written = writers.finish(&cluster);
    cluster.start_replica(0, &[]);
    assert_written(&cluster, SHAPE, &written);
    assert!(
        refusal(&change(&cluster, 1, &["rotate-key", &file])).contains("has this consensus key")
    );
}

/// The error that a command ended with.
pub(crate) fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn changes_that_may_not_be_made_are_refused_and_the_cluster_goes_on() {
    let mut cluster = Cluster::start(&["--administrators", "3", "--approvals", "2"], &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(50);
    let file = newcomer(&mut cluster, 4).display().to_string();
    let added = ["add", &file];
    for (done, expected) in [
        (change(&cluster, 1, &added), "1 administrators signed, 2 must"),
        (change(&cluster, 2, &["promote", "1"]), "replica 1 counts already"),
        (change(&cluster, 2, &["remove", "7"]), "there is no member 7"),
        (change(&cluster, 2, &["remove", "2"]), "3 members would count"),
        (change(&cluster, 2, &["change", "--add", &file, "--weight", "4=1"]), "replica 4 is new"),
    ] {
        let said = refusal(&done);
        assert!(said.contains(expected) && said.contains("remedy:"), "{expected}: {said}");
    }
    writers.wait_for(50);
    // Administrators in different places sign a file.
    let out = cluster.folder().join("change.bin").display().to_string();
    let planned = json(&change(&cluster, 1, &["plan", "--add", &file, "--out", &out]));
    assert_eq!((planned["signed"].as_u64(), planned["needed"].as_u64()), (Some(1), Some(2)));
    assert!(refusal(&member(&cluster, &["submit", &out])).contains("1 administrators signed"));
    let key = cluster.folder().join("administrator-2.key").display().to_string();
    json(&member(&cluster, &["approve", &out, "--administrator", &key]));
    assert_eq!(json(&member(&cluster, &["submit", &out]))["epoch"].as_u64(), Some(1));
    // It was for the epoch that it ended.
    assert!(refusal(&member(&cluster, &["submit", &out])).contains("and this is epoch 1"));
    // Nobody has started the newcomer: it is not ready, and is missed by nobody.
    writers.wait_for(50);
    let three = ["change", "--promote", "4", "--remove", "3"];
    let status = json(&member(&cluster, &["status"]));
    assert!(status["members"][4]["unreached"].is_string(), "{status}");
    assert_eq!(once_ready(&cluster, 2, &three)["epoch"].as_u64(), Some(2));
    writers.wait_for(50);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// The geneses of epochs are in no log. Replicas looked as if they were not equal where the search
/// for the last block came upon one.
#[test]
fn the_last_block_is_found_wherever_epochs_begin() {
    let runtime = Builder::new_current_thread().build().unwrap();
    let last = |first: u64, last: u64, geneses: [u64; 2]| {
        let has = async |height| Some(height <= last && !geneses.contains(&height));
        runtime.block_on(last_from(first, has))
    };
    for (first, end) in (1..4).flat_map(|first| (first..40).map(move |end| (first, end))) {
        for genesis in first + 1..end {
            assert_eq!(last(first, end, [0, genesis]), Some(end));
            // An epoch has a block at least.
            for other in genesis + 2..end {
                assert_eq!(last(first, end, [genesis, other]), Some(end));
            }
        }
    }
    assert_eq!(runtime.block_on(last_from(1, async |_| None)), None);
}
