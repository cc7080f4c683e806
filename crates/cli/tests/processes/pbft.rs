//! PBFT by real processes: a primary that dies with blocks under way, a whole cluster that restarts
//! under load, every authentication, what proves itself, and a replica that lost its data.

use std::sync::Arc;

use quorate_crypto::SecretKey;
use quorate_node::client::{Authenticity, Client, ClientConfig, State};
use rustix::process::Signal;

use crate::cluster::writers::{Shape, Writers, assert_written, set};
use crate::cluster::{Cluster, quorate, wait_until};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };
const ALL: [usize; 4] = [0, 1, 2, 3];

fn start() -> Cluster {
    start_with("macs-to-clients")
}

fn start_with(authentication: &str) -> Cluster {
    let init = ["--protocol", "pbft", "--authentication", authentication];
    Cluster::start(&init, &["view_timeout.base=300ms"])
}

fn assert_equal(cluster: &Cluster) {
    wait_until("all replicas hold the same keys", || {
        let keys = ALL.map(|replica| cluster.keys(replica));
        keys[0].is_some() && keys.windows(2).all(|pair| pair[0] == pair[1])
    });
}

#[test]
fn a_primary_that_dies_under_load_is_replaced_and_comes_back() {
    primaries_die(start());
}

/// The same where replicas answer before a block is committed.
#[test]
fn tentative_answers_outlive_a_primary_that_dies_under_load() {
    let init = ["--protocol", "pbft", "--tentative", "--authentication", "macs"];
    primaries_die(Cluster::start(&init, &["view_timeout.base=300ms"]));
}

/// The primaries of the first views die under load, one after the other, and come back.
fn primaries_die(mut cluster: Cluster) {
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(300);
    for primary in [0, 1] {
        cluster.kill(primary);
        writers.wait_for(100);
        cluster.start_replica(primary, &[]);
        writers.wait_for(100);
    }
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// A replica is stopped, so that nobody notices a broken connection, until the others are more than
/// a window of 64 blocks ahead. Then the primary dies: nothing is decided without the one that was
/// away.
#[test]
fn a_replica_comes_back_from_beyond_the_window() {
    const WINDOW: u64 = 64;
    let mut cluster = start();
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(50);
    cluster.signal(3, Signal::STOP);
    // Each writer has one frame under way, so a block has four of them at most.
    (0..2 * WINDOW).for_each(|_| writers.wait_for(4 * SHAPE.frame));
    cluster.signal(3, Signal::CONT);
    cluster.kill(0);
    writers.wait_for(200);
    let written = writers.finish(&cluster);
    cluster.start_replica(0, &[]);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn all_replicas_restart_at_once_under_load() {
    let mut cluster = start();
    let writers = Writers::start(&cluster, 4, SHAPE);
    for _ in 0..3 {
        writers.wait_for(200);
        cluster.kill_all();
        ALL.into_iter().for_each(|replica| cluster.start_replica(replica, &[]));
    }
    writers.wait_for(100);
    let written = writers.finish(&cluster);
    assert_equal(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// Commands are answered and a dead primary is replaced with every authentication; what a client is
/// told is authentic by what was agreed on, and by nothing else.
#[test]
fn every_authentication_commits_and_changes_views() {
    for authentication in ["signatures", "macs"] {
        let mut cluster = start_with(authentication);
        let writers = Writers::start(&cluster, 2, SHAPE);
        writers.wait_for(50);
        cluster.kill(0);
        writers.wait_for(50);
        cluster.start_replica(0, &[]);
        writers.wait_for(50);
        let written = writers.finish(&cluster);
        assert_equal(&cluster);
        assert_written(&cluster, SHAPE, &written);
        // A client that believes channels hears from all replicas, and believes none of them.
        let config =
            ClientConfig { authenticity: Authenticity::Channel, ..cluster.client_config() };
        cluster.runtime.block_on(async {
            let key = Arc::new(SecretKey::generate().unwrap());
            let client = Client::start(config, key);
            let refused = || client.contacts().iter().filter(|one| one.refused > 0).count();
            while refused() < 3 {
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            assert_eq!(client.state(), State::Opening);
        });
    }
}

fn printed(cluster: &Cluster, arguments: &[&str]) -> (bool, String, String) {
    let home = cluster.folder().join("client");
    let output = quorate().args(arguments).arg("--home").arg(home).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.success(), text(output.stdout), text(output.stderr))
}

/// Blocks that are pulled, and values that are read, prove themselves to somebody who asks nobody:
/// by checkpoints with PBFT, the last ones of a cluster that rests among them, and by certificates
/// with HotStuff. What was changed, cut off or is of another chain proves nothing.
#[test]
fn what_is_pulled_and_read_proves_itself() {
    for init in [&["--protocol", "pbft", "--authentication", "macs"][..], &[]] {
        let cluster = Cluster::start(init, &[]);
        let client = cluster.client();
        for number in 0..40 {
            let commands = vec![set(&format!("key-{number}"), b"value")];
            cluster.runtime.block_on(client.submit(commands)).unwrap();
        }
        let mut pulled = String::new();
        wait_until("the last command is pulled", || {
            let (_, stdout, _) = printed(&cluster, &["pull", "-o", "json"]);
            pulled = stdout;
            pulled.contains(&hex(b"key-39"))
        });
        let file = cluster.folder().join("pulled");
        let verify = |text: &str| {
            std::fs::write(&file, text).unwrap();
            printed(&cluster, &["pull", "--verify", file.to_str().unwrap()])
        };
        let (holds, stdout, stderr) = verify(&pulled);
        assert!(holds && stdout.starts_with("heights 1 to "), "{stdout}{stderr}");
        // Another value, where people read it and where the block has it.
        let (place, other) = (hex(b"key-39"), hex(b"key-93"));
        let (holds, _, stderr) = verify(&pulled.replacen(&place, &other, 1));
        assert!(!holds && stderr.contains("line "), "{stderr}");
        let (holds, _, stderr) = verify(&pulled.replace(&place, &other));
        assert!(!holds && stderr.contains("line "), "{stderr}");
        // Without its end, and without a line.
        let lines: Vec<_> = pulled.lines().collect();
        let (_, blocks) = lines.split_last().unwrap();
        let (holds, _, stderr) = verify(&(blocks.join("\n") + "\n"));
        assert!(!holds && stderr.contains("nothing in the file proves"), "{stderr}");
        let gap = [&lines[..2], &lines[3..]].concat().join("\n");
        let (holds, _, stderr) = verify(&(gap + "\n"));
        assert!(!holds && stderr.contains("height"), "{stderr}");
        let (holds, _, stderr) = verify("{\"height\":1}\n");
        assert!(!holds && stderr.contains("a block without `encoded`"), "{stderr}");

        let (holds, stdout, stderr) = printed(&cluster, &["get", "--verified", "key-39"]);
        assert!(holds && stdout.contains("value"), "{stdout}{stderr}");
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A replica that lost its data folder abstains, while nothing goes on as well, and then takes
/// part: with another one dead nothing is decided without it.
#[test]
fn a_replica_that_lost_its_data_comes_back() {
    let mut cluster = start();
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(200);
    cluster.kill(3);
    writers.wait_for(100);
    let first = writers.finish(&cluster);
    std::fs::remove_dir_all(cluster.data(3)).unwrap();
    cluster.start_replica(3, &["--rejoin-after-data-loss"]);
    wait_until("it abstains no more", || {
        let (_, stdout, _) = printed(&cluster, &["status", "-o", "json"]);
        let said: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let replica = &said["replicas"][3];
        replica["abstaining"] == false && replica["rejoining"] == false && replica["view"] != 1
    });
    cluster.kill(0);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(100);
    cluster.start_replica(0, &[]);
    let second = writers.finish(&cluster);
    assert!(first.len() == second.len());
    assert_equal(&cluster);
}
