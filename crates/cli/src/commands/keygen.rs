//! `quorate keygen`

mod dealer;

use std::path::{Path, PathBuf};

use clap::Args;
use quorate_crypto::consensus_key::GenerateError;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_crypto::{ConsensusKey, SchemeName};
use quorate_node::config::{Finding, Place};
use serde_json::json;

use crate::arguments::scheme;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Make a secret key and print its public half, as cluster.toml has it.
///
/// Keys of transport and clients are Ed25519. Those of bls12-381-threshold are shares of one, made
/// together: by a dealer who knows all of them (--threshold), or by the owners (quorate genesis).
#[derive(Debug, Args)]
pub struct Arguments {
    /// The file for the secret key (mode 0600). Never written over. With --threshold: the folder
    /// for the files of all replicas.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The scheme of the key.
    #[arg(long, value_name = "SCHEME", default_value = SchemeName::Ed25519.as_str())]
    #[arg(value_parser = scheme())]
    signatures: SchemeName,
    /// Deal: make the shares of a whole committee, a file each, and the public part.
    #[arg(long, requires = "replicas", conflicts_with = "signatures")]
    threshold: bool,
    /// How many replicas the shares are for.
    #[arg(short = 'n', long, requires = "threshold", value_name = "N")]
    replicas: Option<usize>,
}

/// Makes a key file and prints the public key, as `cluster.toml` has it; or deals.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let file = &arguments.file;
    if let Some(replicas) = arguments.replicas {
        return dealer::run(file, replicas, format);
    }
    let secret = ConsensusKey::generate(arguments.signatures).map_err(|error| match error {
        GenerateError::Dealt(scheme) => Failure::new(
            Exit::Usage,
            Finding {
                what: format!("a key of \"{scheme}\" is not made by itself"),
                place: Place::Flag("--signatures".to_owned()),
                remedy: "deal the shares of all replicas: quorate keygen --threshold --replicas N FOLDER"
                    .to_owned(),
            },
        ),
        GenerateError::Randomness(error) => {
            Failure::io(error, file, "try again when the system has started up")
        }
    })?;
    key_file::write_consensus(file, &secret).map_err(|error| failure(&error, file))?;
    let public_key = hex(&secret.public_key());
    let proof = secret.proof_of_possession().map(|proof| hex(&proof));
    match (format, proof) {
        (Format::Table, proof) => {
            let proof = proof.map(|proof| format!("proof_of_possession = \"{proof}\"\n"));
            let label = label(file, arguments.signatures);
            print(&format!("{label} = \"{public_key}\"\n{}", proof.unwrap_or_default()))
        }
        (Format::Json, proof) => print_json(&json!({
            "file": file.display().to_string(),
            "signatures": arguments.signatures.as_str(),
            "public_key": public_key,
            "proof_of_possession": proof,
        })),
    }
}

/// What `cluster.toml` calls a key of this file: only those of Ed25519 are for more than votes.
fn label(file: &Path, scheme: SchemeName) -> &'static str {
    match file.file_stem().and_then(|stem| stem.to_str()) {
        Some("transport") if scheme == SchemeName::Ed25519 => "transport_key",
        Some("consensus") => "consensus_key",
        _ if scheme == SchemeName::Ed25519 => "public_key",
        _ => "consensus_key",
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
