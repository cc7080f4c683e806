//! The tables of results: each column has a name of its own, and what is in it is what its name
//! says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use quorate_lab::experiment::{
    AXES, Context, Figures, Plan, Row, Samples, Study, Under, runs_csv, series_csv,
};
use quorate_lab::load::Interval;

const STUDY: &str = r#"
name = "numbers"
title = "Numbers"
[grid]
cores = 1
liars = 1
adversary = "silent-leader@1s..2s"
set."log.level" = "warn"
[measure]
duration = "11s"
warm_up = "12s"
settle = "13s"
interval = "1s"
"#;

/// A run of which no two numbers are alike.
fn row() -> Row {
    let study = Study::parse(STUDY, Path::new("s.toml")).unwrap();
    let plan = Plan::new(&study, STUDY, Path::new("s.toml")).unwrap();
    let interval = Interval {
        at: 0.5,
        seconds: 2.0,
        commands: 501,
        p50_ms: 502.5,
        p90_ms: 503.5,
        p99_ms: 504.5,
        max_ms: 505.5,
    };
    let nothing = Interval { at: 2.5, seconds: 4.0, ..Interval::default() };
    Row {
        settings: plan.settings[0].clone(),
        repeat: 301,
        seed: 302,
        began: 303,
        context: Context {
            version: "v".to_owned(),
            commit: "c".to_owned(),
            program: "p".to_owned(),
            processor: "a, \"b\"".to_owned(),
            cores: 304,
            memory_mib: 305,
            kernel: "k".to_owned(),
        },
        load_before: Some([0.1, 0.2, 0.3]),
        foreign_cores: Some(306.5),
        stolen_cores: Some(307.5),
        signature_us: Some(308.5),
        figures: Some(Figures {
            throughput: 401.5,
            goodput: 402.5,
            mean_ms: 403.5,
            deviation_ms: 404.5,
            p50_ms: 405.5,
            p90_ms: 406.5,
            p99_ms: 407.5,
            p999_ms: 408.5,
            max_ms: 409.5,
            commands: 410,
            failed: 411,
            unanswered: 412,
            commands_per_block: 413.5,
            views_per_second: 414.5,
            timeouts_per_second: 415.5,
            failed_view_ms: None,
            failed_views: None,
            replica_us: 416.5,
            generator_us: Some(417.5),
            stage_us: BTreeMap::from([("step".to_owned(), 418.5), ("persist".to_owned(), 419.5)]),
            memory_mib: 420.5,
            disk_mib: 421.5,
            network_late_p50_ms: Some(422.5),
            network_late_p99_ms: Some(423.5),
            network_cores: Some(424.5),
            network_dropped: Some(425),
            liars: vec![0],
            under: vec![Under { adversary: "silent-leader".to_owned(), from: 1.0, to: 2.0 }],
            killed: None,
            series: vec![interval, nothing],
            samples: Samples::default(),
            latencies: vec![(1, 2)],
            latencies_over_time: vec![vec![(3, 4)], Vec::new()],
            warnings: Vec::new(),
        }),
        failure: None,
        kept: None,
    }
}

/// The cells of a line, quotes taken away.
fn cells(line: &str) -> Vec<String> {
    let (mut cells, mut quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cells.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            other => cells.last_mut().unwrap().push(other),
        }
    }
    cells
}

/// What [`row`] has in each column, but for those that are axes with a value of their own.
const COLUMNS: [(&str, &str); 66] = [
    ("variant", ""),
    ("fixed_leader", "0"),
    ("signatures", "ed25519"),
    ("transport", "tcp"),
    ("replicas", "4"),
    ("batch", "400"),
    ("payload", "0B"),
    ("durability", "sync"),
    ("rate", "closed"),
    ("arrivals", "even"),
    ("client_processes", "1"),
    ("clients", "8"),
    ("outstanding", "0"),
    ("frame", "0"),
    ("send_to", "all"),
    ("workload", "set"),
    ("popularity", "usual"),
    ("keys", "100000"),
    ("adversary", "silent-leader@1000ms..2000ms"),
    ("liars", "1"),
    ("kill", "none"),
    ("cores", "1"),
    ("network", "loopback"),
    ("log.level", "warn"),
    ("seconds", "11.0"),
    ("warm_up", "12.0"),
    ("settle", "13.0"),
    ("interval", "1.0"),
    ("repeat", "301"),
    ("seed", "302"),
    ("began", "303"),
    ("version", "v"),
    ("commit", "c"),
    ("program", "p"),
    ("machine_processor", "a, \"b\""),
    ("machine_cores", "304"),
    ("machine_memory_mib", "305"),
    ("machine_kernel", "k"),
    ("foreign_cores", "306.5"),
    ("stolen_cores", "307.5"),
    ("signature_us", "308.5"),
    ("throughput", "401.5"),
    ("goodput", "402.5"),
    ("mean_ms", "403.5"),
    ("deviation_ms", "404.5"),
    ("p50_ms", "405.5"),
    ("p90_ms", "406.5"),
    ("p99_ms", "407.5"),
    ("p999_ms", "408.5"),
    ("max_ms", "409.5"),
    ("commands", "410"),
    ("failed", "411"),
    ("unanswered", "412"),
    ("commands_per_block", "413.5"),
    ("views_per_second", "414.5"),
    ("timeouts_per_second", "415.5"),
    ("replica_us", "416.5"),
    ("generator_us", "417.5"),
    ("stage_us.step", "418.5"),
    ("stage_us.persist", "419.5"),
    ("memory_mib", "420.5"),
    ("disk_mib", "421.5"),
    ("network_late_p50_ms", "422.5"),
    ("network_late_p99_ms", "423.5"),
    ("network_cores", "424.5"),
    ("network_dropped", "425"),
];

#[test]
fn every_column_of_the_table_of_runs_is_what_its_name_says() {
    let text = runs_csv(&[row()]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    let (names, values) = (cells(lines[0]), cells(lines[1]));
    assert_eq!(names.len(), values.len());
    let found: BTreeMap<&str, &str> =
        names.iter().map(String::as_str).zip(values.iter().map(String::as_str)).collect();
    assert_eq!(found.len(), names.len(), "a name is used twice: {names:?}");
    let mut expected = BTreeMap::from(COLUMNS);
    // An axis that is new has a column of its own.
    for axis in AXES {
        expected.entry(axis).or_insert(found[axis]);
    }
    assert_eq!(found, expected);
}

#[test]
fn a_figure_by_its_name_is_that_figure() {
    let figures = row().figures.unwrap();
    for (name, value) in [
        ("throughput", 401.5),
        ("goodput", 402.5),
        ("mean_ms", 403.5),
        ("deviation_ms", 404.5),
        ("p50_ms", 405.5),
        ("p90_ms", 406.5),
        ("p99_ms", 407.5),
        ("p999_ms", 408.5),
        ("max_ms", 409.5),
        ("commands", 410.0),
        ("commands_per_block", 413.5),
        ("views_per_second", 414.5),
        ("timeouts_per_second", 415.5),
        ("replica_us", 416.5),
        ("generator_us", 417.5),
        ("stage_us.step", 418.5),
        ("stage_us.persist", 419.5),
        ("memory_mib", 420.5),
        ("disk_mib", 421.5),
    ] {
        assert_eq!(figures.number(name), Some(value), "{name}");
    }
}

#[test]
fn columns_of_runs_that_lack_some_stay_in_their_places() {
    let failed = Row { figures: None, failure: Some("it broke".to_owned()), ..row() };
    let text = runs_csv(&[failed, row()]);
    let lines: Vec<Vec<String>> = text.lines().map(cells).collect();
    let names = &lines[0];
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    let at = |name: &str| names.iter().position(|known| known == name).unwrap();
    let of = |line: usize, name: &str| lines[line][at(name)].as_str();
    assert_eq!((of(1, "failure"), of(2, "failure")), ("it broke", ""));
    assert_eq!((of(1, "goodput"), of(2, "goodput")), ("", "402.5"));
    assert_eq!((of(1, "memory_mib"), of(1, "machine_memory_mib")), ("", "305"));
}

#[test]
fn an_interval_without_an_answer_has_no_latency() {
    let text = series_csv(&[row(), row()]);
    assert_eq!(
        text,
        "run,at_s,seconds,commands,goodput,p50_ms,p90_ms,p99_ms,max_ms\n\
         0,0.500,2.000,501,250.5,502.5,503.5,504.5,505.5\n\
         0,2.500,4.000,0,0.0,,,,\n\
         1,0.500,2.000,501,250.5,502.5,503.5,504.5,505.5\n\
         1,2.500,4.000,0,0.0,,,,\n"
    );
}

/// The tables beside the documents are read by name.
#[test]
fn no_kept_table_has_a_name_twice() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies");
    let studies = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files = studies.flat_map(|study| std::fs::read_dir(study).unwrap());
    let mut tables = 0;
    for file in files.map(|entry| entry.unwrap().path()) {
        if file.extension().is_none_or(|extension| extension != "csv") {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let names = cells(text.lines().next().unwrap());
        let different: BTreeSet<&String> = names.iter().collect();
        assert_eq!(different.len(), names.len(), "{}: {names:?}", file.display());
        tables += 1;
    }
    assert!(tables >= 16, "{tables}");
}
