//! Every setting reaches the part that it is for: a replica is set up from a configuration of which
//! no two numbers are alike, and each is looked for where it belongs.

#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;

use std::collections::BTreeSet;
use std::time::Duration;

use ports::ports;
use quorate_core::Digest;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::protocols::hotstuff::pacemaker::{Timing, Waits};
use quorate_core::replica::{Ancestors, Dissemination};
use quorate_node::config::{
    Application, Choices, DisseminationName, Durability, Loaded, Overrides, ProtocolName,
    SentAncestors, StateStore, TimeoutKind, VoteVerification, load,
};
use quorate_node::family::Family;
use quorate_node::launch::{Remedies, launch, setup};
use quorate_node::replica::Setup;
use quorate_node::testnet::{self, Options};
use quorate_node::traces::Trust;

const MS: Duration = Duration::from_millis(1);

fn loaded(folder: &std::path::Path) -> Loaded {
    let testnet = testnet::init(folder, 4, &Options::default()).unwrap();
    let mut loaded = load(&testnet.replicas[2], &Overrides::default()).unwrap();
    let (cluster, node) = (&mut loaded.cluster, &mut loaded.node);
    (cluster.batch.max_commands, cluster.batch.max_bytes) = (101, 102);
    (cluster.limits.max_frame_commands, cluster.limits.max_frame_bytes) = (103, 104);
    (cluster.limits.max_snapshot_bytes, cluster.limits.max_state_bytes) = (105, 1 << 30);
    cluster.sessions.max_sessions = 107;
    node.storage.durability = Durability::Os;
    (node.storage.log_window_bytes, node.storage.snapshot_every_blocks) = (108, 109);
    node.storage.state = StateStore::Disk;
    node.clients.max_held_bytes = 113;
    node.tracing.otlp = Some("https://127.0.0.1:114".parse().unwrap());
    node.tracing.otlp_ca = Some("authorities.pem".into());
    node.tracing.sample = 0.115;
    let wait = &mut node.view_timeout;
    (wait.kind, wait.multiplier) = (TimeoutKind::Adaptive, 1.25);
    (wait.base, wait.max, wait.delta) = (110 * MS, 111 * MS, 112 * MS);
    loaded
}

fn set_up(loaded: &Loaded, remedies: Remedies) -> Setup {
    let committee = loaded.cluster.committee().unwrap();
    setup(loaded, committee, loaded.open_keys().unwrap(), remedies)
}

/// A state on disk cannot be undone: a replica that is to answer tentatively says so, and how to go
/// on.
#[tokio::test]
async fn an_application_that_cannot_undo_a_block_does_not_answer_tentatively() {
    let folder = tempfile::tempdir().unwrap();
    let combination = Choices { protocol: Some(ProtocolName::Pbft), ..Choices::default() };
    let combination = combination.among(4);
    let (_held, first_port) = ports(3 * 4);
    let base_port = Some(first_port);
    let options = Options { combination, tentative: true, base_port, ..Options::default() };
    let testnet = testnet::init(folder.path(), 4, &options).unwrap();
    for state in [StateStore::Disk, StateStore::Memory] {
        let mut loaded = load(&testnet.replicas[2], &Overrides::default()).unwrap();
        let Family::Pbft(protocol) = Family::tuned(&loaded.cluster, &loaded.node) else {
            panic!("PBFT was chosen");
        };
        assert!(protocol.tentative);
        loaded.node.storage.state = state;
        let (committee, keys) = (loaded.cluster.committee().unwrap(), loaded.open_keys().unwrap());
        match (state, launch(&loaded, committee, keys, Remedies::default()).await) {
            (StateStore::Memory, launched) => launched.unwrap().running.stop(),
            (StateStore::Disk, Ok(_)) => panic!("it starts"),
            (StateStore::Disk, Err(error)) => {
                let said = error.to_string();
                assert!(said.contains("the application `kv` cannot undo a block"), "{said}");
            }
        }
    }
}

#[test]
fn every_setting_is_where_it_belongs() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = loaded(folder.path());
    let setup = set_up(&loaded, Remedies::default());
    let Setup { settings, protocol: Family::HotStuff(protocol), .. } = &setup else {
        panic!("HotStuff is the default");
    };
    assert_eq!((setup.me, settings.me), (ReplicaId(2), ReplicaId(2)));
    assert_eq!((settings.batch_commands, settings.batch_bytes), (101, 102));
    assert_eq!((setup.max_frame_commands, setup.max_frame_bytes), (103, 104));
    assert_eq!(settings.max_snapshot_bytes, 105);
    // A GiB of keys and values may take two, in files of 64 MiB, twice while one is fetched.
    assert_eq!(setup.state_files, 4 * 17);
    assert_eq!(setup.sessions, loaded.cluster.sessions);
    assert_eq!(setup.sessions.max_sessions, 107);
    assert_eq!(setup.clients_held_bytes, 113);
    let traces = setup.traces.as_ref().expect("there is a collector");
    assert_eq!((traces.collector.to_string().as_str(), traces.sample), ("127.0.0.1:114", 0.115));
    assert_eq!(traces.trust, Some(Trust::File("authorities.pem".into())));
    assert_eq!(setup.durability, Durability::Os);
    assert_eq!((setup.log_window_bytes, settings.snapshot_blocks), (108, 109));
    let waits =
        Waits { base: 110 * MS, multiplier_percent: 125, max: 111 * MS, ..Waits::default() };
    assert_eq!(protocol.timing, Timing::Adaptive(waits));
    assert_eq!((settings.relay_after, protocol.delta), (55 * MS, 112 * MS));
    assert_eq!(setup.data, loaded.node.storage.folder);
    assert!((setup.rejoin, setup.skipped_commands.len()) == (false, 0));
    // Its own keys, and everybody's addresses.
    let keys = loaded.open_keys().unwrap();
    assert_eq!(setup.transport_key.public_key(), keys.transport.public_key());
    assert_eq!(setup.consensus_key, loaded.cluster.members[2].consensus_key);
    assert_eq!(setup.members.len(), 4);
    for (found, member) in setup.members.iter().zip(&loaded.cluster.members) {
        let expected = (member.transport_key, member.peer_address.to_string());
        let found = found.as_ref().expect("nobody is missing");
        assert_eq!((found.key, found.address.clone()), expected);
    }
}

#[test]
fn every_switch_turns_what_it_is_for() {
    let folder = tempfile::tempdir().unwrap();
    let mut loaded = loaded(folder.path());
    let switches = |loaded: &Loaded| {
        let Setup {
            settings, protocol: Family::HotStuff(protocol), adversary, state_files, ..
        } = set_up(loaded, Remedies::default())
        else {
            panic!("HotStuff is the default");
        };
        (
            settings.filtering,
            settings.certificate_cache,
            settings.ancestors,
            protocol.verify_each_vote,
            adversary.is_some(),
            state_files > 0,
        )
    };
    let usual = switches(&loaded);
    assert_eq!(usual, (true, true, Ancestors::None, false, false, true));
    loaded.node.laboratory.filtering = false;
    assert_eq!(switches(&loaded), (false, true, Ancestors::None, false, false, true));
    loaded.node.laboratory.certificate_cache = false;
    assert_eq!(switches(&loaded), (false, false, Ancestors::None, false, false, true));
    loaded.node.laboratory.ancestors = SentAncestors::Missing;
    assert_eq!(switches(&loaded), (false, false, Ancestors::Missing, false, false, true));
    loaded.node.laboratory.verify_votes = VoteVerification::OneByOne;
    assert_eq!(switches(&loaded), (false, false, Ancestors::Missing, true, false, true));
    assert!(set_up(&loaded, Remedies::default()).retransmission);
    loaded.node.laboratory.retransmission = false;
    assert!(!set_up(&loaded, Remedies::default()).retransmission);
    loaded.node.storage.state = StateStore::Memory;
    assert_eq!(switches(&loaded), (false, false, Ancestors::Missing, true, false, false));
    assert_eq!(set_up(&loaded, Remedies::default()).settings.dissemination, Dissemination::Direct);
    loaded.node.dissemination = DisseminationName::Ahead;
    assert_eq!(set_up(&loaded, Remedies::default()).settings.dissemination, Dissemination::Ahead);
    // The deciding thread checks a few signatures itself, but never waits for a device.
    assert_eq!(set_up(&loaded, Remedies::default()).inline_checks, 4);
    loaded.node.laboratory.accelerator.verify = Duration::from_micros(9);
    assert_eq!(set_up(&loaded, Remedies::default()).inline_checks, 0);
    let skipped_commands = BTreeSet::from([Digest([7; 32])]);
    let remedies = Remedies { rejoin: true, skipped_commands: skipped_commands.clone() };
    let setup = set_up(&loaded, remedies);
    assert_eq!((setup.rejoin, setup.skipped_commands), (true, skipped_commands));
}

/// A thread of connections must not call what may never return; nor is there time where each turn
/// syncs the disk.
#[test]
fn threads_of_connections_take_no_turns_of_somebodys_own_service() {
    let folder = tempfile::tempdir().unwrap();
    let mut loaded = loaded(folder.path());
    assert!(set_up(&loaded, Remedies::default()).helped);
    loaded.node.storage.durability = Durability::Sync;
    assert!(!set_up(&loaded, Remedies::default()).helped);
    loaded.node.storage.durability = Durability::Os;
    loaded.cluster.application = Application::Service;
    assert!(!set_up(&loaded, Remedies::default()).helped);
}
