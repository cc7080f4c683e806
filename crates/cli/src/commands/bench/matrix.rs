//! `quorate bench matrix`

mod pages;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_lab::bench::matrix::{Matrix, MatrixRow, Only, open_rows};
use quorate_lab::experiment::ResultsError;
use quorate_node::config::{Combination, Durability, Finding, Place};

use crate::arguments::durability;
use crate::failure::{Exit, Failure};
use crate::local::{program, runtime};
use crate::output::{Format, print, print_json_line};

/// Measure every combination of choices that works, each with four replicas, then with one killed
/// for good.
///
/// A combination fails if nothing is committed before or after the kill, or if any answer is wrong
/// or lost; the folder with its homes and logs is left then, and the exit code is not 0. With a
/// fixed leader another replica is killed.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Only these, as in `--only protocol=hotstuff-fast,signatures=ed25519`: the keys of
    /// cluster.toml. Values of one key are alternatives.
    #[arg(long, value_name = "KEY=VALUE,...", default_value = "", hide_default_value = true)]
    pub only: Only,
    /// Seconds measured with all replicas; with one dead twice as many.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: u64,
    /// What a vote waits for: the disk, or the operating system.
    #[arg(long, default_value = "os", value_parser = durability(), value_name = "NAME")]
    pub durability: Durability,
    /// Append each row to this file as a line of JSON. Combinations that are in it already are not
    /// measured again.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the table to this file as a page in Markdown.
    #[arg(long, value_name = "FILE")]
    pub markdown: Option<PathBuf>,
}

/// Runs `bench matrix`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let wanted = arguments.only.combinations();
    if wanted.is_empty() {
        let what = "no combination that works is among those asked for".to_owned();
        let remedy = "ask for others; docs/protocols/combinations.md says what works".to_owned();
        let place = Place::Flag("--only".to_owned());
        return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
    }
    let temporary = std::env::temp_dir();
    let made = tempfile::Builder::new().prefix("quorate-matrix-").tempdir().map_err(|error| {
        Failure::io(error, &temporary, "set TMPDIR to a folder that can be written")
    })?;
    let matrix = Matrix {
        program: program()?,
        folder: made.path().to_owned(),
        durability: arguments.durability,
        measured: Duration::from_secs(arguments.seconds),
    };
    let mut rows = measure(&matrix, &wanted, arguments.out.as_deref(), format)?;
    if rows.iter().any(|row| row.kept.as_ref().is_some_and(|kept| kept.starts_with(&matrix.folder)))
    {
        let _ = made.keep();
    }
    let place = |row: &MatrixRow| wanted.iter().position(|one| *one == row.combination.0);
    rows.sort_by_key(place);
    if format == Format::Table {
        print(&pages::for_people(&rows))?;
    }
    if let Some(file) = &arguments.markdown {
        std::fs::write(file, pages::markdown(&rows))
            .map_err(|error| Failure::io(error, file, "name another file with --markdown"))?;
    }
    verdict(&rows, wanted.len())
}

/// The rows of all that are wanted: those in the file, and those measured now.
fn measure(
    matrix: &Matrix,
    wanted: &[Combination],
    out: Option<&Path>,
    format: Format,
) -> Result<Vec<MatrixRow>, Failure> {
    let failed = |error: &ResultsError| {
        Failure::io(error, out.unwrap_or(Path::new("--out")), "name another file with --out")
    };
    let (mut file, mut rows) = match out {
        Some(path) => {
            let opened = open_rows(path, &matrix.settings());
            let (file, rows) = opened.map_err(|error| failed(&error))?;
            (Some(file), rows)
        }
        None => (None, Vec::new()),
    };
    rows.retain(|row| wanted.contains(&row.combination.0));
    let known = |one: &&Combination| !rows.iter().any(|row| row.combination.0 == **one);
    let left: Vec<Combination> = wanted.iter().filter(known).copied().collect();
    if let (false, Some(path)) = (rows.is_empty(), out) {
        eprintln!("{} of {} are in {} already", rows.len(), wanted.len(), path.display());
    }
    if format == Format::Json {
        for row in &rows {
            print_json_line(&serde_json::to_value(row).unwrap_or_default())?;
        }
    }
    let (_runtime, told) = runtime()?;
    let (began, before) = (Instant::now(), rows.len());
    for (done, combination) in left.iter().enumerate() {
        let row = matrix.measure(*combination);
        // Being told to stop, the replicas may have been told as well: the row means nothing.
        if told.load(Ordering::Relaxed) {
            break;
        }
        if let Some(file) = &mut file {
            file.append(&row).map_err(|error| failed(&error))?;
        }
        if format == Format::Json {
            print_json_line(&serde_json::to_value(&row).unwrap_or_default())?;
        }
        let each = began.elapsed() / u32::try_from(done + 1).unwrap_or(u32::MAX);
        let rest = each * u32::try_from(left.len() - done - 1).unwrap_or(u32::MAX);
        eprintln!(
            "[{}/{}] {}; {} left",
            before + done + 1,
            wanted.len(),
            pages::one_line(&row),
            pages::span(rest)
        );
        rows.push(row);
    }
    Ok(rows)
}

/// Whether all went well.
fn verdict(rows: &[MatrixRow], wanted: usize) -> Result<(), Failure> {
    let failed: Vec<&MatrixRow> = rows.iter().filter(|row| row.failure.is_some()).collect();
    if let Some(first) = failed.first() {
        let what = format!(
            "{} of {} combinations failed; the first is {}: {}",
            failed.len(),
            rows.len(),
            first.combination.0,
            first.failure.as_deref().unwrap_or_default()
        );
        let place = first.kept.clone().map_or(Place::Default, Place::File);
        let remedy = "see the replicas' logs there".to_owned();
        return Err(Failure::new(Exit::Failed, Finding { what, place, remedy }));
    }
    if rows.len() < wanted {
        let what = format!("stopped after {} of {wanted} combinations", rows.len());
        let remedy = "run it again with the same --out to go on".to_owned();
        return Err(Failure::new(Exit::Failed, Finding { what, place: Place::Default, remedy }));
    }
    Ok(())
}
