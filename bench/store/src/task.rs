//! What is done in a process of its own: one engine is opened, one thing measured.

use crate::engines::{self, Engine, Failure, Put, Setup};
use crate::process::{Memory, Moment, disk_bytes, round_trip_ns};
use crate::rows::{Cell, Figures, Row, Step};
use crate::workload::{Chooser, MIXES, Mix, Random, VALUE_BYTES, key, owner, stamp, value};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Items loaded with one commit.
const LOAD_BATCH: u64 = 1000;
/// Items whose values are compared in whole after each step.
const SAMPLE: u64 = 20_000;
/// Of the victim's commits, so many of the last are looked for.
const LOOKED_FOR: u64 = 100_000;
const VICTIM_SEED: u64 = 99;
/// Stamps of the victim begin here; those of workloads are below.
const BASE: u64 = 1 << 62;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Task {
    pub engine: String,
    /// Of this engine: its data, and what is noted beside it.
    pub home: PathBuf,
    pub setup: Setup,
    pub items: u64,
    pub batch: usize,
    pub seconds: f64,
    /// How often this engine has met the workload before: each time other items are drawn, the same
    /// for all engines. Items that were written one behind the other and are drawn so again lie
    /// side by side in some engines, and not in others.
    pub turn: usize,
    pub work: Work,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Work {
    /// Loads what is missing.
    Load,
    Measure(Cell),
    /// Writes until killed.
    Victim,
    /// Opens what the victim left.
    Survivor,
}

impl Task {
    /// Runs it in a process of its own; `take` is given each row as it comes.
    ///
    /// # Errors
    /// Those of `take`; if the process failed, which told why on standard error.
    pub fn run(&self, take: &mut dyn FnMut(Row) -> Result<(), Failure>) -> Result<(), Failure> {
        let mut child = self.start()?;
        let mut taken = Ok(());
        if let Some(output) = child.stdout.take() {
            for line in BufReader::new(output).lines() {
                taken =
                    line.map_err(Failure::from).and_then(|line| take(serde_json::from_str(&line)?));
                if taken.is_err() {
                    child.kill()?;
                    break;
                }
            }
        }
        let status = child.wait()?;
        taken?;
        if status.success() { Ok(()) } else { Err(format!("{status}").into()) }
    }

    /// Starts it.
    pub fn start(&self) -> Result<Child, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("task").arg(serde_json::to_string(self)?);
        Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?)
    }

    /// Does it, in this process.
    pub fn perform(&self) -> Result<(), Failure> {
        let begun = Moment::now();
        let engine = engines::open(&self.engine, &self.data(), self.setup)?;
        match self.work {
            Work::Load => self.load(&*engine),
            Work::Measure(cell) => self.measure(&*engine, cell),
            Work::Victim => self.be_killed(&*engine),
            Work::Survivor => self.survive(&*engine, &begun),
        }
    }

    fn data(&self) -> PathBuf {
        self.home.join("data")
    }

    fn acknowledged(&self) -> PathBuf {
        self.home.join("acknowledged")
    }

    fn emit(&self, engine: &dyn Engine, step: Step, figures: Figures) -> Result<(), Failure> {
        let figures = Figures {
            memory: Memory::now(),
            disk_bytes: disk_bytes(&self.data())?,
            tree_bytes: engine.tree_bytes(),
            ..figures
        };
        let row = Row { engine: self.engine.clone(), step, figures };
        println!("{}", serde_json::to_string(&row)?);
        Ok(())
    }

    fn load(&self, engine: &dyn Engine) -> Result<(), Failure> {
        let mut next = self.loaded(engine)?;
        let part = (self.items / 100).max(LOAD_BATCH);
        let mut puts: Vec<Put> = Vec::new();
        while next < self.items {
            let begun = Moment::now();
            let from = next;
            let to = (next + part).min(self.items);
            while next < to {
                let until = (next + LOAD_BATCH).min(to);
                puts.clear();
                puts.extend((next..until).map(|number| (key(number), value(number, 0))));
                engine.write(&puts)?;
                next = until;
            }
            let operations = next - from;
            let figures = Figures {
                items: next,
                operations,
                changes: operations,
                passed: begun.passed(),
                ..Figures::default()
            };
            self.emit(engine, Step::Sample, figures)?;
        }
        let begun = Moment::now();
        engine.settle()?;
        let passed = begun.passed();
        self.look_at_some(engine)?;
        let figures = Figures {
            items: self.items,
            settle_seconds: passed.seconds,
            passed,
            ..Figures::default()
        };
        self.emit(engine, Step::Load, figures)
    }

    /// How many items are there: the first so many, as they come in order and commits are kept in
    /// order.
    fn loaded(&self, engine: &dyn Engine) -> Result<u64, Failure> {
        let mut found = [0; VALUE_BYTES];
        let (mut there, mut missing) = (0, self.items.div_ceil(LOAD_BATCH) + 1);
        while there + 1 < missing {
            let middle = there + (missing - there) / 2;
            let last = (middle * LOAD_BATCH).min(self.items) - 1;
            if engine.read(&key(last), &mut found)? { there = middle } else { missing = middle }
        }
        Ok((there * LOAD_BATCH).min(self.items))
    }

    /// # Errors
    /// An item that is missing or not what was written, one that was never written.
    fn look_at_some(&self, engine: &dyn Engine) -> Result<(), Failure> {
        let mut random = Random(4711);
        let mut found = [0; VALUE_BYTES];
        for _ in 0..SAMPLE.min(self.items) {
            let number = random.next() % self.items;
            if !engine.read(&key(number), &mut found)? {
                return Err(format!("item {number} is missing").into());
            }
            if found != value(number, stamp(&found)) {
                return Err(format!("item {number} is not what was written").into());
            }
            let absent = self.items + random.next() % self.items;
            if engine.read(&key(absent), &mut found)? {
                return Err(format!("item {absent} is there and was never written").into());
            }
        }
        Ok(())
    }

    fn measure(&self, engine: &dyn Engine, cell: Cell) -> Result<(), Failure> {
        let mix = *MIXES.iter().find(|mix| mix.name == cell.mix).ok_or("no such workload")?;
        let chooser = Chooser::new(self.items, cell.spread);
        let reads = Mix { name: 'w', reads_percent: 100, modify: false };
        self.together(engine, (reads, cell.threads), &chooser, self.seconds / 2.0)?;
        let before = round_trip_ns();
        let begun = Moment::now();
        let counted = self.together(engine, (mix, cell.threads), &chooser, self.seconds)?;
        let mut passed = begun.passed();
        let round_trip_ns = before.zip(round_trip_ns()).map(|(a, b)| (a + b) / 2.0);
        let settling = Instant::now();
        engine.settle()?;
        let settle_seconds = settling.elapsed().as_secs_f64();
        passed.written_bytes = begun.passed().written_bytes;
        let at = |quantile| Some(counted.times.value_at_quantile(quantile) as f64 / 1e3);
        let figures = Figures {
            items: self.items,
            operations: counted.operations,
            changes: counted.changes,
            p50_us: at(0.5),
            p99_us: at(0.99),
            round_trip_ns,
            passed,
            settle_seconds,
            ..Figures::default()
        };
        self.look_at_some(engine)?;
        self.emit(engine, Step::Cell(cell), figures)
    }

    fn together(
        &self,
        engine: &dyn Engine,
        (mix, threads): (Mix, usize),
        chooser: &Chooser,
        seconds: f64,
    ) -> Result<Counted, Failure> {
        let stop = &AtomicBool::new(false);
        let outcomes: Vec<Result<Counted, Failure>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads as u64)
                .map(|index| {
                    let name = u64::from(u32::from(mix.name));
                    let parts = [name, chooser.spread as u64, threads as u64, self.turn as u64];
                    let random = Random::of(&[&parts[..], &[index]].concat());
                    scope.spawn(move || self.operate(engine, mix, chooser, random, stop))
                })
                .collect();
            let until = Instant::now() + Duration::from_secs_f64(seconds);
            while Instant::now() < until && workers.iter().all(|worker| !worker.is_finished()) {
                std::thread::sleep(Duration::from_millis(10));
            }
            stop.store(true, Ordering::Relaxed);
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a panic".into())))
                .collect()
        });
        let mut all = Counted::new()?;
        for counted in outcomes {
            let counted = counted?;
            all.times.add(&counted.times)?;
            all.operations += counted.operations;
            all.changes += counted.changes;
        }
        Ok(all)
    }

    fn operate(
        &self,
        engine: &dyn Engine,
        mix: Mix,
        chooser: &Chooser,
        mut random: Random,
        stop: &AtomicBool,
    ) -> Result<Counted, Failure> {
        let mut counted = Counted::new()?;
        let mut puts: Vec<Put> = Vec::new();
        let mut found = [0; VALUE_BYTES];
        let mut read = |number: u64| -> Result<u64, Failure> {
            if !engine.read(&key(number), &mut found)? || owner(&found) != number {
                return Err(format!("item {number} is missing or another's").into());
            }
            Ok(stamp(&found))
        };
        while !stop.load(Ordering::Relaxed) {
            let number = chooser.draw(&mut random);
            let begun = Instant::now();
            counted.operations += 1;
            if random.percent() < mix.reads_percent {
                read(number)?;
            } else if mix.modify && self.batch == 1 {
                counted.changes += 1;
                engine.modify(&key(number), &mut |now| *now = value(number, stamp(now) + 1))?;
            } else {
                counted.changes += 1;
                let stamp = if mix.modify { read(number)? + 1 } else { random.next() >> 3 };
                puts.push((key(number), value(number, stamp)));
                if puts.len() == self.batch {
                    engine.write(&puts)?;
                    puts.clear();
                }
            }
            counted.times.saturating_record(u64::try_from(begun.elapsed().as_nanos())?);
        }
        Ok(counted)
    }

    /// Puts items drawn at random, each with the number of its put for a stamp, and notes how many
    /// are committed.
    fn be_killed(&self, engine: &dyn Engine) -> Result<(), Failure> {
        let note = File::create(self.acknowledged())?;
        let mut random = Random(VICTIM_SEED);
        let mut puts: Vec<Put> = Vec::new();
        for put in 1u64.. {
            let number = random.next() % self.items;
            puts.push((key(number), value(number, BASE + put)));
            if puts.len() == self.batch {
                engine.write(&puts)?;
                puts.clear();
                note.write_all_at(&put.to_le_bytes(), 0)?;
            }
        }
        Ok(())
    }

    fn survive(&self, engine: &dyn Engine, begun: &Moment) -> Result<(), Failure> {
        let mut found = [0; VALUE_BYTES];
        let there = engine.read(&key(0), &mut found)?;
        let passed = begun.passed();
        if !there || owner(&found) != 0 {
            return Err("item 0 is gone".into());
        }
        let bytes = fs::read(self.acknowledged())?;
        let acknowledged = bytes.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let first = acknowledged.saturating_sub(LOOKED_FOR);
        let mut random = Random::after(VICTIM_SEED, first);
        let mut lost = 0;
        for put in first + 1..=acknowledged {
            let number = random.next() % self.items;
            let there = engine.read(&key(number), &mut found)?;
            if !there || found != value(number, stamp(&found)) {
                return Err(format!("item {number} is not what was written").into());
            }
            // A later put may have taken its place.
            if stamp(&found) < BASE + put {
                lost += 1;
            }
        }
        self.look_at_some(engine)?;
        let figures = Figures {
            items: self.items,
            operations: acknowledged - first,
            passed,
            lost: Some(lost),
            ..Figures::default()
        };
        self.emit(engine, Step::Recovery, figures)
    }
}

struct Counted {
    operations: u64,
    changes: u64,
    times: Histogram<u64>,
}

impl Counted {
    fn new() -> Result<Counted, Failure> {
        Ok(Counted {
            operations: 0,
            changes: 0,
            times: Histogram::new_with_bounds(1, 60_000_000_000, 2)?,
        })
    }
}
