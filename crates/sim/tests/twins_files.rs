//! Files of scenarios: what is written is read, the framework paper's is, and nothing else.

use quorate_sim::twins::format::{Contents, FormatError, Head, read, write};
use quorate_sim::twins::space::Kind;
use quorate_sim::twins::{Groups, Scenario, Shape, Space};

fn head(shape: Shape) -> Head {
    Head { shape, partitions: 2, views: 4, prefix: Some(2), failure: None }
}

fn sample(by_phase: bool, one_way: bool) -> Vec<(Option<u128>, Scenario)> {
    let shape = Shape::new(4, 1).expect("counts");
    let kind = Kind { shape, partitions: 2, views: 4, by_phase, one_way };
    let space = Space::new(kind).expect("a space");
    let step = space.count() / 97;
    let numbers = (0..97).map(|k| k * step);
    numbers.map(|n| (Some(n), space.scenario(n).expect("below the count"))).collect()
}

#[test]
fn what_is_written_is_read() {
    for (by_phase, one_way) in [(false, false), (true, false), (false, true), (true, true)] {
        let scenarios = sample(by_phase, one_way);
        let shape = scenarios[0].1.shape;
        let text = write(&head(shape), &scenarios);
        let scenarios = scenarios.into_iter().map(|(_, scenario)| scenario).collect();
        let contents = Contents { shape, prefix: Some(2), protocol: None, scenarios };
        assert_eq!(read(&text), Ok(contents));
    }
}

#[test]
fn a_failure_names_its_protocol() {
    let shape = Shape::new(4, 1).expect("counts");
    let failure = Some(("hotstuff-fast".to_owned(), "agreement: no".to_owned()));
    let text = write(&Head { failure, ..head(shape) }, &[]);
    assert_eq!(read(&text).map(|c| c.protocol), Ok(Some("hotstuff-fast".to_owned())));
}

const PAPER: &str = r#"{"num_nodes": 4, "num_twins": 1, "partitions": 2, "views": 2, "ticks": 100,
 "shuffle": true, "seed": -3, "scenarios": [[
 {"leader": 1, "partitions": [[{"ReplicaID": 1, "TwinID": 0}, {"ReplicaID": 2, "TwinID": 1}],
   [{"ReplicaID": 2, "TwinID": 2}, {"ReplicaID": 3, "TwinID": 0}, {"ReplicaID": 4, "TwinID": 0}]]},
 {"leader": 2, "partitions": [[{"ReplicaID": 4, "TwinID": 0}, {"ReplicaID": 3, "TwinID": 0}]]}]]}"#;

#[test]
fn the_framework_papers_format_is_read() {
    let contents = read(PAPER).expect("it is one");
    assert_eq!(contents.shape, Shape::new(4, 1).expect("counts"));
    // Their replica 2 runs twice and is 0 here; 1 is 1, 3 and 4 are 2 and 3.
    let [scenario] = &contents.scenarios[..] else { panic!("one scenario") };
    let [first, second] = &scenario.views[..] else { panic!("two views") };
    assert_eq!((first.leader, second.leader), (1, 0));
    assert_eq!(first.groups[0], Groups::new(5, |slot| u8::from(slot < 2)));
    let alone = |slot: usize| if [2, 3].contains(&slot) { 9 } else { slot as u8 };
    assert_eq!(second.groups[0], Groups::new(5, alone));
}

fn refusal(text: &str) -> FormatError {
    read(text).expect_err("it is refused")
}

#[test]
fn what_is_wrong_is_named_with_its_place_and_a_remedy() {
    let shape = Shape::new(4, 1).expect("counts");
    let good = write(&head(shape), &sample(false, false)[..3]);
    let cases = [
        ("\"replicas\":4", "\"replicas\":3", "replicas, twins", "at most f = 0"),
        ("\"replicas\":4", "\"replicas\":99999999999", "replicas, twins", "slots"),
        ("\"twins\":1", "\"twins\":2", "replicas, twins", "at most f = 1"),
        ("\"partitions\":2", "\"partitions\":0", "partitions", "0 partitions"),
        ("\"partitions\":2", "\"partitions\":1", "scenarios[", "groups"),
        ("\"views\":4", "\"views\":25", "views", "25 views"),
        ("\"views\":4", "\"views\":3", "scenarios[0].views", "4 views"),
        ("\"version\":1", "\"version\":2", "version", "version 2"),
        ("quorate-twins", "other-twins", "format", "no format known"),
        ("\"prefix\":2", "\"prefix\":99", "prefix", "too many"),
        ("\"leader\":0", "\"leader\":4", "scenarios[0].views[0].leader", "no replica 4"),
        ("\"leader\":0", "\"leader\":-1", "line 2", "invalid value"),
        ("\"0'\"", "\"7\"", "scenarios[0].views[0].groups", "no slot \"7\""),
        ("\"0'\"", "\"0\"", "scenarios[0].views[0].groups", "in two groups"),
        ("\"leader\"", "\"chief\"", "line 2", "unknown field `chief`"),
        ("\"groups\"", "\"phases\"", "line 2", "invalid"),
        ("\"version\":1", "\"version\":1,\"extra\":[]", "line 1", "unknown field `extra`"),
        ("]}\n", "", "line", "EOF"),
    ];
    for (from, to, place, what) in cases {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        let error = refusal(&bad);
        assert!(error.place.contains(place), "{to}: {error}");
        assert!(error.what.contains(what), "{to}: {error}");
        assert!(!error.remedy.is_empty());
    }
    let cases = [
        ("\"leader\": 1", "\"leader\": 5", "scenarios[0][0].leader", "no replica 5"),
        ("\"TwinID\": 2", "\"TwinID\": 3", "scenarios[0][0].partitions", "TwinID 3"),
        ("\"ReplicaID\": 3", "\"ReplicaID\": 0", "scenarios[0][0].partitions", "ReplicaID 0"),
        ("\"num_twins\": 1", "\"num_twins\": 0", "num_twins", "1 replicas have a TwinID"),
        ("\"ticks\"", "\"tocks\"", "line 1", "unknown field `tocks`"),
    ];
    for (from, to, place, what) in cases {
        let error = refusal(&PAPER.replacen(from, to, 1));
        assert!(error.place.contains(place) && error.what.contains(what), "{to}: {error}");
    }
}

#[test]
fn nothing_that_is_cut_off_or_flipped_brings_the_reader_down() {
    let shape = Shape::new(4, 1).expect("counts");
    let good = write(&head(shape), &sample(true, true)[..2]);
    for text in [good.as_str(), PAPER] {
        for length in 0..text.len() {
            let _ = read(text.get(..length).unwrap_or_default());
            let mut bytes = text.as_bytes().to_vec();
            bytes[length] = b'9';
            let _ = read(&String::from_utf8_lossy(&bytes));
        }
    }
}
