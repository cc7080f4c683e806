//! What of the matrix is asked for, and its rows on disk.

use std::collections::BTreeSet;
use std::io::Write as _;

use quorate_lab::bench::matrix::{
    Figures, Matrix, MatrixRow, MatrixSettings, Only, OnlyError, open_rows,
};
use quorate_lab::experiment::ResultsError;
use quorate_node::config::{Combination, Durability, LeaderName, ProtocolName, SchemeName};

fn only(text: &str) -> Only {
    text.parse().unwrap()
}

#[test]
fn without_a_filter_everything_that_works_is_asked_for() {
    let all = only("").combinations();
    let works = Combination::all().filter(|one| one.refusal().is_none()).count();
    assert_eq!((all.len(), all.iter().collect::<BTreeSet<_>>().len()), (works, works));
    assert!(all.iter().all(|one| one.refusal().is_none()));
}

#[test]
fn values_of_a_key_are_alternatives_and_keys_add_up() {
    let one = "protocol=hotstuff-fast, signatures=ed25519,leader=fixed,pacemaker=linear";
    let found = only(one).combinations();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "hotstuff-fast, pacemaker linear, leader fixed");

    let found = only("leader=fixed,protocol=hotstuff-2,leader=carousel").combinations();
    assert!(found.iter().all(|one| one.protocol == ProtocolName::Hotstuff2));
    let leaders: BTreeSet<_> = found.iter().map(|one| one.leader).collect();
    assert_eq!(leaders, [LeaderName::Fixed, LeaderName::Carousel].into());
    // Each scheme with either leader and either pacemaker, but for carousels without signers.
    assert_eq!(found.len(), 2 * (2 * SchemeName::ALL.len() - 1));

    let second = only("second_vote=true,votes=broadcast").combinations();
    assert!(!second.is_empty());
    assert!(
        second.iter().all(|one| one.second_vote && one.protocol == ProtocolName::HotstuffTwoChain)
    );
    assert_eq!(only("second_vote=true,votes=next-leader").combinations(), []);
}

#[test]
fn a_filter_that_means_nothing_is_refused() {
    let refused = |text: &str| text.parse::<Only>().unwrap_err();
    assert_eq!(refused("hotstuff-2"), OnlyError::Form("hotstuff-2".to_owned()));
    assert_eq!(refused("leaders=fixed"), OnlyError::Key("leaders".to_owned()));
    for text in ["protocol=paxos", "votes=", "second_vote=yes", "pacemaker=x", "leader=4"] {
        let key = text.split('=').next().unwrap();
        assert!(
            matches!(refused(text), OnlyError::Value { key: found, .. } if found == key),
            "{text}"
        );
    }
    let says = refused("signatures=rsa").to_string();
    assert!(says.contains("\"rsa\"") && says.contains("bls12-381-threshold"), "{says}");
}

fn settings() -> MatrixSettings {
    let durability = "os".to_owned();
    MatrixSettings { replicas: 4, durability, in_flight: 400, seconds: 1.0, cores: 2 }
}

/// One row with everything, one with next to nothing.
fn rows() -> [MatrixRow; 2] {
    let all = only("protocol=hotstuff-two-chain,second_vote=true").combinations();
    let figures =
        Figures { seconds: 1.25, goodput: 0.1 + 0.2, p50_ms: 1.0 / 3.0, p99_ms: 7.0, gap_ms: 9.5 };
    let full = MatrixRow {
        start_ms: Some(500.5),
        all: Some(figures),
        killed: Some(3),
        killed_led: Some(false),
        recovery_ms: Some(12.25),
        one_dead: Some(figures),
        note: Some("a \"note\"\nof two lines".to_owned()),
        failure: Some("why".to_owned()),
        kept: Some("folder".into()),
        ..MatrixRow::new(all[0], settings())
    };
    [full, MatrixRow::new(all[1], settings())]
}

#[test]
fn rows_are_found_again_and_gone_on_with() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let [first, second] = rows();
    let (mut file, found) = open_rows(&path, &settings()).unwrap();
    assert_eq!(found, []);
    file.append(&first).unwrap();
    drop(file);

    let (mut file, found) = open_rows(&path, &settings()).unwrap();
    assert_eq!(found, std::slice::from_ref(&first));
    file.append(&second).unwrap();
    drop(file);
    assert_eq!(open_rows(&path, &settings()).unwrap().1, [first, second]);
}

#[test]
fn a_row_that_was_being_written_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let [first, second] = rows();
    let whole = format!("{}\n", serde_json::to_string(&first).unwrap());
    let next = format!("{}\n", serde_json::to_string(&second).unwrap());
    for torn in 0..next.len() {
        std::fs::write(&path, format!("{whole}{}", &next[..torn])).unwrap();
        let (mut file, found) = open_rows(&path, &settings()).unwrap();
        assert_eq!(found, std::slice::from_ref(&first), "{torn} bytes");
        file.append(&second).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{whole}{next}"));
    }
}

#[test]
fn what_is_not_a_row_is_refused_with_its_line_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.jsonl");
    let row = serde_json::to_value(&rows()[1]).unwrap();
    let changed = |key: &str, value: serde_json::Value| {
        let mut row = row.clone();
        row[key] = value;
        row.to_string()
    };
    let wrong = [
        "not JSON".to_owned(),
        "{}".to_owned(),
        changed("protocol", "paxos".into()),
        changed("leader", 4.into()),
        // Second votes are an option of another protocol.
        changed("protocol", "hotstuff-2".into()),
    ];
    for wrong in wrong {
        let text = format!("{row}\n\n{wrong}\n{row}");
        std::fs::File::create(&path).unwrap().write_all(text.as_bytes()).unwrap();
        let refused = open_rows(&path, &settings()).unwrap_err();
        assert!(matches!(refused, ResultsError::NoRow { line: 3, .. }), "{refused}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }
    std::fs::write(&path, format!("{}\n", changed("seconds", 2.0.into()))).unwrap();
    let refused = open_rows(&path, &settings()).unwrap_err();
    assert!(matches!(refused, ResultsError::NoRow { line: 1, .. }), "{refused}");
    assert!(refused.to_string().contains("other settings"), "{refused}");
}

/// A program that prints and fails, in place of replicas.
#[test]
fn a_combination_that_fails_says_why_and_leaves_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = Matrix {
        program: "ls".into(),
        folder: folder.path().to_owned(),
        durability: Durability::Os,
        measured: std::time::Duration::from_secs(1),
    };
    let row = matrix.measure(Combination::default());
    let failure = row.failure.unwrap();
    assert!(failure.starts_with("replica-0 exited with code "), "{failure}");
    assert!(failure.ends_with("; see replica-0/replica.log"), "{failure}");
    assert_eq!((row.all, row.killed, row.one_dead), (None, None, None));
    let kept = row.kept.unwrap();
    assert!(kept.starts_with(folder.path()));
    assert!(std::fs::metadata(kept.join("replica-0/replica.log")).unwrap().len() > 0);
}
