//! `quorate store dump`

use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use quorate_node::config::{Finding, Place};
use quorate_store::lazy_trie::{Hash, Item, Name, Store};

use super::{FolderArguments, lines, refusal};
use crate::failure::{Exit, Failure};
use crate::output::Format;

/// Print or write all items, in the order of their hashes.
///
/// A line each: key, tabulator, value; with -o json an object, as `quorate store put --from` reads
/// it. What is damaged is passed over and told at the end, with exit code 4.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    store: FolderArguments,
    /// Keys and values in hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// Write to this file, which must not be there yet, instead of standard output.
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Runs `store dump`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let store = arguments.store.open()?;
    let folder = &arguments.store.folder;
    let line = |hash: &Hash, item: &Item<'_>| match format {
        Format::Table => lines::for_people(hash, item, arguments.hex),
        Format::Json => {
            let name = item.key().map_or(Name::Hash(*hash), Name::Key);
            format!("{}\n", lines::for_programs(&name, item.value, arguments.hex))
        }
    };
    let Some(file) = &arguments.to else {
        let out = Path::new("standard output");
        return write(&store, folder, &mut BufWriter::new(io::stdout().lock()), out, line);
    };
    let made = OpenOptions::new().write(true).create_new(true).open(file);
    let mut made = made.map(BufWriter::new).map_err(|error| unwritten(&error, file))?;
    let written = write(&store, folder, &mut made, file, line);
    made.get_ref().sync_all().map_err(|error| unwritten(&error, file))?;
    written
}

fn write(
    store: &Store,
    folder: &Path,
    out: &mut impl Write,
    out_name: &Path,
    line: impl Fn(&Hash, &Item<'_>) -> String,
) -> Result<(), Failure> {
    let snapshot = store.snapshot().map_err(|error| refusal::of(&error, folder))?;
    let mut findings = Vec::new();
    for item in snapshot.iter() {
        let written = match &item {
            Ok((hash, item)) => out.write_all(line(hash, item).as_bytes()),
            Err(error) => {
                findings.extend_from_slice(refusal::of(error, folder).findings());
                Ok(())
            }
        };
        match written {
            // A reader that has seen enough is no failure.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            other => other.map_err(|error| unwritten(&error, out_name))?,
        }
    }
    match out.flush() {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            return Err(unwritten(&error, out_name));
        }
        _ => {}
    }
    if findings.is_empty() { Ok(()) } else { Err(Failure::of_all(Exit::Corrupt, findings)) }
}

fn unwritten(error: &io::Error, file: &Path) -> Failure {
    let (exit, what, remedy) = match error.kind() {
        io::ErrorKind::AlreadyExists => (
            Exit::Usage,
            "there is such a file already".to_owned(),
            "name another file, or remove this one",
        ),
        _ => (
            Exit::Failed,
            format!("the items could not be written: {error}"),
            "name a file in a folder that exists, can be written to and has room",
        ),
    };
    let place = Place::File(file.to_owned());
    Failure::new(exit, Finding { what, place, remedy: remedy.to_owned() })
}
