//! Owners generate a threshold key together: what they may do wrong, and what they may do to each
//! other.

use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Instant;

use quorate_crypto::bls::threshold::generation::Round;
use quorate_crypto::{SecretKey, key_file};
use quorate_node::config::genesis::{Files, Own, Owner, Proposal, Reached, Secrets, begin};
use quorate_node::config::{Home, HostPort};

use super::program::{code, command, err, json, out};
use super::{OWNERS, Owners, says};

const MEMBERS: [&str; 4] = ["alice.toml", "bob.toml", "carol.toml", "dora.toml"];
const DEALINGS: [&str; 5] = ["--dealings", "alice.deal", "bob.deal", "carol.deal", "dora.deal"];

/// Owners who joined, and of whom the first `count` dealt.
fn dealt(count: usize) -> Owners {
    let owners = Owners::new(&["--signatures", "bls12-381-threshold"]);
    OWNERS[..count].iter().for_each(|name| deal(&owners, name));
    owners
}

fn deal(owners: &Owners, name: &str) {
    owners.done(&[&["genesis", "deal"], &MEMBERS[..], &["--home", name]].concat());
    hand_over(owners, name, "dealing", "deal");
}

/// An owner's dealing, which it signed, with shares for some owners that do not fit.
fn deal_wrongly(owners: &Owners, dealer: usize, victims: &[usize]) {
    deal_as(owners, dealer, |round, seed| round.deal_wrongly(dealer, seed, victims).unwrap());
}

/// An owner signs these bytes as its dealing.
fn deal_as(owners: &Owners, dealer: usize, dealing: impl FnOnce(&Round, &[u8; 32]) -> Vec<u8>) {
    let name = OWNERS[dealer];
    let path = |file: &str| owners.path().join(file);
    let proposal = Proposal::load(&path("p.toml")).unwrap();
    let members: Vec<PathBuf> = MEMBERS.iter().map(|file| path(file)).collect();
    let generation = begin(&proposal, &Files { members: &members, ..Files::default() }).unwrap();
    let home = Home::new(path(name));
    let key = key_file::read_decryption(&home.encryption_file()).unwrap();
    let transport = key_file::read(&home.config_folder().join("transport.key")).unwrap();
    let dealing = dealing(generation.generation().round(), key.seed());
    owners.write(&format!("{name}.deal"), &generation.dealing_text(name, &dealing, &transport));
}

/// A copy of an owner's file for all.
fn hand_over(owners: &Owners, name: &str, what: &str, to: &str) {
    let text = owners.read(&format!("{name}/config/genesis-{what}.toml"));
    owners.write(&format!("{name}.{to}"), &text);
}

fn check(owners: &Owners, name: &str, more: &[&str]) -> Output {
    owners.run(&[&["genesis", "check"], &MEMBERS[..], &["--home", name], &DEALINGS, more].concat())
}

fn sealing<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&["genesis", "seal", "p.toml"], &MEMBERS[..], &DEALINGS, more].concat()
}

fn signing<'a>(name: &'a str, genesis: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let words = ["--home", name, "--genesis", genesis];
    [&["genesis", "sign", "cluster.toml"], &MEMBERS[..], &words, &DEALINGS, more].concat()
}

/// Seals, and returns the genesis digest.
fn sealed(owners: &Owners, more: &[&str]) -> String {
    let sealed = json(&owners.run(&[&["-o", "json"], &sealing(more)[..]].concat()));
    sealed["genesis_digest"].as_str().unwrap().to_owned()
}

/// All sign what they seal, and all replicas could start with it.
fn begin_together(owners: &Owners, more: &[&str]) {
    let genesis = sealed(owners, more);
    for name in OWNERS {
        owners.done(&signing(name, &genesis, more));
    }
    let signatures = OWNERS.map(|name| format!("{name}/config/genesis-signature.toml"));
    let signatures: Vec<&str> = signatures.iter().map(String::as_str).collect();
    for name in OWNERS {
        let all = format!("{name}/config/genesis-signatures.toml");
        let verify = ["--home", name, "--out", &all];
        owners.done(&[&["genesis", "verify", "cluster.toml"], &signatures[..], &verify].concat());
        owners.done(&["config", "check", "--home", name]);
    }
}

#[test]
fn owners_generate_a_key_that_nobody_knows() {
    let owners = dealt(4);
    // No owner has a consensus key before all have dealt.
    assert!(!owners.path().join("alice/config/consensus.key").exists());
    for name in OWNERS {
        let checked = check(&owners, name, &[]);
        assert_eq!(code(&checked), 0, "{}", err(&checked));
        assert_eq!(out(&checked).matches("fits").count(), 4, "{}", out(&checked));
    }
    begin_together(&owners, &[]);
    let keys: Vec<_> =
        OWNERS.iter().map(|name| owners.read(&format!("{name}/config/consensus.key"))).collect();
    assert!(keys.iter().all(|key| key.contains("bls12-381-threshold")));
    // Neither the order of the files nor doing it again changes anything.
    let first = owners.read("cluster.toml");
    let backwards = ["dora.deal", "carol.deal", "bob.deal", "alice.deal", "--out", "again.toml"];
    let again = [&["genesis", "seal", "p.toml"], &MEMBERS[..], &["--dealings"], &backwards];
    owners.done(&again.concat());
    assert_eq!(owners.read("again.toml"), first);
    OWNERS.iter().for_each(|name| deal(&owners, name));
    begin_together(&owners, &[]);
}

/// Whenever an owner's machine stops while it signs, it does so again.
#[test]
fn what_was_interrupted_is_done_again_to_the_same_end() {
    let owners = dealt(4);
    let genesis = sealed(&owners, &[]);
    owners.done(&signing("bob", &genesis, &[]));
    // In the order in which they are written.
    let written = [
        "consensus.key",
        "genesis-signed.toml",
        "cluster.toml",
        "node.toml",
        "genesis-signature.toml",
    ];
    let path = |file: &str| owners.path().join("bob/config").join(file);
    let read = || written.map(|file| std::fs::read_to_string(path(file)).unwrap());
    let whole = read();
    for kept in 0..written.len() {
        written[kept..].iter().for_each(|file| std::fs::remove_file(path(file)).unwrap());
        owners.done(&signing("bob", &genesis, &[]));
        assert_eq!(read(), whole, "stopped after {kept} files");
    }
    let dealing = owners.read("bob/config/genesis-dealing.toml");
    std::fs::remove_file(path("genesis-dealing.toml")).unwrap();
    deal(&owners, "bob");
    assert_eq!(owners.read("bob/config/genesis-dealing.toml"), dealing);
    // Another's share is never written over.
    std::fs::rename(path("consensus.key"), path("own.key")).unwrap();
    owners.done(&signing("alice", &genesis, &[]));
    let alices = owners.path().join("alice/config/consensus.key");
    std::fs::copy(alices, path("consensus.key")).unwrap();
    let said = owners.refused(&signing("bob", &genesis, &[]));
    says(&said, &["the key in it is not the share that the dealings make", "consensus.key"]);
}

/// Killed at any moment, a dealer leaves its dealing as a whole or none. The next run ends as if
/// there had been no other.
#[test]
fn a_dealer_that_is_killed_deals_again_to_the_same_bytes() {
    const MOMENTS: u32 = 24;
    let owners = dealt(0);
    let arguments = [&["genesis", "deal"], &MEMBERS[..], &["--home", "alice"]].concat();
    let started = Instant::now();
    owners.done(&arguments);
    let step = started.elapsed() / MOMENTS;
    let whole = owners.read("alice/config/genesis-dealing.toml");
    let file = owners.path().join("alice/config/genesis-dealing.toml");
    for moment in 0..=MOMENTS {
        std::fs::remove_file(&file).unwrap();
        let mut killed = command(owners.path(), &arguments).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(step * moment);
        killed.kill().unwrap();
        killed.wait().unwrap();
        if let Ok(found) = std::fs::read_to_string(&file) {
            assert_eq!(found, whole, "killed after {:?}", step * moment);
        }
        owners.done(&arguments);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), whole);
    }
}

#[test]
fn an_owner_who_deals_a_share_that_does_not_fit_is_named_and_is_not_in_the_key() {
    let owners = dealt(3);
    deal_wrongly(&owners, 3, &[1]);
    // Others cannot see it.
    assert_eq!(code(&check(&owners, "alice", &[])), 0);
    let without = sealed(&owners, &[]);
    std::fs::rename(owners.path().join("cluster.toml"), owners.path().join("early.toml")).unwrap();
    let said = check(&owners, "bob", &[]);
    assert_eq!(code(&said), 1);
    says(&err(&said), &["what dora dealt to this owner does not fit", "genesis-complaints.toml"]);
    // Without complaining, bob would have no share.
    std::fs::copy(owners.path().join("early.toml"), owners.path().join("cluster.toml")).unwrap();
    let said = owners.refused(&signing("bob", &without, &[]));
    says(&said, &["the share that dora dealt to this owner does not fit", "quorate genesis check"]);
    assert!(!owners.path().join("bob/config/consensus.key").exists());
    std::fs::remove_file(owners.path().join("cluster.toml")).unwrap();

    hand_over(&owners, "bob", "complaints", "complaints");
    let complaints = ["--complaints", "bob.complaints"];
    for name in OWNERS {
        let said = check(&owners, name, &complaints);
        assert_eq!(code(&said), 0, "{}", err(&said));
        let line = out(&said).lines().find(|line| line.contains("dora")).unwrap().to_owned();
        says(&line, &["cheated"]);
    }
    // Dora signs as well: she is a member, and has a share of the others' key.
    begin_together(&owners, &complaints);
    let key = |file: &str| owners.value(file, "group_key");
    assert_ne!(key("cluster.toml"), key("early.toml"), "her polynomial is not in the key");
    // An owner who was not told of the complaint sees what differs.
    let said = owners.refused(&signing("alice", &without, &[]));
    says(&said, &["`group_key` is", "in the proposal and the owners' files"]);
}

#[test]
fn dealings_and_complaints_that_are_not_their_owners_are_refused() {
    let owners = dealt(4);
    let honest = owners.read("dora.deal");
    let with = |text: &str| {
        owners.write("dora.deal", text);
        let said = owners.refused(&sealing(&[]));
        owners.write("dora.deal", &honest);
        said
    };
    let value = |name: &str, key: &str| owners.value(&format!("{name}.deal"), key);
    // Another's dealing under her name, and hers, changed on the way.
    let carols = honest.replace(&value("dora", "dealing"), &value("carol", "dealing"));
    says(&with(&carols), &["`transport_proof` of dora does not hold", "dora.deal, line"]);
    says(&with(&owners.read("carol.deal")), &["that of dora among them"]);
    let renamed = honest.replace("name = \"dora\"", "name = \"eve\"");
    says(&with(&renamed), &["eve is none of the owners"]);
    let cut = honest.replace(&value("dora", "dealing"), &value("dora", "dealing")[..64]);
    says(&with(&cut), &["`transport_proof` of dora does not hold"]);
    says(&with(&honest.replace("dealing = \"", "dealing = \"x")), &["`dealing` is", "expected"]);
    let three = [&["genesis", "seal", "p.toml"], &MEMBERS[..], &DEALINGS[..4]].concat();
    says(&owners.refused(&three), &["the dealings of 1 owners are missing, that of dora"]);
    says(&owners.refused(&Owners::SEAL), &["the dealings of 4 owners are missing"]);
    // She deals twice.
    deal_wrongly(&owners, 3, &[0]);
    let second = owners.read("dora.deal");
    owners.write("again.deal", &second);
    owners.write("dora.deal", &honest);
    says(&owners.refused(&sealing(&["again.deal"])), &["dora deals twice, and both bear"]);

    // A complaint about that one does not count for the other.
    owners.write("dora.deal", &second);
    assert_eq!(code(&check(&owners, "alice", &[])), 1);
    hand_over(&owners, "alice", "complaints", "complaints");
    owners.write("dora.deal", &honest);
    let complaints = ["--complaints", "alice.complaints"];
    let said = owners.refused(&sealing(&complaints));
    says(&said, &["the complaint of alice is about another dealing of dora", "line"]);
    // Nor is it bob's, or about carol.
    owners.write("dora.deal", &second);
    let text = owners.read("alice.complaints");
    owners.write("alice.complaints", &text.replace("name = \"alice\"", "name = \"bob\""));
    let said = owners.refused(&sealing(&complaints));
    says(&said, &["the complaint of bob about dora comes with evidence that does not belong"]);
    says(&said, &["remove this table, keep the other complaints in the file"]);
    owners.write("alice.complaints", &text.replace("dealer = \"dora\"", "dealer = \"eve\""));
    says(&owners.refused(&sealing(&complaints)), &["eve is none of the owners"]);
    let table = text.split_once("[[complaints]]").unwrap().1;
    owners.write(
        "alice.complaints",
        &format!("{text}{}", format!("[[complaints]]{table}").repeat(4)),
    );
    says(&owners.refused(&sealing(&complaints)), &["more complaints than there are dealers"]);
    owners.write("alice.complaints", &format!("{text}[[complaints]]{table}"));
    let said = owners.refused(&sealing(&complaints));
    says(&said, &["alice complains of dora twice", "remove this table"]);
}

/// One who cheats does not make the others begin again.
#[test]
fn an_owner_who_signs_what_is_no_dealing_is_named_and_is_not_in_the_key() {
    let owners = dealt(4);
    let honest = owners.read("dora.deal");
    let changed = |round: &Round, seed: &[u8; 32]| {
        let mut dealing = round.deal(3, seed).unwrap();
        dealing[200] ^= 1;
        dealing
    };
    deal_as(&owners, 3, changed);
    assert_eq!(code(&check(&owners, "alice", &[])), 0);
    deal_as(&owners, 3, |_, _| vec![7; 10]);
    for name in OWNERS {
        let said = check(&owners, name, &[]);
        assert_eq!(code(&said), 0, "{}", err(&said));
        let line = out(&said).lines().find(|line| line.contains("dora")).unwrap().to_owned();
        says(&line, &["cheated"]);
    }
    // Whoever has another one of hers sees that she signed both.
    owners.write("again.deal", &honest);
    says(&owners.refused(&sealing(&["again.deal"])), &["dora deals twice, and both bear"]);
    let no_dealing = owners.read("dora.deal");
    owners.write("dora.deal", &honest);
    owners.write("again.deal", &no_dealing);
    says(&owners.refused(&sealing(&["again.deal"])), &["dora deals twice, and both bear"]);
    owners.write("dora.deal", &no_dealing);
    begin_together(&owners, &[]);
}

/// Complaints follow from the dealings. Those of an earlier check say nothing of later dealings.
#[test]
fn a_check_replaces_the_complaints_of_an_earlier_one() {
    let owners = dealt(4);
    let complaints = || std::fs::read_to_string(file(&owners)).unwrap();
    fn file(owners: &Owners) -> PathBuf {
        owners.path().join("alice/config/genesis-complaints.toml")
    }
    deal_wrongly(&owners, 3, &[0]);
    assert_eq!(code(&check(&owners, "alice", &[])), 1);
    says(&complaints(), &["dealer = \"dora\""]);
    // Dora hands over another one, and now carol cheats.
    hand_over(&owners, "dora", "dealing", "deal");
    deal_wrongly(&owners, 2, &[0]);
    let said = check(&owners, "alice", &[]);
    assert_eq!(code(&said), 1);
    says(&err(&said), &["what carol dealt to this owner does not fit"]);
    says(&complaints(), &["dealer = \"carol\""]);
    assert!(!complaints().contains("dora"), "{}", complaints());
    // Carol is named even where the file cannot be written.
    std::fs::remove_file(file(&owners)).unwrap();
    std::fs::create_dir(file(&owners)).unwrap();
    let said = err(&check(&owners, "alice", &[]));
    says(&said, &["what carol dealt to this owner does not fit", "genesis-complaints.toml"]);
    std::fs::remove_dir(file(&owners)).unwrap();
    assert_eq!(code(&check(&owners, "alice", &[])), 1);
    // Nothing is left to complain of.
    hand_over(&owners, "carol", "dealing", "deal");
    assert_eq!(code(&check(&owners, "alice", &[])), 0);
    assert!(!file(&owners).exists());
}

/// Bob complains when alice has signed. The remedy that she is told is all that she has to do.
#[test]
fn an_owner_who_signed_before_a_complaint_came_signs_again() {
    let owners = dealt(4);
    deal_wrongly(&owners, 3, &[1]);
    let early = sealed(&owners, &[]);
    owners.done(&signing("alice", &early, &[]));
    assert_eq!(code(&check(&owners, "bob", &[])), 1);
    hand_over(&owners, "bob", "complaints", "complaints");
    let complaints = ["--complaints", "bob.complaints"];
    std::fs::remove_file(owners.path().join("cluster.toml")).unwrap();
    let late = sealed(&owners, &complaints);
    let said = owners.refused(&signing("alice", &late, &complaints));
    let files = "consensus.key, cluster.toml, node.toml, genesis-signature.toml and";
    says(&said, &["in what this owner signed before", "genesis-signed.toml", files]);
    let names =
        "genesis-signed.toml, consensus.key, cluster.toml, node.toml, genesis-signature.toml";
    for name in names.split(", ") {
        std::fs::remove_file(owners.path().join("alice/config").join(name)).unwrap();
    }
    std::fs::remove_file(owners.path().join("cluster.toml")).unwrap();
    begin_together(&owners, &complaints);
}

/// Two of four cheat, so two dealers are left, who would know the key together: fewer than sign.
#[test]
fn too_many_who_cheat_make_no_key() {
    let owners = dealt(2);
    deal_wrongly(&owners, 2, &[0]);
    deal_wrongly(&owners, 3, &[0, 1]);
    assert_eq!(code(&check(&owners, "alice", &[])), 1);
    hand_over(&owners, "alice", "complaints", "complaints");
    let said = owners.refused(&sealing(&["--complaints", "alice.complaints"]));
    says(&said, &["2 dealers qualify, and a key needs 3", "another ceremony without carol, dora"]);
}

/// All that was dealt to the former home of an owner counts no more.
#[test]
fn all_deal_again_when_an_owner_joins_again() {
    let owners = dealt(4);
    owners.join_in("carol-again", "carol", 2);
    let said = owners.refused(&sealing(&[]));
    says(&said, &["it was made with other files of the owners, or for another proposal"]);
    let said = owners.refused(&[&["genesis", "deal"], &MEMBERS[..], &["--home", "carol"]].concat());
    says(&said, &["no owner among these files has the encryption key of carol"]);
    let said = owners.refused(&[&["genesis", "deal"], &MEMBERS[..], &["--home", "dora"]].concat());
    says(&said, &["another file of this name", "genesis-dealing.toml"]);
}

/// The holder of that key reads the shares of both owners. Each proved that it holds it.
#[test]
fn owners_who_have_one_encryption_key_are_both_named() {
    let owners = Owners::new(&["--signatures", "bls12-381-threshold"]);
    let path = |file: &str| owners.path().join(file);
    let proposal = Proposal::load(&path("p.toml")).unwrap();
    let alices = Home::new(path("alice")).encryption_file();
    let secrets = Secrets {
        consensus: Own::Decryption(key_file::read_decryption(&alices).unwrap()),
        transport: SecretKey::generate().unwrap(),
        administrator: None,
    };
    let reached = Reached { peer: HostPort::loopback(7004), client: HostPort::loopback(7005) };
    owners.write("carol.toml", &Owner::new(&proposal, "carol", reached, &secrets).to_toml());
    let said = owners.refused(&[&["genesis", "deal"], &MEMBERS[..], &["--home", "bob"]].concat());
    let remedy = "have alice and carol join again";
    says(&said, &["alice and carol have one encryption key", "carol.toml", remedy]);
}

#[test]
fn where_each_owner_makes_its_key_nobody_deals() {
    let owners = Owners::new(&[]);
    let deal = [&["genesis", "deal"], &MEMBERS[..], &["--home", "alice"]].concat();
    says(&owners.refused(&deal), &["each owner makes its own key, and nobody deals"]);
    let seal = [&Owners::SEAL[..], &["--dealings", "alice.toml"]].concat();
    says(&owners.refused(&seal), &["each owner makes its own key, and nobody deals"]);
    // A file of the one kind in a ceremony of the other.
    let said = owners.with_dora(|text| {
        text.replace("consensus_key = ", "encryption_key = ")
            .replace("consensus_proof = ", "encryption_proof = ")
    });
    says(&said, &["`consensus_key` is missing", "`encryption_key` is set"]);
    let threshold = Owners::new(&["--signatures", "bls12-381-threshold"]);
    let said = threshold.with_dora(|text| {
        let own = threshold.value("dora.toml", "encryption_key");
        text.replace(&own, &threshold.value("bob.toml", "encryption_key"))
    });
    says(&said, &["`encryption_proof` of dora does not hold"]);
    let said = threshold.with_dora(|text| {
        text.replace(&threshold.value("dora.toml", "encryption_key"), &"00".repeat(32))
    });
    says(&said, &["`encryption_key` of dora is no point"]);
}
