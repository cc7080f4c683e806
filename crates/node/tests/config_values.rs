//! Where values come from, and that what is written reads back.

use std::path::PathBuf;
use std::time::Duration;

use proptest::prelude::*;
use quorate_core::base::crypto::PublicKey;
use quorate_core::base::membership::ReplicaKey;
use quorate_core::{Digest, Epoch, Height, ReplicaId};
use quorate_crypto::ConsensusKey;
use quorate_node::accelerator::Costs;
use quorate_node::config::{
    Application, AuthenticationName, ByteSize, Choices, Cluster, Combination, FlagSetting, Home,
    HostPort, HumanDuration, Laboratory, LeaderName, LivenessName, LogLevel, Member, Node,
    Overrides, PacemakerName, Place, ProtocolName, Restored, SamplingName, SchemeName,
    SentAncestors, TimeoutKind, VoteRoute, VoteVerification, load, load_cluster, node_file_text,
    public_half,
};
use quorate_node::testnet::{self, keys::generate};
use quorate_transport::{TransportName, Versions};

fn member(id: u16) -> Member {
    let key = ConsensusKey::from_bytes(SchemeName::Ed25519, &[id as u8 + 1; 32]).unwrap();
    Member {
        id: ReplicaId(id),
        consensus_key: public_half(&key),
        share_key: None,
        proof_of_possession: None,
        transport_key: PublicKey([id as u8 + 101; 32]),
        peer_address: HostPort::loopback(7000 + 2 * id),
        client_address: HostPort::loopback(7001 + 2 * id),
        name: None,
    }
}

fn cluster(size: u16) -> Cluster {
    Cluster::new("golden".into(), [7; 32], (0..size).map(member).collect())
}

#[test]
fn flags_come_before_the_environment_before_the_file_before_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let home = testnet::init(folder.path(), 4, &testnet::Options::default()).unwrap();
    let home = home.replicas[0].clone();
    std::fs::write(
        home.node_file(),
        "replica = 0\nlog.level = \"error\"\nstorage.snapshot_every = 5\nview_timeout.base = \"1s\"\n",
    )
    .unwrap();
    let overrides = Overrides {
        flags: vec![FlagSetting {
            flag: "--log-level".into(),
            key: "log.level".into(),
            value: "trace".into(),
        }],
        environment: vec![
            ("QUORATE_LOG_LEVEL".into(), "debug".into()),
            ("QUORATE_HOME".into(), "elsewhere".into()),
            ("QUORATE_STORAGE_SNAPSHOT_EVERY".into(), "6".into()),
        ],
    };
    let loaded = load(&home, &overrides).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.node.log.level, LogLevel::Trace);
    assert_eq!(loaded.node.storage.snapshot_every_blocks, 6);
    assert_eq!(loaded.node.view_timeout.base, Duration::from_secs(1));
    assert_eq!(loaded.node.storage.log_window_bytes, 1 << 30);
    assert_eq!(loaded.node.clients.max_held_bytes, quorate_transport::CLIENTS_HELD_BYTES);
    assert_eq!(loaded.node.listen.peer, loaded.cluster.members[0].peer_address);
    assert_eq!(loaded.node.keys.consensus, home.root().join("config/consensus.key"));

    let source = |key: &str| {
        let found = loaded.effective.iter().find(|one| one.file == "node" && one.key == key);
        found.unwrap().setting.source.clone()
    };
    assert_eq!(source("log.level"), Place::Flag("--log-level".into()));
    assert_eq!(
        source("storage.snapshot_every"),
        Place::Environment("QUORATE_STORAGE_SNAPSHOT_EVERY".into())
    );
    assert_eq!(source("view_timeout.base"), Place::Line { file: home.node_file(), line: 4 });
    assert_eq!(source("storage.log_window"), Place::Default);
    assert!(
        matches!(source("listen.peer"), Place::Line { file, .. } if file == home.cluster_file())
    );
}

#[test]
fn a_variable_that_sets_nothing_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let made = testnet::init(folder.path(), 3, &testnet::Options::default()).unwrap();
    let environment = vec![("QUORATE_LOG_LEVLE".into(), "debug".into())];
    let overrides = Overrides { flags: Vec::new(), environment };
    let loaded = load(&made.replicas[0], &overrides).unwrap();
    let said: Vec<_> = loaded.warnings.iter().map(|warning| warning.what.as_str()).collect();
    assert_eq!(
        said,
        ["a committee of 3 tolerates no faulty replica", "QUORATE_LOG_LEVLE sets nothing"]
    );
    assert_eq!(loaded.warnings[1].remedy, "did you mean QUORATE_LOG_LEVEL?");
}

#[test]
fn a_status_port_open_to_all_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let made = testnet::init(folder.path(), 4, &testnet::Options::default()).unwrap();
    let environment = vec![
        ("QUORATE_LISTEN_HTTP".into(), "0.0.0.0:9000".into()),
        ("QUORATE_HTTP_UNPROTECTED".into(), "true".into()),
    ];
    let overrides = Overrides { flags: Vec::new(), environment };
    let loaded = load(&made.replicas[0], &overrides).unwrap();
    assert_eq!(loaded.warnings.len(), 1);
    assert!(loaded.warnings[0].what.starts_with("`listen.http` is \"0.0.0.0:9000\""));
}

#[test]
fn a_cluster_file_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    let mut written = cluster(7);
    written.epoch = Epoch(9);
    written.application = Application::Ordering;
    written.transport = TransportName::Quic;
    written.sessions.window_frames = 17;
    written.batch.max_bytes = 3 << 20;
    std::fs::write(&file, written.to_toml()).unwrap();
    let (read, warnings) = load_cluster(&file).unwrap();
    assert_eq!(read, written);
    assert_eq!(warnings, []);
}

/// A file that names none of the choices says what [`Combination::default`] does.
#[test]
fn a_combination_defaults_to_that_of_the_file() {
    assert_eq!(cluster(4).combination(), Combination::default());
    let mut other = cluster(4);
    let choice = Combination {
        protocol: ProtocolName::HotstuffTwoChain,
        votes: VoteRoute::Broadcast,
        second_vote: true,
        pacemaker: PacemakerName::Linear,
        leader: LeaderName::Carousel,
        signatures: SchemeName::EcdsaP256,
        authentication: AuthenticationName::Signatures,
    };
    other.set_combination(choice);
    assert_eq!(other.combination(), choice);
}

/// Every choice, the keys of every scheme, and what comes and goes with them.
#[test]
fn every_combination_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    let read_back = |cluster: &Cluster| {
        std::fs::write(&file, cluster.to_toml()).unwrap();
        assert_eq!(cluster.check(), None);
        assert_eq!(load_cluster(&file).unwrap().0, *cluster);
    };
    let keys = SchemeName::ALL.map(|scheme| (scheme, generate(scheme, 1).unwrap()));
    let mut count = 0;
    for combination in Combination::all().filter(|one| one.refusal().is_none()) {
        let mut written = cluster(1);
        written.set_combination(combination);
        let (_, secrets) = keys.iter().find(|(of, _)| *of == combination.signatures).unwrap();
        written.group_key = secrets.group_key;
        for (member, key) in written.members.iter_mut().zip(&secrets.replicas) {
            member.consensus_key = public_half(key);
            member.proof_of_possession = key.proof_of_possession();
        }
        read_back(&written);
        count += 1;
    }
    assert_eq!(count, 352);
    let mut fixed = cluster(7);
    (fixed.leader, fixed.fixed_leader) = (LeaderName::Fixed, ReplicaId(6));
    read_back(&fixed);
    for sampling in SamplingName::ALL {
        let mut sampled = cluster(4);
        let protocol = Some(ProtocolName::Snowman);
        sampled.set_combination(Choices { protocol, ..Choices::default() }.among(4));
        sampled.sampling = *sampling;
        for liveness in LivenessName::ALL {
            sampled.liveness = *liveness;
            read_back(&sampled);
        }
    }
}

fn node_of(settings: &[(&str, &str)]) -> Node {
    let folder = tempfile::tempdir().unwrap();
    let made = testnet::init(folder.path(), 4, &testnet::Options::default()).unwrap();
    let setting = |(key, value): &(&str, &str)| FlagSetting {
        flag: "--set".into(),
        key: (*key).into(),
        value: (*value).into(),
    };
    let flags = settings.iter().map(setting).collect();
    load(&made.replicas[0], &Overrides { flags, environment: Vec::new() }).unwrap().node
}

#[test]
fn the_laboratory_is_closed_by_default() {
    let expected = Laboratory {
        enabled: false,
        filtering: true,
        ancestors: SentAncestors::None,
        certificate_cache: true,
        verify_votes: VoteVerification::AtQuorum,
        retransmission: true,
        accelerator: Costs::default(),
        adversary: None,
        versions: Versions::PROGRAM,
        newest_rules: None,
    };
    assert_eq!(node_of(&[]).laboratory, expected);
}

#[test]
fn an_open_laboratory_takes_every_switch() {
    let node = node_of(&[
        ("laboratory.enabled", "true"),
        ("laboratory.filtering", "false"),
        ("laboratory.ancestors", "missing"),
        ("laboratory.certificate_cache", "false"),
        ("laboratory.verify_votes", "one-by-one"),
        ("laboratory.retransmission", "false"),
        ("laboratory.adversary", "silent-leader@10s..25s"),
        ("laboratory.oldest_version", "3"),
        ("laboratory.newest_version", "4"),
        ("laboratory.newest_rules", "2"),
        ("laboratory.accelerator.sign", "300us"),
        ("laboratory.accelerator.verify", "9us"),
        ("laboratory.accelerator.latency", "20us"),
    ]);
    let expected = Laboratory {
        enabled: true,
        filtering: false,
        ancestors: SentAncestors::Missing,
        certificate_cache: false,
        verify_votes: VoteVerification::OneByOne,
        retransmission: false,
        accelerator: Costs {
            sign: Duration::from_micros(300),
            verify: Duration::from_micros(9),
            latency: Duration::from_micros(20),
        },
        adversary: Some("silent-leader@10s..25s".parse().unwrap()),
        versions: Versions::new(3, 4).unwrap(),
        newest_rules: Some(2),
    };
    assert_eq!(node.laboratory, expected);
}

#[test]
fn view_timeouts_are_exponential_unless_told() {
    let timeout = node_of(&[]).view_timeout;
    assert_eq!(timeout.kind, TimeoutKind::Exponential);
    assert_eq!(timeout.delta, Duration::from_millis(50));
    let timeout =
        node_of(&[("view_timeout.kind", "adaptive"), ("view_timeout.delta", "7ms")]).view_timeout;
    assert_eq!((timeout.kind, timeout.delta), (TimeoutKind::Adaptive, Duration::from_millis(7)));
}

/// What works and should be known first: warned of at every replica and client, and by init.
#[test]
fn doubtful_choices_are_warnings() {
    let folder = tempfile::tempdir().unwrap();
    let combination = Combination {
        leader: LeaderName::Fixed,
        signatures: SchemeName::None,
        ..Combination::default()
    };
    let options = testnet::Options { combination, laboratory: true, ..testnet::Options::default() };
    let made = testnet::init(folder.path(), 4, &options).unwrap();
    let loaded = load(&made.replicas[0], &Overrides::default()).unwrap();
    let lines = std::fs::read_to_string(loaded.home.cluster_file()).unwrap();
    let line = |text: &str| 1 + lines.lines().position(|line| line == text).unwrap();
    let (_, of_clients) = load_cluster(&made.client.cluster_file()).unwrap();
    let said = |warnings: &[quorate_node::config::Finding]| {
        warnings.iter().map(|warning| warning.what.clone()).collect::<Vec<_>>()
    };
    let leader = "`leader` is \"fixed\": there is no progress after its death";
    let signatures = "`signatures` is \"none\": any replica may speak for all others";
    let laboratory = "`laboratory.enabled` is true: this replica is for experiments";
    assert_eq!(said(&loaded.warnings), [leader, signatures, laboratory]);
    assert_eq!(said(&of_clients), [leader, signatures]);
    assert_eq!(said(&made.warnings), [leader, signatures]);
    let file = loaded.home.cluster_file();
    assert_eq!(loaded.warnings[0].place, Place::Line { file, line: line("leader = \"fixed\"") });
    assert_eq!(made.warnings[1].place, Place::Flag("--signatures".into()));
}

#[test]
fn every_line_of_a_generated_file_is_explained() {
    let text = node_file_text(&[("replica", "3")]).unwrap() + &cluster(1).to_toml();
    let lines: Vec<_> = text.lines().collect();
    let list = lines.iter().position(|line| *line == "[[replicas]]").unwrap();
    for pair in lines[..list].windows(2) {
        if pair[1].contains(" = ") && !pair[1].starts_with('#') {
            assert!(pair[0].starts_with("# Expected: "), "no explanation above {}", pair[1]);
        }
    }
    for key in ["id", "consensus_key", "transport_key", "peer_address", "client_address"] {
        assert!(text.contains(&format!("\n# {key}: ")), "{key} is not explained");
    }
}

/// The defaults of the file are those of the core.
#[test]
fn session_limits_default_to_the_core_s() {
    assert_eq!(cluster(4).sessions, quorate_core::ledger::sessions::Limits::default());
}

/// What clusters were made of whose files left all choices out, before the default changed.
const CHAINED: Combination = Combination {
    protocol: ProtocolName::HotstuffChained,
    votes: VoteRoute::NextLeader,
    second_vote: false,
    pacemaker: PacemakerName::TimeoutCertificates,
    leader: LeaderName::RoundRobin,
    signatures: SchemeName::Ed25519,
    authentication: AuthenticationName::Signatures,
};

/// The chain's identity is part of every signature: it must not change from release to release.
#[test]
fn the_chain_digest_is_golden() {
    let mut chained = cluster(4);
    chained.set_combination(CHAINED);
    assert_eq!(
        chained.chain_digest().to_string(),
        "6d40a49ebdb488c2e30315d24e9450beef7ff5fecd44b4ec2dc5b3b12528be9f"
    );
}

#[test]
fn the_chain_digest_covers_what_was_agreed_on_and_nothing_else() {
    let mut base = cluster(4);
    base.set_combination(CHAINED);
    let mut moved = base.clone();
    moved.members[2].peer_address = HostPort::loopback(9999);
    moved.members[2].transport_key = PublicKey([200; 32]);
    moved.transport = TransportName::Quic;
    assert_eq!(moved.chain_digest(), base.chain_digest());

    let changes: [fn(&mut Cluster); 28] = [
        |c| c.chain.push('x'),
        |c| c.genesis[31] ^= 1,
        |c| c.epoch = Epoch(1),
        |c| c.application = Application::Ordering,
        |c| c.batch.max_commands += 1,
        |c| c.batch.max_bytes += 1,
        |c| c.sessions.max_sessions += 1,
        |c| c.sessions.min_idle_blocks += 1,
        |c| c.sessions.answer_commands += 1,
        |c| c.sessions.answer_bytes += 1,
        |c| c.sessions.window_frames += 1,
        |c| c.sessions.window_commands += 1,
        |c| c.sessions.window_bytes += 1,
        |c| c.limits.max_frame_commands += 1,
        |c| c.limits.max_frame_bytes += 1,
        |c| c.limits.max_snapshot_bytes += 1,
        |c| c.limits.max_state_bytes += 1,
        |c| c.members[3].consensus_key = ReplicaKey::new(&[77; 32]).unwrap(),
        |c| c.members[3].proof_of_possession = Some([78; 48]),
        |c| c.members.truncate(3),
        |c| c.protocol = ProtocolName::HotstuffTwoChain,
        |c| c.votes = VoteRoute::Broadcast,
        |c| c.second_vote = true,
        |c| c.pacemaker = PacemakerName::Linear,
        |c| c.leader = LeaderName::Fixed,
        |c| c.fixed_leader = ReplicaId(2),
        |c| c.signatures = SchemeName::None,
        |c| c.group_key = Some([79; 96]),
    ];
    let mut digests = vec![base.chain_digest()];
    for change in changes {
        let mut changed = base.clone();
        change(&mut changed);
        digests.push(changed.chain_digest());
    }
    base.protocol = ProtocolName::Snowman;
    let sampled = SamplingName::ALL.iter().map(|sampling| {
        base.sampling = *sampling;
        base.chain_digest()
    });
    digests.extend(sampled);
    base.liveness = LivenessName::Frosty;
    digests.push(base.chain_digest());
    let changes_of_origin: [fn(&mut Restored); 5] = [
        |_| (),
        |from| from.chain.push('x'),
        |from| from.chain_digest.0[0] ^= 1,
        |from| from.height = Height(8),
        |from| from.root.0[31] ^= 1,
    ];
    for change in changes_of_origin {
        let mut from = restored();
        change(&mut from);
        base.restored = Some(from);
        digests.push(base.chain_digest());
    }
    digests.sort();
    digests.dedup();
    let expected = 1 + changes.len() + SamplingName::ALL.len() + 1 + changes_of_origin.len();
    assert_eq!(digests.len(), expected);
}

fn restored() -> Restored {
    let (chain_digest, root) = (Digest([8; 32]), Digest([9; 32]));
    Restored { chain: "before".to_owned(), chain_digest, height: Height(7), root }
}

#[test]
fn where_a_chain_begins_is_read_whole_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.toml");
    let cluster = Cluster { restored: Some(restored()), ..cluster(4) };
    let text = cluster.to_toml();
    std::fs::write(&file, &text).unwrap();
    assert_eq!(load_cluster(&file).unwrap().0, cluster);
    for key in ["chain = \"before\"", "height = 7", "chain_digest = ", "root = "] {
        let left_out = text.lines().filter(|line| !line.starts_with(key));
        std::fs::write(&file, left_out.collect::<Vec<_>>().join("\n")).unwrap();
        let refused = load_cluster(&file).unwrap_err().to_string();
        assert!(refused.contains("copy the table [restored]"), "{key}: {refused}");
    }
}

#[test]
fn addresses_are_hosts_and_ports() {
    for good in ["127.0.0.1:0", "[::1]:7000", "replica-0.example.org:65535", "localhost:1"] {
        assert_eq!(good.parse::<HostPort>().unwrap().to_string(), good);
    }
    for bad in [
        "",
        ":7000",
        "127.0.0.1",
        "127.0.0.1:",
        "::1:7000",
        "[::1:7000",
        "[x]:1",
        "h:65536",
        "h:+1",
        "a b:1",
        "-a:1",
        "a..b:1",
        "h\u{e9}:1",
    ] {
        assert!(bad.parse::<HostPort>().is_err(), "{bad:?}");
    }
    assert!("[::1]:1".parse::<HostPort>().unwrap().is_loopback());
    assert_eq!("[::1]:1".parse::<HostPort>().unwrap().host(), "::1");
    assert!(!"0.0.0.0:1".parse::<HostPort>().unwrap().is_loopback());
}

#[test]
fn homes_resolve_relative_paths_alone() {
    let home = Home::new("/srv/replica");
    assert_eq!(home.resolve("data".as_ref()), PathBuf::from("/srv/replica/data"));
    assert_eq!(home.resolve("/mnt/disk".as_ref()), PathBuf::from("/mnt/disk"));
}

proptest! {
    #[test]
    fn durations_print_as_they_parse(nanoseconds: u64) {
        let span = HumanDuration(Duration::from_nanos(nanoseconds));
        prop_assert_eq!(span.to_string().parse(), Ok(span));
    }

    #[test]
    fn round_durations_print_as_they_parse(count in 0u64..5000, unit in 0usize..6) {
        let text = format!("{count}{}", ["ns", "us", "ms", "s", "min", "h"][unit]);
        let span: HumanDuration = text.parse().unwrap();
        prop_assert_eq!(span.to_string().parse(), Ok(span));
    }

    #[test]
    fn sizes_print_as_they_parse(bytes: u64, shift in 0u32..64) {
        let size = ByteSize(bytes >> shift << (shift / 2));
        prop_assert_eq!(size.to_string().parse(), Ok(size));
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,24}") {
        let _ = text.parse::<HumanDuration>();
        let _ = text.parse::<ByteSize>();
        let _ = text.parse::<HostPort>();
    }

    #[test]
    fn no_file_panics(text in "(\\[*(replicas|log|batch|keys)(\\.[a-z]{1,3})?\\]*|[a-z.]{1,8} ?= ?[0-9\"\\[{x}\\]]{0,6}|\n){0,12}") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("cluster.toml");
        std::fs::write(&file, text).unwrap();
        prop_assert!(load_cluster(&file).is_err());
    }
}

/// The fastest that is safe; and with every protocol, scheme and size something that goes together.
#[test]
fn what_is_left_open_goes_with_what_is_chosen() {
    let default = Combination::default();
    let fastest = (ProtocolName::HotstuffTwoChain, VoteRoute::Broadcast, true);
    assert_eq!((default.protocol, default.votes, default.second_vote), fastest);
    assert_eq!(default.leader, LeaderName::Carousel);
    for replicas in [1, 4, 50, 51, 256] {
        let votes = Choices::default().among(replicas).votes;
        assert_eq!(votes == VoteRoute::Broadcast, replicas <= 50, "{replicas}");
        for protocol in Combination::protocols().copied().map(Some).chain([None]) {
            for signatures in SchemeName::ALL.iter().copied().map(Some).chain([None]) {
                let choices = Choices { protocol, signatures, ..Choices::default() };
                assert_eq!(choices.among(replicas).refusal(), None, "{choices:?}");
            }
        }
    }
    let second_vote = Some(true);
    let asked = Choices { second_vote, ..Choices::default() }.among(256);
    assert_eq!((asked.votes, asked.refusal()), (VoteRoute::Broadcast, None));
}

/// How replicas are believed is agreed on: clusters of PBFT that differ in it are different chains.
#[test]
fn authentication_is_part_of_the_chain_of_pbft() {
    let mut digests = Vec::new();
    for &authentication in AuthenticationName::ALL {
        let mut cluster = cluster(4);
        let choices = Choices {
            protocol: Some(ProtocolName::Pbft),
            authentication: Some(authentication),
            ..Choices::default()
        };
        cluster.set_combination(choices.among(4));
        assert_eq!(cluster.check(), None, "{authentication}");
        digests.push(cluster.chain_digest());
    }
    digests.sort();
    digests.dedup();
    assert_eq!(digests.len(), 3);
    let protocol = Some(ProtocolName::Pbft);
    let usual = Choices { protocol, ..Choices::default() }.among(4);
    assert_eq!(usual.authentication, AuthenticationName::MacsToClients);
    assert_eq!(Combination::default().authentication, AuthenticationName::Signatures);
}

/// A file that leaves its choices out is not that of a cluster that was made with others: the
/// digest tells.
#[test]
fn a_default_that_changed_is_another_chain() {
    let mut older = cluster(4);
    let digest = older.chain_digest();
    older.set_combination(CHAINED);
    assert_ne!(older.chain_digest(), digest);
    for key in
        ["protocol", "votes", "second_vote", "pacemaker", "leader", "signatures", "authentication"]
    {
        let says = |line: &str| line.starts_with(&format!("{key} = "));
        assert!(older.to_toml().lines().any(says), "{key} is always written");
    }
}
