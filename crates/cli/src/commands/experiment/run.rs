//! `quorate experiment run`

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use clap::Args;
use quorate_lab::experiment::{
    Laboratory, LaboratoryError, Outcome, Plan, Progress, Row, STUDY, Site, Study,
};
use quorate_node::config::{Finding, Place};
use serde_json::json;

use super::{plot, screen};
use crate::failure::{Exit, Failure};
use crate::local::{program, runtime};
use crate::output::{Format, print, print_json_line};

/// How often the live line is written, on a terminal.
const EVERY: Duration = Duration::from_millis(250);

/// Run a study: every permutation of its file, each on a fresh cluster of processes on this
/// machine.
///
/// Results go to a folder, a line of JSON a run (runs.jsonl), the same as tables (runs.csv,
/// series.csv), and in the end the charts and report.html. What is in the folder already is not run
/// again: a study that was interrupted goes on where it was, if the program is still the same.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The study's file (docs/experiments.md).
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What the file calls quick: to see that it works, not to quote.
    #[arg(long)]
    pub quick: bool,
    /// Where results go. Default: results/NAME, or results/NAME-quick.
    #[arg(long, value_name = "FOLDER")]
    pub out: Option<PathBuf>,
    /// How often each permutation is run, instead of what the file says. More can follow later.
    #[arg(long, value_name = "N")]
    pub repeats: Option<u32>,
    /// Run again what failed.
    #[arg(long)]
    pub retry: bool,
}

/// Makes the site of a study, of its plan and of a flag that SIGINT and SIGTERM set.
pub type MakeSite<'a> =
    &'a dyn Fn(&Plan, &Arc<AtomicBool>) -> Result<(Box<dyn Site>, PathBuf), Failure>;

/// Runs it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    run_at(None, arguments, format)
}

/// Runs it at a site, with the program that is there. `None`: on this machine, with this one.
pub fn run_at(
    site: Option<MakeSite<'_>>,
    arguments: &Arguments,
    format: Format,
) -> Result<(), Failure> {
    let (study, text) = Study::read(&arguments.file)?;
    let mut study = if arguments.quick { study.quick() } else { study };
    study.measure.repeats = arguments.repeats.or(study.measure.repeats);
    let plan = Plan::new(&study, &text, &arguments.file)?;
    let (_runtime, told) = runtime()?;
    let (site, program) = match site {
        Some(make) => make(&plan, &told).map(|(site, program)| (Some(site), program))?,
        None => {
            plan.try_network()?;
            (None, program()?)
        }
    };
    let quick = if arguments.quick { "-quick" } else { "" };
    let named = Path::new("results").join(format!("{}{quick}", study.name));
    let folder = arguments.out.clone().unwrap_or(named);
    let write = |error| Failure::io(error, &folder, "name another folder with --out");
    std::fs::create_dir_all(&folder).map_err(write)?;
    std::fs::write(folder.join(STUDY), plot::marked(&text, arguments.quick)).map_err(write)?;
    let laboratory = Laboratory { program, folder: folder.clone(), retry: arguments.retry };
    let outcome = with_screen(&laboratory, site.as_deref(), &plan, &told, format)
        .map_err(|error| Failure::io(&error, &folder, error.remedy()))?;
    let page = plot::draw(&folder, &study, &plan, &outcome.rows)?;
    if format == Format::Table {
        print(&screen::for_people(&plan, &outcome.rows))?;
        print(&format!("{}\n", page.display()))?;
    }
    verdict(&outcome, &plan)
}

/// Runs it, with a line of how far it is.
fn with_screen(
    laboratory: &Laboratory,
    site: Option<&dyn Site>,
    plan: &Plan,
    told: &Arc<AtomicBool>,
    format: Format,
) -> Result<Outcome, LaboratoryError> {
    let live = std::io::stderr().is_terminal();
    let now: Mutex<Option<(Progress, Instant)>> = Mutex::new(None);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let drawing = scope.spawn(|| {
            while live && !over.load(Ordering::Relaxed) {
                let known = now.lock().unwrap_or_else(PoisonError::into_inner).clone();
                if let Some((progress, since)) = known {
                    screen::draw(&progress, since.elapsed());
                }
                std::thread::sleep(EVERY);
            }
        });
        let tell = |progress: &Progress, row: Option<&Row>| {
            let mut known = now.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some((progress.clone(), Instant::now()));
            if let Some(row) = row {
                if format == Format::Json {
                    // Whoever closed standard output finds the rows in the file.
                    let _ = print_json_line(&json!(row));
                }
                screen::tell(plan, progress, row, live);
            } else if progress.done > 0 {
                eprintln!("{} of {} runs are there already", progress.done, progress.runs);
            }
        };
        let outcome = laboratory.run_at(site, plan, told, tell);
        over.store(true, Ordering::Relaxed);
        // It draws and nothing else: there is nothing to learn from how it ended.
        let _ = drawing.join();
        if live {
            screen::clear();
        }
        outcome
    })
}

fn verdict(outcome: &Outcome, plan: &Plan) -> Result<(), Failure> {
    let failed: Vec<&Row> = outcome.rows.iter().filter(|row| row.failure.is_some()).collect();
    if let Some(first) = failed.first() {
        let what = format!(
            "{} of {} runs failed; the first: {}",
            failed.len(),
            outcome.rows.len(),
            first.failure.as_deref().unwrap_or_default()
        );
        let place = first.kept.clone().map_or(Place::Default, Place::File);
        let remedy = "see the logs there; --retry runs again what failed".to_owned();
        return Err(Failure::new(Exit::Failed, Finding { what, place, remedy }));
    }
    if !outcome.complete {
        let what = format!("stopped after {} of {} runs", outcome.rows.len(), plan.runs.len());
        let remedy = "run it again to go on".to_owned();
        return Err(Failure::new(Exit::Failed, Finding { what, place: Place::Default, remedy }));
    }
    Ok(())
}
