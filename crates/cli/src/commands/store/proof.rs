//! `quorate store get --proof` and `verify-proof`

use clap::Args;
use quorate_node::config::{Finding, Place};
use quorate_store::lazy_trie::{Hash, Name, Store};
use quorate_store::merkle::{Digest, Proof, ProofError};
use serde_json::{Value, json};

use super::items::bytes_of;
use super::{FolderArguments, lines, refusal};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Verify what `get --proof` has printed, without a store: that under this root the key has this
/// value or, if none is given, that no item has the key.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The key.
    #[arg(value_name = "KEY")]
    key: String,
    /// The value; if none is given, no item shall have the key.
    #[arg(value_name = "VALUE")]
    value: Option<String>,
    /// Key and value are in hexadecimal digits.
    #[arg(long)]
    hex: bool,
    /// The root, in hexadecimal digits, from where it can be trusted.
    #[arg(long, value_name = "DIGITS")]
    root: String,
    /// The proof, in hexadecimal digits.
    #[arg(long, value_name = "DIGITS")]
    proof: String,
}

/// Prints the value of a key, if there is one, with the root and the proof.
pub fn get(
    store: &Store,
    folder: &FolderArguments,
    key: &[u8],
    hex: bool,
    format: Format,
) -> Result<(), Failure> {
    let refused = |error| refusal::of(&error, &folder.folder);
    let snapshot = store.snapshot().map_err(refused)?;
    let root = lines::hex(&snapshot.root().map_err(refused)?);
    let (proof, value) = snapshot.get_proved(key).map_err(refused)?;
    let proof = lines::hex(&proof.encode());
    if let Format::Json = format {
        let mut report = lines::for_programs(&Name::Key(key), value.unwrap_or(&[]), hex);
        if let Value::Object(fields) = &mut report {
            if value.is_none() {
                fields.retain(|name, _| !name.starts_with("value"));
            }
            fields.insert("found".to_owned(), value.is_some().into());
            fields.insert("root".to_owned(), root.into());
            fields.insert("proof".to_owned(), proof.into());
        }
        return print_json(&report);
    }
    let value = value.map_or("no item has this key".to_owned(), |value| {
        format!("value  {}", lines::show(value, hex))
    });
    print(&format!("{value}\nroot   {root}\nproof  {proof}\n"))
}

/// Runs `store verify-proof`.
pub fn verify(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let key = bytes_of(&arguments.key, arguments.hex, "KEY")?;
    let value = arguments.value.as_deref();
    let value = value.map(|value| bytes_of(value, arguments.hex, "VALUE")).transpose()?;
    let root = bytes_of(&arguments.root, true, "--root")?;
    let root = Digest::try_from(root).map_err(|_| {
        let what = "a root has 64 hexadecimal digits".to_owned();
        usage(what, "--root", "give it what quorate store stats prints as the root")
    })?;
    let proof = bytes_of(&arguments.proof, true, "--proof")?;
    Proof::decode(&proof)
        .and_then(|proof| proof.verify_value(&root, &Hash::of(&key).0, value.as_deref()))
        .map_err(refused)?;
    match format {
        Format::Json => print_json(&json!({ "proven": true, "found": value.is_some() })),
        Format::Table if value.is_some() => print("proven: the key has this value\n"),
        Format::Table => print("proven: no item has this key\n"),
    }
}

fn refused(error: ProofError) -> Failure {
    let remedy = "give it a proof that quorate store get --proof has printed with this root";
    match error {
        ProofError::Malformed { .. } | ProofError::Version { .. } => {
            usage(error.to_string(), "--proof", remedy)
        }
        _ => {
            let place = Place::Flag("--proof".to_owned());
            let remedy = "do not believe what came with it".to_owned();
            Failure::new(Exit::Failed, Finding { what: error.to_string(), place, remedy })
        }
    }
}

fn usage(what: String, flag: &str, remedy: &str) -> Failure {
    let place = Place::Flag(flag.to_owned());
    Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() })
}
