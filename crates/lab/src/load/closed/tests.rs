use std::time::Duration;

use super::super::report::LoadReport;
use super::*;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_batch_counts_with_all_its_commands_when_it_comes_to_an_end() {
    let begin = Instant::now();
    let mut record = Record::new(Duration::from_secs(1));
    settle(&mut record, begin - 9 * MS, begin - MS, (50, Verdict::Right));
    record.begin(begin);
    settle(&mut record, begin - 5 * MS, begin + 15 * MS, (50, Verdict::Right));
    settle(&mut record, begin + 10 * MS, begin + 50 * MS, (150, Verdict::Right));
    settle(&mut record, begin + 10 * MS, begin + 60 * MS, (7, Verdict::Wrong));
    settle(&mut record, begin + 10 * MS, begin + 60 * MS, (8, Verdict::Failed));
    record.end(begin + 200 * MS);
    settle(&mut record, begin + 190 * MS, begin + 210 * MS, (50, Verdict::Right));
    let mut report = LoadReport::default();
    record.report(&mut report);
    assert_eq!((report.commands, report.wrong, report.failed), (200, 7, 8));
    assert!((report.goodput - 1000.0).abs() < 1e-6, "{}", report.goodput);
    // Fifty of 20 ms and three times as many of 40.
    assert!((report.mean_ms - 35.0).abs() < 0.035, "{}", report.mean_ms);
    assert!((report.p50_ms - 40.0).abs() < 0.04, "{}", report.p50_ms);
    assert!((report.max_ms - 40.0).abs() < 0.04, "{}", report.max_ms);
}
