//! `quorate keygen`

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_core::Digest;
use quorate_core::crypto::ClientSigner as _;
use quorate_crypto::SecretKey;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_node::config::{Finding, Place};
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Where to.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The file for the secret key (mode 0600). Never written over.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Makes a key file and prints the public key, as `cluster.toml` has it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let file = &arguments.file;
    let secret = SecretKey::generate()
        .map_err(|error| Failure::io(error, file, "try again when the system has started up"))?;
    key_file::write(file, &secret).map_err(|error| failure(&error, file))?;
    let public_key = Digest(secret.public_key().0).to_string();
    match format {
        Format::Table => print(&format!("{public_key}\n")),
        Format::Json => {
            print_json(&json!({ "file": file.display().to_string(), "public_key": public_key }))
        }
    }
}

fn failure(error: &KeyFileError, file: &Path) -> Failure {
    match error {
        KeyFileError::Exists { .. } => Failure::new(
            Exit::Usage,
            Finding {
                what: "there is a key file already".to_owned(),
                place: Place::File(file.to_owned()),
                remedy: "name another file, or move this one away: its key may be the only copy"
                    .to_owned(),
            },
        ),
        KeyFileError::Io { source, .. } => {
            let what = format!("the key file could not be written: {source}");
            Failure::io(what, file, "name a file in a folder that exists and can be written to")
        }
        other => Failure::io(other, file, "name another file"),
    }
}
