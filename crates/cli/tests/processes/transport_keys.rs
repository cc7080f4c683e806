//! Transport keys that change while clients work, with the commands that operators use.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use quorate_app::kv::Reply;
use quorate_app::kv::command::encode;
use quorate_core::base::crypto::{ClientSigner as _, PublicKey};
use quorate_core::{Digest, ReplicaId};
use quorate_crypto::key_file;
use quorate_transport::{
    Counters, Identity, Limits, Member as PeerMember, Mesh, PeerSocket, Peers, Versions,
    connect as connect_by_key, inbound,
};

use crate::cluster::writers::{Writers, assert_written};
use crate::cluster::{Cluster, quorate, wait_until};
use crate::members::{Counter, SETTINGS, SHAPE, change, changed, json, member, refusal};

/// Whether a client reaches a replica that proves this key.
fn is_reached_by(cluster: &Cluster, replica: usize, key: PublicKey) -> bool {
    let member = &cluster.agreed.members[replica];
    let (address, chain) = (member.client_address.to_string(), cluster.agreed.chain_digest());
    let dialled = connect_by_key(&address, key, chain, Limits::clients());
    cluster.runtime.block_on(async { dialled.await.is_ok() })
}

/// How a file in a home hands a replica's next transport key over, with that key.
fn next_transport_key(cluster: &Cluster, replica: usize) -> (String, PublicKey) {
    let home = cluster.home(replica);
    let mut command = quorate();
    command.args(["-o", "json", "member", "new-key", "--transport", "--home"]).arg(&home);
    let made = json(&command.output().unwrap());
    let file = home.join("config/next-transport-key.toml").display().to_string();
    assert_eq!(made["next_key"], *file);
    // Cut short before it told of the key, it tells of the same one. It never makes a second.
    let told = std::fs::read(&file).unwrap();
    std::fs::write(&file, "half").unwrap();
    assert_eq!(json(&command.output().unwrap()), made);
    assert_eq!(std::fs::read(&file).unwrap(), told);
    assert!(!command.output().unwrap().status.success());
    let secret = key_file::read(&home.join("config/transport.key.next")).unwrap();
    assert_eq!(made["transport_key"], Digest(secret.public_key().0).to_string());
    (file, secret.public_key())
}

/// Links of members go over to other keys under load. The one that was away meanwhile finds the
/// others; the former keys are refused, and erased.
fn transport_keys_are_rotated(transport: &[&str]) {
    let init = [transport, &["--administrators", "1"]].concat();
    let mut cluster = Cluster::start(&init, &SETTINGS);
    let writers = Writers::start(&cluster, 2, SHAPE);
    let counter = Counter::start(&cluster);
    writers.wait_for(100);
    // Replica 0 dials all others, replica 3 is dialled by all.
    let former = [0, 3].map(|id| cluster.agreed.members[id].transport_key);
    let secret = |cluster: &Cluster, id: usize| cluster.home(id).join("config/transport.key");
    let old = std::fs::read(secret(&cluster, 0)).unwrap();
    let (first, new_first) = next_transport_key(&cluster, 0);
    let (last, new_last) = next_transport_key(&cluster, 3);
    assert!(is_reached_by(&cluster, 0, former[0]) && !is_reached_by(&cluster, 0, new_first));
    // Its log ends in the epoch of the former keys.
    cluster.kill(1);
    assert_eq!(changed(&cluster, &["rotate-key", &first, &last]), 1);
    let status = json(&member(&cluster, &["status"]));
    assert_eq!(status["members"][3]["transport_key"], Digest(new_last.0).to_string());
    writers.wait_for(100);
    for (id, former, new) in [(0, former[0], new_first), (3, former[1], new_last)] {
        wait_until("the former key is erased", || {
            let config = cluster.home(id).join("config");
            !config.join("transport.key.next").exists()
                && !config.join("transport.key.old").exists()
        });
        assert!(is_reached_by(&cluster, id, new) && !is_reached_by(&cluster, id, former));
    }
    assert_ne!(std::fs::read(secret(&cluster, 0)).unwrap(), old);

    // It knows the former keys alone, and cannot do without both of the others.
    cluster.kill(2);
    cluster.start_replica(1, &[]);
    writers.wait_for(100);
    cluster.start_replica(2, &[]);

    // All come back with their keys, and count.
    cluster.kill_all();
    cluster.start_all();
    writers.wait_for(100);
    former_key_is_refused(&cluster, &old);
    counter.finish(&cluster);
    let written = writers.finish(&cluster);
    assert_written(&cluster, SHAPE, &written);
    let again = refusal(&change(&cluster, 1, &["rotate-key", &first]));
    assert!(again.contains("and this transport key"), "{again}");
}

/// Somebody with the former key of replica 0 dials the others in its name.
fn former_key_is_refused(cluster: &Cluster, old: &[u8]) {
    let file = cluster.folder().join("stolen.key");
    std::fs::write(&file, old).unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
    let stolen = Identity::new(&key_file::read(&file).unwrap()).unwrap();
    let status = json(&member(cluster, &["status"]));
    let members = cluster.agreed.members.iter().enumerate().map(|(id, known)| {
        let key = status["members"][id]["transport_key"].as_str().unwrap();
        let bytes = (0..32).map(|at| u8::from_str_radix(&key[2 * at..2 * at + 2], 16).unwrap());
        let key = PublicKey(bytes.collect::<Vec<u8>>().try_into().unwrap());
        Some(PeerMember { key, former: None, address: known.peer_address.to_string() })
    });
    let mesh = Mesh {
        me: ReplicaId(0),
        chain: cluster.agreed.chain_digest(),
        identity: stolen,
        members: members.collect(),
        versions: Versions::PROGRAM,
        limits: Limits::peers(),
        seed: 0,
    };
    let counters: Arc<Counters> = Arc::default();
    let peers = cluster.runtime.block_on(async {
        let socket = PeerSocket::bind(cluster.agreed.transport, "127.0.0.1:0").await.unwrap();
        let (inbound, _nothing) = inbound(16, 1 << 20);
        Peers::start(mesh, socket, inbound, Arc::new(|| {}), Arc::clone(&counters)).unwrap()
    });
    let refused = || counters.wrong_key.load(Ordering::Relaxed);
    wait_until("all others refuse the former key, more than once", || refused() >= 6);
    assert!(peers.connected().is_empty());
}

#[test]
fn over_tcp_transport_keys_are_rotated_and_nothing_is_lost() {
    transport_keys_are_rotated(&[]);
}

#[test]
fn over_udp_transport_keys_are_rotated_and_nothing_is_lost() {
    transport_keys_are_rotated(&["--transport", "udp"]);
}

/// All members that a replica knows go over to other transport keys while it is away. It finds
/// them, and clients find them by it.
#[test]
fn who_was_away_while_all_others_changed_their_transport_keys_finds_them() {
    let mut cluster = Cluster::start(&["--administrators", "1"], &SETTINGS);
    let writers = Writers::start(&cluster, 1, SHAPE);
    writers.wait_for(50);
    let files = [0, 1, 2].map(|id| next_transport_key(&cluster, id).0);
    cluster.kill(3);
    let files = files.iter().map(String::as_str);
    let rotate: Vec<&str> = ["rotate-key"].into_iter().chain(files).collect();
    assert_eq!(changed(&cluster, &rotate), 1);
    writers.wait_for(50);
    let written = writers.finish(&cluster);
    for id in 0..3 {
        let next = cluster.home(id).join("config/transport.key.next");
        wait_until("the former key is erased", || !next.exists());
    }
    // From now on nothing is ordered without it.
    cluster.kill(0);
    cluster.start_replica(3, &[]);
    let client = cluster.client();
    let mut command = Vec::new();
    encode::incr_by(&mut command, b"found", 1);
    let replies = cluster.runtime.block_on(client.submit(vec![command.clone().into()])).unwrap();
    assert_eq!(Reply::decode(&replies[0]).unwrap(), Reply::Integer(1));
    cluster.start_replica(0, &[]);
    assert_written(&cluster, SHAPE, &written);
    drop(client);

    // When that one has another key as well, a client that begins anew knows no key of anybody.
    let file = next_transport_key(&cluster, 3).0;
    assert_eq!(changed(&cluster, &["rotate-key", &file]), 2);
    let client = cluster.client();
    let replies = cluster.runtime.block_on(client.submit(vec![command.into()])).unwrap();
    assert_eq!(Reply::decode(&replies[0]).unwrap(), Reply::Integer(2));
}
