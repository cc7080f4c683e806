//! That every engine does what it is asked, and that a run is gone on from where it was.

use crate::engines::{self, Durable, Failure, NAMES, Put, Setup};
use crate::matrix::Plan;
use crate::process::disk_bytes;
use crate::report::Results;
use crate::rows::{Cell, Figures, Lines, Row, Settings, Step};
use crate::workload::{Chooser, Random, Spread, VALUE_BYTES, key, owner, stamp, value};
use std::fs;
use std::path::PathBuf;

/// A folder that goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder =
            std::env::temp_dir().join(format!("bench-store-{}-{name}", std::process::id()));
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn every_engine_keeps_what_it_is_given() -> Result<(), Failure> {
    for name in NAMES {
        for durable in [Durable::Os, Durable::Sync] {
            let folder = Folder::new(&format!("{name}-{durable:?}"));
            let setup = Setup { durable, bucket_items: None };
            let engine = engines::open(name, &folder.0, setup)?;
            let puts: Vec<Put> = (0..500).map(|number| (key(number), value(number, 0))).collect();
            engine.write(&puts)?;
            engine.write(&[(key(7), value(7, 70))])?;
            engine.modify(&key(8), &mut |now| *now = value(owner(now), stamp(now) + 1))?;
            engine.modify(&key(1000), &mut |now| *now = value(1000, 0))?;
            engine.settle()?;
            drop(engine);
            let engine = engines::open(name, &folder.0, setup)?;
            let mut found = [0; VALUE_BYTES];
            for number in 0..500 {
                assert!(engine.read(&key(number), &mut found)?, "{name}: item {number} is there");
                let expected = match number {
                    7 => value(7, 70),
                    8 => value(8, 1),
                    _ => value(number, 0),
                };
                assert_eq!(found, expected, "{name}: item {number}");
            }
            assert!(
                !engine.read(&key(1000), &mut found)?,
                "{name}: what is not there is not changed"
            );
            assert!(disk_bytes(&folder.0)? > 500 * VALUE_BYTES as u64, "{name}");
        }
    }
    Ok(())
}

#[test]
fn random_numbers_can_be_skipped() {
    let mut random = Random(5);
    let numbers: Vec<u64> = (0..10).map(|_| random.next()).collect();
    assert_eq!(Random::after(5, 9).next(), numbers[9]);
}

#[test]
fn zipfian_draws_are_items_and_few_of_them_are_most() {
    let items = 10_000;
    for (spread, least, most) in [(Spread::Uniform, 0, 20), (Spread::Zipfian, 500, 2000)] {
        let chooser = Chooser::new(items, spread);
        let mut random = Random(1);
        let mut counts = vec![0; items as usize];
        for _ in 0..10_000 {
            counts[chooser.draw(&mut random) as usize] += 1;
        }
        let top = counts.into_iter().max().unwrap_or(0);
        assert!((least..most).contains(&top), "{spread:?}: {top} times the same");
    }
}

#[test]
fn a_line_that_was_cut_off_is_measured_again() -> Result<(), Failure> {
    let folder = Folder::new("lines");
    let path = folder.0.join("results.jsonl");
    let settings = Settings { items: 10, seconds: 1.0, turns: 1, durable: Durable::Os, batch: 1 };
    let row = |operations| Row {
        engine: "quorate".into(),
        step: Step::Sample,
        figures: Figures { operations, ..Figures::default() },
    };
    let mut lines: Lines<Row> = Lines::open(&path, &settings)?;
    lines.append(row(1))?;
    lines.append(row(2))?;
    drop(lines);
    let text = fs::read_to_string(&path)?;
    fs::write(&path, &text[..text.len() - 5])?;
    let mut lines: Lines<Row> = Lines::open(&path, &settings)?;
    assert_eq!(lines.rows, [row(1)]);
    lines.append(row(3))?;
    drop(lines);
    assert_eq!(Lines::<Row>::open(&path, &settings)?.rows, [row(1), row(3)]);
    let other = Settings { items: 11, ..settings };
    assert!(Lines::<Row>::open(&path, &other).is_err(), "rows of other settings are not mixed");
    Ok(())
}

/// Two engines, one workload, three turns.
fn plan() -> Plan {
    Plan {
        engines: vec!["quorate".into(), "lmdb".into()],
        settings: Settings { items: 10, seconds: 1.0, turns: 3, durable: Durable::Os, batch: 1 },
        threads: vec![1],
        spreads: vec![Spread::Uniform],
        mixes: "A".into(),
        folder: PathBuf::new(),
        out: PathBuf::new(),
        keep: false,
    }
}

const CELL: Step = Step::Cell(Cell { mix: 'A', spread: Spread::Uniform, threads: 1 });

fn row(engine: &str, step: Step, operations: u64) -> Row {
    let mut figures = Figures { operations, ..Figures::default() };
    figures.passed.seconds = 1.0;
    Row { engine: engine.into(), step, figures }
}

#[test]
fn engines_take_turns_and_a_run_is_gone_on_with_where_it_was() {
    let (ours, lmdb) = ("quorate", "lmdb");
    let told = |rows: &[Row]| plan().left(rows);
    let named = |steps: &[(&str, Step)]| -> Vec<(String, Step)> {
        steps.iter().map(|(engine, step)| ((*engine).to_owned(), *step)).collect()
    };
    let all = named(&[
        (ours, Step::Load),
        (lmdb, Step::Load),
        (ours, CELL),
        (lmdb, CELL),
        (lmdb, CELL),
        (ours, CELL),
        (ours, CELL),
        (lmdb, CELL),
        (ours, Step::Recovery),
        (lmdb, Step::Recovery),
    ]);
    assert_eq!(told(&[]), all);
    let mut rows = vec![row(ours, Step::Load, 0), row(lmdb, Step::Load, 0)];
    rows.extend([row(ours, CELL, 1), row(lmdb, CELL, 1), row(lmdb, CELL, 1)]);
    rows.push(row(lmdb, Step::Recovery, 1));
    // Loads come again, as who has anything left needs its data.
    let rest = named(&[
        (ours, Step::Load),
        (lmdb, Step::Load),
        (ours, CELL),
        (ours, CELL),
        (lmdb, CELL),
        (ours, Step::Recovery),
    ]);
    assert_eq!(told(&rows), rest);
    rows.extend([row(ours, CELL, 1), row(ours, CELL, 1), row(lmdb, CELL, 1)]);
    rows.push(row(ours, Step::Recovery, 1));
    assert_eq!(told(&rows), []);
}

#[test]
fn of_several_turns_the_one_in_the_middle_is_shown() {
    let rows: Vec<Row> = [5, 9, 1, 7].map(|operations| row("quorate", CELL, operations)).into();
    let settings = plan().settings;
    let middle = |rows: &[Row]| {
        let results = Results { settings: &settings, engines: vec!["quorate"], rows };
        results.of("quorate", CELL).map(|figures| figures.operations)
    };
    assert_eq!(middle(&[]), None);
    assert_eq!(middle(&rows[..1]), Some(5));
    assert_eq!(middle(&rows[..2]), Some(5), "of two, the slower");
    assert_eq!(middle(&rows[..3]), Some(5));
    assert_eq!(middle(&rows), Some(5));
}
