//! Every engine at every workload by turns, each in a process of its own, and going on where a run
//! was interrupted.

use crate::engines::{self, Failure, Setup};
use crate::process::{bring_to_memory, disk_bytes, free_bytes, machine_bytes};
use crate::progress::{Progress, duration};
use crate::report;
use crate::rows::{Cell, Figures, Lines, Row, Settings, Step};
use crate::task::{Task, Work};
use crate::workload::{KEY_BYTES, Spread, VALUE_BYTES};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Beside an engine's data: of which settings it is, once it is whole.
const LOADED: &str = "loaded";
/// The same, while it is not.
const LOADING: &str = "loading";
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
    /// Workloads in the order in which they are measured: reads first, so that they meet what
    /// loading left.
    fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for mix in ['C', 'B', 'F', 'A'].into_iter().filter(|mix| self.mixes.contains(*mix)) {
            for spread in &self.spreads {
                for threads in &self.threads {
                    cells.push(Cell { mix, spread: *spread, threads: *threads });
                }
            }
        }
        cells
    }

    /// What is left to do, in order: all engines load; then they take turns at each workload, so
    /// that what changes about the machine meets all of them; then each is killed. Who has anything
    /// left is loaded first, which is at once done if its data is there.
    pub fn left(&self, rows: &[Row]) -> Vec<(String, Step)> {
        let done = |engine: &str, step: Step| {
            rows.iter().filter(|row| row.engine == engine && row.step == step).count()
        };
        let mut left = Vec::new();
        for step in self.cells().into_iter().map(Step::Cell) {
            for turn in 0..self.settings.turns {
                let mut engines: Vec<&String> =
                    self.engines.iter().filter(|engine| done(engine, step) <= turn).collect();
                if turn % 2 == 1 {
                    engines.reverse();
                }
                left.extend(engines.into_iter().map(|engine| (engine.clone(), step)));
            }
        }
        let to_be_killed = self.engines.iter().filter(|one| done(one, Step::Recovery) == 0);
        left.extend(to_be_killed.map(|engine| (engine.clone(), Step::Recovery)));
        let loads: Vec<(String, Step)> = self
            .engines
            .iter()
            .filter(|one| done(one, Step::Load) == 0 || left.iter().any(|(other, _)| other == *one))
            .map(|engine| (engine.clone(), Step::Load))
            .collect();
        loads.into_iter().chain(left).collect()
    }
}

/// # Errors
/// A disk that is too small; engines that failed, after all others were measured.
pub fn run(plan: &Plan) -> Result<(), Failure> {
    fs::create_dir_all(&plan.folder)?;
    let lines: Lines<Row> = Lines::open(&plan.out.join("results.jsonl"), &plan.settings)?;
    let left = plan.left(&lines.rows);
    check_room(plan, &left)?;
    let mut bench = Bench { plan, lines, progress: Progress::new(&plan.settings), warms: None };
    bench.progress.begin_with(
        left.iter()
            .filter(|(engine, step)| *step != Step::Load || !bench.is_loaded(engine))
            .cloned()
            .collect(),
    );
    let mut failures: Vec<&String> = Vec::new();
    for (engine, step) in &left {
        if failures.contains(&engine) {
            continue;
        }
        // What another engine left to the page cache is not written out in this one's time.
        rustix::fs::sync();
        if *step == Step::Load && bench.is_loaded(engine) {
            continue;
        }
        if let Err(error) = bench.step(engine, *step) {
            eprintln!("{engine}: {error}");
            failures.push(engine);
            bench.progress.give_up(engine);
        }
    }
    bench.remove_what_is_done();
    report::write(&plan.settings, &plan.engines, &bench.lines.rows, &plan.out)?;
    if failures.is_empty() {
        return Ok(());
    }
    let failed: Vec<&str> = failures.into_iter().map(String::as_str).collect();
    Err(format!("{} failed; what was measured is kept, run again to go on", failed.join(", "))
        .into())
}

/// # Errors
/// If the disk has not the room that the engines will take: all have their data at once.
fn check_room(plan: &Plan, left: &[(String, Step)]) -> Result<(), Failure> {
    let data = (plan.settings.items * (KEY_BYTES + VALUE_BYTES) as u64) as f64;
    let (mut need, mut there, mut engines) = (SPARE_BYTES, 0, Vec::new());
    for (engine, _) in left.iter().filter(|(_, step)| *step == Step::Load) {
        need += (data * engines::disk_factor(engine)) as u64;
        let home = plan.folder.join(engine);
        there += if home.exists() { disk_bytes(&home)? } else { 0 };
        engines.push(engine.as_str());
    }
    let free = free_bytes(&plan.folder)? + there;
    if engines.is_empty() || free >= need {
        return Ok(());
    }
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    Err(format!(
        "{} with {} items need up to {:.1} GiB of disk; {} has {:.1} GiB: take fewer --items, fewer --engines (one after the other, then all for the tables), or another --folder",
        engines.join(", "),
        plan.settings.items,
        gib(need),
        plan.folder.display(),
        gib(free)
    )
    .into())
}

/// A run under way.
struct Bench<'a> {
    plan: &'a Plan,
    lines: Lines<Row>,
    progress: Progress,
    /// Whether the files of all engines together fit into the page cache: decided once, when all
    /// are loaded.
    warms: Option<bool>,
}

impl Bench<'_> {
    fn remove_what_is_done(&self) {
        let left = self.plan.left(&self.lines.rows);
        let done = |engine: &&String| left.iter().all(|(other, _)| other != *engine);
        for engine in self.plan.engines.iter().filter(done).filter(|_| !self.plan.keep) {
            remove(&self.plan.folder.join(engine)).unwrap_or_else(|error| eprintln!("{error}"));
        }
    }

    fn step(&mut self, engine: &str, step: Step) -> Result<(), Failure> {
        let begun = Instant::now();
        self.progress.begin(engine, &step);
        match step {
            Step::Load => self.load(engine)?,
            Step::Cell(cell) => self.measure(engine, cell)?,
            Step::Recovery => self.recover(engine)?,
            Step::Begin | Step::Sample => {}
        }
        self.progress.end(engine, &step, begun.elapsed());
        Ok(())
    }

    /// A turn that was interrupted is begun again, with the draws it had.
    fn measure(&mut self, engine: &str, cell: Cell) -> Result<(), Failure> {
        let warm = self.warm(engine)?;
        let turn = self.count(engine, Step::Cell(cell));
        self.plan.task(engine, Work::Measure(cell), turn).run(&mut |mut row| {
            row.figures.warm = Some(warm);
            self.lines.append(row)
        })
    }

    /// Brings an engine's files into the page cache, if those of all fit; whether they do.
    fn warm(&mut self, engine: &str) -> Result<bool, Failure> {
        let folder = &self.plan.folder;
        let fits = match self.warms {
            Some(fits) => fits,
            None => disk_bytes(folder)? <= machine_bytes() / 4 * 3,
        };
        self.warms = Some(fits);
        if fits {
            bring_to_memory(&folder.join(engine))?;
        }
        Ok(fits)
    }

    fn count(&self, engine: &str, step: Step) -> usize {
        self.lines.rows.iter().filter(|row| row.engine == engine && row.step == step).count()
    }

    /// Whether the load was measured and its data is there.
    fn is_loaded(&self, engine: &str) -> bool {
        self.count(engine, Step::Load) > 0 && self.is_of_this_run(engine, LOADED)
    }

    /// Whether what stands beside an engine's data says that it is as in this run.
    fn is_of_this_run(&self, engine: &str, name: &str) -> bool {
        let text = fs::read_to_string(self.plan.folder.join(engine).join(name));
        let there = text.ok().and_then(|text| serde_json::from_str::<Settings>(&text).ok());
        let settings = &self.plan.settings;
        there.is_some_and(|of| (of.items, of.durable) == (settings.items, settings.durable))
    }

    fn load(&mut self, engine: &str) -> Result<(), Failure> {
        let home = self.plan.folder.join(engine);
        let counts = self.count(engine, Step::Load) == 0;
        // A load that was interrupted is gone on with.
        if self.count(engine, Step::Begin) == 0 || !self.is_of_this_run(engine, LOADING) {
            remove(&home)?;
        }
        if !home.exists() && counts {
            let figures = Figures::default();
            self.lines.append(Row { engine: engine.into(), step: Step::Begin, figures })?;
        }
        fs::create_dir_all(&home)?;
        fs::write(home.join(LOADING), serde_json::to_string(&self.plan.settings)?)?;
        let (lines, progress) = (&mut self.lines, &mut self.progress);
        self.plan.task(engine, Work::Load, 0).run(&mut |mut row| {
            if row.step == Step::Load {
                row.figures = whole(engine, &lines.rows, row.figures);
            } else {
                progress.loaded(engine, row.figures.items, &row.figures.passed);
            }
            if counts { lines.append(row) } else { Ok(()) }
        })?;
        Ok(fs::rename(home.join(LOADING), home.join(LOADED))?)
    }

    fn recover(&mut self, engine: &str) -> Result<(), Failure> {
        self.warm(engine)?;
        let mut victim = self.plan.task(engine, Work::Victim, 0).start()?;
        let until = Instant::now() + Duration::from_secs_f64(self.plan.settings.seconds.max(3.0));
        while Instant::now() < until {
            if let Some(status) = victim.try_wait()? {
                return Err(format!("was to be killed and ended of itself: {status}").into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        victim.kill()?;
        victim.wait()?;
        self.plan.task(engine, Work::Survivor, 0).run(&mut |row| self.lines.append(row))
    }
}

impl Plan {
    fn task(&self, engine: &str, work: Work, turn: usize) -> Task {
        Task {
            engine: engine.into(),
            home: self.folder.join(engine),
            setup: Setup { durable: self.settings.durable, bucket_items: None },
            items: self.settings.items,
            batch: self.settings.batch,
            seconds: self.settings.seconds,
            turn,
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
