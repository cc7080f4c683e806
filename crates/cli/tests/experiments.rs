//! `quorate experiment`, with real processes.

mod program;

use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use program::{command, err, quorate, rows, write_study};

const PATIENCE: Duration = Duration::from_secs(120);

/// Processes that run in this folder.
fn processes_of(folder: &Path) -> Vec<PathBuf> {
    let folder = folder.canonicalize().unwrap();
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let of_folder =
        |process: &PathBuf| std::fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder);
    entries.map(|entry| entry.path()).filter(of_folder).collect()
}

#[test]
fn a_study_is_run_once_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_study(
        folder,
        "[grid]\nleader = [\"round-robin\", \"reputation\"]\nadversary = \"silent-leader@500ms..1s\"\n\
         client_processes = 2\nclients = 3\nworkload = \"ycsb-a\"\npayload = \"64B\"\nkeys = 300\n\
         durability = \"os\"\n\
         [measure]\nduration = \"2s\"\nwarm_up = \"100ms\"\nsettle = \"3s\"\nrepeats = 1\n\
         numbers = [\"equivocations_total\"]\n",
    );
    let output = quorate(folder, &["experiment", "run", "s.toml"]);
    assert!(output.status.success(), "{}", err(&output));
    let found = rows(folder);
    assert_eq!(found.len(), 2);
    for row in &found {
        let figures = &row["figures"];
        assert!(figures["commands"].as_u64().unwrap() > 0, "{row}");
        assert_eq!(figures["liars"], serde_json::json!([0]));
        assert_eq!(figures["under"][0]["from"], 0.5);
        let answered: u64 = figures["series"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| one["commands"].as_u64().unwrap())
            .sum();
        assert_eq!(figures["commands"].as_u64().unwrap(), answered);
        let values = &figures["samples"]["values"];
        let last = |name: &str| values[name].as_array().unwrap().last().unwrap().as_f64().unwrap();
        assert!(last("committed_commands_total") > 0.0, "{row}");
        assert_eq!(last("equivocations_total"), 0.0);
        assert_eq!(row["context"]["version"], env!("CARGO_PKG_VERSION"));
    }
    let out = folder.join("results/s");
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(page.contains("A study") && page.contains("<svg"));
    for file in ["over-time-goodput.svg", "heat-map-reputation.svg", "runs.csv", "series.csv"] {
        assert!(std::fs::metadata(out.join(file)).unwrap().len() > 100, "{file}");
    }
    assert_eq!(std::fs::read_dir(out.join("homes")).unwrap().count(), 0);

    // Nothing is run twice, and a page that was lost is drawn again.
    std::fs::remove_file(out.join("report.html")).unwrap();
    let again = quorate(folder, &["experiment", "run", "s.toml"]);
    assert!(again.status.success() && err(&again).contains("2 of 2 runs are there already"));
    assert_eq!(rows(folder), found);
    std::fs::remove_file(out.join("report.html")).unwrap();
    let plot = quorate(folder, &["experiment", "plot", "results/s"]);
    assert!(plot.status.success(), "{}", err(&plot));
    assert_eq!(std::fs::read_to_string(out.join("report.html")).unwrap(), page);
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Interrupts it as a terminal would, but only itself.
fn interrupt(child: &Child) {
    let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    // It may have ended by itself by now.
    let _ = rustix::process::kill_process(id, rustix::process::Signal::INT);
}

#[test]
fn a_study_that_is_interrupted_leaves_nothing_behind_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    write_study(
        folder,
        "[grid]\nbatch = [10, 20]\nkill = \"leader@300ms\"\nrate = 200\ndurability = \"os\"\n\
         [measure]\nduration = \"1s\"\nwarm_up = \"100ms\"\nrepeats = 1\n",
    );
    let mut first = command(folder, &["experiment", "run", "s.toml"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // By the time that this is seen, the second may have ended as well.
    wait_until("the first run ends", || !rows(folder).is_empty());
    wait_until("the second has begun", || {
        processes_of(folder).len() > 4 || first.try_wait().unwrap().is_some()
    });
    interrupt(&first);
    wait_until("it ends", || first.try_wait().unwrap().is_some());
    let second = rows(folder).len();
    wait_until("no process is left", || processes_of(folder).is_empty());

    let output = quorate(folder, &["experiment", "run", "s.toml"]);
    assert!(output.status.success(), "{}", err(&output));
    assert!(err(&output).contains(&format!("{second} of 2 runs are there already")));
    let found = rows(folder);
    assert_eq!(found.len(), 2);
    for row in &found {
        assert!(row["figures"]["killed"][0].as_u64().unwrap() < 4, "{row}");
        assert!(row["figures"]["killed"][1].as_f64().unwrap() >= 0.3, "{row}");
    }
}

#[test]
fn what_cannot_be_run_is_told_with_its_place_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    for (study, says) in [
        ("[grid]\nreplicas = 3\nkill = \"leader@1s\"\n", "s.toml, line 5"),
        ("[grid]\nreplica = 3\n", "did you mean `replicas`?"),
        ("[measure]\nnumber = 3\n", "did you mean `numbers`?"),
    ] {
        write_study(folder, study);
        let output = quorate(folder, &["experiment", "run", "s.toml"]);
        assert_eq!(output.status.code(), Some(2), "{}", err(&output));
        assert!(err(&output).contains(says), "{}", err(&output));
        assert!(!folder.join("results").exists());
    }
    let output = quorate(folder, &["experiment", "run", "nowhere.toml"]);
    assert!(err(&output).contains("nowhere.toml") && err(&output).contains("remedy"));
    // A number that replicas do not have is known only when they run.
    write_study(folder, "[measure]\nduration = \"1s\"\nrepeats = 1\nnumbers = [\"votes\"]\n");
    let output = quorate(folder, &["experiment", "run", "s.toml"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("replicas have no number \"votes\""), "{}", err(&output));
    assert!(rows(folder)[0]["failure"].as_str().unwrap().contains("votes_total"));
    assert!(folder.join("results/s/failed/0-0-0/replica-0/replica.log").exists());
}
