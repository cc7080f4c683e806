//! `quorate keygen --threshold`: the shares of a whole committee.
//!
//! ```text
//! FOLDER/consensus-0.key   consensus-1.key   …   committee.toml
//! ```

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use quorate_crypto::{SchemeName, key_file};
use quorate_node::config::{Finding, Place};
use quorate_node::testnet::keys::{self, CommitteeSecrets, SecretsError};
use serde_json::json;

use super::{failure, hex};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

const SCHEME: SchemeName = SchemeName::BlsThreshold;

/// Deals to `replicas` replicas: a key file each in `folder`, which is made if need be, and the
/// public part in `committee.toml`, printed as well.
pub fn run(folder: &Path, replicas: usize, format: Format) -> Result<(), Failure> {
    let secrets = keys::generate(SCHEME, replicas).map_err(|error| refused(&error, folder))?;
    let files: Vec<PathBuf> =
        (0..replicas).map(|id| folder.join(format!("consensus-{id}.key"))).collect();
    let public = folder.join("committee.toml");
    refuse_existing(files.iter().chain([&public]))?;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| Failure::io(error, folder, "name a folder that can be made"))?;
    for (file, key) in files.iter().zip(&secrets.replicas) {
        key_file::write_consensus(file, key).map_err(|error| failure(&error, file))?;
    }
    let text = committee_text(&secrets);
    std::fs::File::create_new(&public)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(|error| Failure::io(error, &public, "remove what was dealt, and deal again"))?;
    match format {
        Format::Table => print(&text),
        Format::Json => print_json(&json_of(&secrets, &files)),
    }
}

/// Nothing is dealt over what was: a share may be the only copy, and shares of two deals do not go
/// together.
fn refuse_existing<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), Failure> {
    let mut there = files.filter(|file| file.symlink_metadata().is_ok());
    let Some(file) = there.next() else { return Ok(()) };
    let what = "something was dealt here already".to_owned();
    let remedy = "name another folder, or move these files away: a share may be the only copy";
    let place = Place::File(file.clone());
    Err(Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() }))
}

/// The public part, to be pasted into `cluster.toml`: `consensus_key` into the tables of the
/// replicas.
fn committee_text(secrets: &CommitteeSecrets) -> String {
    let group = hex(secrets.group_key.as_ref().map_or(&[], |key| &key[..]));
    let mut text = format!(
        "# For cluster.toml: {} of {} replicas sign for all.\n\
         signatures = \"{SCHEME}\"\ngroup_key = \"{group}\"\n",
        secrets.quorum,
        secrets.replicas.len(),
    );
    for (id, key) in secrets.replicas.iter().enumerate() {
        let public = hex(&key.public_key());
        text.push_str(&format!("\n[[replicas]]\nid = {id}\nconsensus_key = \"{public}\"\n"));
    }
    text
}

fn json_of(secrets: &CommitteeSecrets, files: &[PathBuf]) -> serde_json::Value {
    let keys = secrets.replicas.iter().zip(files).enumerate();
    let replicas: Vec<_> = keys
        .map(|(id, (key, file))| {
            json!({
                "id": id,
                "file": file.display().to_string(),
                "public_key": hex(&key.public_key()),
            })
        })
        .collect();
    json!({
        "signatures": SCHEME.as_str(),
        "quorum": secrets.quorum,
        "group_key": secrets.group_key.as_ref().map(|key| hex(key)),
        "replicas": replicas,
    })
}

fn refused(error: &SecretsError, folder: &Path) -> Failure {
    match error {
        SecretsError::Committee(error) => Failure::new(
            Exit::Usage,
            Finding {
                what: error.to_string(),
                place: Place::Flag("--replicas".to_owned()),
                remedy: "name as many replicas as cluster.toml lists".to_owned(),
            },
        ),
        other => Failure::io(other, folder, "try again when the system has started up"),
    }
}
