//! Runs the scripts of `tests/scripts` at the root of the workspace and compares what happened,
//! line by line. `QUORATE_REGENERATE=1` writes what happened into the scripts instead.
//!
//! A script is a list of commands; behind a few of them stand `----` and what they led to. Lines
//! that begin with `#` are for the reader. The commands are in `script.rs`; times are in
//! milliseconds, a message takes one on its way. What several replicas do alike at one instant is
//! one line.
//!
//! Every protocol has its folder, with one script for each of [`SCENARIOS`].
#![allow(
    clippy::disallowed_methods,
    reason = "the core is pure; who runs the test says which seeds, and scripts are files"
)]

use quorate_sim as cluster;
mod forged;
mod pbft;
mod script;
mod two_delay;
mod words;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use quorate_core::protocols::hotstuff::rules;
use words::Script;

/// What is shown of every protocol.
const SCENARIOS: [&str; 6] = [
    "happy_path",
    "leader_failure",
    "equivocation",
    "late_and_early_votes",
    "missing_block",
    "restart",
];

/// What is shown beside.
const OTHERS: [&str; 31] = [
    "01_silence_and_waking",
    "02_sent_to_one_with_a_dead_leader",
    "03_lost_data",
    "04_long_absence",
    "05_view_jump",
    "06_bad_certificates",
    "07_bodies_apart",
    "carousel/skips_a_crashed_leader",
    "hotstuff-2/wait_for_delta",
    "frames-ahead/dead_replica",
    "frames-ahead/passed_on_to_the_leader_alone",
    "frames-ahead/told_by_a_quorum",
    "frames-ahead/withheld_from_one",
    "frames-ahead/word_is_lost",
    "linear/complaint",
    "linear/dead_collector",
    "linear/next_time",
    "pbft/checkpoint",
    "pbft/happy_path_macs",
    "pbft/happy_path_signatures",
    "pbft/late_replica",
    "pbft/tentative",
    "pbft/view_change_macs",
    "pbft/view_change_signatures",
    "two-delay/dead_leader",
    "two-delay/equivocation",
    "two-delay/happy_path",
    "two-delay/late_replica",
    "two-delay/one_silent",
    "two-delay/split_leader",
    "two-delay/two_silent_of_seven",
];

/// Not run here: scripts of another test, which says how, and what is no script.
const ELSEWHERE: [&str; 2] = ["mutants", "README.md"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scripts")
}

/// The files below a folder, by their paths from `root`.
fn files(root: &Path, below: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(below).expect("a folder of scripts") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(root).expect("below the root").to_str().expect("a plain name");
        if ELSEWHERE.contains(&name) {
            continue;
        }
        if path.is_dir() {
            files(root, &path, found);
        } else {
            found.insert(name.to_owned());
        }
    }
}

/// What a script says, and what happens.
fn run(path: &Path) -> (String, String) {
    let text = std::fs::read_to_string(path).expect("a script");
    let is_in = |folder: &str| path.parent().is_some_and(|it| it.ends_with(folder));
    let mut script: Box<dyn Script> = if is_in("pbft") {
        Box::new(pbft::OfPbft::new())
    } else if is_in("two-delay") {
        Box::new(two_delay::OfTwoDelays::new())
    } else {
        Box::new(script::OfHotStuff::new())
    };
    let (mut happened, mut said) = (String::new(), String::new());
    let mut skipping = false;
    for line in text.lines() {
        if line == "----" {
            let _ = write!(happened, "----\n{}", std::mem::take(&mut said));
            skipping = true;
        } else if line.is_empty() {
            skipping = false;
            happened.push('\n');
        } else if !skipping {
            let _ = writeln!(happened, "{line}");
            if !line.starts_with('#') {
                said.push_str(&script.command(line));
            }
        }
    }
    assert_eq!(said, "", "{}: no ---- behind the last command", path.display());
    (text, happened)
}

#[test]
fn scripts_happen_as_they_are_written() {
    let folder = folder();
    let mut names = BTreeSet::new();
    files(&folder, &folder, &mut names);
    let mut wrong = Vec::new();
    for name in names {
        let path = folder.join(&name);
        let (text, happened) = run(&path);
        if std::env::var_os("QUORATE_REGENERATE").is_some() {
            std::fs::write(&path, &happened).expect("the script is written");
        } else if text != happened {
            let line = text.lines().zip(happened.lines()).position(|(a, b)| a != b);
            let at = line.unwrap_or_else(|| text.lines().count().min(happened.lines().count()));
            let is = |text: &str| text.lines().nth(at).unwrap_or("(the end)").to_owned();
            let (expected, happens, at) = (is(&text), is(&happened), at + 1);
            wrong.push(format!(
                "{name}:{at}: expected `{expected}`, and this happened: `{happens}`"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}\nQUORATE_REGENERATE=1 rewrites them", wrong.join("\n"));
}

/// Each protocol by its name, and the one that has an option which changes what is seen.
fn protocols() -> impl Iterator<Item = String> {
    let names = rules::ALL.into_iter().map(|rules| rules.facts().name.to_owned());
    names.chain(["hotstuff-two-chain-second-vote".to_owned()])
}

#[test]
fn there_is_a_script_of_every_scenario_for_every_protocol_and_no_other() {
    let of_protocols = protocols()
        .flat_map(|protocol| SCENARIOS.map(|scenario| format!("{protocol}/{scenario}.txt")));
    let others = OTHERS.map(|name| format!("{name}.txt"));
    let expected: BTreeSet<String> = of_protocols.chain(others).collect();
    let mut found = BTreeSet::new();
    files(&folder(), &folder(), &mut found);
    let missing: Vec<&String> = expected.difference(&found).collect();
    let stray: Vec<&String> = found.difference(&expected).collect();
    assert!(missing.is_empty() && stray.is_empty(), "missing: {missing:?}, stray: {stray:?}");
}

#[test]
fn a_script_of_a_protocol_is_about_that_protocol() {
    for protocol in protocols() {
        for scenario in SCENARIOS {
            let name = format!("{protocol}/{scenario}.txt");
            let text = std::fs::read_to_string(folder().join(&name)).expect("a script");
            let (rules, second) = match protocol.strip_suffix("-second-vote") {
                Some(rules) => (rules, true),
                None => (protocol.as_str(), false),
            };
            let clusters: Vec<&str> = text.lines().filter(|l| l.starts_with("cluster ")).collect();
            assert!(!clusters.is_empty() && text.starts_with("# "), "{name}");
            for cluster in clusters {
                let words: Vec<&str> = cluster.split(' ').collect();
                assert!(words.contains(&format!("protocol={rules}").as_str()), "{name}: {cluster}");
                assert_eq!(words.contains(&"second_vote=yes"), second, "{name}: {cluster}");
            }
        }
    }
}

#[test]
fn a_script_that_is_wrong_is_noticed() {
    let path = std::env::temp_dir().join(format!("quorate-{}.txt", std::process::id()));
    std::fs::write(&path, "cluster replicas=1\n----\n    0.0  r0  dances\n").expect("written");
    let (text, happened) = run(&path);
    std::fs::remove_file(&path).expect("removed");
    assert_ne!(text, happened);
    assert!(happened.contains("r0  starts"), "{happened}");
}
