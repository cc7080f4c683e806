//! The genesis ceremony: what owners may do wrong, and what they may do to each other. How a
//! cluster begins this way is in `processes/owners.rs`.

mod program;
#[path = "genesis/threshold.rs"]
mod threshold;

use std::path::Path;
use std::process::Output;

use program::{code, err, json, out, quorate};
use tempfile::TempDir;

const OWNERS: [&str; 4] = ["alice", "bob", "carol", "dora"];

/// A folder in which all owners are, each with a home of its name and a file `NAME.toml`.
struct Owners {
    folder: TempDir,
}

/// How somebody proposes a cluster to the owners.
fn propose<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    let named = OWNERS.iter().flat_map(|name| ["--owner", name]);
    let new = ["genesis", "new", "p.toml", "--chain", "ours"].into_iter().chain(named);
    new.chain(flags.iter().copied()).collect()
}

impl Owners {
    fn new(flags: &[&str]) -> Self {
        let owners = Self { folder: tempfile::tempdir().unwrap() };
        owners.done(&propose(flags));
        OWNERS.iter().enumerate().for_each(|(id, name)| owners.join(name, id as u16));
        owners
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn join(&self, name: &str, number: u16) {
        self.join_in(name, name, number);
    }

    /// Makes keys in another home, too; the later file of a name is the one that is handed over.
    fn join_in(&self, home: &str, name: &str, number: u16) {
        let address = |at: u16| format!("127.0.0.1:{}", 7000 + 2 * number + at);
        self.done(
            &[
                &["genesis", "join", "p.toml", "--home", home, "--name", name][..],
                &["--replica-address", &address(0), "--client-address", &address(1)],
            ]
            .concat(),
        );
        let file = self.path().join(home).join("config/genesis-member.toml");
        std::fs::copy(file, self.path().join(format!("{name}.toml"))).unwrap();
    }

    fn run(&self, arguments: &[&str]) -> Output {
        quorate(self.path(), arguments)
    }

    fn done(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(code(&output), 0, "{arguments:?}: {}", err(&output));
        out(&output)
    }

    /// What is said of something that must be refused: with a place and a remedy.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let said = err(&output);
        assert_eq!(code(&output), 2, "{arguments:?}: {said}{}", out(&output));
        assert!(said.contains("where:") && said.contains("remedy:"), "{said}");
        said
    }

    const SEAL: [&str; 7] =
        ["genesis", "seal", "p.toml", "alice.toml", "bob.toml", "carol.toml", "dora.toml"];

    fn seal(&self) -> serde_json::Value {
        json(&self.run(&[&["-o", "json"], &Self::SEAL[..]].concat()))
    }

    /// How an owner signs a file that was sealed.
    fn signing(&self, file: &str, home: &str) -> Vec<String> {
        let said = out(&self.run(&["genesis", "verify", file]));
        let genesis = said.lines().find_map(|line| line.strip_prefix("genesis digest ")).unwrap();
        let words = ["genesis", "sign", file, "--home", home, "--genesis", genesis];
        let files = Self::SEAL[3..].iter().copied();
        words.into_iter().chain(files).map(str::to_owned).collect()
    }

    fn sign(&self, file: &str, home: &str) {
        self.done(&self.signing(file, home).iter().map(String::as_str).collect::<Vec<_>>());
    }

    fn sign_refused(&self, file: &str, home: &str) -> String {
        self.refused(&self.signing(file, home).iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.path().join(file)).unwrap()
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.path().join(file), text).unwrap();
    }

    /// The value of a key in a file.
    fn value(&self, file: &str, key: &str) -> String {
        let text = self.read(file);
        let begin = format!("{key} = \"");
        let line = text.lines().find(|line| line.starts_with(&begin)).unwrap();
        line[begin.len()..].trim_end_matches('"').to_owned()
    }

    /// The number of the line that sets a key.
    fn line(&self, file: &str, key: &str) -> usize {
        let begin = format!("{key} = ");
        1 + self.read(file).lines().position(|line| line.starts_with(&begin)).unwrap()
    }

    /// What sealing says when dora hands over a file that was changed in this way.
    fn with_dora(&self, change: impl FnOnce(String) -> String) -> String {
        let honest = self.read("dora.toml");
        self.write("dora.toml", &change(honest.clone()));
        let said = self.refused(&Self::SEAL);
        self.write("dora.toml", &honest);
        assert!(!self.path().join("cluster.toml").exists(), "nothing is sealed");
        said
    }
}

fn says(said: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(said.contains(part), "{part}: {said}"));
}

#[test]
fn a_proposal_that_makes_no_cluster_is_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let group_key = format!("group_key={}", "ab".repeat(96));
    for (flags, parts) in [
        (&["--signatures", "none"][..], &["no owner could prove that it holds its key"][..]),
        (
            &["--signatures", "bls12-381-threshold", "--set", &group_key],
            &["`group_key` is set, and the owners generate it together"],
        ),
        (
            &["--signatures", "bls12-381-threshold", "--leader", "carousel"],
            &["carousel", "flag --leader"],
        ),
        (
            &["--signatures", "bls12-381-threshold", "--approvals", "2"],
            &["members cannot change here", "flag --signatures"],
        ),
        (&["--set", "limits.max_state_byts=1GiB"], &["flag --set", "`limits.max_state_bytes`?"]),
        (&["--set", "limits.max_state_bytes=none"], &["expected a size from 1MiB"]),
        (&["--set", "group_key=00"], &["`group_key`"]),
        (&["--leader", "round-robin", "--fixed-leader", "1"], &["`fixed_leader` is set"]),
        (&["--client", &"ab".repeat(32)], &["no administrators who could change the list"]),
        (&["--administrator", "key"], &["flag --administrator", "64 hexadecimal digits"]),
        (&["--approvals", "2", "--leader", "fixed"], &["that replica might leave"]),
        (&["--owner", "dora"], &["the owner dora is named twice", "flag --owner"]),
        (&["--owner", "e v e"], &["is no name", "flag --owner"]),
    ] {
        let output = quorate(folder.path(), &propose(flags));
        assert_eq!(code(&output), 2, "{flags:?}: {}", err(&output));
        says(&err(&output), parts);
        assert!(!folder.path().join("p.toml").exists());
    }
    let owners = Owners::new(&[]);
    let before = owners.read("p.toml");
    let said = owners.refused(&propose(&[]));
    says(&said, &["another file of this name", "never written over"]);
    assert_eq!(owners.read("p.toml"), before);
    let three = ["genesis", "new", "q.toml", "--chain", "ours", "--owner", "alice"];
    let three = [&three[..], &["--owner", "bob", "--owner", "carol"]].concat();
    says(&owners.refused(&three), &["3 owners begin no cluster", "name 4 to 256"]);
    // A leader by its number is one of the owners.
    let last = ["--owner", "eve", "--leader", "fixed", "--fixed-leader", "4"];
    let mut five = propose(&last);
    five[2] = "five.toml";
    owners.done(&five);
    // Somebody edits it badly.
    owners.write("p.toml", &before.replace("max_commands = 400", "max_commands = 0"));
    let line = format!("p.toml, line {}", owners.line("p.toml", "max_commands"));
    says(&owners.refused(&Owners::SEAL), &["`batch.max_commands` is 0", &line]);
}

#[test]
fn keys_are_never_written_over_and_addresses_are_some() {
    let owners = Owners::new(&[]);
    let key = owners.read("alice/config/consensus.key");
    let join = |home: &str, name: &str, peer: &str, client: &str| {
        owners.refused(
            &[
                &["genesis", "join", "p.toml", "--home", home, "--name", name][..],
                &["--replica-address", peer, "--client-address", client],
            ]
            .concat(),
        )
    };
    let (peer, client) = ("127.0.0.1:1", "127.0.0.1:2");
    says(&join("alice", "alice", peer, client), &["there is something already", "a new home"]);
    assert_eq!(owners.read("alice/config/consensus.key"), key);
    says(&join("eve", "eve", "127.0.0.1:0", client), &["port 0", "flag --replica-address"]);
    says(&join("eve", "eve", peer, peer), &["replica's address as well", "--client-address"]);
    says(&join("eve", "e v e", peer, client), &["is no name", "flag --name"]);
    let said = join("eve", "eve", peer, client);
    says(&said, &["eve is none of the owners", "join as one of them: alice, bob, carol, dora"]);
    let missing = ["genesis", "join", "q.toml", "--home", "eve", "--name", "eve"];
    let missing = [&missing[..], &["--replica-address", peer, "--client-address", client]].concat();
    says(&owners.refused(&missing), &["cannot be read", "q.toml"]);
    assert!(!owners.path().join("eve").exists());
    // An empty folder is as good as none.
    std::fs::create_dir(owners.path().join("again")).unwrap();
    let again = ["genesis", "join", "p.toml", "--home", "again", "--name", "alice"];
    let reached = ["--replica-address", peer, "--client-address", client];
    owners.done(&[&again[..], &reached].concat());
}

#[test]
fn all_who_seal_the_same_files_get_the_same_bytes() {
    let owners =
        Owners::new(&["--set", "limits.max_state_bytes=2GiB", "--signatures", "bls12-381"]);
    let first = owners.seal();
    let names: Vec<_> =
        first["replicas"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, OWNERS);
    let bytes = owners.read("cluster.toml");
    assert_eq!(owners.value("cluster.toml", "max_state_bytes"), "2GiB");
    let backwards = ["dora.toml", "carol.toml", "alice.toml", "bob.toml", "--out", "other.toml"];
    owners.done(&[&["genesis", "seal", "p.toml"], &backwards[..]].concat());
    assert_eq!(owners.read("other.toml"), bytes);
    // Sealing again changes nothing; something else is not written over.
    assert_eq!(owners.seal(), first);
    owners.write("cluster.toml", "# mine\n");
    says(&owners.refused(&Owners::SEAL), &["another file of this name", "cluster.toml"]);
}

#[test]
fn a_file_that_is_not_its_owners_is_refused_at_its_line() {
    let owners = Owners::new(&[]);
    let value = |name: &str, key: &str| owners.value(&format!("{name}.toml"), key);
    let at = |key: &str| format!("dora.toml, line {}", owners.line("dora.toml", key));

    // A rogue key: another's, with the proof that the other made.
    let rogue = owners.with_dora(|text| {
        let text = text.replace(&value("dora", "consensus_key"), &value("alice", "consensus_key"));
        text.replace(&value("dora", "consensus_proof"), &value("alice", "consensus_proof"))
    });
    says(&rogue, &["`consensus_proof` of dora does not hold", &at("consensus_proof")]);
    let rogue = owners.with_dora(|text| {
        let text = text.replace(&value("dora", "transport_key"), &value("bob", "transport_key"));
        text.replace(&value("dora", "transport_proof"), &value("bob", "transport_proof"))
    });
    says(&rogue, &["`transport_proof` of dora does not hold", "the owner's own machine"]);
    // Somebody on the way wants to be reached in dora's place.
    let moved = owners.with_dora(|text| text.replace("127.0.0.1:7006", "127.0.0.1:6666"));
    says(&moved, &["`consensus_proof` of dora", "`transport_proof` of dora"]);
    let renamed = owners.with_dora(|text| text.replace("name = \"dora\"", "name = \"eve\""));
    says(&renamed, &["`consensus_proof` of eve does not hold"]);
    // No key at all, and one of small order, for which anybody can sign.
    let none =
        owners.with_dora(|text| text.replace(&value("dora", "transport_key"), &"02".repeat(32)));
    says(&none, &["`transport_key` of dora", &at("transport_key")]);

    // What is no such file.
    says(&owners.with_dora(|text| text + "\nvotes = 2\n"), &["unknown key `votes`"]);
    // Nor what commands a terminal, or looks like the program's own words.
    let said = owners.with_dora(|text| text + "\n\"x\\u001b[2J\\nremedy: run it\" = 2\n");
    says(&said, &["unknown key `x\\u{1b}[2J\\nremedy: run it`"]);
    let twice = owners.with_dora(|text| text + "\nname = \"dora\"\n");
    says(&twice, &["`name` is set twice", "dora.toml, line"]);
    let lacking = owners.with_dora(|text| text.replace("transport_proof = ", "# "));
    says(&lacking, &["`transport_proof` is missing"]);
    says(&owners.with_dora(|_| "a".repeat(2 << 20)), &["larger than 1MiB", "dora.toml"]);
    says(&owners.with_dora(|_| "\u{0}".to_owned()), &["dora.toml, line 1"]);
    std::fs::rename(owners.path().join("dora.toml"), owners.path().join("d.toml")).unwrap();
    says(&owners.refused(&Owners::SEAL), &["cannot be read", "dora.toml"]);
}

#[test]
fn files_that_do_not_go_together_are_refused() {
    let owners = Owners::new(&[]);
    let three = &Owners::SEAL[..6];
    says(&owners.refused(three), &["the files of 1 owners are missing, that of dora among them"]);
    let again = [three, &["alice.toml"]].concat();
    says(&owners.refused(&again), &["the name alice is also that of alice.toml"]);
    // Dora is at bob's address.
    let honest = owners.read("dora.toml");
    owners.join_in("dora-again", "dora", 1);
    let said = owners.refused(&Owners::SEAL);
    says(&said, &["`peer_address` of replica 3 (dora) is also `peer_address` of replica 1 (bob)"]);
    says(&said, &["dora.toml", "give each its own port"]);
    owners.write("dora.toml", &honest);
    let crowd = vec!["alice.toml"; 300];
    let crowd = [&["genesis", "seal", "p.toml"], &crowd[..]].concat();
    says(&owners.refused(&crowd), &["300 owners are more than a cluster can have"]);

    // A file made for another proposal: the same text with another identity.
    let other = Owners::new(&[]);
    std::fs::copy(other.path().join("dora.toml"), owners.path().join("dora.toml")).unwrap();
    let line = format!("dora.toml, line {}", owners.line("dora.toml", "proposal"));
    says(&owners.refused(&Owners::SEAL), &["the file of dora is for the proposal", &line]);
    // With the digest corrected by hand, the proofs tell.
    let (theirs, ours) =
        (owners.value("dora.toml", "proposal"), owners.value("alice.toml", "proposal"));
    owners.write("dora.toml", &owners.read("dora.toml").replace(&theirs, &ours));
    says(&owners.refused(&Owners::SEAL), &["`consensus_proof` of dora does not hold"]);
}

/// With BLS an attacker can compute a key from the others' keys, and sign for all of them.
#[test]
fn with_bls_the_proof_of_possession_of_another_key_is_refused() {
    let owners = Owners::new(&["--signatures", "bls12-381"]);
    let value = |name: &str, key: &str| owners.value(&format!("{name}.toml"), key);
    let said = owners.with_dora(|text| {
        let (own, other) =
            (value("dora", "proof_of_possession"), value("bob", "proof_of_possession"));
        text.replace(&own, &other)
    });
    says(&said, &["`proof_of_possession` of dora does not hold for its `consensus_key`"]);
    let said = owners.with_dora(|text| {
        let text = text.replace(&value("dora", "consensus_key"), &value("bob", "consensus_key"));
        text.replace(&value("dora", "proof_of_possession"), &value("bob", "proof_of_possession"))
    });
    says(&said, &["`consensus_proof` of dora does not hold"]);
    owners.seal();
}

#[test]
fn an_owner_signs_what_it_agreed_to_and_nothing_else() {
    let owners = Owners::new(&[]);
    owners.seal();
    let refused = |file: &str, home: &str| owners.sign_refused(file, home);
    let sealed = owners.read("cluster.toml");
    owners.write("other.toml", &sealed.replace("max_commands = 400", "max_commands = 4000"));
    let said = refused("other.toml", "alice");
    says(&said, &["`batch.max_commands` is 4000 here, and 400 in the proposal", "do not sign it"]);
    owners.write("other.toml", &sealed.replace("127.0.0.1:7001", "127.0.0.1:6666"));
    says(
        &refused("other.toml", "alice"),
        &["`replicas.0.client_address` is \"127.0.0.1:6666\" here, and \"127.0.0.1:7001\" in the"],
    );

    // Who sealed it put keys of its own in bob's place.
    let (alice, bob) = (owners.read("alice.toml"), owners.read("bob.toml"));
    owners.join_in("not-bob", "bob", 1);
    let theirs = [&Owners::SEAL[..], &["--out", "theirs.toml"]].concat();
    owners.done(&theirs);
    owners.write("bob.toml", &bob);
    let said = refused("theirs.toml", "alice");
    says(&said, &["`replicas.1.consensus_key` is", "`replicas.1.transport_key` is"]);
    // Or alice was handed that file, too: then the digest is not the one that bob reads to her.
    let signing = owners.signing("cluster.toml", "alice");
    let compared =
        signing.iter().map(|word| if word == "cluster.toml" { "theirs.toml" } else { word });
    std::fs::copy(
        owners.path().join("not-bob/config/genesis-member.toml"),
        owners.path().join("bob.toml"),
    )
    .unwrap();
    says(&owners.refused(&compared.collect::<Vec<_>>()), &["its genesis digest is", "and not"]);
    owners.write("bob.toml", &bob);
    // A home whose keys are not in it.
    owners.join_in("alice-again", "alice", 0);
    owners.write("alice.toml", &alice);
    let said = refused("cluster.toml", "alice-again");
    says(&said, &["no replica in it has the keys and addresses of alice"]);
    assert!(!owners.path().join("alice/config/cluster.toml").exists(), "nothing was signed");

    // The key file of another home.
    let key = owners.path().join("carol/config/consensus.key");
    let own = std::fs::read(&key).unwrap();
    std::fs::copy(owners.path().join("dora/config/consensus.key"), &key).unwrap();
    says(&refused("cluster.toml", "carol"), &["not the consensus key that this owner told"]);
    std::fs::write(&key, own).unwrap();

    // Once, and again; but not another cluster.
    for _ in 0..2 {
        owners.sign("cluster.toml", "alice");
    }
    let said = refused("theirs.toml", "alice");
    says(&said, &["`replicas.1.consensus_key` is", "in what this owner signed before"]);
    assert_eq!(owners.read("alice/config/cluster.toml"), sealed);
}

#[test]
fn it_is_said_who_has_signed_and_who_is_missing() {
    let owners = Owners::new(&[]);
    owners.seal();
    let signature = |name: &str| format!("{name}/config/genesis-signature.toml");
    for name in &OWNERS[..3] {
        owners.sign("cluster.toml", name);
    }
    let files: Vec<_> = OWNERS.iter().map(|name| signature(name)).collect();
    let verify = |file: &str, more: &[&str], count: usize| {
        let files = files.iter().take(count).map(String::as_str).collect::<Vec<_>>();
        owners.run(&[&["genesis", "verify", file], &files[..], more].concat())
    };
    let partial = verify("cluster.toml", &["--out", "all.toml"], 3);
    assert_eq!(code(&partial), 1);
    says(&err(&partial), &["not signed by replica 3 (dora)", "genesis-signature.toml"]);
    says(&out(&partial), &["signed", "missing"]);
    assert!(!owners.path().join("all.toml").exists(), "only with the signatures of all");
    owners.sign("cluster.toml", "dora");
    assert_eq!(code(&verify("cluster.toml", &["--out", "all.toml", "--home", "bob"], 4)), 0);
    // The file with all of them is one of signatures, too.
    owners.done(&["genesis", "verify", "cluster.toml", "all.toml"]);

    // Somebody shows another cluster.toml.
    let other = owners.read("cluster.toml").replace("127.0.0.1:7006", "127.0.0.1:6666");
    owners.write("other.toml", &other);
    let said = verify("other.toml", &[], 4);
    assert_eq!(code(&said), 2);
    says(&err(&said), &["it is under the genesis", "alice/config/genesis-signature.toml, line"]);
    let said = verify("other.toml", &["--home", "dora"], 4);
    says(
        &err(&said),
        &["`replicas.3.peer_address` is \"127.0.0.1:6666\" here, and \"127.0.0.1:7006\""],
    );

    // Forged, twice, and of nobody.
    let all = owners.read("all.toml");
    for (from, to, part) in [
        ("replica = 3", "replica = 2", "replica 2 signs twice"),
        ("replica = 3", "replica = 7", "there is no replica 7"),
        ("replica = 3", "replica = 3\nname = \"dora\"", "unknown key `signatures.name`"),
        ("genesis = ", "# ", "`genesis` is missing"),
    ] {
        owners.write("forged.toml", &all.replace(from, to));
        says(&owners.refused(&["genesis", "verify", "cluster.toml", "forged.toml"]), &[part]);
    }
    let swapped = owners.value("all.toml", "signature");
    owners.write("forged.toml", &all.replace(&swapped, &"ab".repeat(64)));
    let said = owners.refused(&["genesis", "verify", "cluster.toml", "forged.toml"]);
    says(&said, &["the signature of replica 0 (alice) does not hold", "forged.toml, line"]);
}

#[test]
fn owners_bring_administrators_keys_where_the_proposal_asks_for_them() {
    let owners = Owners::new(&["--approvals", "3"]);
    let honest = owners.read("dora.toml");
    let without: Vec<_> =
        honest.lines().filter(|line| !line.starts_with("administrator_")).collect();
    owners.write("dora.toml", &without.join("\n"));
    says(&owners.refused(&Owners::SEAL), &["dora brings no administrator's key and proof"]);
    // Alice's key as her own, to have two of the three who must sign.
    let value = |name: &str, key: &str| owners.value(&format!("{name}.toml"), key);
    owners.write("dora.toml", &honest);
    let said = owners.with_dora(|text| {
        text.replace(&value("dora", "administrator_key"), &value("alice", "administrator_key"))
    });
    says(&said, &["`administrator_proof` of dora does not hold"]);
    owners.seal();
    let keys = OWNERS.map(|name| format!("\"{}\"", value(name, "administrator_key"))).join(", ");
    assert!(owners.read("cluster.toml").contains(&format!("administrators = [{keys}]")));
    owners.sign("cluster.toml", "alice");
    // With somebody else among the administrators nobody signs.
    let eve = "0123456789abcdef".repeat(4);
    let other = owners.read("cluster.toml").replace(&value("bob", "administrator_key"), &eve);
    owners.write("other.toml", &other);
    let said = owners.sign_refused("other.toml", "bob");
    says(&said, &["`governance.administrators` is"]);

    // And where it does not ask, none is taken.
    let plain = Owners::new(&[]);
    let key = value("dora", "administrator_key");
    let said = plain.with_dora(|text| format!("{text}\nadministrator_key = \"{key}\"\n"));
    says(&said, &["`administrator_key` of dora is set, and the proposal asks owners for none"]);
}
