//! `quorate backup` and `quorate restore`: what was acknowledged comes back, in the same cluster
//! and in a new one; what was changed by one bit is refused by name.

use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use quorate_app::kv::Reply;
use quorate_app::kv::command::encode;
use quorate_node::config::load_cluster;
use serde_json::Value;
use tempfile::TempDir;

use crate::cluster::writers::{Shape, Writers, assert_written, set};
use crate::cluster::{Cluster, quorate, wait_until};
use crate::members;

const ALL: [usize; 4] = [0, 1, 2, 3];
const SHAPE: Shape = Shape { frame: 20, value_bytes: 100, keys: 500 };
const SETTINGS: [&str; 2] = ["view_timeout.base=300ms", "storage.snapshot_every=30"];

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

fn json(command: &mut Command) -> Value {
    let output = run(command.args(["-o", "json"]));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Why a command was refused, with this exit code.
fn refusal(command: &mut Command, code: i32) -> String {
    let output = run(command);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    stderr
}

fn backup(verb: &str, folder: &Path) -> Command {
    let mut command = quorate();
    command.args(["backup", verb]).arg(folder);
    command
}

/// Backs up, again while all replicas are too busy with other work to answer.
fn created(cluster: &Cluster, folder: &Path) -> Output {
    let home = cluster.folder().join("client");
    let create = || run(backup("create", folder).arg("--home").arg(&home).args(["-o", "json"]));
    let mut made = create();
    wait_until("a replica has time for a backup", || {
        let is_busy = String::from_utf8_lossy(&made.stderr).contains("is busy, try again");
        if is_busy {
            made = create();
        }
        !is_busy
    });
    made
}

fn create(cluster: &Cluster, folder: &Path) -> Value {
    members::json(&created(cluster, folder))
}

/// Whether no replica would let a backup do without a state.
fn each_offers_a_state(cluster: &Cluster) -> bool {
    ALL.iter().all(|replica| cluster.data(*replica).join("snapshots/offer").exists())
}

/// The last height that a backup holds.
fn last(made: &Value) -> u64 {
    made["last"].as_u64().expect("a height")
}

fn restore(folder: &Path) -> Command {
    let mut command = quorate();
    command.arg("restore").arg(folder);
    command
}

fn write(cluster: &Cluster, key: &str, value: &str) {
    let replies =
        cluster.runtime.block_on(cluster.client().submit(vec![set(key, value.as_bytes())]));
    assert_eq!(Reply::decode(&replies.unwrap()[0]).unwrap(), Reply::Ok);
}

fn read(cluster: &Cluster, key: &str) -> Vec<u8> {
    let mut command = Vec::new();
    encode::get(&mut command, key.as_bytes());
    let replies = cluster.runtime.block_on(cluster.client().submit(vec![command.into()]));
    match Reply::decode(&replies.unwrap()[0]).unwrap() {
        Reply::Bulk(value) => value.to_vec(),
        other => panic!("{key}: {other:?}"),
    }
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries.filter(|path| path.extension().is_some()).collect();
    files.sort();
    files
}

/// Changes a bit of a file; done again, it is as it was.
fn flip(file: &Path, offset: u64) {
    let opened = fs::File::options().read(true).write(true).open(file).unwrap();
    let mut byte = [0];
    opened.read_exact_at(&mut byte, offset).unwrap();
    opened.write_all_at(&[byte[0] ^ 1 << (offset % 8)], offset).unwrap();
}

/// One flipped bit, wherever it is, is refused with the file and the place.
fn assert_flips_are_found(folder: &Path) {
    for file in files(folder) {
        let length = fs::metadata(&file).unwrap().len();
        for offset in [9, 60, length / 2, length - 1] {
            flip(&file, offset);
            let refused = refusal(&mut backup("verify", folder), 4);
            assert!(refused.contains(&file.display().to_string()), "{offset}: {refused}");
            assert!(refused.contains("another copy of this backup"), "{refused}");
            if offset == length / 2 {
                assert!(refused.contains("it is damaged at offset"), "{refused}");
            }
            flip(&file, offset);
        }
    }
    // Nor is anything restored from it.
    let last = files(folder).pop().unwrap();
    let middle = fs::metadata(&last).unwrap().len() / 2;
    flip(&last, middle);
    let homes = folder.with_file_name("homes");
    let refused = refusal(restore(folder).args(["--new", "n", "--out"]).arg(&homes), 4);
    assert!(refused.contains(&last.display().to_string()), "{refused}");
    assert!(!homes.exists());
    flip(&last, middle);
}

/// The cluster that is made of a backup, running.
fn again(folder: &Path, height: Option<&str>) -> Cluster {
    let height = height.map_or_else(Vec::new, |height| vec!["--height", height]);
    let mut cluster = Cluster::made(4, &SETTINGS, |homes, port| {
        let mut command = restore(folder);
        command.args(["--new", "again", "--port", port, "--out"]).arg(homes).args(&height);
        command
    });
    cluster.start_all();
    cluster
}

#[test]
fn a_backup_of_a_cluster_under_load_brings_its_data_back() {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("backup");
    let mut cluster = Cluster::start(&[], &SETTINGS);
    write(&cluster, "moment", "before");
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for_each(1000, "each replica offers a state", || each_offers_a_state(&cluster));
    let first = create(&cluster, &folder);
    assert!(first["state"].as_u64() >= Some(30), "{first}");
    write(&cluster, "moment", "after");
    writers.wait_for(500);
    // What is there is not copied again.
    let second = create(&cluster, &folder);
    assert_eq!(second["state"], Value::Null, "{second}");
    assert!(last(&second) > last(&first), "{first} {second}");
    assert_eq!(second["blocks"], last(&second) - last(&first), "{first} {second}");

    // A replica that lost its data gets its state back, and is one that lost its data.
    cluster.kill(2);
    let home = cluster.home(2);
    let put = || {
        let mut command = restore(&folder);
        command.arg("--home").arg(&home);
        command
    };
    let refused = refusal(&mut put(), 2);
    assert!(refused.contains("there is data in it"), "{refused}");
    fs::remove_dir_all(cluster.data(2)).unwrap();
    let given = json(&mut put());
    assert_eq!(given["height"], first["state"]);
    let lost = cluster.refused(2, &[]);
    assert!(lost.stderr.contains("there is no safety record"), "{}", lost.stderr);
    cluster.start_replica(2, &["--rejoin-after-data-loss"]);
    let from = format!("state recovered at height {}", given["height"]);
    assert!(cluster.log_text(2).contains(&from), "{from}: {}", cluster.log_text(2));
    let height = cluster.height(0);
    cluster.wait_for_height(2, height);
    // Once it has moved on its votes count again: with another one dead nothing is decided without
    // them.
    writers.wait_for(2000);
    cluster.kill(0);
    writers.wait_for(500);
    cluster.start_replica(0, &[]);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    let third = create(&cluster, &folder);
    let client = cluster.folder().join("client");
    let verified = json(backup("verify", &folder).arg("--home").arg(&client));
    assert_eq!(verified["heights"].as_array().unwrap().len(), 1, "{verified}");
    assert_eq!(verified["heights"][0][0], first["state"], "{verified}");
    assert_eq!(verified["heights"][0][1], third["last"], "{verified}");
    let listed = json(&mut backup("list", &folder));
    assert_eq!(listed["files"].as_array().unwrap().len(), files(&folder).len());
    let digest = cluster.agreed.chain_digest();
    drop(cluster);
    assert_flips_are_found(&folder);

    // A new cluster goes on from all that was acknowledged, and another one from an earlier moment.
    let early = again(&folder, Some(&first["last"].to_string()));
    assert_eq!(read(&early, "moment"), b"before");
    let refused = refusal(backup("verify", &folder).arg("--home").arg(early.home(0)), 2);
    assert!(refused.contains("not of again"), "{refused}");
    drop(early);
    let mut cluster = again(&folder, None);
    assert_written(&cluster, SHAPE, &written);
    assert_eq!(read(&cluster, "moment"), b"after");
    let from = cluster.agreed.restored.clone().unwrap();
    assert_eq!((from.chain_digest, Some(from.height.0)), (digest, third["last"].as_u64()));
    assert_ne!(cluster.agreed.chain_digest(), digest);

    // Its replicas begin with that state, and with no other.
    cluster.kill(1);
    fs::remove_dir_all(cluster.data(1)).unwrap();
    let other = cluster.refused(1, &["--rejoin-after-data-loss"]);
    assert!(other.stderr.contains("this chain begins with a state restored"), "{}", other.stderr);
    let given = json(restore(&folder).arg("--home").arg(cluster.home(1)));
    assert_eq!(given["first"], true);
    cluster.start_replica(1, &["--rejoin-after-data-loss"]);
    write(&cluster, "moment", "in the new cluster");
    cluster.wait_until_equal(&ALL);
}

/// The state of a later epoch proves its members by how the epochs before it ended. The replica
/// gets both back, and needs none of it from the others.
#[test]
fn a_replica_gets_its_state_back_after_members_changed() {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("backup");
    let settings = [&SETTINGS[..], &["listen.http=127.0.0.1:0"]].concat();
    let mut cluster = Cluster::start(&["--administrators", "1"], &settings);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(500);
    assert_eq!(members::changed(&cluster, &["weight", "0=2"]), 1);
    assert_eq!(members::changed(&cluster, &["weight", "0=1", "1=2"]), 2);
    let made = wait_for_state(&cluster, &folder, cluster.height(0));

    cluster.kill(2);
    fs::remove_dir_all(cluster.data(2)).unwrap();
    let put = || json(restore(&folder).arg("--home").arg(cluster.home(2)));
    let given = put();
    assert_eq!(given["height"], made, "{given}");
    // What a killed one left is written over.
    assert_eq!(put(), given);
    cluster.start_replica(2, &["--rejoin-after-data-loss"]);
    let from = format!("state recovered at height {made}");
    assert!(cluster.log_text(2).contains(&from), "{from}: {}", cluster.log_text(2));
    // Before it has its testimonies it executes nothing. Behind them it abstains for some views.
    let height = cluster.height(0);
    cluster.wait_for_height(2, height);
    writers.wait_for(2000);
    // Without its votes nothing is decided now.
    cluster.kill(3);
    writers.wait_for(500);
    cluster.start_replica(3, &[]);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
    cluster.wait_until_equal(&ALL);
}

/// Backs up until there is a state above a height; which one.
fn wait_for_state(cluster: &Cluster, folder: &Path, above: u64) -> Value {
    let mut state = Value::Null;
    wait_until("a state of this epoch is in the backup", || {
        let _ = fs::remove_dir_all(folder);
        let made = created(cluster, folder);
        let said = String::from_utf8_lossy(&made.stderr);
        // Blocks of this epoch have shown none yet.
        if said.contains("no replica has a snapshot that a quorum stands for") {
            return false;
        }
        assert!(made.status.success(), "{said}");
        state = serde_json::from_slice::<Value>(&made.stdout).unwrap()["state"].clone();
        state.as_u64() > Some(above)
    });
    state
}

/// A restore that is cut short leaves a folder of its own, which the next one removes.
#[test]
fn homes_that_are_half_made_are_made_again() {
    let place = TempDir::new().unwrap();
    let (folder, homes) = (place.path().join("backup"), place.path().join("homes"));
    let cluster = Cluster::start(&[], &SETTINGS);
    write(&cluster, "key", "value");
    let made = create(&cluster, &folder);
    // No snapshot is there yet: the blocks from the first on are.
    assert_eq!(made["state"], Value::Null, "{made}");
    let put = |homes: &Path| {
        let mut command = restore(&folder);
        command.args(["--new", "again", "--out"]).arg(homes);
        command
    };
    let left = place.path().join("homes.part");
    fs::create_dir_all(left.join("replica-0/config")).unwrap();
    let refused = refusal(&mut put(&homes), 2);
    assert!(refused.contains("no restore made it"), "{refused}");
    fs::write(left.join("restoring"), "").unwrap();
    json(&mut put(&homes));
    assert!(!left.exists() && !homes.join("restoring").exists());
    let (agreed, _) = load_cluster(&homes.join("client/config/cluster.toml")).unwrap();
    assert_eq!(agreed.restored.map(|from| from.height.0), made["last"].as_u64());
    let refused = refusal(&mut put(&homes), 2);
    assert!(refused.contains("homes are never written over"), "{refused}");
}

/// Kills `restore` at moments spread over the time it takes, then lets it end; `check` looks at
/// what is there after each.
fn killed_again_and_again(restore: impl Fn() -> Command, whole: Duration, check: impl Fn()) {
    const MOMENTS: u32 = 12;
    for moment in 0..MOMENTS {
        let mut running = restore().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole * moment / MOMENTS);
        running.kill().unwrap();
        running.wait().unwrap();
        check();
    }
}

/// However often a restore is killed, the next one makes all of it, and no home is ever there that
/// is not whole.
#[test]
fn a_restore_that_is_killed_at_any_moment_is_done_again() {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("backup");
    let mut cluster = Cluster::start(&[], &SETTINGS);
    let writers = Writers::start(&cluster, 4, SHAPE);
    writers.wait_for(3000);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&ALL);
    create(&cluster, &folder);
    let before = files(&folder);

    // The homes of a new cluster.
    let put = |homes: &Path| {
        let mut command = restore(&folder);
        command.args(["--new", "again", "--out"]).arg(homes);
        command
    };
    let began = Instant::now();
    json(&mut put(&place.path().join("measured")));
    let whole = began.elapsed();
    let homes = place.path().join("homes");
    killed_again_and_again(
        || put(&homes),
        whole,
        || {
            if homes.exists() {
                load_cluster(&homes.join("client/config/cluster.toml")).unwrap();
                assert_eq!(files_of_data(&homes), files_of_data(&place.path().join("measured")));
                fs::remove_dir_all(&homes).unwrap();
            }
        },
    );
    json(&mut put(&homes));
    assert!(!place.path().join("homes.part").exists());

    // The state of one replica.
    cluster.kill(2);
    fs::remove_dir_all(cluster.data(2)).unwrap();
    let home = cluster.home(2);
    let give = || {
        let mut command = restore(&folder);
        command.arg("--home").arg(&home);
        command
    };
    let began = Instant::now();
    json(&mut give());
    let whole = began.elapsed();
    fs::remove_dir_all(cluster.data(2)).unwrap();
    killed_again_and_again(give, whole, || ());
    let given = run(&mut give());
    let said = String::from_utf8_lossy(&given.stderr);
    // The last one killed may have ended its work before it was.
    assert!(given.status.success() || said.contains("there is data in it"), "{said}");
    cluster.start_replica(2, &["--rejoin-after-data-loss"]);
    write(&cluster, "moment", "after");
    cluster.wait_until_equal(&ALL);
    assert_eq!(files(&folder), before, "a restore changes nothing of the backup");
    drop(cluster);
    assert_written(&again(&folder, None), SHAPE, &written);
}

/// How many files each replica's data has.
fn files_of_data(homes: &Path) -> Vec<usize> {
    let count = |id: &usize| {
        let data = homes.join(format!("replica-{id}/data"));
        fs::read_dir(data).map_or(0, Iterator::count)
    };
    ALL.iter().map(count).collect()
}
