//! `quorate snow study`

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use quorate_lab::snow::{ALL, Extent, Found, Request, Study, StudyError};
use quorate_node::config::{Finding, Place};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json_line};

/// Run a study of the Snow family, or all: docs/studies-snow.md says what they found.
///
/// Each writes a folder with its tables and charts. The same seed of the same version gives the
/// same rows.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Which; all if none is named.
    #[arg(value_name = "NAME", value_parser = names())]
    name: Option<String>,
    /// To see that it works: seconds instead of minutes. Not to be quoted.
    #[arg(long)]
    quick: bool,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_name = "N")]
    seed: u64,
    /// spends: attempts inside the promised share. Default: 2,000 with --quick, else 1,000,000.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    attempts: Option<u64>,
    /// Where the folders go.
    #[arg(long, default_value = "results", value_name = "FOLDER")]
    out: PathBuf,
}

fn names() -> PossibleValuesParser {
    ALL.iter().map(|study| study.name).collect::<Vec<_>>().into()
}

/// Runs `snow study`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let extent = if arguments.quick { Extent::Quick } else { Extent::Full };
    let request = Request { extent, seed: arguments.seed, attempts: arguments.attempts };
    let wanted = |study: &&Study| arguments.name.as_deref().is_none_or(|name| name == study.name);
    for study in ALL.iter().filter(wanted) {
        let begun = Instant::now();
        let found = study.run(&request).map_err(|error| failed(study, &error))?;
        let folder = arguments.out.join(format!("snow-{}", study.name));
        keep(&folder, &found)?;
        let seconds = begun.elapsed().as_secs_f64();
        match format {
            Format::Table => {
                let mut text = format!("{}: {}\n", study.name, study.about);
                for line in &found.says {
                    text.push_str(&format!("  {line}\n"));
                }
                text.push_str(&format!("  {seconds:.0} s; see {}\n", folder.display()));
                print(&text)?;
            }
            Format::Json => print_json_line(&json!({
                "study": study.name,
                "says": found.says,
                "seconds": seconds,
                "folder": folder.display().to_string(),
            }))?,
        }
    }
    Ok(())
}

fn failed(study: &Study, error: &StudyError) -> Failure {
    Failure::new(
        Exit::Failed,
        Finding {
            what: format!("the study {}: {error}", study.name),
            place: Place::Flag("NAME".to_owned()),
            remedy: "this is a bug: report it".to_owned(),
        },
    )
}

/// Writes tables and pictures, each by its name.
fn keep(folder: &Path, found: &Found) -> Result<(), Failure> {
    let remedy = "name a folder that can be written with --out";
    fs::create_dir_all(folder).map_err(|error| Failure::io(error, folder, remedy))?;
    let tables = found.tables.iter().map(|(name, table)| (format!("{name}.csv"), table.csv()));
    let pictures =
        found.pictures.iter().map(|picture| (format!("{}.svg", picture.name), picture.svg.clone()));
    for (name, text) in tables.chain(pictures) {
        let file = folder.join(name);
        fs::write(&file, text).map_err(|error| Failure::io(error, &file, remedy))?;
    }
    Ok(())
}
