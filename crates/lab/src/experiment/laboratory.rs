//! Runs a study, and goes on with one that was cut short.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use super::context::{self, Context};
use super::plan::Plan;
use super::results::{Lines, ResultsError, runs_csv, series_csv};
use super::row::{Figures, Row, Settings};
use super::trial::{Trial, TrialError};

/// The files of a folder of results.
pub const RUNS: &str = "runs.jsonl";
/// The study's file, as it was.
pub const STUDY: &str = "study.toml";

/// How long it may take from a signal to the flag that says so.
const STOP_WITHIN: Duration = Duration::from_millis(200);

/// Where and with what a study is run.
#[derive(Clone, Debug)]
pub struct Laboratory {
    /// The `quorate` program.
    pub program: PathBuf,
    /// Where results go, and homes while they are needed.
    pub folder: PathBuf,
    /// Whether runs that failed are tried again.
    pub retry: bool,
}

/// Where the runs of a study are, if not on this machine.
pub trait Site {
    /// Runs these settings once, on a fresh cluster. Random arrivals are drawn from `seed`. Files
    /// may go to `folder`, which is not there yet. Nothing of the run is left at the site.
    ///
    /// # Errors
    /// Why there are no figures.
    fn measure(&self, settings: &Settings, seed: u64, folder: &Path) -> Result<Figures, String>;
}

/// How far a study is.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Runs there are.
    pub runs: usize,
    /// Runs that are done, those of earlier times among them.
    pub done: usize,
    /// Those that failed.
    pub failed: usize,
    /// What was done since it was started.
    pub fresh: usize,
    /// For how long it has been running.
    pub elapsed: Duration,
    /// How long a run takes at least: what it measures, and waits for before.
    pub least: Duration,
}

impl Progress {
    /// How much longer it takes, by the runs so far.
    #[must_use]
    pub fn left(&self) -> Duration {
        let runs = u32::try_from(self.runs - self.done).unwrap_or(u32::MAX);
        match u32::try_from(self.fresh).ok().filter(|fresh| *fresh > 0) {
            Some(fresh) => self.elapsed * runs / fresh,
            None => self.least * runs,
        }
    }
}

/// Why a study could not go on.
#[derive(Debug, thiserror::Error)]
pub enum LaboratoryError {
    /// Its results.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The system.
    #[error("{}: {source}", path.display())]
    Io {
        /// What was written or removed.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A study that was begun with another program.
    #[error(
        "{}: {count} of the study's runs were measured with another program ({theirs}) than this one ({ours})",
        path.display()
    )]
    OtherProgram {
        /// Where its rows are.
        path: PathBuf,
        /// How many there are.
        count: usize,
        /// With what the first of them was measured.
        theirs: String,
        /// With what the rest would be.
        ours: String,
    },
}

impl LaboratoryError {
    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Results(_) | Self::Io { .. } => "see to the disk, then run it again to go on",
            Self::OtherProgram { .. } => {
                "one study is of one program: build that commit again to go on, or begin anew in another \
                 folder with --out"
            }
        }
    }
}

/// What is there in the end.
#[derive(Debug)]
pub struct Outcome {
    /// The rows that the plan asks for, in the order of the plan.
    pub rows: Vec<Row>,
    /// Whether every run of the plan is among them.
    pub complete: bool,
}

impl Laboratory {
    /// Runs what of `plan` is not in the folder yet, and tells after each run and before the first.
    /// `stop` ends it between two runs or in the middle of one, which then is not counted.
    ///
    /// # Errors
    /// [`LaboratoryError`]: what was measured before stands. Runs of two programs are never put
    /// together: a study that another program began is not gone on with.
    pub fn run(
        &self,
        plan: &Plan,
        stop: &AtomicBool,
        tell: impl FnMut(&Progress, Option<&Row>),
    ) -> Result<Outcome, LaboratoryError> {
        self.run_at(None, plan, stop, tell)
    }

    /// The same at another site. `None`: on this machine.
    ///
    /// # Errors
    /// The same.
    pub fn run_at(
        &self,
        site: Option<&dyn Site>,
        plan: &Plan,
        stop: &AtomicBool,
        mut tell: impl FnMut(&Progress, Option<&Row>),
    ) -> Result<Outcome, LaboratoryError> {
        make_folder(&self.folder)?;
        let (mut file, mut rows) = Lines::open::<Row>(&self.folder.join(RUNS))?;
        let left = self.left(plan, &rows);
        let context = Context::of(&self.program);
        if !left.is_empty() {
            self.refuse_another_program(&context, &of_plan(plan, &rows))?;
        }
        let failed = |rows: &[Row]| rows.iter().filter(|row| row.failure.is_some()).count();
        let first = plan.settings.first();
        let least = first.map_or(Duration::ZERO, |first| {
            Duration::from_secs_f64(first.seconds + first.warm_up + 2.0)
        });
        let began = Instant::now();
        let mut progress = Progress {
            runs: plan.runs.len(),
            done: plan.runs.len() - left.len(),
            failed: failed(&of_plan(plan, &rows)),
            fresh: 0,
            elapsed: Duration::ZERO,
            least,
        };
        tell(&progress, None);
        for (index, repeat) in left {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let Some(row) = self.one(site, plan, (index, repeat), &context, stop)? else { break };
            file.append(&row)?;
            progress.done += 1;
            progress.fresh += 1;
            progress.failed += usize::from(row.failure.is_some());
            progress.elapsed = began.elapsed();
            tell(&progress, Some(&row));
            rows.push(row);
        }
        let rows = of_plan(plan, &rows);
        write_tables(&self.folder, &rows)
            .map_err(|(path, source)| LaboratoryError::Io { path, source })?;
        let complete = rows.len() == plan.runs.len();
        Ok(Outcome { rows, complete })
    }

    fn refuse_another_program(&self, ours: &Context, rows: &[Row]) -> Result<(), LaboratoryError> {
        let others = || rows.iter().filter(|row| !row.context.has_program_of(ours));
        let Some(first) = others().next() else { return Ok(()) };
        Err(LaboratoryError::OtherProgram {
            path: self.folder.join(RUNS),
            count: others().count(),
            theirs: first.context.program_in_words(),
            ours: ours.program_in_words(),
        })
    }

    /// The runs that are not in `rows`, in their order.
    fn left(&self, plan: &Plan, rows: &[Row]) -> Vec<(usize, u32)> {
        let done = |(index, repeat): &(usize, u32)| {
            rows.iter().any(|row| {
                row.repeat == *repeat
                    && Some(&row.settings) == plan.settings.get(*index)
                    && !(self.retry && row.failure.is_some())
            })
        };
        plan.runs.iter().filter(|run| !done(run)).copied().collect()
    }

    /// `None`: it was told to stop.
    fn one(
        &self,
        site: Option<&dyn Site>,
        plan: &Plan,
        (index, repeat): (usize, u32),
        context: &Context,
        stop: &AtomicBool,
    ) -> Result<Option<Row>, LaboratoryError> {
        let folder = self.folder.join("homes").join(format!("{index}-{repeat}"));
        remove_folder(&folder)?;
        let Some(settings) = plan.settings.get(index) else { return Ok(None) };
        let seed = plan.measuring.seed.wrapping_add((u64::from(repeat) << 32) | index as u64);
        let mut row = Row {
            settings: settings.clone(),
            repeat,
            seed,
            began: seconds_now(),
            context: context.clone(),
            load_before: context::load_average(),
            foreign_cores: None,
            stolen_cores: None,
            signature_us: None,
            figures: None,
            failure: None,
            kept: None,
        };
        let outcome = match site {
            Some(site) => site
                .measure(settings, seed, &folder)
                .map(|figures| (figures, None, None))
                .map_err(TrialError::Elsewhere),
            None => {
                let trial = Trial {
                    program: &self.program,
                    folder: folder.clone(),
                    settings,
                    seed,
                    numbers: &plan.measuring.numbers,
                    stop,
                };
                let before = context::signature_us();
                let measured = trial.run();
                let mean = (before + context::signature_us()) / 2.0;
                row.signature_us = Some((mean * 100.0).round() / 100.0);
                measured.map(|it| (it.figures, it.foreign_cores, it.stolen_cores))
            }
        };
        if outcome.is_err() {
            // From a terminal the processes are told to stop as this one is, and may have ended
            // before the flag was set.
            std::thread::sleep(STOP_WITHIN);
        }
        if stop.load(Ordering::Relaxed) {
            // Being told to stop, the processes may have been told as well: it means nothing.
            remove_folder(&folder)?;
            return Ok(None);
        }
        match outcome {
            Ok((figures, foreign_cores, stolen_cores)) => {
                (row.foreign_cores, row.stolen_cores) = (foreign_cores, stolen_cores);
                row.figures = Some(figures);
                remove_folder(&folder)?;
            }
            Err(TrialError::Stopped) => return Ok(None),
            Err(error) => {
                // The row may be shown elsewhere, where nobody has this folder.
                let words = error.to_string().replace(&format!("{}/", folder.display()), "");
                row.failure = Some(words);
                row.kept = Some(self.keep(&folder, index, repeat)?);
            }
        }
        Ok(Some(row))
    }

    /// Puts the homes of a run that failed where no other run comes.
    fn keep(&self, folder: &Path, index: usize, repeat: u32) -> Result<PathBuf, LaboratoryError> {
        let failed = self.folder.join("failed");
        make_folder(&failed)?;
        let free = (0..).map(|turn| failed.join(format!("{index}-{repeat}-{turn}")));
        let mut free = free.skip_while(|path| path.exists());
        let Some(kept) = free.next() else { return Ok(folder.to_owned()) };
        if folder.exists() {
            std::fs::rename(folder, &kept)
                .map_err(|source| LaboratoryError::Io { path: kept.clone(), source })?;
        }
        Ok(kept)
    }
}

/// The newest row of each run of the plan, in the plan's order of settings and repeats.
fn of_plan(plan: &Plan, rows: &[Row]) -> Vec<Row> {
    let mut found = Vec::new();
    for settings in &plan.settings {
        for repeat in 0..plan.measuring.repeats {
            let fits = |row: &&Row| row.repeat == repeat && row.settings == *settings;
            found.extend(rows.iter().rev().find(fits).cloned());
        }
    }
    found
}

/// The rows in a folder of results that a plan asks for.
///
/// # Errors
/// [`ResultsError`].
pub fn read(folder: &Path, plan: &Plan) -> Result<Vec<Row>, ResultsError> {
    let (_, rows) = Lines::open::<Row>(&folder.join(RUNS))?;
    Ok(of_plan(plan, &rows))
}

/// Writes `runs.csv` and `series.csv`.
///
/// # Errors
/// Which file could not be written, and why.
pub fn write_tables(folder: &Path, rows: &[Row]) -> Result<(), (PathBuf, std::io::Error)> {
    for (name, text) in [("runs.csv", runs_csv(rows)), ("series.csv", series_csv(rows))] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|source| (path, source))?;
    }
    Ok(())
}

fn make_folder(path: &Path) -> Result<(), LaboratoryError> {
    std::fs::create_dir_all(path)
        .map_err(|source| LaboratoryError::Io { path: path.to_owned(), source })
}

fn remove_folder(path: &Path) -> Result<(), LaboratoryError> {
    match std::fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(LaboratoryError::Io { path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}
