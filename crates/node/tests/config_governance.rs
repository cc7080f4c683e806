//! `[governance]` in `cluster.toml`, and homes of those who join later.

use std::os::unix::fs::PermissionsExt as _;

use quorate_core::ReplicaId;
use quorate_crypto::{SchemeName, key_file};
use quorate_node::config::{
    Contact, Home, HostPort, LeaderName, MemberFile, Overrides, load, load_cluster,
};
use quorate_node::newcomer::{self, Newcomer};
use quorate_node::replica::shares::ShareFiles;
use quorate_node::testnet::{self, Options, Testnet};
use tempfile::TempDir;

fn made() -> (TempDir, Testnet) {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { administrators: 3, ..Options::default() };
    let made = testnet::init(folder.path(), 4, &options).unwrap();
    (folder, made)
}

#[test]
fn administrators_get_keys_and_the_committee_says_where_its_members_are() {
    let (_folder, made) = made();
    let (cluster, _) = load_cluster(&made.client.cluster_file()).unwrap();
    assert_eq!(cluster, made.cluster);
    let committee = cluster.committee().unwrap();
    assert_eq!(committee.governance().approvals, 2);
    for (file, key) in made.administrator_keys.iter().zip(&committee.governance().administrators) {
        use quorate_core::base::crypto::ClientSigner as _;
        assert_eq!(key_file::read(file).unwrap().public_key(), *key);
        assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o7777, 0o600);
    }
    for member in &cluster.members {
        let contact = Contact::of(committee.member(member.id).unwrap()).unwrap();
        assert_eq!(contact, member.contact());
    }
    // Who governs, and where members are, is part of the chain's identity.
    let mut other = cluster.clone();
    other.members[2].client_address = "127.0.0.1:9".parse().unwrap();
    assert_ne!(other.chain_digest(), cluster.chain_digest());
    let mut other = cluster.clone();
    other.governance.approvals = 3;
    assert_ne!(other.chain_digest(), cluster.chain_digest());
    // Where members are fixed, addresses are not.
    let mut fixed = cluster.clone();
    fixed.governance = Default::default();
    let before = fixed.chain_digest();
    fixed.members[2].client_address = "127.0.0.1:9".parse().unwrap();
    assert_eq!(fixed.chain_digest(), before);
}

#[test]
fn what_does_not_go_with_members_that_change_is_refused_with_the_remedy() {
    let (_folder, made) = made();
    let file = made.client.cluster_file();
    let text = std::fs::read_to_string(&file).unwrap();
    let line = text.lines().find(|line| line.starts_with("administrators = ")).unwrap();
    let first = line.split('"').nth(1).unwrap();
    let no_key = "02".repeat(32);
    let many = vec![format!("\"{first}\""); 65].join(", ");
    for (from, to, expected) in [
        ("approvals = 2", "approvals = 0", "`governance.approvals` is 0"),
        ("approvals = 2", "approvals = 4", "`governance.approvals` is 4, and there are 3 admin"),
        ("approvals = 2", "", "`governance.approvals` is missing beside"),
        ("approvals = 2", "approvals = 2\napprove = 3", "unknown key `governance.approve`"),
        (line, "", "`governance.administrators` is missing beside"),
        (line, "administrators = []", "a list of 1 to 64 keys"),
        (line, "administrators = [\"6b\"]", "a list of 1 to 64 keys"),
        (line, &format!("administrators = [{many}]"), "a list of 1 to 64 keys"),
        (line, &format!("administrators = [\"{first}\", \"{first}\"]"), "twice"),
        (line, &format!("administrators = [\"{first}\", \"{no_key}\"]"), &no_key),
        ("\nepoch = 0", "\nepoch = 3", "`epoch` is 3"),
        ("leader = \"carousel\"", "leader = \"fixed\"", "`leader` is \"fixed\""),
        ("protocol = \"hotstuff-two-chain\"", "protocol = \"snowman\"", "whose members are fixed"),
    ] {
        assert!(text.contains(from), "{from}");
        std::fs::write(&file, text.replacen(from, to, 1)).unwrap();
        let said = load_cluster(&file).unwrap_err().to_string();
        assert!(said.contains(expected), "{from} -> {to}: {said}");
        assert!(said.contains("cluster.toml, line"), "{said}");
    }
}

/// Four members that change and sign with shares of a threshold key.
fn made_with_shares() -> (TempDir, Testnet) {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options { administrators: 1, ..Options::default() };
    options.combination.signatures = SchemeName::BlsThreshold;
    options.combination.leader = LeaderName::RoundRobin;
    let made = testnet::init(folder.path(), 4, &options).unwrap();
    (folder, made)
}

#[test]
fn members_that_change_have_a_share_of_the_first_threshold_key_beside_a_key_of_their_own() {
    let (_folder, made) = made_with_shares();
    let (cluster, _) = load_cluster(&made.client.cluster_file()).unwrap();
    assert_eq!(cluster, made.cluster);
    let committee = cluster.committee().unwrap();
    let shares = committee.shares().unwrap();
    assert_eq!((shares.quorum(), committee.rules().core), (3, 3));
    for (member, home) in cluster.members.iter().zip(&made.replicas) {
        let loaded = load(home, &Overrides::default()).unwrap();
        let own = loaded.open_keys().unwrap().consensus;
        assert_eq!(own.scheme(), SchemeName::Ed25519);
        assert_eq!(own.public_key(), member.consensus_key.as_bytes());
        let files = ShareFiles::beside(&loaded.node.keys.consensus);
        let share = files.share(shares.key(member.id).unwrap()).unwrap();
        assert_eq!(share.unwrap().public_key(), member.share_key.unwrap());
    }
    // The shares are part of the chain's identity.
    let mut other = cluster.clone();
    other.members[0].share_key = cluster.members[1].share_key;
    assert_ne!(other.chain_digest(), cluster.chain_digest());
}

#[test]
fn a_share_that_is_not_there_is_a_finding_with_place_and_remedy() {
    let (folder, made) = made_with_shares();
    let (home, member) = (&made.replicas[1], &made.cluster.members[1]);
    let loaded = load(home, &Overrides::default()).unwrap();
    let files = ShareFiles::beside(&loaded.node.keys.consensus);
    let file = files.share_file(made.cluster.epoch, &member.share_key.unwrap());
    let hidden = folder.path().join("hidden");
    let said = || loaded.open_keys().map(|_| ()).map_err(|error| error.to_string());
    assert!(loaded.doubtful_share().is_none());
    std::fs::rename(&file, &hidden).unwrap();
    // It may be a learner by now, so it may start.
    assert_eq!(said(), Ok(()));
    let doubt = loaded.doubtful_share().unwrap().to_string();
    assert!(doubt.contains("there is no key file") && doubt.contains("put the share"), "{doubt}");
    // Nobody begins without a share.
    std::fs::remove_file(home.begun_file()).unwrap();
    let refused = said().unwrap_err();
    let shown = file.display().to_string();
    assert!(refused.contains(&shown) && refused.contains("restore it"), "{refused}");
    std::fs::copy(&hidden, &file).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let refused = said().unwrap_err();
    assert!(refused.contains("mode 0644") && refused.contains("chmod 600"), "{refused}");
    // The share of another one.
    std::fs::remove_file(&file).unwrap();
    let other = load(&made.replicas[2], &Overrides::default()).unwrap().node.keys.consensus;
    let key = made.cluster.members[2].share_key.unwrap();
    std::fs::copy(ShareFiles::beside(&other).share_file(made.cluster.epoch, &key), &file).unwrap();
    let refused = said().unwrap_err();
    assert!(refused.contains("is not the one of `share_key` of replica 1"), "{refused}");
    std::fs::rename(&hidden, &file).unwrap();
    assert_eq!(said(), Ok(()));
}

#[test]
fn what_does_not_go_with_threshold_keys_of_members_that_change_is_refused_with_the_remedy() {
    let (_folder, made) = made_with_shares();
    let file = made.client.cluster_file();
    let text = std::fs::read_to_string(&file).unwrap();
    let line = |key: &str| {
        let line = text.lines().find(|line| line.starts_with(&format!("{key} = ")));
        line.unwrap_or_else(|| panic!("{key}: {text}")).to_owned()
    };
    let (share, own) = (line("share_key"), line("consensus_key"));
    let foreign = made_with_shares().1.cluster.members[0].share_key.unwrap();
    let foreign: String = foreign.iter().map(|byte| format!("{byte:02x}")).collect();
    let no_key = format!("consensus_key = \"{}\"", "02".repeat(32));
    for (from, to, expected) in [
        (&share, String::new(), "`share_key` of replica 0 is missing"),
        (&share, format!("share_key = \"{foreign}\""), "was not dealt together with the others"),
        (&own, no_key, "`consensus_key` of replica 0"),
        (&line("rules"), "rules = \"2.1\"".to_owned(), "set rules = \"3.1\" in [governance]"),
        (&line("group_key"), String::new(), "`group_key` is missing"),
        (
            &line("signatures"),
            "signatures = \"ed25519\"".to_owned(),
            "`share_key` of replica 0 is set",
        ),
    ] {
        std::fs::write(&file, text.replacen(&format!("\n{from}"), &format!("\n{to}"), 1)).unwrap();
        let read = load_cluster(&file);
        let said = read.err().unwrap_or_else(|| panic!("{from} -> {to}")).to_string();
        assert!(said.contains(expected), "{from} -> {to}: {said}");
    }
}

#[test]
fn a_scheme_whose_keys_nobody_checks_alone_does_not_go_with_members_that_change() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options { administrators: 1, ..Options::default() };
    options.combination.signatures = quorate_crypto::SchemeName::Bls;
    let said = testnet::init(folder.path(), 4, &options).unwrap_err().to_string();
    let remedy =
        "set signatures = \"ed25519\" or \"bls12-381-threshold\", or leave [governance] out";
    assert!(said.contains(remedy), "{said}");
    for (administrators, approvals, expected) in [
        (65, None, "at most 64"),
        (0, Some(1), "add --administrators"),
        (2, Some(3), "ask for 1 to 2"),
        (2, Some(0), "ask for 1 to 2"),
    ] {
        let options = Options { administrators, approvals, ..Options::default() };
        let said = testnet::init(folder.path(), 4, &options).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none());
}

fn newcomer(id: u16) -> Newcomer {
    let at = |port| HostPort::loopback(port);
    Newcomer {
        id: ReplicaId(id),
        peer_address: at(7000),
        client_address: at(7001),
        http_address: at(0),
    }
}

#[test]
fn a_newcomer_s_home_loads_and_its_member_file_is_for_one_chain() {
    let (folder, made) = made();
    let home = Home::new(folder.path().join("replica-4"));
    let member = newcomer::make(&home, &made.cluster, &newcomer(4)).unwrap();
    let loaded = load(&home, &Overrides::default()).unwrap();
    loaded.open_keys().unwrap();
    assert_eq!(loaded.member, member.member);
    assert_eq!(loaded.node.listen.peer, HostPort::loopback(7000));
    let chain = made.cluster.chain_digest();
    assert_eq!(MemberFile::load(&home.member_file(), chain).unwrap(), member);
    let said = MemberFile::load(&home.member_file(), quorate_core::Digest([1; 32])).unwrap_err();
    assert!(said.to_string().contains("it is of the chain"), "{said}");
    // It is never written over.
    let again = newcomer::make(&home, &made.cluster, &newcomer(5)).unwrap_err();
    assert!(again.to_string().contains("there is a folder already"), "{again}");
    // Without its member file it is nobody.
    std::fs::remove_file(home.member_file()).unwrap();
    let said = load(&home, &Overrides::default()).unwrap_err().to_string();
    assert!(said.contains("`replica` is 4, which is no member"), "{said}");
    assert!(said.contains("quorate member new"), "{said}");
}

/// The first clients are part of the chain's identity, and of the file that says what it is.
#[test]
fn a_cluster_may_begin_closed_to_all_but_some_clients() {
    let (_folder, made) = made();
    let file = made.client.cluster_file();
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(made.cluster.clients.is_silent());
    let administrator = made.cluster.governance.administrators[0];
    let key = quorate_core::Digest(administrator.0);
    let within = |text: &str, table: &str| {
        let text = text.replace("\n[clients]\n", &format!("\n[clients]\n{table}\n"));
        std::fs::write(&file, text).unwrap();
        load_cluster(&file).map(|(cluster, _)| cluster)
    };
    let listed = format!("admission = \"listed\"\nkeys = [\"{key}\"]");
    let closed = within(&text, &listed).unwrap();
    assert_ne!(closed.chain_digest(), made.cluster.chain_digest());
    assert_ne!(
        within(&text, "admission = \"listed\"").unwrap().chain_digest(),
        closed.chain_digest()
    );
    assert!(closed.clients.admits(&administrator).is_ok());
    std::fs::write(&file, closed.to_toml()).unwrap();
    assert_eq!(load_cluster(&file).unwrap().0, closed);
    let governs = |line: &&str| line.starts_with("administrators") || line.starts_with("approvals");
    let ungoverned: Vec<_> = text.lines().filter(|line| !governs(line)).collect();
    let ungoverned = ungoverned.join("\n");
    for (text, table, expected) in [
        (&text, format!("keys = [\"{key}\"]"), "`clients.admission` is missing beside"),
        (&text, format!("admission = \"listed\"\nkeys = [\"{key}\", \"{key}\"]"), "twice"),
        (&text, "admission = \"closed\"".to_owned(), "`clients.admission`"),
        (&ungoverned, listed.clone(), "no administrators who could change the list"),
    ] {
        let said = within(text, &table).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}
