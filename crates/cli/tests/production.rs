//! The program without the laboratory (`ci/production.sh` builds it): it refuses by name what
//! belongs to the laboratory.
#![cfg(not(feature = "laboratory"))]

mod program;

use program::{code, err, quorate};

#[test]
fn the_laboratory_s_commands_are_known_and_refused() {
    let folder = tempfile::tempdir().unwrap();
    for line in [
        "bench --seconds 5",
        "bench attacks",
        "demo -n 7",
        "experiment run study.toml --quick",
        "load --home client --rate 1000",
        "net up --nodes 4",
        "profile",
        "sim --minutes 1",
        "store bench --items 10 folder",
        "testnet up folder",
        "twins run --views 3",
    ] {
        let arguments: Vec<_> = line.split(' ').collect();
        let output = quorate(folder.path(), &arguments);
        let said = err(&output);
        assert_eq!(code(&output), 2, "{line}: {said}");
        assert!(said.contains("belongs to the laboratory"), "{line}: {said}");
        assert!(said.contains("remedy: use a build with the feature `laboratory`"), "{said}");
    }
}

#[test]
fn the_laboratory_s_keys_are_refused_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(&quorate(folder.path(), &["testnet", "init", "net"])), 0);
    let check = |settings: &[&str]| {
        let mut arguments = vec!["config", "check", "--home", "net/replica-0"];
        for setting in settings {
            arguments.extend(["--set", setting]);
        }
        quorate(folder.path(), &arguments)
    };
    assert_eq!(code(&check(&[])), 0);
    let enabled = check(&["laboratory.enabled=true"]);
    assert_eq!(code(&enabled), 2);
    assert!(err(&enabled).contains("this build has no laboratory"), "{}", err(&enabled));
    let adversary = check(&["laboratory.adversary=silent-leader"]);
    assert_eq!(code(&adversary), 2);
    assert!(err(&adversary).contains("this build has no adversaries"), "{}", err(&adversary));
    let started =
        quorate(folder.path(), &["start", "--home", "net/replica-0", "--adversary", "replayer"]);
    assert_eq!(code(&started), 2, "{}", err(&started));
    assert!(err(&started).contains("this build has no adversaries"), "{}", err(&started));
}
