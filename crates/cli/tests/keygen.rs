//! `quorate keygen` for every scheme, and the dealer.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn quorate(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUORATE_")) {
        command.env_remove(name);
    }
    command.current_dir(folder).args(line.split_whitespace()).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What a command says in JSON that must succeed.
fn json(folder: &Path, line: &str) -> Value {
    let output = quorate(folder, &format!("{line} -o json"));
    assert_eq!((code(&output), err(&output).as_str()), (0, ""), "{line}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Replaces the `index`th value of `key` in every replica's and the client's cluster file.
fn set(net: &Path, key: &str, index: usize, value: &str) {
    for home in std::fs::read_dir(net).unwrap() {
        let file = home.unwrap().path().join("config/cluster.toml");
        let old = std::fs::read_to_string(&file).unwrap();
        let mut left = index + 1;
        let change = |line: &str| {
            if line.starts_with(&format!("{key} = ")) {
                left -= 1;
                if left == 0 {
                    left = usize::MAX;
                    return format!("{key} = \"{value}\"");
                }
            }
            line.to_owned()
        };
        let new: Vec<_> = old.lines().map(change).collect();
        assert_ne!(new.join("\n"), old.trim_end());
        std::fs::write(&file, new.join("\n")).unwrap();
    }
}

/// A replica gets a new key as its owner would give it one: made by keygen, the public part copied
/// into every cluster file.
#[test]
fn keys_of_every_scheme_that_makes_its_own_are_of_use() {
    let folder = tempfile::tempdir().unwrap();
    for (scheme, bytes) in [
        ("ed25519", 32),
        ("ecdsa-secp256k1", 33),
        ("ecdsa-p256", 33),
        ("bls12-381", 96),
        ("none", 32),
    ] {
        let net = folder.path().join(scheme);
        let init = format!("testnet init {scheme} --signatures {scheme} --laboratory");
        assert_eq!(code(&quorate(folder.path(), &init)), 0);
        let key = net.join("replica-2/config/consensus.key");
        std::fs::remove_file(&key).unwrap();
        let path = format!("{scheme}/replica-2/config/consensus.key");
        let made = json(folder.path(), &format!("keygen {path} --signatures {scheme}"));
        assert_eq!(text(&made, "signatures"), scheme);
        assert_eq!(text(&made, "public_key").len(), 2 * bytes);
        assert_eq!(mode(&key), 0o600);

        let check = format!("config check --home {scheme}/replica-2");
        assert_eq!(code(&quorate(folder.path(), &check)), 2, "the old public key is there still");
        set(&net, "consensus_key", 2, text(&made, "public_key"));
        match (scheme, &made["proof_of_possession"]) {
            ("bls12-381", proof) => {
                assert!(err(&quorate(folder.path(), &check)).contains("does not hold"));
                set(&net, "proof_of_possession", 2, proof.as_str().unwrap());
            }
            (_, proof) => assert!(proof.is_null()),
        }
        let checked = quorate(folder.path(), &check);
        assert_eq!(code(&checked), 0, "{}", err(&checked));
    }
}

#[test]
fn people_read_the_public_key_or_lines_for_the_cluster_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = quorate(folder.path(), "keygen a.key --signatures ecdsa-p256");
    let said = out(&made);
    let wanted = "consensus_key = \"\"\n".len() + 66;
    assert_eq!((said.len(), said.lines().count()), (wanted, 1));
    for (file, label) in [
        ("transport.key", "transport_key"),
        ("consensus.key", "consensus_key"),
        ("other.key", "public_key"),
    ] {
        let said = out(&quorate(folder.path(), &format!("keygen {file}")));
        assert!(said.starts_with(&format!("{label} = \"")) && said.ends_with("\"\n"), "{said}");
    }
    let made = out(&quorate(folder.path(), "keygen b.key --signatures bls12-381"));
    let lines: Vec<_> = made.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("consensus_key = \"") && lines[0].len() == 18 + 192, "{made}");
    assert!(
        lines[1].starts_with("proof_of_possession = \"") && lines[1].len() == 24 + 96,
        "{made}"
    );
    let again = quorate(folder.path(), "keygen a.key --signatures bls12-381");
    assert_eq!((code(&again), out(&again).as_str()), (2, ""));
    assert!(err(&again).starts_with("error: there is a key file already\n  where:  a.key\n"));
}

/// Shares are dealt to the replicas of a testnet, the public part copied into every cluster file.
#[test]
fn dealt_keys_are_of_use() {
    let folder = tempfile::tempdir().unwrap();
    let init = "testnet init net -n 7 --signatures bls12-381-threshold";
    assert_eq!(code(&quorate(folder.path(), init)), 0);
    let deal = json(folder.path(), "keygen --threshold --replicas 7 in/deal");
    assert_eq!((text(&deal, "signatures"), &deal["quorum"]), ("bls12-381-threshold", &5.into()));
    let net = folder.path().join("net");
    let public = std::fs::read_to_string(folder.path().join("in/deal/committee.toml")).unwrap();
    assert!(public.starts_with("# For cluster.toml: 5 of 7 replicas sign for all.\n"));
    assert!(public.contains(&format!("group_key = \"{}\"\n", text(&deal, "group_key"))));
    assert_eq!(mode(&folder.path().join("in/deal")), 0o700);

    set(&net, "group_key", 0, text(&deal, "group_key"));
    let replicas = deal["replicas"].as_array().unwrap();
    assert_eq!(replicas.len(), 7);
    for (id, replica) in replicas.iter().enumerate() {
        assert_eq!(replica["id"], id);
        let (key, file) = (text(replica, "public_key"), text(replica, "file"));
        assert!(public.contains(&format!("[[replicas]]\nid = {id}\nconsensus_key = \"{key}\"\n")));
        set(&net, "consensus_key", id, key);
        assert_eq!(file, format!("in/deal/consensus-{id}.key"));
        assert_eq!(mode(&folder.path().join(file)), 0o600);
        let into = net.join(format!("replica-{id}/config/consensus.key"));
        std::fs::copy(folder.path().join(file), into).unwrap();
    }
    for id in 0..7 {
        let checked = quorate(folder.path(), &format!("config check --home net/replica-{id}"));
        assert_eq!(code(&checked), 0, "{}", err(&checked));
    }
    set(&net, "consensus_key", 3, text(&replicas[4], "public_key"));
    set(&net, "consensus_key", 4, text(&replicas[3], "public_key"));
    let checked = quorate(folder.path(), "config check --home net/replica-0");
    assert_eq!(code(&checked), 2);
    assert!(
        err(&checked).starts_with(
            "error: the keys of the replicas were not dealt together, or not for so many replicas\n"
        ),
        "{}",
        err(&checked)
    );
}

#[test]
fn nothing_is_dealt_over_what_was() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(code(&quorate(folder.path(), "keygen --threshold -n 4 deal")), 0);
    let share = folder.path().join("deal/consensus-3.key");
    let before = std::fs::read(&share).unwrap();
    for file in ["consensus-0.key", "consensus-1.key", "consensus-2.key", "committee.toml"] {
        std::fs::remove_file(folder.path().join("deal").join(file)).unwrap();
    }
    let again = quorate(folder.path(), "keygen --threshold -n 4 deal");
    assert_eq!((code(&again), out(&again).as_str()), (2, ""));
    assert_eq!(
        err(&again),
        "error: something was dealt here already\n  where:  deal/consensus-3.key\n  remedy: name \
         another folder, or move these files away: a share may be the only copy\n"
    );
    assert_eq!(std::fs::read(&share).unwrap(), before);
    assert_eq!(std::fs::read_dir(folder.path().join("deal")).unwrap().count(), 1);
}

#[test]
fn a_share_is_not_made_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let refused = quorate(folder.path(), "keygen a.key --signatures bls12-381-threshold");
    assert_eq!((code(&refused), out(&refused).as_str()), (2, ""));
    assert_eq!(
        err(&refused),
        "error: a key of \"bls12-381-threshold\" is not made by itself\n  where:  flag \
         --signatures\n  remedy: deal the shares of all replicas: quorate keygen --threshold \
         --replicas N FOLDER\n"
    );
    for line in [
        "keygen --threshold deal",
        "keygen --replicas 4 deal",
        "keygen --threshold --replicas 4 --signatures bls12-381 deal",
        "keygen --threshold --replicas 0 deal",
        "keygen --threshold --replicas 257 deal",
        "keygen a.key --signatures rot13",
    ] {
        let refused = quorate(folder.path(), line);
        assert_eq!((code(&refused), out(&refused).as_str()), (2, ""), "{line}");
        assert!(!err(&refused).is_empty());
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
