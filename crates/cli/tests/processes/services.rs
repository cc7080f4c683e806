//! Services of one's own as processes: an application in Python, a client in Python, the bridge.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
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

/// One replica's application hangs. At a question its process is killed when the time for an answer
/// is over, and the replica ends; at a command with more time it is named meanwhile, and a replica
/// that is to stop names it too, and does not wait. The others go on.
#[test]
#[cfg(target_os = "linux")]
fn an_application_that_hangs_is_named_and_the_others_go_on() {
    if !needs::program("python3", "python3") {
        return;
    }
    let hangs = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/processes/clients/hangs.py");
    let words = ["python3", hangs, "3", &format!("{EXAMPLES}/counters.py")];
    let mut cluster = Cluster::new(&["--pipe", &words.join(" ")], &[]);
    // Time enough for a start on a busy machine.
    let within = |ms| format!("service=command = {words:?}\nanswer_within_ms = {ms}");
    (0..3).for_each(|replica| cluster.start_replica(replica, &[]));
    cluster.start_replica(3, &["--set", &within(8_000)]);
    let client = cluster.client();
    let submit = |cluster: &Cluster, command: &'static str| {
        let commands = vec![Bytes::from_static(command.as_bytes())];
        cluster.runtime.block_on(client.submit(commands)).unwrap()[0].clone()
    };
    assert_eq!(submit(&cluster, "add a 1"), "ok 1");
    let asked = cluster.runtime.block_on(client.query(Bytes::from_static(b"hang")));
    assert!(asked.unwrap().starts_with(b"error: expected"), "the others answer");
    assert_eq!(cluster.ended(3).code(), Some(6), "{}", cluster.log_text(3));
    let log = cluster.log_text(3);
    let said = "did not answer `Q` within 8s, and was killed";
    assert!(log.contains("error: application `counters`: ") && log.contains(said), "{log}");
    assert!(!log.contains("panicked at"), "an operator reads what to do, and no backtrace: {log}");

    cluster.start_replica(3, &["--set", &within(600_000)]);
    assert!(submit(&cluster, "hang").starts_with(b"error: expected"), "the others execute");
    assert_eq!(submit(&cluster, "add a 1"), "ok 2");
    let home = cluster.folder().to_owned();
    wait_until("status names it", || {
        let shown = quorate().args(["status", "--home"]).arg(&home).output().unwrap();
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let said =
            "replica 3: critical: the application `counters` has been executing the block at";
        shown.contains(said) && shown.contains("session 1, digest ")
    });
    let application = child_of(cluster.pid(3)).as_raw_nonzero();
    let application = PathBuf::from(format!("/proc/{application}/cmdline"));
    cluster.signal(3, Signal::TERM);
    assert_eq!(cluster.ended(3).code(), Some(6), "{}", cluster.log_text(3));
    // Until its parent has heard of its end, it is there without a command line.
    wait_until("its process is gone as well", || {
        std::fs::read(&application).is_ok_and(|line| line.is_empty()) || !application.exists()
    });
    let log = cluster.log_text(3);
    let said = "error: the application `counters` has been executing the block at";
    assert!(log.contains(said) && log.contains("and was not waited for"), "{log}");
    assert!(!log.contains("panicked at"), "{log}");
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
