//! `quorate genesis verify`

use std::path::PathBuf;

use clap::Args;
use quorate_node::config::genesis::{Signatures, differences};
use quorate_node::config::{Cluster, Finding, Home, Place, load_cluster_alone};
use quorate_node::written::write_once;
use serde_json::json;

use super::arguments::usage;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// What is verified.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The sealed cluster.toml.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The genesis-signature.toml of each owner, or a file with several signatures.
    #[arg(value_name = "SIGNATURE")]
    signatures: Vec<PathBuf>,
    /// The home of an owner who signed: the file must be what it signed, or the fields that differ
    /// are named.
    #[arg(long, value_name = "FOLDER")]
    home: Option<PathBuf>,
    /// Write the signatures of all to this file, such as config/genesis-signatures.toml of a home:
    /// `quorate start` verifies them then. Never written over.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let file = &arguments.file;
    let (cluster, _) = load_cluster_alone(file)?;
    if let Some(home) = &arguments.home {
        as_signed(arguments, &cluster, &Home::new(home))?;
    }
    let mut all = Signatures::none(&cluster);
    let mut findings = Vec::new();
    for signature in &arguments.signatures {
        match Signatures::load(signature, &cluster) {
            Ok(read) => all.add(read),
            Err(error) => findings.extend(error.findings),
        }
    }
    if !findings.is_empty() {
        return Err(Failure::of_all(Exit::Usage, findings));
    }
    let missing = all.missing(&cluster);
    report(&cluster, &all, &missing, format)?;
    if !missing.is_empty() {
        return Err(Failure::new(
            Exit::Failed,
            Finding {
                what: format!("not signed by {}", missing.join(", ")),
                place: Place::File(file.clone()),
                remedy:
                    "gather their genesis-signature.toml: they sign with `quorate genesis sign`"
                        .to_owned(),
            },
        ));
    }
    match &arguments.out {
        Some(out) => write_once(out, &all.to_toml()).map_err(usage),
        None => Ok(()),
    }
}

/// The file is what the owner of `home` signed.
fn as_signed(arguments: &Arguments, cluster: &Cluster, home: &Home) -> Result<(), Failure> {
    let (signed, _) = load_cluster_alone(&home.signed_file())?;
    let finding = |difference: &quorate_node::config::genesis::Difference| Finding {
        what: format!("{difference} in what the owner of this home signed"),
        place: Place::File(arguments.file.clone()),
        remedy: "find out who changed it, and why, before anybody signs it".to_owned(),
    };
    let findings: Vec<_> = differences(&signed, cluster).iter().map(finding).collect();
    if findings.is_empty() { Ok(()) } else { Err(Failure::of_all(Exit::Usage, findings)) }
}

fn report(
    cluster: &Cluster,
    all: &Signatures,
    missing: &[String],
    format: Format,
) -> Result<(), Failure> {
    let genesis = cluster.genesis_digest();
    let state = |signed: bool| if signed { "signed" } else { "missing" };
    match format {
        Format::Table => {
            let rows = cluster.members.iter().map(|member| {
                let name = member.name.clone().unwrap_or_default();
                let state = state(all.has(member.id)).to_owned();
                [member.id.to_string(), name, member.peer_address.to_string(), state]
            });
            let rows = table(["REPLICA", "NAME", "PEERS", "STATE"], &rows.collect::<Vec<_>>());
            print(&format!("genesis digest {genesis}\n\n{rows}"))
        }
        Format::Json => print_json(&json!({
            "genesis_digest": genesis.to_string(),
            "complete": missing.is_empty(),
            "replicas": cluster.members.iter().map(|member| json!({
                "id": member.id.0,
                "name": member.name,
                "signed": all.has(member.id),
            })).collect::<Vec<_>>(),
        })),
    }
}
