//! `quorate twins generate`

use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use quorate_sim::twins::format::Head;
use quorate_sim::twins::{Numbers, Space};

use super::{KindArguments, counted, files, grouped};
use crate::failure::Failure;
use crate::output::{Format, print, print_json};

/// Count the scenarios of a kind, and write them (or a sample) to files.
///
/// Scenarios that are the same but for the names of replicas are one: a permutation that turns all
/// views of the one into those of the other makes them so, nothing less. `twins run` takes the same
/// options and needs no files.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    kind: KindArguments,
    /// Write them to this folder, made if need be. Default: only count.
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
    /// Scenarios in a file.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=100_000))]
    per_file: u32,
}

/// Runs `twins generate`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let space = arguments.kind.space()?;
    let numbers = arguments.kind.numbers(&space);
    if format == Format::Table {
        let words = counted(&space);
        print(&format!("{words}\n{} asked for\n", grouped(numbers.len())))?;
    }
    let files = match &arguments.out {
        Some(folder) => {
            files::make_folder(folder)?;
            write(arguments, &space, numbers, folder)?
        }
        None => 0,
    };
    match (format, &arguments.out) {
        (Format::Table, Some(folder)) => print(&format!("{files} files in {}\n", folder.display())),
        (Format::Table, None) => Ok(()),
        (Format::Json, folder) => print_json(&json!({
            "partitions": space.partitions(),
            "choices_a_view": space.letters(),
            "permutations": space.permutations(),
            "unpruned": space.unpruned().map(|count| count.to_string()),
            "scenarios": space.count().to_string(),
            "asked_for": numbers.len().to_string(),
            "files": files,
            "folder": folder,
        })),
    }
}

fn write(
    arguments: &Arguments,
    space: &Space,
    numbers: Numbers,
    folder: &std::path::Path,
) -> Result<u128, Failure> {
    let kind = space.kind();
    let head = Head {
        shape: kind.shape,
        partitions: kind.partitions,
        views: kind.views,
        prefix: None,
        failure: None,
    };
    let each = u128::from(arguments.per_file);
    let count = numbers.len().div_ceil(each);
    let mut scenarios = Vec::with_capacity(arguments.per_file as usize);
    for file in 0..count {
        scenarios.clear();
        for k in file * each..(file * each + each).min(numbers.len()) {
            let Some(number) = numbers.get(k) else { break };
            scenarios.extend(space.scenario(number).map(|scenario| (Some(number), scenario)));
        }
        let path = folder.join(format!("scenarios-{file:06}.json"));
        files::write(&path, &quorate_sim::twins::format::write(&head, &scenarios))?;
    }
    Ok(count)
}
