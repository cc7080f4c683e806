//! The real binary: what it prints, where, and the exit codes scripts rely on.

mod program;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use program::{code, command, err, json, out, quorate};

fn quorate_with(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    command(folder, arguments).envs(environment.iter().copied()).output().unwrap()
}

#[test]
fn keygen_prints_the_public_key_and_never_writes_over() {
    let folder = tempfile::tempdir().unwrap();
    let made = quorate(folder.path(), &["keygen", "a.key"]);
    assert_eq!((code(&made), err(&made).as_str()), (0, ""));
    let said = out(&made);
    let key = said.strip_prefix("public_key = \"").and_then(|rest| rest.strip_suffix("\"\n"));
    assert_eq!(key.map(str::len), Some(64), "{said}");
    let file = folder.path().join("a.key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);

    let before = std::fs::read(&file).unwrap();
    let again = quorate(folder.path(), &["keygen", "a.key"]);
    assert_eq!((code(&again), out(&again).as_str()), (2, ""));
    assert_eq!(
        err(&again),
        "error: there is a key file already\n  where:  a.key\n  remedy: name another file, \
         or move this one away: its key may be the only copy\n"
    );
    assert_eq!(std::fs::read(&file).unwrap(), before);

    let nowhere = quorate(folder.path(), &["keygen", "no/such/folder/a.key"]);
    assert_eq!(code(&nowhere), 1);
    assert!(err(&nowhere).contains("remedy: name a file in a folder that exists"));

    let other = json(&quorate(folder.path(), &["-o", "json", "keygen", "b.key"]));
    assert_eq!(other["file"], "b.key");
    assert_ne!(other["public_key"].as_str(), key);
}

#[test]
fn a_testnet_is_made_once_and_checks() {
    let folder = tempfile::tempdir().unwrap();
    let init = ["testnet", "init", "net", "-n", "4", "--port", "7000", "-o", "json"];
    let made = quorate(folder.path(), &init);
    assert_eq!((code(&made), err(&made).as_str()), (0, ""));
    let made = json(&made);
    assert_eq!(made["replicas"][3]["home"], "net/replica-3");
    assert_eq!(made["replicas"][3]["http_address"], "127.0.0.1:7011");

    let again = quorate(folder.path(), &init);
    assert_eq!((code(&again), out(&again).as_str()), (2, ""));
    assert_eq!(
        err(&again),
        "error: there is a home already: net/client (and 4 more)\n  where:  net\n  remedy: name \
         another folder, or remove these homes: their keys and data go with them\n"
    );

    let check = quorate(folder.path(), &["config", "check", "--home", "net/replica-2"]);
    assert_eq!((code(&check), err(&check).as_str()), (0, ""));
    let digest = made["chain_digest"].as_str().unwrap();
    assert_eq!(
        out(&check),
        format!("the configuration holds: replica 2 of 4 in chain testnet ({digest})\n")
    );

    let by_variable =
        quorate_with(folder.path(), &["config", "check"], &[("QUORATE_HOME", "net/replica-1")]);
    assert!(out(&by_variable).starts_with("the configuration holds: replica 1 "));
}

/// Every choice by its flag: in the files, and in what people and programs read.
#[test]
fn a_gateway_that_asks_nobody_stays_on_loopback() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(&quorate(folder.path(), &["testnet", "init", "net"])), 0);
    let gateway = |more: &[&str]| {
        let start = ["gateway", "--home", "net/client", "--listen", "0.0.0.0:0"];
        quorate(folder.path(), &[&start, more].concat())
    };
    let open = gateway(&[]);
    assert_eq!((code(&open), out(&open).as_str()), (2, ""));
    let said = err(&open);
    assert!(said.contains("is reached from elsewhere, and nobody needs a password"), "{said}");
    assert!(said.contains("--acl-file") && said.contains("--unprotected"), "{said}");

    std::fs::write(folder.path().join("users.acl"), "user default off\nuser app on +nosuch\n")
        .unwrap();
    let wrong = gateway(&["--acl-file", "users.acl"]);
    assert_eq!((code(&wrong), out(&wrong).as_str()), (2, ""));
    let said = err(&wrong);
    assert!(said.contains("users.acl, line 2: the gateway has no command `nosuch`"), "{said}");
    let half = gateway(&["--tls-cert", "cert.pem"]);
    assert_eq!(code(&half), 2);
    assert!(err(&half).contains("--tls-key"), "{}", err(&half));
}

#[test]
fn a_testnet_has_the_protocol_that_was_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let choices = "--protocol hotstuff-two-chain --votes broadcast --second-vote --pacemaker linear \
                   --leader fixed --fixed-leader 2 --signatures none --transport quic --laboratory";
    let arguments: Vec<_> =
        ["testnet", "init", "net"].into_iter().chain(choices.split(' ')).collect();
    let made = quorate(folder.path(), &arguments);
    assert_eq!(code(&made), 0);
    assert!(
        out(&made).contains(
            ", hotstuff-two-chain, pacemaker linear, leader fixed, \
             signatures none, transport quic\n"
        ),
        "{}",
        out(&made)
    );
    assert_eq!(
        err(&made),
        "warning: `leader` is \"fixed\": there is no progress after its death\n  where:  flag \
         --leader\n  remedy: set leader = \"round-robin\", unless this is an experiment\n\
         warning: `signatures` is \"none\": any replica may speak for all others\n  where:  flag \
         --signatures\n  remedy: use it where nothing is at stake, to learn what signatures cost\n"
    );
    let show = ["config", "show", "--home", "net/replica-3", "-o", "json"];
    let shown = json(&quorate(folder.path(), &show));
    let value = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap()["value"].clone()
    };
    assert_eq!(value("protocol"), "hotstuff-two-chain");
    assert_eq!(value("votes"), "broadcast");
    assert_eq!(value("second_vote"), true);
    assert_eq!(value("pacemaker"), "linear");
    assert_eq!(value("leader"), "fixed");
    assert_eq!(value("fixed_leader"), 2);
    assert_eq!(value("signatures"), "none");
    assert_eq!(value("transport"), "quic");
    assert_eq!(value("laboratory.enabled"), true);
}

/// What cannot work is refused by every command that makes a cluster, with the flag to blame.
#[test]
fn choices_that_cannot_work_are_refused_with_their_flag() {
    let folder = tempfile::tempdir().unwrap();
    for (choices, flag) in [
        ("--protocol hotstuff-chained --votes broadcast", "--votes"),
        ("--protocol hotstuff-chained --second-vote", "--second-vote"),
        ("--votes next-leader --second-vote", "--second-vote"),
        ("--leader carousel --signatures bls12-381-threshold", "--leader"),
        ("--leader reputation --signatures bls12-381-threshold", "--leader"),
        ("--fixed-leader 1", "--fixed-leader"),
        ("--leader fixed --fixed-leader 4", "--fixed-leader"),
        ("--signatures none", "--signatures"),
    ] {
        for command in [&["testnet", "init", "net"][..], &["demo", "--seconds", "1"]] {
            let arguments: Vec<_> = command.iter().copied().chain(choices.split(' ')).collect();
            let refused = quorate(folder.path(), &arguments);
            assert_eq!((code(&refused), out(&refused).as_str()), (2, ""), "{arguments:?}");
            let said = err(&refused);
            assert!(said.contains(&format!("\n  where:  flag {flag}\n  remedy: ")), "{said}");
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn show_names_every_source() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(&quorate(folder.path(), &["testnet", "init", "."])), 0);
    let node = folder.path().join("replica-0/config/node.toml");
    std::fs::write(&node, "replica = 0\nview_timeout.base = \"100ms\"\n").unwrap();
    let show = ["config", "show", "--effective", "--home", "replica-0", "-o", "json"];
    let flags = [&show[..], &["--set", "storage.durability=os", "--log-level", "warn"]].concat();
    let environment = [("QUORATE_LOG_LEVEL", "debug"), ("QUORATE_LOG_FORMAT", "json")];
    let shown = quorate_with(folder.path(), &flags, &environment);
    assert_eq!((code(&shown), err(&shown).as_str()), (0, ""));
    let shown = json(&shown);
    let setting = |key: &str| {
        let settings = shown["settings"].as_array().unwrap();
        let found = settings.iter().find(|setting| setting["key"] == key).unwrap();
        (found["value"].to_string(), found["source"].as_str().unwrap().to_owned())
    };
    let expect = |key: &str, value: &str, source: &str| {
        assert_eq!(setting(key), (value.to_owned(), source.to_owned()), "{key}");
    };
    expect("storage.durability", "\"os\"", "flag --set");
    expect("log.level", "\"warn\"", "flag --log-level");
    expect("log.format", "\"json\"", "environment variable QUORATE_LOG_FORMAT");
    expect("view_timeout.base", "\"100ms\"", "replica-0/config/node.toml, line 2");
    expect("storage.snapshot_every", "10000", "default");

    let table = out(&quorate(folder.path(), &["config", "show", "--home", "replica-0"]));
    assert!(table.contains("node.toml     view_timeout.base"), "{table}");
    assert!(!table.contains("storage.snapshot_every"), "{table}");
}

#[test]
fn a_wrong_configuration_exits_with_2_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(&quorate(folder.path(), &["testnet", "init", "net"])), 0);
    let node = folder.path().join("net/replica-0/config/node.toml");
    std::fs::write(&node, "replica = 0\nlistn.http = \"127.0.0.1:0\"\n").unwrap();
    let check = quorate(folder.path(), &["config", "check", "--home", "net/replica-0"]);
    assert_eq!((code(&check), out(&check).as_str()), (2, ""));
    assert_eq!(
        err(&check),
        "error: unknown key `listn`\n  where:  net/replica-0/config/node.toml, line 2\n  \
         remedy: did you mean `listen`?\n"
    );
    let check =
        quorate(folder.path(), &["config", "check", "--home", "net/replica-0", "-o", "json"]);
    assert_eq!(code(&check), 2);
    let report = json(&check);
    assert_eq!(report["ok"], false);
    assert_eq!(report["findings"][0]["where"]["line"], 2);

    std::fs::write(&node, "replica = 1\n").unwrap();
    let mismatch = quorate(folder.path(), &["config", "check", "--home", "net/replica-0"]);
    assert_eq!(code(&mismatch), 2);
    assert_eq!(err(&mismatch).matches("error: the key in net/replica-0/config/").count(), 2);
}

#[test]
fn wrong_usage_exits_with_2() {
    let folder = tempfile::tempdir().unwrap();
    for arguments in [
        &["frobnicate"][..],
        &["testnet", "init", "--replicas", "many"],
        &["testnet", "init", "--replicas", "0"],
        &["testnet", "init", "--protocol", "paxos"],
        &["testnet", "init", "--pacemaker", "none"],
        &["testnet", "init", "--leader", "me"],
        &["testnet", "init", "--signatures", "rot13"],
        &["demo", "--fixed-leader", "first"],
        &["bench", "--votes", "none"],
        &["bench", "matrix", "--only", "leader=me"],
        &["bench", "matrix", "--only", "leader=carousel,signatures=bls12-381-threshold"],
        &["bench", "matrix", "--seconds", "0"],
        &["bench", "--quick", "matrix"],
        &["config", "check", "--set", "nonsense"],
        &["config", "check", "--home", "nowhere"],
        &["-o", "xml", "version"],
        &[],
    ] {
        let output = quorate(folder.path(), arguments);
        assert_eq!(code(&output), 2, "{arguments:?}");
        assert_eq!(out(&output), "", "{arguments:?}");
        assert!(!err(&output).is_empty(), "{arguments:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// `make demo ARGS="--seconds 5"` comes behind the seconds that the Makefile gives.
#[test]
fn the_last_length_of_a_demonstration_counts() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["demo", "--seconds", "20", "--seconds", "5", "--replicas", "0"];
    let refused = quorate(folder.path(), &arguments);
    assert_eq!(code(&refused), 2);
    assert!(err(&refused).starts_with("error: a cluster of 0 replicas"), "{}", err(&refused));
}

#[test]
fn help_documents_the_exit_codes() {
    let folder = tempfile::tempdir().unwrap();
    let help = out(&quorate(folder.path(), &["--help"]));
    for line in ["  2  wrong usage or configuration\n", "  5  safety was violated"] {
        assert!(help.contains(line), "{help}");
    }
}

#[test]
fn version_completions_and_manual_pages() {
    let folder = tempfile::tempdir().unwrap();
    let version = json(&quorate(folder.path(), &["version", "-o", "json"]));
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&quorate(folder.path(), &["completions", shell]));
        assert!(script.contains("keygen"), "{shell}");
    }
    assert_eq!(code(&quorate(folder.path(), &["man", "pages"])), 0);
    let page = std::fs::read_to_string(folder.path().join("pages/quorate-testnet-init.1"));
    assert!(page.unwrap().contains("replicas"));
}

/// `quorate … | head` must not end in a panic.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_quorate"))
        .current_dir(folder.path())
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((code(&output), err(&output).as_str()), (0, ""));
}
