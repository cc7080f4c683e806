//! `quorate snow`: the Snow family, shown and studied.

mod serve;
mod study;
mod watch;

use clap::Subcommand;

use crate::failure::Failure;
use crate::output::Format;

/// What is shown, and where.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the demonstration page, `docs/snow.html`, to browsers of this machine.
    Serve(serve::Arguments),
    /// Run studies: failure probability, convergence, attacks, double spends, payments at size.
    Study(study::Arguments),
    /// Watch nodes flip colours until all have decided.
    Watch(watch::Arguments),
}

/// Runs `snow`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Serve(arguments) => serve::run(arguments),
        Command::Study(arguments) => study::run(arguments, format),
        Command::Watch(arguments) => watch::run(arguments, format),
    }
}
