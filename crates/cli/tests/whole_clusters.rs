//! Commands of the real binary that run whole clusters: demo, testnet up, status, pull.

#[path = "cluster/ports.rs"]
mod ports;
mod program;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::time::{Duration, Instant};

use ports::ports;
use program::{command, err, quorate};
use serde_json::Value;

fn lines(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn the_demo_kills_the_leader_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let demo = command(folder.path(), &["demo", "--seconds", "4", "-o", "json", "--port", "0"])
        .env("TMPDIR", &temporary)
        .output()
        .unwrap();
    assert!(demo.status.success(), "{}", err(&demo));
    let report = &lines(&demo)[0];
    assert!(report["acknowledged"].as_u64().unwrap() > 0, "{report}");
    for sins in ["lost", "duplicated", "wrong", "ambiguous", "failed"] {
        assert_eq!(report[sins], 0, "{report}");
    }
    for figure in ["throughput", "p50_ms", "p99_ms", "recovery_ms", "catch_up_ms"] {
        assert!(report[figure].as_f64().unwrap() > 0.0, "{figure}: {report}");
    }
    assert!(report["killed"].is_u64(), "{report}");
    assert_eq!(
        (&report["replicas"], &report["protocol"]),
        (&4.into(), &"hotstuff-two-chain".into())
    );
    assert!(err(&demo).contains("redis-cli -p "), "{}", err(&demo));
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

/// Nothing is answered until the one leader is back: it is restarted without waiting for that. Its
/// cluster has what the flags say, keys that were dealt among it.
#[test]
fn the_demo_goes_on_when_its_one_leader_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let choices = "demo --seconds 4 --port 0 --leader fixed --fixed-leader 2 \
                   --protocol hotstuff-two-chain --votes broadcast --second-vote \
                   --signatures bls12-381-threshold -o json";
    let arguments: Vec<_> = choices.split_whitespace().collect();
    let demo = quorate(folder.path(), &arguments);
    assert!(demo.status.success(), "{}", err(&demo));
    let report = &lines(&demo)[0];
    for sins in ["lost", "duplicated", "wrong", "ambiguous", "failed"] {
        assert_eq!(report[sins], 0, "{report}");
    }
    assert_eq!((&report["killed"], &report["second_vote"]), (&2.into(), &true.into()), "{report}");
    assert_eq!(report["signatures"], "bls12-381-threshold");
    assert!(report["recovery_ms"].as_f64().unwrap() > 0.0, "{report}");
    let warning = "warning: `leader` is \"fixed\": there is no progress after its death\n";
    assert!(err(&demo).starts_with(warning), "{}", err(&demo));
}

/// A running `testnet up`; killed when dropped.
struct Up(Child);

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Up {
    fn start(folder: &Path) -> Self {
        let mut child = command(folder, &["testnet", "up", "net", "--port", "0", "-o", "json"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with('{') {
            line.clear();
            assert!(out.read_line(&mut line).unwrap() > 0, "ended before it was up");
        }
        let said: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(said["replicas"], 4);
        // Whatever the children say later must not block them.
        std::thread::spawn(move || std::io::copy(&mut out, &mut std::io::sink()));
        Self(child)
    }
}

#[test]
fn a_testnet_is_run_asked_pulled_from_and_ends_with_its_parent() {
    let folder = tempfile::tempdir().unwrap();
    let (_held, first_port) = ports(3 * 4);
    let port = first_port.to_string();
    let init = quorate(folder.path(), &["testnet", "init", "net", "--port", &port]);
    assert!(init.status.success(), "{}", err(&init));
    let nobody = quorate(folder.path(), &["status", "--home", "net"]);
    assert_eq!(nobody.status.code(), Some(1));
    assert!(err(&nobody).contains("no replica answers"));

    let mut up = Up::start(folder.path());
    let load = ["load", "--home", "net/client", "--seconds", "1", "--warmup", "0"];
    let load = quorate(folder.path(), &[&load[..], &["--frame", "10"]].concat());
    assert!(load.status.success(), "{}", err(&load));

    let status = |home: &str| quorate(folder.path(), &["status", "--home", home, "-o", "json"]);
    // A replica that is busy may not answer in time.
    let mut process = None;
    for (home, count) in [("net", 4), ("net/client", 4), ("net/replica-2", 1)] {
        eventually("one says that it has executed something", || {
            let asked = status(home);
            let said: Value = serde_json::from_slice(&asked.stdout).unwrap();
            let replicas = said["replicas"].as_array().unwrap();
            assert_eq!(replicas.len(), count);
            process = replicas[0]["process"].as_u64();
            let executed = |replica: &Value| replica["executed_height"].as_u64();
            asked.status.success() && replicas.iter().filter_map(executed).max() > Some(0)
        });
    }
    let process = process.expect("replica 2 says which it is");

    pulled_blocks_are_linked(folder.path());

    // Killed, it cannot stop its children: they see it themselves.
    up.0.kill().unwrap();
    up.0.wait().unwrap();
    eventually("all replicas have ended", || {
        let asked = status("net");
        let said: Value = serde_json::from_slice(&asked.stdout).unwrap();
        said["replicas"].as_array().unwrap().iter().all(|one| one["unreachable"].is_string())
    });
    eventually("the process is gone", || !Path::new(&format!("/proc/{process}")).exists());
}

fn pulled_blocks_are_linked(folder: &Path) {
    let pull = quorate(folder, &["pull", "--home", "net/client", "--from", "3", "-o", "json"]);
    assert!(pull.status.success(), "{}", err(&pull));
    let mut blocks = lines(&pull);
    // The last line is what proves them.
    let proof = blocks.pop().unwrap();
    assert!(proof.get("block").is_none(), "{proof}");
    assert_eq!(blocks[0]["height"], 3);
    for pair in blocks.windows(2) {
        assert_eq!(pair[0]["block"], pair[1]["parent"]);
    }
    let commands = |block: &Value| {
        let frames = block["frames"].as_array().unwrap().iter();
        frames.map(|frame| frame["commands"].as_array().unwrap().len()).sum::<usize>()
    };
    assert!(blocks.iter().map(commands).sum::<usize>() > 0);
    // Another chain's client believes nothing of it.
    let other = quorate(folder, &["testnet", "init", "other"]);
    assert!(other.status.success(), "{}", err(&other));
    let file = |net: &str| folder.join(net).join("client/config/cluster.toml");
    let text = std::fs::read_to_string(file("net")).unwrap();
    let genesis = |net: &str| {
        let text = std::fs::read_to_string(file(net)).unwrap();
        text.lines().find(|line| line.starts_with("genesis")).unwrap().to_owned()
    };
    let text = text.replace(&genesis("net"), &genesis("other"));
    std::fs::write(file("other"), text).unwrap();
    let refused = quorate(folder, &["pull", "--home", "other/client"]);
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
}

#[test]
fn a_matrix_goes_on_with_one_dead_in_every_row_and_is_taken_up_again() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let matrix = |only: &str, more: &[&str]| {
        let arguments =
            ["bench", "matrix", "--seconds", "3", "--out", "rows.jsonl", "--only", only];
        let mut command = command(folder.path(), &[&arguments[..], more].concat());
        let output = command.env("TMPDIR", &temporary).output().unwrap();
        assert!(output.status.success(), "{}", err(&output));
        output
    };
    let kept = || std::fs::read_to_string(folder.path().join("rows.jsonl")).unwrap();
    let one = "second_vote=true,pacemaker=linear,leader=round-robin,signatures=none";
    let rows = lines(&matrix(one, &["-o", "json"]));
    assert_eq!(rows.len(), 1);
    went_on_with_one_dead(&rows[0]);
    assert!(rows[0]["note"].is_null(), "{}", rows[0]);

    // With one more, the first is not measured again.
    let before = kept();
    let both = format!("{one},leader=fixed");
    let second = matrix(&both, &["--markdown", "page.md"]);
    assert!(err(&second).starts_with("1 of 2 are in rows.jsonl already\n"), "{}", err(&second));
    let table = String::from_utf8(second.stdout).unwrap();
    assert!(table.contains("\nhotstuff-two-chain\n"), "{table}");
    assert!(table.contains("\n2 combinations passed, 0 failed: 4 replicas, "), "{table}");
    let page = std::fs::read_to_string(folder.path().join("page.md")).unwrap();
    assert_eq!(page.matches(" | ok").count(), 2, "{page}");
    assert_eq!(kept().strip_prefix(&before).unwrap().lines().count(), 1);

    let all = kept();
    let rows = lines(&matrix(&both, &["-o", "json"]));
    assert_eq!((rows.len(), kept()), (2, all));
    went_on_with_one_dead(&rows[1]);
    assert_eq!((&rows[1]["leader"], &rows[1]["killed_led"]), (&"fixed".into(), &false.into()));
    assert!(rows[1]["note"].as_str().unwrap().contains("the leader is fixed"), "{}", rows[1]);
    // Nothing is left behind.
    assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0);
}

fn went_on_with_one_dead(row: &Value) {
    for time in ["all", "one_dead"] {
        for figure in ["goodput", "p50_ms", "p99_ms", "gap_ms"] {
            assert!(row[time][figure].as_f64().unwrap() > 0.0, "{time} {figure}: {row}");
        }
    }
    assert!(row["recovery_ms"].as_f64().unwrap() > 0.0, "{row}");
    assert!(row["killed"].is_u64() && row["failure"].is_null(), "{row}");
}

/// What a command waits for is told of both roles, and is no more than what its client sees; every
/// thread's stage was visited.
#[test]
fn the_profile_takes_the_time_of_a_command_apart() {
    let folder = tempfile::tempdir().unwrap();
    let profile = quorate(folder.path(), &["profile", "--seconds", "2", "-o", "json"]);
    assert!(profile.status.success(), "{}", err(&profile));
    let told: Value = serde_json::from_slice(&profile.stdout).unwrap();
    let counts = |durations: &Value| -> u64 {
        let classes = durations["classes_ns"].as_object().unwrap();
        classes.values().map(|count| count.as_u64().unwrap()).sum()
    };
    for role in ["led", "followed"] {
        let waits = told["profile"][role].as_object().unwrap();
        let counted: Vec<u64> = waits.values().map(counts).collect();
        assert_eq!(counted.len(), 4, "{told}");
        assert!(counted[0] > 0 && counted.iter().all(|count| *count == counted[0]), "{told}");
    }
    for (stage, visits) in told["profile"]["stages"].as_object().unwrap() {
        assert!(counts(visits) > 0, "{stage}: {told}");
    }
}
