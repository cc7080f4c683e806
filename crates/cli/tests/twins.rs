//! `quorate twins`, the real binary: what it counts, writes, runs, refuses, and goes on with.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn command(folder: &Path, line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.current_dir(folder).arg("twins").args(line.split_whitespace());
    command
}

fn twins(folder: &Path, line: &str) -> Output {
    command(folder, line).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What came of a campaign, without how fast.
fn totals(output: &Output) -> Vec<Value> {
    let mut rows = json(output)["protocols"].as_array().unwrap().clone();
    for row in &mut rows {
        row.as_object_mut().unwrap().remove("scenarios_per_second");
    }
    rows
}

#[test]
fn files_hold_what_numbers_name() {
    let folder = tempfile::tempdir().unwrap();
    let counts = json(&twins(folder.path(), "generate --views 7 -o json"));
    assert_eq!(counts["unpruned"], "4398046511104");
    assert_eq!(counts["scenarios"], "369434823360");
    let written = "generate --views 3 --sample 45 --per-file 20 --out s -o json";
    assert_eq!(json(&twins(folder.path(), written))["files"], 3);
    let from_files = twins(folder.path(), "run s --protocol hotstuff-chained -o json");
    let by_number = "run --views 3 --sample 45 --protocol hotstuff-chained -o json";
    assert_eq!(totals(&from_files), totals(&twins(folder.path(), by_number)));
    // Real signatures change nothing.
    let real = format!("{by_number} --signatures ed25519");
    assert_eq!(totals(&from_files), totals(&twins(folder.path(), &real)));

    let told = twins(folder.path(), "run --replay s/scenarios-000001.json --scenario 3");
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.contains("● b1  on b0") && told.contains("→ r2  proposal"), "{told}");
    assert!(told.contains("no violation"));
}

#[test]
fn what_is_wrong_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    assert!(twins(folder.path(), "generate --sample 3 --out s").status.success());
    let file = folder.path().join("s/scenarios-000000.json");
    let good = std::fs::read_to_string(&file).unwrap();
    for (from, to, place) in [
        ("\"leader\"", "\"chief\"", "line 2"),
        ("\"replicas\":4", "\"replicas\":3", "replicas, twins"),
        ("\"version\":1", "\"version\":9", "version"),
        ("]}", "", "line"),
    ] {
        std::fs::write(&file, good.replacen(from, to, 1)).unwrap();
        let refused = twins(folder.path(), "run s");
        assert_eq!(refused.status.code(), Some(4), "{to}");
        let words = err(&refused);
        assert!(words.contains(place) && words.contains("s/scenarios-000000.json"), "{words}");
        assert!(words.contains("remedy:"), "{words}");
    }
    for line in ["generate --twins 2", "generate --partitions 9", "run --views 99", "run nothing"] {
        let refused = twins(folder.path(), line);
        assert!(matches!(refused.status.code(), Some(1 | 2)), "{line}");
        assert!(err(&refused).contains("remedy:"), "{line}: {}", err(&refused));
    }
}

fn interrupt(child: &Child) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
}

#[test]
fn an_interrupted_campaign_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let line = "run --views 5 --sample 4000 --protocol hotstuff-chained -o json";
    let progress = folder.path().join("p.json");
    let mut child = command(folder.path(), &format!("{line} --threads 1 --progress p.json"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // As soon as some of it is in the file.
    let began = Instant::now();
    while !progress.exists() && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let saved: Value = serde_json::from_slice(&std::fs::read(&progress).unwrap()).unwrap();
    let done = &saved["protocols"]["hotstuff-chained"]["scenarios"];
    let done: u64 = done.as_str().unwrap().parse().unwrap();
    assert!((1..4_000).contains(&done), "{done}");

    let other = twins(folder.path(), "run --views 4 --progress p.json");
    assert_eq!(other.status.code(), Some(4));
    assert!(err(&other).contains("another campaign"));

    let resumed = twins(folder.path(), &format!("{line} --progress p.json"));
    let once_more = twins(folder.path(), &format!("{line} --progress p.json"));
    let whole = totals(&twins(folder.path(), line));
    assert_eq!((totals(&resumed), totals(&once_more)), (whole.clone(), whole));
}
