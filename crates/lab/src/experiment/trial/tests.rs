use quorate_netem::emulator::Report;

use super::super::sampling::tests::sampling;
use super::*;
use crate::load::{Distribution, Interval};

#[test]
fn every_figure_of_a_load_is_that_of_its_report() {
    let interval = Interval {
        at: 1.5,
        seconds: 2.5,
        commands: 3,
        p50_ms: 4.5,
        p90_ms: 5.5,
        p99_ms: 6.5,
        max_ms: 7.5,
    };
    let report = LoadReport {
        protocol: "p".to_owned(),
        n: 101,
        batch: 102,
        payload: 103,
        clients: 104,
        outstanding: 105,
        rate: Some(106.5),
        seconds: 2.0,
        submitted: 107,
        commands: 108,
        goodput: 109.5,
        mean_ms: 110.5,
        deviation_ms: 111.5,
        p50_ms: 112.5,
        p90_ms: 113.5,
        p99_ms: 114.5,
        p999_ms: 115.5,
        max_ms: 116.5,
        wrong: 117,
        failed: 118,
        unanswered: 119,
        generator_us: Some(120.5),
        series: vec![interval],
        warnings: vec!["w".to_owned()],
        distribution: Distribution {
            whole: Counts(vec![(1000, 5), (1024, 6), (1025, 7)]),
            intervals: vec![Counts(vec![(1, 8), (2, 9)])],
        },
    };
    let expected = Figures {
        throughput: 53.5,
        goodput: 109.5,
        mean_ms: 110.5,
        deviation_ms: 111.5,
        p50_ms: 112.5,
        p90_ms: 113.5,
        p99_ms: 114.5,
        p999_ms: 115.5,
        max_ms: 116.5,
        commands: 108,
        failed: 118,
        unanswered: 119,
        generator_us: Some(120.5),
        series: vec![interval],
        // Eight classes a doubling: 2^10, and 2^(81/8).
        latencies: vec![(1024, 11), (1117, 7)],
        latencies_over_time: vec![vec![(1, 8), (2, 9)]],
        warnings: vec!["w".to_owned()],
        ..Figures::default()
    };
    assert_eq!(figures_of(report), expected);
}

#[test]
fn every_figure_of_the_replicas_is_that_of_its_samples() {
    let mut figures = Figures::default();
    note_replicas(5 << 20, sampling(), &mut figures);
    let expected = Figures {
        disk_mib: 5.0,
        memory_mib: 3.0,
        views_per_second: 20.0,
        timeouts_per_second: 3.0,
        samples: sampling().finish(),
        ..Figures::default()
    };
    assert_eq!(figures, expected);
}

/// Both totals are of one replica: a fast one's commands in a slow one's blocks would make blocks
/// of 500 of 400.
#[test]
fn a_blocks_commands_are_those_of_one_replica() {
    let before = BTreeMap::from([(0, (0.0, 0.0)), (1, (0.0, 0.0)), (2, (100.0, 1.0))]);
    let after = BTreeMap::from([(0, (4000.0, 10.0)), (1, (3000.0, 8.0)), (3, (9000.0, 9.0))]);
    assert_eq!(commands_per_block(&before, &after), 400.0);
    assert_eq!(commands_per_block(&before, &before), 0.0);
    assert_eq!(commands_per_block(&before, &BTreeMap::new()), 0.0);
}

#[test]
fn every_figure_of_the_network_is_that_of_its_report() {
    let report = Report {
        no_room: 3,
        refused: 40,
        strays: 500,
        carried: 6000,
        under_way: 70_000,
        processor: Duration::from_secs(3),
        late_p50: Duration::from_micros(250),
        late_p99: Duration::from_micros(1500),
        late_max: Duration::from_micros(9000),
        ..Report::default()
    };
    let mut figures = Figures::default();
    note_network(&report, Duration::from_secs(12), &mut figures);
    assert_eq!(figures.network_late_p50_ms, Some(0.25));
    assert_eq!(figures.network_late_p99_ms, Some(1.5));
    assert_eq!(figures.network_cores, Some(0.25));
    assert_eq!(figures.network_dropped, Some(43));
    let [dropped, late] = &figures.warnings[..] else { panic!("{:?}", figures.warnings) };
    assert!(dropped.contains("43 packets") && late.contains("1.5 ms late"), "{dropped}; {late}");
    let calm = Report { no_room: 0, refused: 0, late_p99: LATE, ..report };
    let mut figures = Figures::default();
    note_network(&calm, Duration::from_secs(12), &mut figures);
    assert_eq!((figures.network_dropped, figures.warnings.len()), (Some(0), 0));
}

#[test]
fn what_others_took_is_what_was_busy_and_not_ours() {
    assert_eq!(foreign(7.0, 4.0, 2.0), 1.5);
    // Clocks are read one after the other: a little less than nothing is nothing.
    assert_eq!(foreign(3.9, 4.0, 2.0), 0.0);
}
