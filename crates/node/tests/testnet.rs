//! The homes that `testnet init` makes.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use quorate_node::begin::{BeginError, begin};
use quorate_node::config::{Application, Durability, Overrides, Place, load, load_cluster};
use quorate_node::testnet::{Options, TestnetError, init};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn every_home_loads_and_all_agree() {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("deep/net");
    let options = Options {
        application: Application::Ordering,
        batch_commands: Some(100),
        durability: Durability::Os,
        ..Options::default()
    };
    let made = init(&net, 7, &options).unwrap();
    assert_eq!(made.replicas.len(), 7);
    for (id, home) in made.replicas.iter().enumerate() {
        let loaded = load(home, &Overrides::default()).unwrap();
        loaded.open_keys().unwrap();
        assert_eq!(loaded.warnings, []);
        assert_eq!(loaded.cluster, made.cluster);
        assert_eq!(loaded.node.replica.index(), id);
        assert_eq!(loaded.node.storage.durability, Durability::Os);
        assert_eq!(loaded.node.listen.http, made.http_addresses[id]);
        assert!(loaded.node.storage.folder.is_dir());
        assert_eq!(mode(&loaded.node.keys.consensus), 0o600);
        assert_eq!(mode(&loaded.node.keys.transport), 0o600);
        assert_eq!(mode(&loaded.node.storage.folder), 0o700);
    }
    let (cluster, _) = load_cluster(&made.client.cluster_file()).unwrap();
    assert_eq!(cluster, made.cluster);
    assert_eq!(cluster.batch.max_commands, 100);
    // A client draws its key when it starts.
    assert_eq!(std::fs::read_dir(made.client.config_folder()).unwrap().count(), 1);
    for home in &made.replicas {
        let loaded = load(home, &Overrides::default()).unwrap();
        let again = begin(&loaded, &loaded.open_keys().unwrap());
        assert!(matches!(again, Err(BeginError::Begun(file)) if file == home.begun_file()));
        // Without its mark the data itself is in the way; without data, nothing is.
        std::fs::remove_file(home.begun_file()).unwrap();
        let again = begin(&loaded, &loaded.open_keys().unwrap());
        let data = loaded.node.storage.folder.clone();
        assert!(matches!(again, Err(BeginError::Data(folder)) if folder == data));
        std::fs::remove_dir_all(&data).unwrap();
        begin(&loaded, &loaded.open_keys().unwrap()).unwrap();
        assert!(home.begun_file().exists() && data.join("wal").exists());
        // Cut short before its last step, it is done again, whatever is there by then.
        for file in ["lock", "wal/0000", "snapshots/offer"] {
            std::fs::rename(home.begun_file(), home.beginning_file()).unwrap();
            std::fs::create_dir_all(data.join("snapshots")).unwrap();
            std::fs::write(data.join(file), "half").unwrap();
            begin(&loaded, &loaded.open_keys().unwrap()).unwrap();
            assert!(home.begun_file().exists() && !home.beginning_file().exists());
            assert!(data.join("wal").exists() && !data.join("snapshots").exists());
            assert!(!data.join("wal/0000").exists());
        }
        assert_eq!(mode(&data), 0o700);
        // Lost data does not make it a new replica.
        std::fs::remove_dir_all(&data).unwrap();
        let again = begin(&loaded, &loaded.open_keys().unwrap());
        assert!(matches!(again, Err(BeginError::Begun(_))) && !data.exists());
    }
}

#[test]
fn replicas_are_reached_at_their_hosts_and_asked_at_home() {
    let folder = tempfile::tempdir().unwrap();
    let hosts: Vec<String> = (1..=4).map(|host| format!("10.86.0.{host}")).collect();
    let options = Options { hosts, base_port: Some(7000), ..Options::default() };
    let made = init(&folder.path().join("net"), 4, &options).unwrap();
    for (id, home) in made.replicas.iter().enumerate() {
        let loaded = load(home, &Overrides::default()).unwrap();
        assert_eq!(loaded.warnings, []);
        let here = format!("10.86.0.{}", id + 1);
        let member = &loaded.cluster.members[id];
        assert_eq!((member.peer_address.host(), member.client_address.host()), (&*here, &*here));
        assert_eq!(loaded.node.listen.peer, member.peer_address);
        assert_eq!(loaded.node.listen.client, member.client_address);
        assert!(loaded.node.listen.http.is_loopback());
    }
    for hosts in [vec!["a".to_owned(); 3], vec!["no host".to_owned(); 4]] {
        let options = Options { hosts, ..Options::default() };
        let error = init(&folder.path().join("other"), 4, &options).unwrap_err();
        assert!(matches!(error, TestnetError::Refused(_)), "{error}");
        assert!(!folder.path().join("other").exists());
    }
}

#[test]
fn ports_are_distinct() {
    let folder = tempfile::tempdir().unwrap();
    let made = init(folder.path(), 16, &Options::default()).unwrap();
    let members = made.cluster.members.iter();
    let ports: BTreeSet<u16> = members
        .flat_map(|member| [member.peer_address.port(), member.client_address.port()])
        .chain(made.http_addresses.iter().map(|address| address.port()))
        .collect();
    assert_eq!(ports.len(), 48);
    assert!(!ports.contains(&0));
}

#[test]
fn two_testnets_are_two_chains() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let one = init(one.path(), 1, &Options::default()).unwrap();
    let two = init(two.path(), 1, &Options::default()).unwrap();
    assert_ne!(one.cluster.genesis, two.cluster.genesis);
    assert_ne!(one.cluster.chain_digest(), two.cluster.chain_digest());
}

#[test]
fn a_home_is_never_written_over() {
    let folder = tempfile::tempdir().unwrap();
    init(folder.path(), 4, &Options::default()).unwrap();
    let key = folder.path().join("replica-3/config/consensus.key");
    let before = std::fs::read(&key).unwrap();
    // A smaller cluster would leave replica 3 as it is, but under another cluster file's nose.
    let error = init(folder.path(), 2, &Options::default()).unwrap_err();
    let TestnetError::Refused(finding) = error else { panic!("{error}") };
    let client = folder.path().join("client");
    assert_eq!(finding.what, format!("there is a home already: {} (and 4 more)", client.display()));
    assert_eq!(finding.place, Place::File(folder.path().to_owned()));
    assert_eq!(
        finding.remedy,
        "name another folder, or remove these homes: their keys and data go with them"
    );
    assert_eq!(std::fs::read(&key).unwrap(), before);
}

#[test]
fn what_cannot_be_made_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let net = folder.path().join("net");
    let ports = Options { base_port: Some(65530), ..Options::default() };
    let name = Options { chain: "two words".into(), ..Options::default() };
    let batch = Options { batch_commands: Some(0), ..Options::default() };
    for (replicas, options) in
        [(0, Options::default()), (257, Options::default()), (4, ports), (4, name), (4, batch)]
    {
        let error = init(&net, replicas, &options).unwrap_err();
        assert!(matches!(error, TestnetError::Refused(_)), "{error}");
        assert!(!net.exists());
    }
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    assert!(matches!(init(&file, 1, &Options::default()), Err(TestnetError::Failed(_))));
}
