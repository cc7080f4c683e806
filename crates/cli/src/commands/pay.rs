//! `quorate pay`

#[cfg(feature = "laboratory")]
mod bench;
#[cfg(feature = "laboratory")]
mod demo;
mod init;
#[cfg(feature = "laboratory")]
mod load;
#[cfg(feature = "laboratory")]
mod local;
mod node;

#[cfg(not(feature = "laboratory"))]
use super::{pay_bench as bench, pay_demo as demo};

use std::path::Path;

use clap::Subcommand;
use quorate_node::config::{Finding, Place};

use crate::failure::{Exit, Failure};
use crate::output::Format;

/// Payments by Avalanche.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the homes of a payment network on this machine: nodes, and a wallet that has
    /// everything.
    Init(init::Arguments),
    /// Run one node until it is told to stop (SIGTERM or SIGINT).
    Node(node::Arguments),
    /// Run ten nodes with wallets, payments and a double spend in a temporary folder, and show what
    /// they do.
    Demo(demo::Arguments),
    /// Measure a network of processes on this machine: payments a second, and how long one takes.
    Bench(bench::Arguments),
}

/// Runs `pay`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Init(arguments) => init::run(arguments, format),
        Command::Node(arguments) => node::run(arguments, format),
        Command::Demo(arguments) => demo::run(arguments, format),
        Command::Bench(arguments) => bench::run(arguments, format),
    }
}

/// A failure about a file or folder.
fn failed(exit: Exit, what: impl ToString, place: &Path, remedy: &str) -> Failure {
    let place = Place::File(place.to_owned());
    Failure::new(exit, Finding { what: what.to_string(), place, remedy: remedy.to_owned() })
}
