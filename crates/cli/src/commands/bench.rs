//! `quorate bench`

mod attacks;
mod flood;
mod matrix;

use std::time::Duration;

use clap::{Args, Subcommand};
use quorate_core::ReplicaId;
use quorate_lab::bench::{Bench, Row};
use quorate_lab::experiment::Figures;

use crate::arguments::ChoiceArguments;
use crate::failure::Failure;
use crate::local::{failure, program};
use crate::output::{Format, print, print_json_line, table};

/// Measure clusters of processes on this machine: throughput, latency, recovery, idleness.
///
/// Prints each row as a line of JSON when it is done, and all as a table in the end.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Five seconds a row instead of thirty: to see that it works, not to quote.
    #[arg(long)]
    pub quick: bool,
    /// How many replicas.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    pub replicas: usize,
    #[command(flatten)]
    pub choices: ChoiceArguments,
}

/// What to measure instead.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Every combination of choices that works.
    Matrix(matrix::Arguments),
    /// Floods by one client or one replica: what honest clients keep meanwhile.
    Attacks(attacks::Arguments),
    /// Flood a cluster: what `attacks` starts.
    #[command(hide = true)]
    Flood(flood::Arguments),
}

/// Runs `bench`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    match &arguments.command {
        Some(Command::Matrix(arguments)) => matrix::run(arguments, format),
        Some(Command::Attacks(arguments)) => attacks::run(arguments, format),
        Some(Command::Flood(arguments)) => flood::run(arguments),
        None => measure(arguments, format),
    }
}

fn measure(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let temporary = std::env::temp_dir();
    let folder = tempfile::Builder::new().prefix("quorate-bench-").tempdir().map_err(|error| {
        Failure::io(error, &temporary, "set TMPDIR to a folder that can be written")
    })?;
    let (warm_up, measured) = if arguments.quick { (1, 5) } else { (5, 30) };
    let bench = Bench {
        program: program()?,
        folder: folder.path().to_owned(),
        replicas: arguments.replicas,
        combination: arguments.choices.combination(arguments.replicas),
        transport: arguments.choices.transport(),
        fixed_leader: arguments
            .choices
            .options(arguments.replicas)
            .fixed_leader
            .unwrap_or(ReplicaId(0)),
        measured: Duration::from_secs(measured),
        warm_up: Duration::from_secs(warm_up),
        idle: Duration::from_secs(5),
    };
    let mut rows = Vec::new();
    let mut printed = Ok(());
    let measured = bench.run(|row| {
        let line = print_json_line(&serde_json::to_value(&row).unwrap_or_default());
        if printed.is_ok() {
            printed = line;
        }
        rows.push(row);
    });
    printed?;
    if format == Format::Table {
        print(&for_people(&rows, &arguments.choices))?;
    }
    measured.map_err(|error| failure(&error, folder.path()))
}

/// A row's cells in the table for people.
fn cells(row: &Row) -> [String; 17] {
    let number = |value: Option<f64>, digits: usize| {
        value.map_or_else(String::new, |value| format!("{value:.digits$}"))
    };
    let point = &row.settings.point;
    let figure = |of: fn(&Figures) -> f64| row.figures.as_ref().map(of);
    let mut recoveries = row.recoveries_ms.clone();
    recoveries.sort_by(f64::total_cmp);
    let median = recoveries.get(recoveries.len() / 2).copied();
    let in_flight = point.clients * point.frames_in_flight() * point.frame_commands();
    [
        row.name.to_owned(),
        point.durability.to_string(),
        point.payload.0.0.to_string(),
        point.clients.to_string(),
        if row.figures.is_some() { in_flight.to_string() } else { String::new() },
        number(figure(|figures| figures.goodput), 0),
        number(row.against_healthy.map(|ratio| 100.0 * ratio.goodput), 0)
            + if row.against_healthy.is_some() { " %" } else { "" },
        number(figure(|figures| figures.mean_ms), 2),
        number(figure(|figures| figures.p50_ms).or(median), 2),
        number(row.against_healthy.map(|ratio| ratio.p50), 2),
        number(figure(|figures| figures.p99_ms), 2),
        number(figure(|figures| figures.max_ms).or(recoveries.last().copied()), 2),
        number(figure(|figures| figures.commands_per_block), 0),
        number(figure(|figures| figures.replica_us), 1),
        number(row.processor_percent, 2),
        number(figure(|figures| figures.memory_mib), 0),
        number(figure(|figures| figures.disk_mib), 0),
    ]
}

fn for_people(rows: &[Row], choices: &ChoiceArguments) -> String {
    let head = [
        "ROW",
        "DURABILITY",
        "PAYLOAD",
        "CLIENTS",
        "IN FLIGHT",
        "GOODPUT/S",
        "OF HEALTHY",
        "MEAN MS",
        "P50 MS",
        "TIMES HEALTHY",
        "P99 MS",
        "MAX MS",
        "BLOCK",
        "US/COMMAND",
        "CPU %",
        "MEMORY MIB",
        "DISK MIB",
    ];
    let cells: Vec<_> = rows.iter().map(cells).collect();
    let mut text = table(head, &cells);
    for row in rows {
        let point = &row.settings.point;
        for warning in row.figures.iter().flat_map(|figures| &figures.warnings) {
            text.push_str(&format!(
                "warning: {} {} {}: {warning}\n",
                row.name, point.durability, point.payload.0.0
            ));
        }
    }
    if let Some(row) = rows.first() {
        text.push_str(&format!(
            "{} replicas, {}, batches of {}, {} cores shared by replicas, clients and measuring\n",
            row.settings.point.replicas,
            choices.described(row.settings.point.replicas),
            row.settings.point.batch,
            row.cores
        ));
    }
    text
}
