//! What a load decides before it begins, and the numbers that come out of one, on a clock of the
//! test's.

use std::time::{Duration, Instant};

use quorate_core::Digest;
use quorate_node::client::Authenticity;

use super::open::{leave, settle};
use super::record::{Record, Verdict};
use super::*;

const MS: Duration = Duration::from_millis(1);

fn config(route: Route, contacts: Option<u64>) -> LoadConfig {
    let mut session = SessionConfig::new(Digest::of("test", b""), 4);
    session.route = route;
    LoadConfig {
        protocol: String::new(),
        replicas: Vec::new(),
        session,
        authenticity: Authenticity::Channel,
        contacts,
        keys: Vec::new(),
        workload: Workload::noop(1, b"").unwrap(),
        write_records: false,
        outstanding: 1,
        callers: None,
        arrivals: Arrivals::Closed,
        warm_up: MS,
        duration: MS,
        interval: MS,
        patience: MS,
        notice: |_| {},
    }
}

#[test]
fn whom_a_session_sends_to_is_drawn_evenly_and_follows_from_the_seed() {
    let one = Route::One { first: ReplicaId(2) };
    let drawn = |seed| routes(&config(one, Some(seed))).take(4000).collect::<Vec<_>>();
    for replica in 0..4 {
        let first = Route::One { first: ReplicaId(replica) };
        let count = drawn(7).iter().filter(|route| **route == first).count();
        // A thousand, and five times its deviation, which is √(4000 · ¼ · ¾).
        assert!(count.abs_diff(1000) < 137, "{count} of replica {replica}");
    }
    assert_eq!(drawn(7), drawn(7));
    assert_ne!(drawn(7), drawn(8));
    assert!(routes(&config(one, None)).take(9).all(|route| route == one));
    assert!(routes(&config(Route::All, Some(7))).take(9).all(|route| route == Route::All));
}

fn report(record: &Record) -> LoadReport {
    let mut report = LoadReport::default();
    record.report(&mut report);
    report
}

/// Equal, but for the three digits that latencies are kept to.
fn near(found: f64, expected: f64, what: &str) {
    assert!((found - expected).abs() <= expected * 1e-3, "{what}: {found} for {expected}");
}

/// A thousand commands a second for two seconds. In the first each is answered within a
/// millisecond; in the second nothing is, until all are at its end.
#[test]
fn a_stall_is_charged_to_every_command_that_was_to_be_submitted_in_it() {
    let begin = Instant::now();
    let mut record = Record::new(500 * MS);
    record.begin(begin);
    let intended: Vec<Instant> = (0..2000).map(|number| begin + number * MS).collect();
    for at in &intended[..1000] {
        record.submitted(1);
        settle(&mut record, &[*at], *at + MS, Verdict::Right);
    }
    record.submitted(1000);
    let end = begin + Duration::from_secs(2);
    settle(&mut record, &intended[1000..], end, Verdict::Right);
    record.end(end);
    let report = report(&record);
    assert_eq!((report.seconds, report.submitted, report.commands), (2.0, 2000, 2000));
    assert_eq!((report.wrong, report.failed, report.unanswered), (0, 0, 0));
    assert_eq!(report.goodput, 1000.0);
    // A thousand of 1 ms, and one each of 1 to 1,000 ms.
    near(report.mean_ms, (1000.0 + 500_500.0) / 2000.0, "mean");
    // The mean of squares, less the square of the mean: Σ i² = 1000 · 1001 · 2001 / 6.
    let squares: f64 = (1000.0 + 1000.0 * 1001.0 * 2001.0 / 6.0) / 2000.0;
    near(report.deviation_ms, (squares - 250.75f64 * 250.75).sqrt(), "deviation");
    // The 1,000th, 1,800th, 1,980th, 1,998th and last of them.
    near(report.p50_ms, 1.0, "p50");
    near(report.p90_ms, 800.0, "p90");
    near(report.p99_ms, 980.0, "p99");
    near(report.p999_ms, 998.0, "p99.9");
    near(report.max_ms, 1000.0, "max");
    // An answer at the very end of an interval is the next one's; those at the end of the time, the
    // last one's.
    let series = |of: fn(&Interval) -> f64| report.series.iter().map(of).collect::<Vec<_>>();
    assert_eq!(series(|one| one.at), [0.0, 0.5, 1.0, 1.5]);
    assert_eq!(series(|one| one.seconds), [0.5; 4]);
    assert_eq!(series(|one| one.commands as f64), [499.0, 500.0, 1.0, 1000.0]);
    let last = report.series[3];
    near(last.p50_ms, 500.0, "p50 of the last");
    near(last.p90_ms, 900.0, "p90 of the last");
    near(last.p99_ms, 990.0, "p99 of the last");
    near(last.max_ms, 1000.0, "max of the last");
    near(report.series[0].max_ms, 1.0, "max of the first");
    let counted = |counts: &Counts| counts.0.iter().map(|(_, count)| count).sum::<u64>();
    assert_eq!(counted(&report.distribution.whole), 2000);
    let each: Vec<u64> = report.distribution.intervals.iter().map(counted).collect();
    assert_eq!(each, [499, 500, 1, 1000]);
}

#[test]
fn what_was_never_answered_has_waited_until_the_end() {
    let begin = Instant::now();
    let mut record = Record::new(100 * MS);
    record.begin(begin);
    let intended: Vec<Instant> = (0..10).map(|number| begin + 10 * number * MS).collect();
    record.submitted(10);
    record.end(begin + 100 * MS);
    // One from before measuring began, and one from behind its end, are not its.
    let others = [begin - MS, begin + 100 * MS];
    leave(&mut record, intended.iter().chain(&others), begin + 300 * MS);
    let report = report(&record);
    assert_eq!((report.unanswered, report.commands, report.goodput), (10, 0, 0.0));
    near(report.max_ms, 300.0, "max");
    near(report.mean_ms, 255.0, "mean");
    near(report.p50_ms, 250.0, "p50");
    // They are of no interval: nothing was answered in any.
    assert_eq!(report.series.len(), 1);
    assert!(!report.series[0].has_latencies());
}

#[test]
fn only_what_ends_while_measured_counts_and_only_what_was_to_begin_then_has_a_latency() {
    let begin = Instant::now();
    let mut record = Record::new(50 * MS);
    record.submitted(1);
    settle(&mut record, &[begin - 9 * MS], begin - MS, Verdict::Right);
    record.begin(begin);
    record.submitted(7);
    settle(&mut record, &[begin - 5 * MS, begin - 4 * MS], begin + 10 * MS, Verdict::Right);
    settle(&mut record, &[begin + 5 * MS], begin + 20 * MS, Verdict::Right);
    settle(&mut record, &[begin + 6 * MS, begin + 7 * MS], begin + 60 * MS, Verdict::Wrong);
    settle(&mut record, &[begin + 8 * MS; 3], begin + 61 * MS, Verdict::Failed);
    settle(&mut record, &[begin + 70 * MS], begin + 80 * MS, Verdict::Right);
    record.end(begin + 120 * MS);
    record.submitted(1);
    settle(&mut record, &[begin + 119 * MS], begin + 130 * MS, Verdict::Right);
    let report = report(&record);
    assert_eq!((report.submitted, report.commands), (7, 4));
    assert_eq!((report.wrong, report.failed), (2, 3));
    near(report.goodput, 4.0 / 0.12, "goodput");
    // Of 15, 10 and (answered afterwards, begun in time) 11 ms.
    near(report.max_ms, 15.0, "max");
    near(report.mean_ms, 12.0, "mean");
    let commands: Vec<u64> = report.series.iter().map(|one| one.commands).collect();
    assert_eq!(commands, [3, 1, 0]);
    let seconds: Vec<f64> = report.series.iter().map(|one| one.seconds).collect();
    near(seconds[2], 0.02, "the last interval");
}

/// Timers are late: a rest that is shorter than a twentieth of an interval is the end of the one
/// before.
#[test]
fn a_short_rest_is_the_end_of_the_interval_before() {
    let begin = Instant::now();
    for (end, intervals, last) in [(2_040, 2, 1.04), (2_060, 3, 0.06), (1_990, 2, 0.99)] {
        let mut record = Record::new(Duration::from_secs(1));
        record.begin(begin);
        settle(&mut record, &[begin], begin + 1_980 * MS, Verdict::Right);
        record.end(begin + end * MS);
        let report = report(&record);
        assert_eq!(report.series.len(), intervals, "{end} ms");
        near(report.series[intervals - 1].seconds, last, "the last interval");
        assert_eq!(report.series[1].commands, 1);
        near(report.series[1].max_ms, 1_980.0, "its latency");
    }
}

fn interval(at: f64, seconds: f64, commands: u64) -> Interval {
    Interval { at, seconds, commands, ..Interval::default() }
}

fn counts(pairs: &[(u64, u64)]) -> Counts {
    Counts(pairs.to_vec())
}

/// A report of which no two numbers are alike.
fn one() -> LoadReport {
    LoadReport {
        protocol: "p".to_owned(),
        n: 4,
        batch: 5,
        payload: 6,
        clients: 7,
        outstanding: 8,
        rate: Some(9.5),
        seconds: 10.5,
        submitted: 11,
        commands: 30,
        goodput: 13.5,
        mean_ms: 14.5,
        deviation_ms: 15.5,
        p50_ms: 16.5,
        p90_ms: 17.5,
        p99_ms: 18.5,
        p999_ms: 19.5,
        max_ms: 20.5,
        wrong: 21,
        failed: 22,
        unanswered: 23,
        generator_us: Some(2.0),
        series: vec![interval(0.0, 1.0, 26), interval(1.0, 0.5, 4)],
        warnings: vec!["a".to_owned(), "c".to_owned()],
        distribution: Distribution {
            whole: counts(&[(1000, 30)]),
            intervals: vec![counts(&[(1000, 26)]), counts(&[(1000, 4)])],
        },
    }
}

/// Another one, of none of the same numbers.
fn other() -> LoadReport {
    LoadReport {
        protocol: "p".to_owned(),
        clients: 107,
        rate: Some(109.0),
        seconds: 12.5,
        submitted: 111,
        commands: 10,
        goodput: 113.0,
        wrong: 121,
        failed: 122,
        unanswered: 123,
        generator_us: Some(6.0),
        series: vec![interval(0.0, 1.25, 10)],
        warnings: vec!["b".to_owned(), "a".to_owned()],
        distribution: Distribution {
            whole: counts(&[(9000, 10)]),
            intervals: vec![counts(&[(9000, 10)])],
        },
        ..LoadReport::default()
    }
}

#[test]
fn every_field_of_what_several_processes_counted_is_put_together() {
    let both = LoadReport::together(&[one(), other()]).unwrap();
    let LoadReport { mean_ms, deviation_ms, p50_ms, p90_ms, p99_ms, p999_ms, max_ms, .. } = both;
    // Thirty of 1 ms and ten of 9 ms: mean 3, deviation √(¾ · 4 + ¼ · 36).
    near(mean_ms, 3.0, "mean");
    near(deviation_ms, 12.0f64.sqrt(), "deviation");
    near(p50_ms, 1.0, "p50");
    for high in [p90_ms, p99_ms, p999_ms, max_ms] {
        near(high, 9.0, "beyond the median");
    }
    let [first, second] = both.series[..] else { panic!("{:?}", both.series) };
    assert_eq!((first.at, first.seconds, first.commands), (0.0, 1.25, 36));
    near(first.p50_ms, 1.0, "p50 of the first");
    near(first.p90_ms, 9.0, "p90 of the first");
    near(first.p99_ms, 9.0, "p99 of the first");
    near(first.max_ms, 9.0, "max of the first");
    assert_eq!((second.at, second.seconds, second.commands), (1.0, 0.5, 4));
    near(second.max_ms, 1.0, "max of the second");
    let counted = |counts: &Counts| counts.0.iter().map(|(_, count)| *count).collect::<Vec<_>>();
    assert_eq!(counted(&both.distribution.whole), [30, 10]);
    let each: Vec<Vec<u64>> = both.distribution.intervals.iter().map(counted).collect();
    assert_eq!(each, [vec![26, 10], vec![4]]);
    let expected = LoadReport {
        protocol: "p".to_owned(),
        n: 4,
        batch: 5,
        payload: 6,
        clients: 114,
        outstanding: 8,
        rate: Some(118.5),
        seconds: 12.5,
        submitted: 122,
        commands: 40,
        goodput: 126.5,
        wrong: 142,
        failed: 144,
        unanswered: 146,
        // 30 commands at 2 µs and ten at 6.
        generator_us: Some(3.0),
        warnings: vec!["a".to_owned(), "b".to_owned(), "c".to_owned()],
        mean_ms,
        deviation_ms,
        p50_ms,
        p90_ms,
        p99_ms,
        p999_ms,
        max_ms,
        series: both.series.clone(),
        distribution: both.distribution.clone(),
    };
    assert_eq!(both, expected);
    // Of a closed loop there is no rate, and of a system that does not tell no processor time.
    let closed = LoadReport { rate: None, generator_us: None, ..expected.clone() };
    let mixed = LoadReport::together(&[expected, closed]).unwrap();
    assert_eq!((mixed.rate, mixed.generator_us), (None, None));
}

#[test]
fn a_replica_that_cannot_be_reached_is_named_and_not_waited_for() {
    let mut missing = Missing::default();
    missing.note([(true, false), (true, true), (false, false), (false, true)].into_iter());
    assert_eq!(missing.silent.iter().copied().collect::<Vec<_>>(), [2]);
    let told = [
        "replicas {1, 3} cannot be reached, and were not waited for",
        "replicas {2} did not answer in the warm-up",
    ];
    assert_eq!(missing.warnings(), told);
    assert!(Missing::default().warnings().is_empty());
}
