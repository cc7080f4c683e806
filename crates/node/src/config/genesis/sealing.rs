//! From a proposal and the files of all owners to `cluster.toml`.

use std::path::PathBuf;

use quorate_core::base::membership::MAX_REPLICAS;

use super::{Owner, Proposal};
use crate::config::cluster::{self, Cluster};
use crate::config::document::Document;
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::schema::{Settings, Value};

/// The cluster of a proposal and of the owners of these files. The replicas have the ids from 0 in
/// the order of the owners' names, byte by byte. So all who seal the same files, in whatever order,
/// get the same cluster.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong: with a file, with its proofs, with two files
/// together, or with all of them.
pub fn seal(proposal: &Proposal, files: &[PathBuf]) -> Result<Cluster, ConfigError> {
    let whole = || Place::File(proposal.file.clone());
    if files.len() > MAX_REPLICAS {
        let what = format!("{} owners are more than a cluster can have", files.len());
        let remedy = format!("seal at most {MAX_REPLICAS} of their files");
        return Err(Finding::new(what, whole(), remedy).into());
    }
    let mut findings = Vec::new();
    let mut owners = Vec::with_capacity(files.len());
    for file in files {
        let read = Owner::read(file, proposal, &mut findings);
        owners.extend(read.map(|owner| (file, owner)));
    }
    owners.sort_by(|(_, a), (_, b)| a.name().cmp(b.name()));
    for pair in owners.windows(2) {
        let [(first, a), (_, b)] = pair else { continue };
        if a.name() == b.name() {
            findings.push(Finding::new(
                format!("the name {} is also that of {}", b.name(), first.display()),
                b.settings.source("name"),
                "name each file once; if two owners have one name, have one of them join under another",
            ));
        }
    }
    // Who is not among the owners was refused with its file.
    let is_here = |name: &&String| owners.iter().any(|(_, owner)| owner.name() == *name);
    let missing: Vec<_> = proposal.owners().iter().filter(|name| !is_here(name)).collect();
    if findings.is_empty()
        && let [first, ..] = &missing[..]
    {
        findings.push(Finding::new(
            format!(
                "the files of {} owners are missing, that of {first} among them",
                missing.len()
            ),
            whole(),
            "seal the genesis-member.toml of every owner that the proposal names",
        ));
    }
    if !findings.is_empty() {
        return ConfigError::unless_clean(None, findings);
    }
    let administrators = owners.iter().filter_map(|(_, owner)| owner.administrator).collect();
    let settings = proposal.settings_with(administrators);
    let members = owners.iter().enumerate();
    let list = members
        .map(|(id, (file, owner))| (Place::File((*file).clone()), of_member(id, &owner.settings)));
    let document = Document { settings, list: list.collect() };
    let sealed = cluster::from_document(&proposal.file, &document, &mut findings);
    ConfigError::unless_clean(sealed.map(|(cluster, _)| cluster), findings)
}

/// What `cluster.toml` says of a replica, as its owner's file says it.
fn of_member(id: usize, said: &Settings) -> Settings {
    let mut settings = said.clone();
    settings.set("id", Value::Integer(id as u64), said.source("name"));
    settings
}
