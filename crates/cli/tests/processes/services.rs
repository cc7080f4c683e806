//! Services of one's own as processes: an application in Python, a client in Python, the bridge.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use bytes::Bytes;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cluster::{Cluster, quorate, wait_until};
use crate::needs;

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/python");

/// A process that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn bridge(cluster: &Cluster, door: &[&str]) -> (Running, String) {
    let mut command = quorate();
    command.args(["--output", "json", "bridge", "--give-up-after", "60", "--home"]);
    command.arg(cluster.folder().join("client")).args(door);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    (Running(child), said["bridge_address"].as_str().unwrap().to_owned())
}

fn python(address: &str) -> Value {
    let script = format!("{EXAMPLES}/client.py");
    let Output { status, stdout, stderr } =
        Command::new("python3").args([&script, address, "250"]).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    serde_json::from_slice(&stdout).unwrap()
}

/// The process that a replica speaks with.
fn child_of(replica: Pid) -> Pid {
    let folder = format!("/proc/{}/task", replica.as_raw_nonzero());
    let threads = std::fs::read_dir(&folder).unwrap().flatten();
    let children = threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|text| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    let ids: Vec<i32> = children.filter_map(|id| id.parse().ok()).collect();
    let Ok([child]) = <[i32; 1]>::try_from(ids) else { panic!("one process a replica") };
    Pid::from_raw(child).unwrap()
}

/// An application in Python runs on four replicas. One of its processes is killed: its replica says
/// so, stops, and comes back with all that was executed. Meanwhile a client in Python goes on.
#[test]
#[cfg(target_os = "linux")]
fn an_application_in_python_is_used_from_python_and_killed() {
    if !needs::program("python3", "python3") {
        return;
    }
    let application = format!("python3 {EXAMPLES}/counters.py");
    let mut cluster = Cluster::start(&["--pipe", &application], &["storage.snapshot_every=20"]);
    let (_tcp, address) = bridge(&cluster, &["--listen", "127.0.0.1:0"]);
    let socket = cluster.folder().join("bridge.sock");
    let (_unix, path) = bridge(&cluster, &["--unix", socket.to_str().unwrap()]);
    assert_eq!(Path::new(&path), socket);
    python(&address);
    python(&path);

    let killed = child_of(cluster.pid(0));
    kill_process(killed, Signal::KILL).unwrap();
    let counted = python(&address);
    let status = cluster.ended(0);
    assert_eq!(status.code(), Some(6), "{}", cluster.log_text(0));
    let log = cluster.log_text(0);
    assert!(log.contains("application `counters`") && log.contains("signal: 9"), "{log}");
    let mut command = quorate();
    let shown = command.args(["status", "--home"]).arg(cluster.folder()).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("ended") && shown.contains("application `counters`"), "{shown}");

    cluster.start_replica(0, &[]);
    let client = cluster.client();
    let question = Bytes::from(format!("read {}", counted["name"].as_str().unwrap()));
    // Two equal answers are needed, and two replicas are left: the one that came back is one.
    cluster.kill(2);
    cluster.kill(3);
    wait_until("the replica that came back gives the right answer", || {
        let asked = cluster.runtime.block_on(client.query(question.clone()));
        asked.is_ok_and(|answer| answer == "ok 250")
    });
}

#[test]
fn a_replica_of_a_service_without_its_program_says_what_to_run() {
    let cluster = Cluster::new(&["--pipe", "/no/such/program"], &[]);
    let refused = cluster.refused(0, &[]);
    assert_eq!(refused.code, Some(6), "{}", refused.stderr);
    let said = "service `program`: the process `/no/such/program`: it cannot be started";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    let refused = cluster.refused(0, &["--set", "service=answer_within_ms = 7"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    let said = "the service `program`, which this program lacks";
    assert!(refused.stderr.contains(said), "{}", refused.stderr);
    let refused = cluster.refused(0, &["--set", "service=comand = [\"x\"]"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("unknown key `service.comand`"), "{}", refused.stderr);
}
