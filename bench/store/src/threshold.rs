//! The threshold of sluggish splitting against what it costs, at several fillings: what the default
//! was chosen by.

use crate::engines::{Durable, Failure, Setup};
use crate::matrix::remove;
use crate::progress::duration;
use crate::report::OURS;
use crate::rows::{Cell, Figures, Lines, Row, Step, write};
use crate::task::{Task, Work};
use crate::workload::Spread;
use quorate_plot::{Axis, Line, LinePoint, Lines as LinesPicture, number};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Clone, Debug)]
pub struct Plan {
    pub fillings: Vec<u64>,
    pub bucket_items: Vec<usize>,
    pub turns: u64,
    pub seconds: f64,
    pub folder: PathBuf,
    pub out: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Common {
    seconds: f64,
}

/// One store: processor time an operation, of one thread and with what the store does in the
/// background; sizes of keys and values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Measured {
    items: u64,
    bucket_items: usize,
    turn: u64,
    load_us: f64,
    a_us: f64,
    c_us: f64,
    tree_percent: f64,
    others_percent: f64,
}

type Value = fn(&Measured) -> f64;
/// What is drawn: file, title, unit.
const PICTURES: [(&str, &str, &str, Value); 4] = [
    ("threshold-load", "Loading in commits of 1,000", "processor time (µs/item)", |one| {
        one.load_us
    }),
    ("threshold-a", "YCSB A, uniform, 1 thread", "processor time (µs/operation)", |one| one.a_us),
    ("threshold-c", "YCSB C, uniform, 1 thread", "processor time (µs/operation)", |one| one.c_us),
    ("threshold-tree", "The tree after loading", "of keys and values (%)", |one| one.tree_percent),
];

/// Measures what is missing, then writes tables and pictures.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    let path = plan.out.join("threshold.jsonl");
    let mut lines: Lines<Measured> = Lines::open(&path, &Common { seconds: plan.seconds })?;
    let all = (0..plan.turns).flat_map(|turn| {
        let stores = plan
            .fillings
            .iter()
            .flat_map(|items| plan.bucket_items.iter().map(move |b| (*items, *b)));
        stores.map(move |(items, bucket_items)| Measured {
            items,
            bucket_items,
            turn,
            ..Measured::default()
        })
    });
    let same = |a: &Measured, b: &Measured| {
        (a.items, a.bucket_items, a.turn) == (b.items, b.bucket_items, b.turn)
    };
    let left: Vec<Measured> =
        all.filter(|one| !lines.rows.iter().any(|row| same(row, one))).collect();
    let (begun, steps) = (Instant::now(), left.len());
    // What a store takes: two workloads, and time by its items.
    let takes = |one: &Measured| 3.0 * plan.seconds + 1.0 + one.items as f64 / 150_000.0;
    let mut rest: f64 = left.iter().map(takes).sum();
    for (index, one) in left.into_iter().enumerate() {
        eprintln!(
            "[{}/{steps}] {} items, bucket_items {}; {} left",
            index + 1,
            one.items,
            one.bucket_items,
            duration(Duration::from_secs_f64(rest))
        );
        rest -= takes(&one);
        let measured = plan.measure(one)?;
        lines.append(measured)?;
    }
    plan.report(&lines.rows)?;
    crate::matrix::told(begun, &plan.out);
    Ok(())
}

impl Plan {
    fn measure(&self, mut one: Measured) -> Result<Measured, Failure> {
        let home = self.folder.join("threshold");
        remove(&home)?;
        std::fs::create_dir_all(&home)?;
        let cell = |mix| Work::Measure(Cell { mix, spread: Spread::Uniform, threads: 1 });
        let mut load = Figures::default();
        for work in [Work::Load, cell('C'), cell('A')] {
            let setup = Setup { durable: Durable::Os, bucket_items: Some(one.bucket_items) };
            let (engine, home, items) = (OURS.to_owned(), home.clone(), one.items);
            let (seconds, turn) = (self.seconds, one.turn as usize);
            let task = Task { engine, home, setup, items, batch: 1, seconds, turn, work };
            task.run(&mut |Row { step, figures, .. }| {
                one.others_percent = one.others_percent.max(figures.passed.others_percent);
                match step {
                    Step::Sample => {
                        load.operations += figures.operations;
                        load.passed.processor_seconds += figures.passed.processor_seconds;
                    }
                    Step::Load => one.tree_percent = figures.tree_percent().unwrap_or(0.0),
                    Step::Cell(cell) if cell.mix == 'A' => one.a_us = figures.processor_us(),
                    Step::Cell(_) => one.c_us = figures.processor_us(),
                    Step::Begin | Step::Recovery => {}
                }
                Ok(())
            })?;
        }
        one.load_us = load.processor_us();
        remove(&home)?;
        Ok(one)
    }

    fn report(&self, rows: &[Measured]) -> Result<(), Failure> {
        let mut csv =
            "items,bucket_items,turn,load_us,a_us,c_us,tree_percent,others_percent\n".to_owned();
        for one in rows {
            let _ = writeln!(
                csv,
                "{},{},{},{:.3},{:.3},{:.3},{:.2},{:.1}",
                one.items,
                one.bucket_items,
                one.turn,
                one.load_us,
                one.a_us,
                one.c_us,
                one.tree_percent,
                one.others_percent
            );
        }
        write(self.out.join("threshold.csv"), &csv)?;
        let mut table = "| items | bucket_items | load, µs | A, µs | C, µs | tree, % |\n|---|---|---|---|---|---|\n".to_owned();
        for items in &self.fillings {
            for bucket_items in &self.bucket_items {
                let _ = write!(table, "| {items} | {bucket_items} |");
                for (_, _, _, value) in PICTURES {
                    if let Some((mean, _)) = mean(rows, *items, *bucket_items, value) {
                        let _ = write!(table, " {mean:.2} |");
                    }
                }
                table.push('\n');
            }
        }
        println!("{table}");
        write(self.out.join("threshold.md"), &table)?;
        for (name, title, unit, value) in PICTURES {
            write(self.out.join(format!("{name}.svg")), &self.picture(rows, title, unit, value)?)?;
        }
        Ok(())
    }

    fn picture(
        &self,
        rows: &[Measured],
        title: &str,
        unit: &str,
        value: Value,
    ) -> Result<String, Failure> {
        let lines: Vec<Line> = self
            .fillings
            .iter()
            .map(|items| {
                let points = self.bucket_items.iter().filter_map(|bucket_items| {
                    let (y, range) = mean(rows, *items, *bucket_items, value)?;
                    Some(LinePoint {
                        x: *bucket_items as f64,
                        y,
                        x_range: None,
                        y_range: Some(range),
                    })
                });
                Line { label: format!("{} items", number(*items as f64)), points: points.collect() }
            })
            .collect();
        let high = rows.iter().map(value).fold(0.0, f64::max);
        let bounds = self.bucket_items.iter().map(|items| *items as f64);
        let (low, most) = bounds.fold((f64::MAX, 0.0), |(low, most), x| (x.min(low), x.max(most)));
        let picture = LinesPicture {
            title: title.into(),
            x: Axis::logarithmic("bucket_items, above which a bucket becomes a node", low, most),
            y: Axis::from_zero(unit, high, 6),
            lines,
            shaded: Vec::new(),
            shade: String::new(),
            marked: Vec::new(),
            mark: String::new(),
            dotted: true,
        };
        Ok(picture.draw()?)
    }
}

/// A value's mean over the turns, and from where to where they are.
fn mean(
    rows: &[Measured],
    items: u64,
    bucket_items: usize,
    value: Value,
) -> Option<(f64, (f64, f64))> {
    let of = rows.iter().filter(|row| row.items == items && row.bucket_items == bucket_items);
    let values: Vec<f64> = of.map(value).collect();
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().reduce(f64::max)?;
    Some((values.iter().sum::<f64>() / values.len() as f64, (least, most)))
}
