//! The demo's numbers, on a clock of the test's.

use super::*;

const MS: Duration = Duration::from_millis(1);

/// Equal, but for the three digits that latencies are kept to.
fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() <= expected * 1e-3, "{found} for {expected}");
}

#[test]
fn each_interval_counts_its_own_answers_and_gaps() {
    let begin = Instant::now();
    let at = |ms: u32| begin + ms * MS;
    let mut record = Record::new(begin);
    // Three answers after 10, 20 and 40 ms, the last with two wrong replies.
    record.acknowledge(at(100), at(110), 0);
    record.acknowledge(at(100), at(120), 0);
    record.acknowledge(at(110), at(150), 2);
    let first = record.interval(at(200));
    assert_eq!((first.seconds, first.acknowledged), (0.2, 150));
    near(first.p50_ms, 20.0);
    near(first.p99_ms, 40.0);
    assert_eq!(first.gap_ms, 110.0, "until the first answer");
    // One answer, and then none: the gap is the one at the end.
    record.acknowledge(at(190), at(240), 0);
    let second = record.interval(at(300));
    assert_eq!((second.seconds, second.acknowledged), (0.1, 50));
    near(second.p50_ms, 50.0);
    near(second.p99_ms, 50.0);
    assert_eq!(second.gap_ms, 60.0);
    let third = record.interval(at(320));
    assert_eq!((third.acknowledged, third.p50_ms, third.gap_ms), (0, 0.0, 20.0));
    assert_eq!((record.acknowledged, record.wrong), (200, 2));
    near(ms(record.all.value_at_quantile(1.0)), 50.0);
}
