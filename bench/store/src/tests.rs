//! That every engine does what it is asked, and that a run is gone on from where it was.

use crate::engines::{self, Durable, Failure, NAMES, Put, Setup};
use crate::process::disk_bytes;
use crate::rows::{Figures, Lines, Row, Settings, Step};
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
    let settings = Settings { items: 10, seconds: 1.0, durable: Durable::Os, batch: 1 };
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
