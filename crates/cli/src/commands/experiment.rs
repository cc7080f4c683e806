//! `quorate experiment`

mod keep;
mod plot;
pub mod run;
mod screen;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What to do with a study.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a study: every permutation of its file, each on a fresh cluster of processes.
    Run(run::Arguments),
    /// Draw the results of a study.
    Plot(plot::Arguments),
    /// Put results beside the documents: the charts, and what they were drawn from.
    Keep(keep::Arguments),
}

/// Runs `experiment`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Run(arguments) => run::run(arguments, format),
        Command::Plot(arguments) => plot::run(arguments, format),
        Command::Keep(arguments) => keep::run(arguments),
    }
}
