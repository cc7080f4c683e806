//! From a proposal and the files of all owners to `cluster.toml`.

use std::path::PathBuf;

use quorate_core::base::membership::MAX_REPLICAS;

use super::dealings::KeyGeneration;
use super::proposal::GROUP_KEY;
use super::{Owner, Proposal};
use crate::config::cluster::{self, Cluster};
use crate::config::document::Document;
use crate::config::finding::{ConfigError, Finding, Place};
use crate::config::schema::{Settings, Value};

/// The files of owners, each list in any order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files<'a> {
    /// What each owner says of itself.
    pub members: &'a [PathBuf],
    /// What each owner deals, where consensus keys are shares of one.
    pub dealings: &'a [PathBuf],
    /// What owners complain of. Those without a complaint have no such file.
    pub complaints: &'a [PathBuf],
}

/// The cluster of a proposal and of the owners of these files. The replicas have the ids from 0 in
/// the order of the owners' names, byte by byte. So all who seal the same files, in whatever order,
/// get the same cluster.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong: with a file, with its proofs, with two files
/// together, or with all of them.
pub fn seal(proposal: &Proposal, files: &Files<'_>) -> Result<Cluster, ConfigError> {
    let (owners, mut findings) = (gather(proposal, files)?, Vec::new());
    let administrators = owners.iter().filter_map(|(_, owner)| owner.administrator).collect();
    let mut settings = proposal.settings_with(administrators);
    let mut said: Vec<_> = owners.iter().map(|(_, owner)| owner.settings.clone()).collect();
    if let Some(generation) = generation_of(proposal, &owners, files)? {
        let Some(outcome) = generation.outcome(&mut findings) else {
            return ConfigError::unless_clean(None, findings);
        };
        settings.set(GROUP_KEY, Value::Hex(outcome.group.to_vec()), Place::Default);
        for (said, key) in said.iter_mut().zip(&outcome.members) {
            said.set("consensus_key", Value::Hex(key.to_vec()), said.source("name"));
        }
    }
    let members = owners.iter().zip(&said).enumerate();
    let list =
        members.map(|(id, ((file, _), said))| (Place::File((*file).clone()), of_member(id, said)));
    let document = Document { settings, list: list.collect() };
    let sealed = cluster::from_document(&proposal.file, &document, &mut findings);
    ConfigError::unless_clean(sealed.map(|(cluster, _)| cluster), findings)
}

/// The key generation of these owners, before anybody dealt.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong; also if the keys of the proposal's scheme are not
/// shares of one.
pub fn begin(proposal: &Proposal, files: &Files<'_>) -> Result<KeyGeneration, ConfigError> {
    let (owners, mut findings) = (gather(proposal, files)?, Vec::new());
    if !proposal.scheme().is_dealt() {
        return Err(not_dealt(proposal).into());
    }
    let generation = KeyGeneration::of(proposal, &owners, &mut findings);
    ConfigError::unless_clean(generation, findings)
}

/// As [`begin`], with the dealings of all owners, and the complaints of some.
///
/// # Errors
/// [`ConfigError`] with everything that is wrong.
pub fn generate(proposal: &Proposal, files: &Files<'_>) -> Result<KeyGeneration, ConfigError> {
    let owners = gather(proposal, files)?;
    let generation = generation_of(proposal, &owners, files)?;
    generation.ok_or_else(|| not_dealt(proposal).into())
}

fn not_dealt(proposal: &Proposal) -> Finding {
    Finding::new(
        format!(
            "the proposal's `signatures` is \"{}\": each owner makes its own key, and nobody deals",
            proposal.scheme()
        ),
        Place::File(proposal.file.clone()),
        "go on with `quorate genesis seal`",
    )
}

/// `None` where each owner has its own key.
fn generation_of(
    proposal: &Proposal,
    owners: &[(&PathBuf, Owner)],
    files: &Files<'_>,
) -> Result<Option<KeyGeneration>, ConfigError> {
    let mut findings = Vec::new();
    if !proposal.scheme().is_dealt() {
        let named = !files.dealings.is_empty() || !files.complaints.is_empty();
        return if named { Err(not_dealt(proposal).into()) } else { Ok(None) };
    }
    let mut generation = KeyGeneration::of(proposal, owners, &mut findings);
    if let Some(generation) = &mut generation {
        generation.take(files, owners, &mut findings);
    }
    ConfigError::unless_clean(generation.map(Some), findings)
}

/// All owners that the proposal names, in the order of their names, each with its file.
fn gather<'a>(
    proposal: &Proposal,
    files: &Files<'a>,
) -> Result<Vec<(&'a PathBuf, Owner)>, ConfigError> {
    let whole = || Place::File(proposal.file.clone());
    let files = files.members;
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
    ConfigError::unless_clean(Some(owners), findings)
}

/// What `cluster.toml` says of a replica, as its owner's file says it.
fn of_member(id: usize, said: &Settings) -> Settings {
    let mut settings = said.clone();
    settings.set("id", Value::Integer(id as u64), said.source("name"));
    settings
}
