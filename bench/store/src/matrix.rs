//! Every engine at every workload, each in a process of its own, one after the other, and going on where a run was interrupted.

use crate::engines::{self, Failure, Setup};
use crate::process::{disk_bytes, free_bytes};
use crate::progress::{Progress, duration};
use crate::report;
use crate::rows::{Cell, Figures, Lines, Row, Settings, Step};
use crate::task::{Task, Work};
use crate::workload::{KEY_BYTES, Spread, VALUE_BYTES};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Kept free on the disk, in bytes.
const SPARE_BYTES: u64 = 2 << 30;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Plan {
    pub engines: Vec<String>,
    pub settings: Settings,
    pub threads: Vec<usize>,
    pub spreads: Vec<Spread>,
    pub mixes: String,
    /// Where the engines have their data.
    pub folder: PathBuf,
    /// Where rows, tables and pictures go.
    pub out: PathBuf,
    /// Whether data stays when an engine is done.
    pub keep: bool,
}

impl Plan {
    /// In the order in which they are measured: reads first, so that they meet what loading left.
    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Load];
        for mix in ['C', 'B', 'F', 'A'].into_iter().filter(|mix| self.mixes.contains(*mix)) {
            for spread in &self.spreads {
                for threads in &self.threads {
                    steps.push(Step::Cell(Cell { mix, spread: *spread, threads: *threads }));
                }
            }
        }
        steps.push(Step::Recovery);
        steps
    }
}

/// # Errors
/// A disk that is too small; engines that failed, after all others were measured.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    fs::create_dir_all(&plan.folder)?;
    let mut lines: Lines<Row> = Lines::open(&plan.out.join("results.jsonl"), &plan.settings)?;
    let left: Vec<(String, Vec<Step>)> = plan
        .engines
        .iter()
        .map(|engine| (engine.clone(), left(plan, engine, &lines.rows)))
        .filter(|(_, steps)| !steps.is_empty())
        .collect();
    for (engine, _) in &left {
        check_room(plan, engine)?;
    }
    let mut progress = Progress::new(&plan.settings, &left);
    let mut failures = Vec::new();
    for (engine, steps) in &left {
        let mut bench = Bench { plan, engine, lines: &mut lines, progress: &mut progress };
        if let Err(error) = bench.run(steps) {
            eprintln!("{engine}: {error}");
            failures.push(engine.clone());
            progress.give_up(engine);
        }
    }
    report::write(&plan.settings, &plan.engines, &lines.rows, &plan.out)?;
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!(
            "{} failed; what was measured is kept, run again to go on",
            failures.join(", ")
        )
        .into())
    }
}

fn left(plan: &Plan, engine: &str, rows: &[Row]) -> Vec<Step> {
    let done = |step: &Step| rows.iter().any(|row| row.engine == engine && row.step == *step);
    plan.steps().into_iter().filter(|step| !done(step)).collect()
}

/// # Errors
/// If the disk has not the room that the engine will take.
fn check_room(plan: &Plan, engine: &str) -> Result<(), Failure> {
    let data = plan.settings.items * (KEY_BYTES + VALUE_BYTES) as u64;
    let need = (data as f64 * engines::disk_factor(engine)) as u64 + SPARE_BYTES;
    let home = plan.folder.join(engine);
    let there = if home.exists() { disk_bytes(&home)? } else { 0 };
    let free = free_bytes(&plan.folder)? + there;
    if free >= need {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Err(format!(
        "{engine} with {} items needs up to {:.1} GiB of disk; {} has {:.1} GiB: take fewer --items, or another --folder",
        plan.settings.items,
        gib(need),
        plan.folder.display(),
        gib(free)
    )
    .into())
}

/// One engine.
struct Bench<'a> {
    plan: &'a Plan,
    engine: &'a str,
    lines: &'a mut Lines<Row>,
    progress: &'a mut Progress,
}

impl Bench<'_> {
    fn run(&mut self, steps: &[Step]) -> Result<(), Failure> {
        self.load(steps.contains(&Step::Load))?;
        for step in steps.iter().filter(|step| **step != Step::Load) {
            let begun = Instant::now();
            self.progress.begin(self.engine, step);
            match step {
                Step::Cell(cell) => {
                    let lines = &mut *self.lines;
                    self.plan
                        .task(self.engine, Work::Measure(*cell))
                        .run(&mut |row| lines.append(row))?;
                }
                Step::Recovery => self.recover()?,
                Step::Begin | Step::Sample | Step::Load => continue,
            }
            self.progress.end(self.engine, step, begun.elapsed());
        }
        if !self.plan.keep {
            fs::remove_dir_all(self.home())?;
        }
        Ok(())
    }

    fn home(&self) -> PathBuf {
        self.plan.folder.join(self.engine)
    }

    /// Loads, if that was not done or the data is gone.
    fn load(&mut self, counts: bool) -> Result<(), Failure> {
        let home = self.home();
        let loaded = home.join("loaded");
        let settings = serde_json::to_string(&self.plan.settings)?;
        if !counts && fs::read_to_string(&loaded).is_ok_and(|text| text == settings) {
            return Ok(());
        }
        let began = |row: &&Row| row.engine == self.engine && row.step == Step::Begin;
        if loaded.exists() || !self.lines.rows.iter().any(|row| began(&row)) {
            remove(&home)?;
        }
        if !home.exists() && counts {
            let figures = Figures::default();
            self.lines.append(Row { engine: self.engine.into(), step: Step::Begin, figures })?;
        }
        fs::create_dir_all(&home)?;
        let begun = Instant::now();
        self.progress.begin(self.engine, &Step::Load);
        let (engine, lines, progress) = (self.engine, &mut *self.lines, &mut *self.progress);
        self.plan.task(engine, Work::Load).run(&mut |mut row| {
            if row.step == Step::Load {
                row.figures = whole(engine, &lines.rows, row.figures);
            } else {
                progress.loaded(engine, row.figures.items, &row.figures.passed);
            }
            if counts { lines.append(row) } else { Ok(()) }
        })?;
        fs::write(&loaded, settings)?;
        self.progress.end(self.engine, &Step::Load, begun.elapsed());
        Ok(())
    }

    fn recover(&mut self) -> Result<(), Failure> {
        let mut victim = self.plan.task(self.engine, Work::Victim).start()?;
        let until = Instant::now() + Duration::from_secs_f64(self.plan.settings.seconds.max(3.0));
        while Instant::now() < until {
            if let Some(status) = victim.try_wait()? {
                return Err(format!("was to be killed and ended of itself: {status}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        victim.kill()?;
        victim.wait()?;
        let lines = &mut *self.lines;
        self.plan.task(self.engine, Work::Survivor).run(&mut |row| lines.append(row))
    }
}

impl Plan {
    fn task(&self, engine: &str, work: Work) -> Task {
        Task {
            engine: engine.into(),
            home: self.folder.join(engine),
            setup: Setup { durable: self.settings.durable, bucket_items: None },
            items: self.settings.items,
            batch: self.settings.batch,
            seconds: self.settings.seconds,
            work,
        }
    }
}

/// The figures of a whole load: its parts since it began, and how it settled.
fn whole(engine: &str, rows: &[Row], settled: Figures) -> Figures {
    let mut whole = settled;
    whole.passed.seconds = 0.0;
    whole.passed.others_percent = 0.0;
    let parts = rows.iter().rev().filter(|row| row.engine == engine);
    for part in parts.take_while(|row| row.step == Step::Sample) {
        let figures = &part.figures;
        whole.operations += figures.operations;
        whole.changes += figures.changes;
        whole.passed.seconds += figures.passed.seconds;
        whole.passed.processor_seconds += figures.passed.processor_seconds;
        whole.passed.written_bytes += figures.passed.written_bytes;
        whole.passed.others_percent += figures.passed.others_percent * figures.passed.seconds;
        whole.memory.peak_bytes = whole.memory.peak_bytes.max(figures.memory.peak_bytes);
    }
    whole.passed.others_percent /= whole.passed.seconds.max(f64::MIN_POSITIVE);
    whole
}

/// Removes a folder if it is there.
pub fn remove(folder: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()).into())
        }
        _ => Ok(()),
    }
}

/// What a run took, for the last line.
pub fn told(begun: Instant, out: &Path) {
    eprintln!("{} in all; tables and pictures are in {}", duration(begun.elapsed()), out.display());
}
