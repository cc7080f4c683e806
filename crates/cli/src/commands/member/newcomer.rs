//! `quorate member new`

use std::path::PathBuf;

use clap::Args;
use quorate_core::{Digest, ReplicaId};
use quorate_node::config::{Finding, Home, HostPort, Overrides, Place, load, load_cluster};
use quorate_node::newcomer::{self, Newcomer, NextKey};
use serde_json::json;

use super::Known;
use crate::arguments::HomeArgument;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, warn};

/// Make the home of a replica that is to join: its keys never leave this machine. What it writes to
/// config/member.toml is for an administrator, who adds the replica with `quorate member add`. It
/// may be started before that, or after.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder of the home; made, and never written over.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The cluster's cluster.toml.
    #[arg(long, value_name = "FILE")]
    cluster: PathBuf,
    /// Where other replicas will reach it.
    #[arg(long, value_name = "ADDRESS")]
    peer: HostPort,
    /// Where clients will reach it.
    #[arg(long, value_name = "ADDRESS")]
    client: HostPort,
    /// Where it tells status and metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    http: HostPort,
    /// Its id: one that nobody has. Default: the cluster is asked for one.
    #[arg(long, value_name = "ID")]
    id: Option<u16>,
}

/// Make the next key of the replica in this home, beside the one in use: its consensus key, or with
/// --transport the one of its connections. The replica may run. What it writes to
/// config/next-key.toml (config/next-transport-key.toml) is for an administrator (`quorate member
/// rotate-key`); the key itself never leaves this machine.
#[derive(Debug, Args)]
pub struct KeyArguments {
    /// The replica's home.
    #[command(flatten)]
    home: HomeArgument,
    /// The key of its connections, and not the one for votes.
    #[arg(long)]
    transport: bool,
}

pub(super) fn next_key(arguments: &KeyArguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let loaded = load(&home, &Overrides::with_process_environment(Vec::new()))?;
    warn(&loaded.warnings);
    let which = if arguments.transport { NextKey::Transport } else { NextKey::Consensus };
    let member = newcomer::next_key(&loaded, which)?.member;
    let (id, name, file) = (member.id, which.name(), home.next_file(which.name()));
    let key = match which {
        NextKey::Consensus => member.consensus_key.to_string(),
        NextKey::Transport => Digest(member.transport_key.0).to_string(),
    };
    match format {
        Format::Table => print(&format!(
            "replica {id} is ready for the {name} key {key}\n\
             hand {} to an administrator: quorate member rotate-key FILE\n",
            file.display()
        )),
        Format::Json => {
            let mut told = json!({ "replica": id.0, "next_key": file.display().to_string() });
            told[format!("{name}_key")] = key.into();
            print_json(&told)
        }
    }
}

pub(super) fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let (cluster, warnings) = load_cluster(&arguments.cluster)?;
    warn(&warnings);
    let home = Home::new(&arguments.folder);
    for (flag, address) in [("--peer", &arguments.peer), ("--client", &arguments.client)] {
        if address.port() == 0 {
            let what = format!("others cannot reach port 0 of {address}");
            let place = Place::Flag(flag.to_owned());
            let remedy = "name the port".to_owned();
            return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
        }
    }
    let mut known = Known::at(home.clone(), cluster)?;
    let id = match arguments.id {
        Some(id) => ReplicaId(id),
        None => {
            known.catch_up()?;
            known.chain.vacant_id().ok_or_else(|| {
                known.failed(&"all ids are taken", "remove members first, or name an id with --id")
            })?
        }
    };
    let newcomer = Newcomer {
        id,
        peer_address: arguments.peer.clone(),
        client_address: arguments.client.clone(),
        http_address: arguments.http.clone(),
    };
    newcomer::make(&home, &known.cluster, &newcomer)
        .map_err(|finding| Failure::new(Exit::Usage, finding))?;
    let (file, root) = (home.member_file(), home.root().display());
    match format {
        Format::Table => print(&format!(
            "replica {id} has its home in {root}\n\
             hand {} to an administrator, who adds it: quorate member add FILE\n\
             start it: quorate start --home {root}\n",
            file.display()
        )),
        Format::Json => print_json(&json!({
            "replica": id.0,
            "home": root.to_string(),
            "member": file.display().to_string(),
        })),
    }
}
