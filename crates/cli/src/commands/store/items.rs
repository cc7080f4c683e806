//! `quorate store get`, `put` and `delete`

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use quorate_node::config::{Finding, Place};
use quorate_store::lazy_trie::{Batch, Name, Store};
use serde_json::json;

use super::{FolderArguments, lines, proof, refusal};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// A commit of `put --from` ends behind so many bytes of its lines.
const BATCH_BYTES: usize = 1 << 20;

/// Print the value of a key.
#[derive(Debug, Args)]
pub struct GetArguments {
    #[command(flatten)]
    store: FolderArguments,
    /// The key.
    #[arg(value_name = "KEY")]
    key: String,
    /// The key is in hexadecimal digits, and so is the value printed.
    #[arg(long)]
    hex: bool,
    /// Print also the Merkle root of the store and the proof of the value, or that there is none,
    /// in hexadecimal digits: of an authenticated store.
    #[arg(long)]
    proof: bool,
}

/// Put an item, replacing one of the same key, or all items of a dump. It survives the loss of
/// power when this returns.
#[derive(Debug, Args)]
pub struct PutArguments {
    #[command(flatten)]
    store: FolderArguments,
    /// The key.
    #[arg(value_name = "KEY", required_unless_present = "from", requires = "value")]
    key: Option<String>,
    /// The value.
    #[arg(value_name = "VALUE")]
    value: Option<String>,
    /// Key and value are in hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// Begin a store if there is none: the folder must be empty or missing.
    #[arg(long)]
    create: bool,
    /// Begin an authenticated store: with a Merkle root, and proofs of what it holds.
    #[arg(long, requires = "create")]
    authenticated: bool,
    /// Put the items of this file (-: standard input), a JSON object each line, as
    /// `quorate store dump -o json` writes them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["key", "hex"])]
    from: Option<PathBuf>,
}

/// Remove an item. It stays removed through a loss of power when this returns.
#[derive(Debug, Args)]
pub struct DeleteArguments {
    #[command(flatten)]
    store: FolderArguments,
    /// The key.
    #[arg(value_name = "KEY")]
    key: String,
    /// The key is in hexadecimal digits.
    #[arg(long)]
    hex: bool,
}

/// Runs `store get`.
pub fn get(arguments: &GetArguments, format: Format) -> Result<(), Failure> {
    let key = bytes_of(&arguments.key, arguments.hex, "KEY")?;
    let folder = &arguments.store.folder;
    let store = arguments.store.open()?;
    if arguments.proof {
        return proof::get(&store, &arguments.store, &key, arguments.hex, format);
    }
    let value = store.get(&key).map_err(|error| refusal::of(&error, folder))?;
    let value = value.ok_or_else(|| nothing_there(folder))?;
    match format {
        Format::Json => print_json(&lines::for_programs(&Name::Key(&key), &value, arguments.hex)),
        Format::Table if arguments.hex => print(&format!("{}\n", lines::hex(&value))),
        Format::Table => print_bytes(value),
    }
}

/// Prints a value as it is, and a line's end.
fn print_bytes(mut value: Vec<u8>) -> Result<(), Failure> {
    value.push(b'\n');
    let mut out = io::stdout().lock();
    match out.write_all(&value).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let what = format!("the value could not be written: {error}");
            Err(Failure::io(what, Path::new("standard output"), "redirect it elsewhere"))
        }
        _ => Ok(()),
    }
}

/// Runs `store put`.
pub fn put(arguments: &PutArguments, format: Format) -> Result<(), Failure> {
    let item = match (&arguments.key, &arguments.value) {
        (Some(key), Some(value)) => {
            let hex = arguments.hex;
            Some((bytes_of(key, hex, "KEY")?, bytes_of(value, hex, "VALUE")?))
        }
        _ => None,
    };
    if arguments.create {
        arguments.store.expect_store_or_nothing()?;
    } else {
        arguments.store.expect_store()?;
    }
    let store = arguments.store.open_or_create(arguments.authenticated)?;
    let folder = &arguments.store.folder;
    if let Some((key, value)) = item {
        let old = store.replace(&key, &value).map_err(|error| refusal::of(&error, folder))?;
        return match format {
            Format::Table => Ok(()),
            Format::Json => print_json(&json!({ "replaced": old.is_some() })),
        };
    }
    let from = arguments.from.as_deref().unwrap_or(Path::new("-"));
    let items = if from == Path::new("-") {
        put_all(&store, folder, io::stdin().lock(), from)?
    } else {
        let file = File::open(from).map_err(|error| unread(&error, from))?;
        put_all(&store, folder, BufReader::new(file), from)?
    };
    match format {
        Format::Table => print(&format!("{items} items\n")),
        Format::Json => print_json(&json!({ "items": items })),
    }
}

/// Puts the items of a dump, in commits of some thousands; how many.
fn put_all(store: &Store, folder: &Path, input: impl BufRead, from: &Path) -> Result<u64, Failure> {
    let refused = |error| refusal::of(&error, folder);
    let mut batch = Batch::new();
    let (mut items, mut bytes) = (0, 0);
    for (index, line) in input.lines().enumerate() {
        let line = line.map_err(|error| unread(&error, from))?;
        let (name, value) = match lines::parse(&line) {
            Ok(item) => item,
            Err(what) => {
                // What was read so far is put, so that the message is true.
                store.write(&batch).map_err(refused)?;
                return Err(no_item(what, from, index + 1));
            }
        };
        batch.put(name.name(), &value).map_err(refused)?;
        items += 1;
        bytes += line.len();
        if bytes >= BATCH_BYTES {
            store.write(&batch).map_err(refused)?;
            batch.clear();
            bytes = 0;
        }
    }
    store.write(&batch).map_err(refused)?;
    Ok(items)
}

/// Runs `store delete`.
pub fn delete(arguments: &DeleteArguments, format: Format) -> Result<(), Failure> {
    let key = bytes_of(&arguments.key, arguments.hex, "KEY")?;
    let folder = &arguments.store.folder;
    let store = arguments.store.open()?;
    if !store.delete(&key).map_err(|error| refusal::of(&error, folder))? {
        return Err(nothing_there(folder));
    }
    match format {
        Format::Table => Ok(()),
        Format::Json => print_json(&json!({ "deleted": true })),
    }
}

/// The bytes an argument stands for.
pub fn bytes_of(text: &str, hex: bool, argument: &str) -> Result<Vec<u8>, Failure> {
    if !hex {
        return Ok(text.as_bytes().to_vec());
    }
    lines::unhex(text).ok_or_else(|| {
        let what = format!("{text:?} is not of pairs of hexadecimal digits");
        let place = Place::Flag(argument.to_owned());
        let remedy = "write two digits a byte, or leave --hex out".to_owned();
        Failure::new(Exit::Usage, Finding { what, place, remedy })
    })
}

fn nothing_there(folder: &Path) -> Failure {
    let place = Place::File(folder.to_owned());
    let remedy = "see which there are: quorate store dump".to_owned();
    Failure::new(Exit::Failed, Finding { what: "no item has this key".to_owned(), place, remedy })
}

fn no_item(what: String, file: &Path, line: usize) -> Failure {
    let place = Place::Line { file: file.to_owned(), line };
    let remedy =
        "give it what quorate store dump -o json writes; the lines before this one are put";
    Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() })
}

fn unread(error: &io::Error, file: &Path) -> Failure {
    let what = format!("the dump could not be read: {error}");
    Failure::io(what, file, "name a file of lines that exists and can be read")
}
