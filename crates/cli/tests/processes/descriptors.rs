//! Few file descriptors: connections never take those that the log and snapshots need.

use std::collections::VecDeque;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use crate::cluster::writers::{Shape, Writers, assert_written};
use crate::cluster::{Cluster, wait_until};

/// A block's worth a frame: the log has a new segment every few dozen.
const SHAPE: Shape = Shape { frame: 50, value_bytes: 4000, keys: 200 };
/// Connections that a flood keeps to one port.
const HELD: usize = 300;
/// Addresses that a flood comes from: 127.0.0.2 and those after it.
const ADDRESSES: usize = 8;
/// How long a flood waits from one connection to the next: it must not take all of the processor.
const PAUSE: Duration = Duration::from_millis(2);

/// Somebody who connects, says nothing, and begins again when thrown out.
struct Flood {
    over: Arc<AtomicBool>,
    made: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Flood {
    fn start(ports: &[SocketAddr]) -> Self {
        let (over, made) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let start = |port: &SocketAddr| {
            let (port, over, made) = (*port, Arc::clone(&over), Arc::clone(&made));
            std::thread::spawn(move || flood(port, &over, &made))
        };
        Self { threads: ports.iter().map(start).collect(), over, made }
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            assert!(ended.is_ok() || std::thread::panicking(), "a flood ended");
        }
    }
}

fn flood(port: SocketAddr, over: &AtomicBool, made: &AtomicU64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut held = VecDeque::new();
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            return;
        }
        let connecting = async {
            let socket = tokio::net::TcpSocket::new_v4()?;
            let from = [127, 0, 0, 2 + (number % ADDRESSES) as u8];
            socket.bind(SocketAddr::from((from, 0)))?;
            socket.connect(port).await
        };
        // A replica that does not accept leaves some waiting.
        let connecting = async { tokio::time::timeout(Duration::from_secs(1), connecting).await };
        if let Ok(Ok(stream)) = runtime.block_on(connecting) {
            held.push_back(stream);
            made.fetch_add(1, Ordering::Relaxed);
        }
        if held.len() > HELD {
            held.pop_front();
        }
        std::thread::sleep(PAUSE);
    }
}

/// The command that starts a replica that may have `files` files and connections open.
fn limited(cluster: &Cluster, replica: usize, files: usize) -> Command {
    let started = cluster.command(replica, &[]);
    let mut limited = Command::new("sh");
    limited.arg("-c").arg(format!("ulimit -n {files}; exec \"$0\" \"$@\""));
    limited.arg(started.get_program()).args(started.get_args());
    limited
}

/// The name of the log's newest segment.
fn newest_segment(log: &Path) -> Option<String> {
    let entries = fs::read_dir(log).ok()?.flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.ends_with(".wal")).max()
}

/// When the snapshot that is offered was made. Each takes the place of the one before.
fn offered(shelf: &Path) -> Option<SystemTime> {
    fs::metadata(shelf.join("offer")).ok()?.modified().ok()
}

#[test]
fn a_flood_of_connections_leaves_the_log_and_snapshots_their_files() {
    let settings =
        ["storage.log_window=64MiB", "storage.snapshot_every=50", "view_timeout.base=300ms"];
    let mut cluster = Cluster::new(&[], &settings);
    for replica in [0, 1, 3] {
        cluster.start_replica(replica, &[]);
    }
    cluster.start_command(2, limited(&cluster, 2, 400));
    let member = &cluster.agreed.members[2];
    let ports = [&member.client_address, &member.peer_address]
        .map(|port| port.to_string().parse().unwrap());
    let flood = Flood::start(&ports);
    wait_until("the flood is there", || flood.made() > 3 * HELD as u64);

    let writers = Writers::start(&cluster, 2, SHAPE);
    let (log, shelf) = (cluster.data(2).join("wal"), cluster.data(2).join("snapshots"));
    for _ in 0..3 {
        let (segment, snapshot) = (newest_segment(&log), offered(&shelf));
        wait_until("it has a new segment", || newest_segment(&log) > segment);
        wait_until("it has a new snapshot", || offered(&shelf) > snapshot);
        wait_until("it answers", || cluster.keys(2).is_some());
        let text = cluster.log_text(2);
        assert!(!text.contains("Too many open files"), "{text}");
    }
    drop(flood);
    let written = writers.finish(&cluster);
    cluster.wait_until_equal(&[0, 1, 2, 3]);
    assert_written(&cluster, SHAPE, &written);
}

#[test]
fn a_replica_that_may_open_too_few_files_says_so_and_does_not_start() {
    let cluster = Cluster::new(&[], &[]);
    let refused = cluster.refused_command(0, limited(&cluster, 0, 200));
    assert_eq!(refused.code, Some(1), "{}", refused.stderr);
    for part in
        ["may have 200 files and connections open", "`storage.log_window`", "ulimit -n 65536"]
    {
        assert!(refused.stderr.contains(part), "{part}: {}", refused.stderr);
    }
}
