//! `quorate init`

use clap::Args;
use quorate_node::begin::{BeginError, begin};
use quorate_node::config::{Finding, Place, load};
use serde_json::json;

use crate::arguments::HomeArgument;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, warn};

/// Make the data folder of a replica that never ran, from its keys, cluster.toml and node.toml.
///
/// Once in a replica's life. If its data was lost, use `quorate start --rejoin-after-data-loss`
/// instead: nobody knows then what it voted for.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub home: HomeArgument,
}

/// Runs `init`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let loaded = load(&arguments.home.home(), &Default::default())?;
    warn(&loaded.warnings);
    let keys = loaded.open_keys()?;
    let data = &loaded.node.storage.folder;
    begin(&loaded, &keys).map_err(|error| {
        let (exit, remedy) = match &error {
            BeginError::Begun(_) | BeginError::Data(_) => (
                Exit::Usage,
                "start it with quorate start; if its data was lost, once with \
                 --rejoin-after-data-loss",
            ),
            BeginError::Committee(_) => (Exit::Usage, "correct cluster.toml"),
            BeginError::Io { .. } => {
                (Exit::Failed, "see to the disk (space, permissions), and try again")
            }
        };
        let place = Place::File(data.clone());
        Failure::new(exit, Finding { what: error.to_string(), place, remedy: remedy.to_owned() })
    })?;
    let (id, count) = (loaded.node.replica, loaded.cluster.members.len());
    let (chain, genesis) = (&loaded.cluster.chain, loaded.cluster.genesis_digest());
    match format {
        Format::Table => print(&format!(
            "replica {id} of {count} can be started: its data folder is {}\n\
             chain {chain} has the genesis digest {genesis}: compare it with the other owners\n",
            data.display()
        )),
        Format::Json => print_json(&json!({
            "chain": chain,
            "chain_digest": loaded.cluster.chain_digest().to_string(),
            "genesis_digest": genesis.to_string(),
            "replica": id.0,
            "data": data.display().to_string(),
        })),
    }
}
