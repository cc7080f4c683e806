//! The data folder: one process, one owner, no damage passed over, no write that failed.

use std::fs;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::Signal;

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, quorate};

const SHAPE: Shape = Shape { frame: 10, value_bytes: 64, keys: u64::MAX };

fn newest_segment(cluster: &Cluster, replica: usize) -> PathBuf {
    let folder = cluster.data(replica).join("wal");
    let mut segments: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "wal"))
        .collect();
    segments.sort();
    segments.pop().expect("a log has a segment")
}

#[test]
fn told_to_stop_it_ends_well_and_the_folder_is_one_process_s() {
    let mut cluster = Cluster::start(&[], &[]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(200);
    let second = cluster
        .refused(1, &["--set", "listen.peer=127.0.0.1:0", "--set", "listen.client=127.0.0.1:0"]);
    assert_eq!(second.code, Some(3), "{}", second.stderr);
    assert!(second.stderr.contains("stop the other process"), "{}", second.stderr);
    for replica in 0..4 {
        cluster.signal(replica, Signal::TERM);
        assert_eq!(cluster.ended(replica).code(), Some(0));
        cluster.start_replica(replica, &[]);
        writers.wait_for(20);
    }
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

/// A process that makes the data folder may be killed: until it is made to its end, nothing starts.
#[test]
fn a_data_folder_that_is_half_made_is_made_again() {
    let mut cluster = Cluster::new(&[], &[]);
    let config = cluster.home(1).join("config");
    fs::rename(config.join("begun"), config.join("beginning")).unwrap();
    fs::remove_file(newest_segment(&cluster, 1)).unwrap();
    for arguments in [&[][..], &["--rejoin-after-data-loss"]] {
        let refused = cluster.refused(1, arguments);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("cut short here; run it again"), "{}", refused.stderr);
    }
    let made = quorate().args(["init", "--home"]).arg(cluster.home(1)).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    // Two of the others do not suffice.
    (0..3).for_each(|replica| cluster.start_replica(replica, &[]));
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(20);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn a_foreign_or_damaged_folder_is_refused_and_a_torn_end_is_cut() {
    let mut cluster = Cluster::start(&[], &[]);
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(500);
    let written = writers.finish(&cluster);
    cluster.kill_all();

    let others = cluster.data(1).to_str().unwrap().to_owned();
    let foreign = cluster.refused(0, &["--set", &format!("storage.folder={others}")]);
    assert_eq!(foreign.code, Some(2), "{}", foreign.stderr);
    assert!(foreign.stderr.contains("the data folder of another replica"), "{}", foreign.stderr);

    // A bit in the middle of what was promised.
    let segment = newest_segment(&cluster, 2);
    let file = fs::File::options().read(true).write(true).open(&segment).unwrap();
    let bytes = fs::read(&segment).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    let middle = (end / 2..end).find(|at| bytes[*at] != 0).unwrap() as u64;
    let byte = bytes[middle as usize];
    file.write_all_at(&[byte ^ 1], middle).unwrap();
    let damaged = cluster.refused(2, &[]);
    assert_eq!(damaged.code, Some(4), "{}", damaged.stderr);
    assert!(damaged.stderr.contains("is damaged at offset"), "{}", damaged.stderr);
    file.write_all_at(&[byte], middle).unwrap();

    // Half a record behind the end, as a write leaves it that was cut off.
    let torn = newest_segment(&cluster, 3);
    let file = fs::File::options().write(true).open(&torn).unwrap();
    let bytes = fs::read(&torn).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    file.write_all_at(&[0x5a; 700], end + 9).unwrap();
    cluster.start_all();
    assert!(cluster.log_text(3).contains("torn write"), "{}", cluster.log_text(3));
    assert_written(&cluster, SHAPE, &written);
    cluster.wait_until_equal(&[0, 1, 2, 3]);
}

/// The system refuses to let one replica's files grow, as a full disk does.
#[test]
fn a_write_that_fails_stops_the_replica_and_not_the_cluster() {
    let shape = Shape { frame: 50, value_bytes: 4000, keys: 200 };
    let mut cluster = Cluster::new(&[], &["view_timeout.base=300ms"]);
    for replica in [0, 1, 3] {
        cluster.start_replica(replica, &[]);
    }
    // In blocks of 512 bytes or 1 KiB: the log, made in advance, is refused at 4 or 8 MiB.
    let started = cluster.command(2, &[]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 8192; exec \"$0\" \"$@\" 2>>\"$LOG\""]);
    limited
        .env("LOG", cluster.home(2).join("stderr"))
        .arg(started.get_program())
        .args(started.get_args());
    cluster.start_command(2, limited);
    let writers = Writers::start(&cluster, 2, shape);
    assert_eq!(cluster.ended(2).code(), Some(1));
    let text = fs::read_to_string(cluster.home(2).join("stderr")).unwrap();
    assert!(text.contains("storage failed") && text.contains("File too large"), "{text}");
    writers.wait_for(200);
    cluster.start_replica(2, &[]);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&[0, 1, 2, 3]);
    assert_written(&cluster, shape, &written);
}

/// Every file and folder below `folder`, itself included, that others than its owner may use.
fn open_to_others(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let data = fs::metadata(folder).unwrap();
    if data.mode() & 0o077 != 0 {
        found.push(folder.to_owned());
    }
    if data.is_dir() {
        let entries = fs::read_dir(folder).unwrap();
        found.extend(entries.flat_map(|entry| open_to_others(&entry.unwrap().path())));
    }
    found
}

/// State and log hold what clients wrote; whoever starts a replica may have any umask.
#[test]
fn the_data_folder_is_its_owner_s_alone_whatever_the_umask() {
    let settings = ["storage.state=disk", "storage.snapshot_every=50"];
    let mut cluster = Cluster::new(&[], &settings);
    for replica in 0..4 {
        let started = cluster.command(replica, &[]);
        let mut anyhow = Command::new("sh");
        anyhow.args(["-c", "umask 0; exec \"$0\" \"$@\""]);
        anyhow.arg(started.get_program()).args(started.get_args());
        cluster.start_command(replica, anyhow);
    }
    let writers = Writers::start(&cluster, 2, SHAPE);
    writers.wait_for(500);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
    for replica in 0..4 {
        cluster.signal(replica, Signal::TERM);
        assert_eq!(cluster.ended(replica).code(), Some(0));
        let open = open_to_others(&cluster.data(replica));
        assert!(open.is_empty(), "{open:?}");
    }
}
