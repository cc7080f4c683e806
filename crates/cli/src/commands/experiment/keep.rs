//! `quorate experiment keep`

use std::path::PathBuf;

use clap::Args;
use quorate_lab::experiment::{self, KeepError};

use super::plot::Results;
use crate::failure::Failure;
use crate::output::print;

/// Put a study's results beside the documents: its file, its table of runs, its charts, and the
/// rows that these are drawn from, so that `quorate experiment plot` draws them again.
///
/// Refused are the results of --quick, and of more than one program.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder with the results.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Where they go: a folder of the study's own. What is kept there already is replaced.
    #[arg(value_name = "TO")]
    to: PathBuf,
}

/// Runs it.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Results { study, text, plan, rows } = Results::read(&arguments.folder)?;
    experiment::keep(&study, &text, &plan, &rows, &arguments.to).map_err(|error| {
        let remedy = match &error {
            KeepError::Empty | KeepError::Quick => "run the study in full: quorate experiment run",
            KeepError::Mixed(..) => "run it anew with one program, in another folder",
            KeepError::Lost(_) | KeepError::Plot(_) => "this is a bug: report it",
            KeepError::Results(_) | KeepError::Io { .. } => "see to the disk, then keep it again",
        };
        Failure::io(error, &arguments.folder, remedy)
    })?;
    print(&format!("{}\n", arguments.to.display()))
}
