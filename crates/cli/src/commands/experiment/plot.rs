//! `quorate experiment plot`

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_lab::experiment::{self, Plan, Row, STUDY, Study};
use quorate_lab::plot::{self, PlotError};

use crate::failure::Failure;
use crate::output::{Format, print};

/// The first line of a study's copy beside its results, if it was run with --quick.
const QUICK: &str = "# Run with --quick.\n";

/// Draw the results of a study again: an SVG a chart, report.html with all of them, and the tables.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder with the results.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// The study's text as it is kept beside its results.
pub fn marked(text: &str, quick: bool) -> String {
    if quick { format!("{QUICK}{text}") } else { text.to_owned() }
}

/// A folder of results.
pub struct Results {
    /// The study as it was run.
    pub study: Study,
    /// Its file.
    pub text: String,
    /// The runs it asks for.
    pub plan: Plan,
    /// Those that are there.
    pub rows: Vec<Row>,
}

impl Results {
    /// Reads it.
    pub fn read(folder: &Path) -> Result<Self, Failure> {
        let file = folder.join(STUDY);
        let (study, text) = Study::read(&file)?;
        let study = if text.starts_with(QUICK) { study.quick() } else { study };
        let plan = Plan::new(&study, &text, &file)?;
        let rows = experiment::read(folder, &plan)
            .map_err(|error| Failure::io(error, folder, "name a folder with results"))?;
        Ok(Self { study, text, plan, rows })
    }
}

/// Runs it.
pub fn run(arguments: &Arguments, _format: Format) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let Results { study, plan, rows, .. } = Results::read(folder)?;
    experiment::write_tables(folder, &rows)
        .map_err(|(file, error)| Failure::io(error, &file, "see to the disk, then draw again"))?;
    let page = draw(folder, &study, &plan, &rows)?;
    print(&format!("{}\n", page.display()))
}

/// Writes the charts and the page. Where the page is.
pub fn draw(folder: &Path, study: &Study, plan: &Plan, rows: &[Row]) -> Result<PathBuf, Failure> {
    let failed = |error: PlotError| Failure::io(error, folder, "this is a bug: report it");
    let pictures = plot::pictures(study, plan, rows).map_err(failed)?;
    let write = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text)
            .map(|()| file)
            .map_err(|error| Failure::io(error, folder, "see to the disk, then draw again"))
    };
    for picture in &pictures {
        write(&format!("{}.svg", picture.name), &picture.svg)?;
    }
    write("report.html", &plot::page(study, plan, rows, &pictures))
}
