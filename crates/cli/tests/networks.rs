//! Emulated networks, with real processes: `quorate net`, and studies with a `[network]`.
//!
//! `needs::networks` says where they are skipped. Delays have lower bounds only.

#[path = "../../netem/tests/needs/mod.rs"]
mod needs;
mod program;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use program::{command, command_of, err, quorate, rows, write_study};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_quorate");
const PATIENCE: Duration = Duration::from_secs(120);

/// What a command that must succeed prints as JSON.
fn json(folder: &Path, arguments: &[&str]) -> Value {
    let output = quorate(folder, &[arguments, &["-o", "json"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", err(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn processes() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    entries.filter(|path| path.join("ns").exists()).collect()
}

fn namespace_of(process: &Path) -> Option<PathBuf> {
    std::fs::read_link(process.join("ns/net")).ok()
}

/// The namespaces, other than this process's, of processes that run in a folder.
fn namespaces_of(folder: &Path) -> BTreeSet<PathBuf> {
    let folder = folder.canonicalize().unwrap();
    let inside = |process: &PathBuf| {
        std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&folder))
    };
    let ours = namespace_of(Path::new("/proc/self"));
    let found = processes().into_iter().filter(inside).filter_map(|one| namespace_of(&one));
    found.filter(|one| Some(one) != ours.as_ref()).collect()
}

/// Nothing runs in the folder or in these namespaces, and no home is left.
fn assert_nothing_is_left(folder: &Path, namespaces: &BTreeSet<PathBuf>) {
    let path = folder.canonicalize().unwrap();
    wait_until("no process is left", || {
        !processes().iter().any(|process| {
            std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd.starts_with(&path))
                || namespace_of(process).is_some_and(|one| namespaces.contains(&one))
        })
    });
}

fn homes(folder: &Path) -> usize {
    std::fs::read_dir(folder.join("results/s/homes")).map_or(0, Iterator::count)
}

/// Runs a study, which must succeed; its rows. `None` where networks cannot be made.
fn run_study(text: &str) -> Option<(TempDir, Vec<Value>)> {
    if !needs::networks() {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    write_study(folder.path(), text);
    let output = quorate(folder.path(), &["experiment", "run", "s.toml"]);
    assert!(output.status.success(), "{}", err(&output));
    let rows = rows(folder.path());
    Some((folder, rows))
}

#[test]
fn four_replicas_take_at_least_the_delays_of_their_messages() {
    let study = run_study(
        "[grid]\nprotocol = [\"hotstuff-chained\", \"hotstuff-two-chain\"]\nbatch = 10\nclients = 1\n\
         outstanding = 1\nframe = 1\ndurability = \"os\"\nset.\"view_timeout.base\" = \"2s\"\n\
         [network]\nrtt_ms = [[40]]\n\
         [measure]\nduration = \"2s\"\nwarm_up = \"100ms\"\nrepeats = 1\n",
    );
    let Some((folder, found)) = study else { return };
    assert_eq!(found.len(), 2);
    for row in &found {
        // From proposal to commit (`quorate protocols`), and the client's request and answers: 20
        // ms each.
        let delays = match row["settings"]["point"]["protocol"].as_str().unwrap() {
            "hotstuff-chained" => 7 + 2,
            _ => 5 + 2,
        };
        let figures = &row["figures"];
        assert!(figures["commands"].as_u64().unwrap() > 0, "{row}");
        assert!(figures["p50_ms"].as_f64().unwrap() >= f64::from(delays * 20), "{row}");
        let shortest = figures["latencies"][0][0].as_u64().unwrap();
        assert!(shortest >= delays as u64 * 20_000, "{row}");
        assert!(figures["network_late_p50_ms"].is_number(), "{row}");
        assert_eq!(figures["network_dropped"], 0);
        assert_eq!(row["settings"]["network"]["rtt_ms"], serde_json::json!([[40.0]]));
        assert_eq!(row["settings"]["point"]["network"], "[network]");
    }
    assert_eq!(homes(folder.path()), 0);
    assert_nothing_is_left(folder.path(), &BTreeSet::new());
}

#[test]
fn each_transport_commits_while_packets_are_lost() {
    let study = run_study(
        "[grid]\ntransport = [\"tcp\", \"quic\", \"udp\"]\nbatch = 100\nclients = 2\npayload = \"1KiB\"\n\
         durability = \"os\"\nset.\"view_timeout.base\" = \"2s\"\n\
         [network]\nrtt_ms = [[10]]\nlink = \"loss=1%\"\n\
         [measure]\nduration = \"3s\"\nwarm_up = \"100ms\"\nrepeats = 1\n",
    );
    let Some((folder, found)) = study else { return };
    let transports: BTreeSet<_> =
        found.iter().map(|row| row["settings"]["point"]["transport"].as_str().unwrap()).collect();
    assert_eq!(transports, BTreeSet::from(["quic", "tcp", "udp"]));
    for row in &found {
        assert!(row["figures"]["commands"].as_u64().unwrap() > 0, "{row}");
    }
    assert_nothing_is_left(folder.path(), &BTreeSet::new());
}

const LONG: &str = "[grid]\nnetwork = \"far\"\ndurability = \"os\"\nrate = 100\nset.\"view_timeout.base\" = \"2s\"\n\
    [networks.far]\nrtt_ms = [[40]]\nclients = \"near\"\n\
    [measure]\nduration = \"10min\"\nwarm_up = \"100ms\"\nrepeats = 1\n";

/// Starts a study that takes long, and waits until four replicas and the clients are in their
/// namespaces.
fn start_long(folder: &Path) -> (Child, BTreeSet<PathBuf>) {
    write_study(folder, LONG);
    let mut child = command(folder, &["experiment", "run", "s.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("replicas and clients run in namespaces", || {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        namespaces_of(folder).len() == 5
    });
    (child, namespaces_of(folder))
}

#[test]
fn a_study_in_a_network_that_is_interrupted_or_killed_leaves_nothing() {
    if !needs::networks() {
        return;
    }
    for signal in [Signal::INT, Signal::KILL] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let (mut child, namespaces) = start_long(folder);
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait().unwrap();
        assert_nothing_is_left(folder, &namespaces);
        assert!(rows(folder).is_empty());
        if signal == Signal::INT {
            assert_eq!(ended.code(), Some(1));
            assert_eq!(homes(folder), 0);
        }
    }
}

#[test]
fn a_run_that_fails_in_a_network_leaves_its_logs_and_nothing_else() {
    if !needs::networks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_study(
        folder,
        "[network]\npreset = \"lan\"\n[measure]\nduration = \"1s\"\nrepeats = 1\nnumbers = [\"nonsense\"]\n",
    );
    let output = quorate(folder, &["experiment", "run", "s.toml"]);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let row = &rows(folder)[0];
    assert!(row["failure"].as_str().unwrap().contains("no number \"nonsense\""), "{row}");
    assert_eq!(row["settings"]["point"]["network"], "lan");
    assert!(folder.join("results/s/failed/0-0-0/replica-0/replica.log").exists());
    assert_eq!(homes(folder), 0);
    assert_nothing_is_left(folder, &BTreeSet::new());
}

/// The names of a network's namespaces in the file system.
fn names(network: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().into_string().unwrap());
    names.filter(|name| name.contains(&format!("-{network}-"))).collect()
}

#[test]
fn a_network_is_brought_up_changed_measured_and_taken_down() {
    if !needs::networks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = format!("a{}", std::process::id());
    let net =
        |arguments: &[&str]| json(folder, &[&["net"], arguments, &["--name", &name]].concat());
    std::fs::write(folder.join("n.toml"), "rtt_ms = [[0, 20], [20, 0]]\n").unwrap();
    let up = net(&["up", "n.toml", "-n", "2", "--detach"]);
    assert_eq!(up["nodes"][2]["node"], "clients");
    assert_eq!(up["nodes"][0]["address"], "10.86.0.1");
    assert_eq!(names(&name).len(), 3);
    let again = quorate(folder, &["net", "up", "lan", "--detach", "--name", &name]);
    assert_eq!(again.status.code(), Some(2));
    assert!(err(&again).contains("take another name, or take that one down"), "{}", err(&again));

    let changed = net(&["set", "0", "1", "delay=30ms", "loss=100%", "--one-way"]);
    assert_eq!(changed["changed"].as_array().unwrap().len(), 1);
    assert_eq!(changed["changed"][0]["link"], "delay=30ms loss=1");
    let lost = net(&["measure", "0", "1", "--packets", "50"]);
    assert_eq!((&lost[0]["asked"], &lost[0]["arrived"]), (&"delay=30ms loss=1".into(), &0.into()));
    net(&["set", "0", "1", "delay=30ms", "loss=0"]);
    let both = net(&["measure", "1", "0", "--packets", "50", "--tcp", "1"]);
    assert_eq!(both[0]["arrived"], 50);
    assert!(both[0]["delay_p1_ms"].as_f64().unwrap() >= 30.0, "{both}");
    assert!(both[0]["tcp_bits_per_second"].as_f64().unwrap() > 0.0, "{both}");
    // Of each kind of link one: 30 ms, 10 ms, and none of the clients' with replica 0.
    assert_eq!(net(&["measure", "--packets", "10"]).as_array().unwrap().len(), 3);
    let wrong = quorate(folder, &["net", "set", "0", "7", "delay=1ms", "--name", &name]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(err(&wrong).contains("there is no node \"7\""), "{}", err(&wrong));

    let cut = net(&["set", "--partition", "0,clients", "1"]);
    assert_eq!(cut["changed"].as_array().unwrap().len(), 4);
    assert_eq!(net(&["set", "--heal"])["changed"].as_array().unwrap().len(), 4);

    let mut inside =
        command_of("ip", folder, &["netns", "exec", up["nodes"][1]["namespace"].as_str().unwrap()])
            .args(["sleep", "600"])
            .spawn()
            .unwrap();
    wait_until("it runs inside", || {
        net(&["status"])[0]["processes"].as_array().unwrap().contains(&inside.id().into())
    });
    let status = quorate(folder, &["net", "status", "--name", &name]);
    let status = String::from_utf8(status.stdout).unwrap();
    assert!(status.contains("\n0 -> 1: delay=30ms\n") && status.contains(&name), "{status}");

    let down = net(&["down"]);
    assert_eq!(down["down"][0]["processes"][0], inside.id());
    assert!(names(&name).is_empty());
    inside.kill().unwrap();
    inside.wait().unwrap();
    wait_until("its owner has ended", || !Path::new(&format!("/proc/{}", up["owner"])).exists());
    let gone = quorate(folder, &["net", "down", "--name", &name]);
    assert!(err(&gone).contains("is up"), "{}", err(&gone));
}

#[test]
fn a_network_ends_with_an_interrupt_and_what_a_killed_one_leaves_with_the_next() {
    if !needs::networks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let name = format!("b{}", std::process::id());
    let up = || {
        let child = command(folder, &["net", "up", "lan", "-n", "1", "--name", &name])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let socket = PathBuf::from(format!("/run/quorate-net/{}-{name}.sock", child.id()));
        wait_until("it is up", || socket.exists());
        (child, socket)
    };
    let (mut first, socket) = up();
    kill_process(Pid::from_child(&first), Signal::INT).unwrap();
    assert!(first.wait().unwrap().success());
    assert!(names(&name).is_empty() && !socket.exists());

    let (mut second, socket) = up();
    second.kill().unwrap();
    second.wait().unwrap();
    let (mut third, _) = up();
    wait_until("those of the killed one are gone", || names(&name).len() == 2 && !socket.exists());
    third.kill().unwrap();
    third.wait().unwrap();
    quorate(folder, &["net", "down", "--name", &name]);
    assert!(names(&name).is_empty());
}

/// That `net up` and a study fail with these words, if what runs before them takes something away.
fn assert_refused(folder: &Path, before: &str, says: &str, remedy: &str) {
    write_study(folder, "[network]\npreset = \"lan\"\n");
    let script = format!("{before} \"$0\" \"$@\"");
    for arguments in [["net", "up", "lan"], ["experiment", "run", "s.toml"]] {
        let output = command_of("unshare", folder, &["--mount", "sh", "-c", &script, PROGRAM])
            .args(arguments)
            .output()
            .unwrap();
        let said = err(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(says) && said.contains(&format!("remedy: {remedy}")), "{said}");
        assert!(!folder.join("results").exists());
    }
}

#[test]
fn what_is_missing_is_named_with_its_remedy() {
    if !needs::networks() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let without = "exec setpriv --bounding-set -sys_admin,-net_admin";
    assert_refused(folder, without, "network namespaces need root", "run this with sudo");
    let without = "mount -t tmpfs none /dev/net && exec";
    assert_refused(folder, without, "cannot open /dev/net/tun", "load the module (modprobe tun)");
    let without = "PATH=/nowhere; exec";
    assert_refused(folder, without, "the program `ip` is not there", "install iproute2");
}

#[test]
fn what_is_no_network_is_told_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("n.toml"), "link = \"loss=1%\"\nrtt_ms = [[0, 1], [1]]\n").unwrap();
    std::fs::write(folder.join("k.toml"), "preset = \"lan\"\nlinks = \"\"\n").unwrap();
    for (arguments, says) in [
        (&["up", "mars"][..], "neither a preset nor a file \"mars\""),
        (&["up", "n.toml"], "n.toml, line 2"),
        (&["up", "k.toml"], "did you mean `link`?"),
        (&["up", "lan", "-n", "254"], "255 nodes: a network has from 1 to 254"),
        (&["set", "0", "1", "--name", "x"], "KEY=VALUE"),
        (&["set", "0", "1", "delay=1ms", "--name", "nonesuch"], "no network \"nonesuch\" is up"),
        (&["measure", "--name", "nonesuch"], "quorate net up wan-100ms"),
    ] {
        let output = quorate(folder, &[&["net"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(says), "{arguments:?}: {}", err(&output));
    }
}
