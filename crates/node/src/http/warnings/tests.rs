use quorate_core::base::membership::ReplicaKey;
use quorate_core::{Digest, Epoch};

use super::*;

const GIB: u64 = 1 << 30;

fn names(look: &Look<'_>) -> Vec<&'static str> {
    look.warnings().iter().map(|warning| warning.kind.name()).collect()
}

fn committee() -> Committee {
    let keys = (0..4).map(|id| ReplicaKey::from([id; 32])).collect();
    Committee::new(Digest([0; 32]), Epoch(0), keys).unwrap()
}

/// Replica 0 of four, which reaches all.
fn well(metrics: &Metrics) -> Look<'_> {
    Look {
        me: ReplicaId(0),
        committee: committee(),
        connected: &[ReplicaId(1), ReplicaId(2), ReplicaId(3)],
        metrics,
        minute: &[],
        free_bytes: Some(100 * GIB),
        memory: Some(Memory { used_bytes: GIB, limit_bytes: 2 * GIB }),
        log_window_bytes: GIB,
    }
}

fn sample(height: u64, waiting: u64) -> Sample {
    Sample { height, waiting, ..Sample::default() }
}

#[test]
fn a_well_replica_warns_of_nothing() {
    let metrics = Metrics::default();
    let minute = [sample(5, 1), sample(6, 1), sample(6, 0), sample(6, 0)];
    assert_eq!(names(&Look { minute: &minute, ..well(&metrics) }), [""; 0]);
}

#[test]
fn a_missing_peer_is_named_and_a_missing_quorum_is_worse() {
    let metrics = Metrics::default();
    let connected = [ReplicaId(1), ReplicaId(3)];
    let look = Look { connected: &connected, ..well(&metrics) };
    let warnings = look.warnings();
    assert_eq!(warnings[0].kind, Kind::PeerMissing);
    assert_eq!(
        warnings[0].what,
        "no channel to replica 2; 0 more may fail before nothing is ordered"
    );
    assert_eq!(names(&Look { connected: &connected[..1], ..well(&metrics) }), ["no-quorum"]);
}

#[test]
fn frames_that_wait_below_a_height_that_stands_are_a_stall() {
    let metrics = Metrics::default();
    let stands = [sample(7, 3); 3].map(|one| Sample { timeouts: 2, ..one });
    assert_eq!(names(&Look { minute: &stands, ..well(&metrics) }), ["stalled", "timeouts"]);
    // Ten seconds are three samples.
    assert_eq!(names(&Look { minute: &stands[1..], ..well(&metrics) }), [""; 0]);
}

#[test]
fn what_the_counters_say_is_told() {
    let metrics = Metrics::default();
    metrics.state_root_differs_views.set(2);
    metrics.double_votes_total.set(1);
    metrics.state_limit_bytes.set(10 * GIB);
    metrics.state_bytes.set(9 * GIB);
    metrics.snapshot_limit_bytes.set(2 * GIB);
    metrics.snapshot_bytes.set(19 * GIB / 10);
    metrics.query_answers_too_long_total.set(1);
    metrics.abstain_until_view.set(8);
    metrics.rejoining.set(1);
    let slow = [Sample { syncs: 10, sync_ms: 80.0, ..sample(1, 0) }];
    let memory = Some(Memory { used_bytes: 9 * GIB, limit_bytes: 10 * GIB });
    let look = Look { minute: &slow, free_bytes: Some(GIB - 1), memory, ..well(&metrics) };
    let expected = [
        "state-root-differs",
        "disk-full",
        "equivocation",
        "state-full",
        "snapshot-large",
        "memory-full",
        "bad-answers",
        "slow-disk",
        "rejoining",
        "abstaining",
    ];
    assert_eq!(names(&look), expected);
}

#[test]
fn each_has_its_paragraph_in_the_operators_page() {
    let page = include_str!("../../../../../docs/operations.md");
    for kind in Kind::ALL {
        let heading = format!("\n### {}\n", kind.name());
        assert!(page.contains(&heading), "docs/operations.md has no `### {}`", kind.name());
    }
}

#[test]
fn each_has_its_alert_rule_and_no_rule_has_another_name() {
    let rules = include_str!("../../../../../deploy/prometheus/alerts.yml");
    let named = |line: &str| {
        Some(line.split_once("quorate_warning{name=\"")?.1.split_once('"')?.0.to_owned())
    };
    let fired: Vec<_> = rules.lines().filter_map(named).collect();
    let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
    assert_eq!(fired, names);
    for name in names {
        assert!(rules.contains(&format!("runbook: docs/operations.md#{name}\n")), "{name}");
    }
}

/// Where the fault of each alert is caused: a file of tests, and the test. A slow disk and memory
/// that ends are caused where control groups can be made, and computed above everywhere.
const CAUSED: &[(Kind, &str, &str)] = &[
    (Kind::NoQuorum, "cli/tests/processes/alerts.rs", LOST),
    (Kind::StateRootDiffers, "node/tests/applications/main.rs", DIFFERS),
    (Kind::ApplicationBlocks, "node/tests/applications/blocking.rs", "a_block_that_takes_for_ever"),
    (Kind::Stalled, "node/tests/applications/main.rs", DIFFERS),
    (Kind::DiskFull, "cli/tests/processes/alerts.rs", "a_disk_without_room_for_the_log_is_told"),
    (Kind::Equivocation, "cli/tests/processes/alerts.rs", "a_replica_that_votes_twice_is_told"),
    (Kind::PeerMissing, "cli/tests/processes/watching.rs", "a_killed_replica_is_named_by_top"),
    (Kind::Timeouts, "cli/tests/processes/alerts.rs", "views_that_are_lost_are_told"),
    (Kind::StateFull, "node/tests/applications/unbounded.rs", NEAR),
    (Kind::SnapshotLarge, "node/tests/applications/unbounded.rs", NEAR),
    (Kind::MemoryFull, "cli/tests/processes/alerts.rs", "memory_that_ends_is_told"),
    (
        Kind::ApplicationSlow,
        "node/tests/applications/blocking.rs",
        "a_question_that_takes_for_ever",
    ),
    (Kind::BadAnswers, "node/tests/applications/unbounded.rs", "an_answer_that_is_too_long"),
    (Kind::SlowDisk, "cli/tests/processes/alerts.rs", "a_slow_disk_is_told"),
    (Kind::Rejoining, "cli/tests/processes/alerts.rs", LOST),
    (Kind::Abstaining, "cli/tests/processes/alerts.rs", LOST),
];

const DIFFERS: &str = "an_application_that_is_not_deterministic_is_told";
const NEAR: &str = "a_state_and_a_snapshot_near_their_limits_are_told";
const LOST: &str = "a_replica_that_lost_its_data_tells_what_it_waits_for";

#[test]
fn each_fires_in_a_test() {
    assert_eq!(CAUSED.iter().map(|(kind, ..)| *kind).collect::<Vec<_>>(), Kind::ALL);
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (kind, file, test) in CAUSED {
        let text = std::fs::read_to_string(crates.join(file)).unwrap();
        assert!(text.contains(&format!("fn {test}")), "{file} has no test `{test}`");
        assert!(text.contains(&format!("\"{}\"", kind.name())), "{file}: {}", kind.name());
    }
}
