use serde_json::json;

use super::*;

#[test]
fn totals_are_added_up_and_what_is_the_same_everywhere_is_the_highest() {
    let statuses = [
        json!({ "numbers": { "committed_commands_total": 7, "timeouts_total": 20, "view": 300 } }),
        json!({ "numbers": { "committed_commands_total": 5, "timeouts_total": 40, "view": 100 } }),
    ];
    let of = |name: &str| together(name, &statuses);
    assert_eq!(
        (of("committed_commands_total"), of("timeouts_total"), of("view")),
        (7.0, 60.0, 300.0)
    );
    assert_eq!(of("nothing"), 0.0);
}

/// Samples of which no two numbers grow alike.
pub(in super::super) fn sampling() -> Sampling {
    let mut sampling = Sampling::new(&["view".to_owned(), "more".to_owned()]);
    assert_eq!(sampling.names.len(), ALWAYS.len() + 1, "what is asked for twice is sampled once");
    sampling.memory_bytes = 3 << 20;
    sampling.samples.at = vec![0.5, 1.0, 2.5];
    for (name, values) in [
        ("committed_commands_total", [100.0, 500.0, 1300.0]),
        ("committed_full_blocks_total", [10.0, 11.0, 18.0]),
        ("view", [50.0, 60.0, 90.0]),
        ("timeouts_total", [4.0, 5.0, 10.0]),
    ] {
        sampling.samples.values.insert(name.to_owned(), values.to_vec());
    }
    sampling
}

#[test]
fn growth_is_from_the_first_sample_to_the_last() {
    let sampling = sampling();
    assert_eq!(sampling.per_second("committed_commands_total"), 600.0);
    assert_eq!(sampling.per_second("view"), 20.0);
    assert_eq!(sampling.per_second("timeouts_total"), 3.0);
    assert_eq!(sampling.per_second("nothing"), 0.0);
    assert_eq!(Sampling::new(&[]).per_second("view"), 0.0);
}

#[test]
fn a_failed_view_costs_the_mean_of_all() {
    let mut sampling = sampling();
    assert_eq!(sampling.failed_views(), None, "none failed");
    for (name, values) in [
        (FAILED_VIEWS, [3.0, 5.0, 13.0]),
        (FAILED_VIEWS_NANOSECONDS, [5_000_000.0, 9_000_000.0, 45_000_000.0]),
    ] {
        sampling.samples.values.insert(name.to_owned(), values.to_vec());
    }
    assert_eq!(sampling.failed_views(), Some((10, 4.0)));
}

fn one(commands: f64, step: f64, persist: f64, ms: u64) -> OfReplica {
    OfReplica {
        commands,
        stages: BTreeMap::from([("step".to_owned(), step), ("persist".to_owned(), persist)]),
        processor: Duration::from_millis(ms),
    }
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
}

#[test]
fn what_was_spent_is_told_a_command_and_replica() {
    // Four replicas that executed 1,000 commands each.
    let all = |one: OfReplica| Spent((0..4).map(|id| (id, one.clone())).collect());
    let (before, after) = (all(one(25.0, 1.0, 2.0, 500)), all(one(1025.0, 1.001, 2.003, 510)));
    assert_eq!(after.processor(), Duration::from_millis(2040));
    let (stages, all) = after.per_command(&before);
    assert_eq!(stages.len(), 2);
    near(stages["step"], 1.0);
    near(stages["persist"], 3.0);
    near(all, 10.0);
    assert_eq!(before.per_command(&before), Default::default());
}

/// What a replica did before it was killed, or before this one was asked, is no part of it.
#[test]
fn a_replica_that_was_not_up_both_times_does_not_count() {
    let before = Spent([(0, one(500.0, 1.0, 2.0, 500)), (1, one(9e5, 3.0, 3.0, 900))].into());
    let after = Spent([(0, one(1500.0, 1.001, 2.003, 510)), (2, one(8e5, 3.0, 3.0, 900))].into());
    let (stages, all) = after.per_command(&before);
    near(stages["persist"], 3.0);
    near(all, 10.0);
}
