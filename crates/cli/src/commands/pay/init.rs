//! `quorate pay init`

use std::path::PathBuf;

use clap::Args;
use quorate_payments::setup::{self, Options, SetupError};
use serde_json::json;

use super::failed;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json};

/// Make the homes of a payment network on this machine: nodes, and a wallet that has everything.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder for the homes. Homes are never written over.
    folder: PathBuf,
    /// How many nodes.
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    nodes: usize,
    /// The first of three ports a node. Default: ports that are free now.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// What there is, in all. Nothing is ever added.
    #[arg(long, default_value_t = 1_000_000_000, value_name = "AMOUNT")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    supply: u64,
    /// The network's name.
    #[arg(long, default_value = "payments", value_name = "NAME")]
    name: String,
}

/// Runs `pay init`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let options = Options {
        name: arguments.name.clone(),
        base_port: arguments.port,
        genesis: vec![(None, arguments.supply)],
        parameters: setup::parameters_among(arguments.nodes),
    };
    let folder = &arguments.folder;
    let made = setup::init(folder, arguments.nodes, &options).map_err(|error| match &error {
        SetupError::Refused(_) => {
            failed(Exit::Usage, error, folder, "correct what the message names")
        }
        _ => failed(
            Exit::Failed,
            error,
            folder,
            "see to the cause, remove what was made, and try again",
        ),
    })?;
    let wallet = made.wallet.display();
    match format {
        Format::Table => print(&format!(
            "{} nodes of network {} ({}) in {}\nrun each:   quorate pay node --home {}\nits wallet: \
             quorate wallet balance --home {wallet}\n",
            made.nodes.len(),
            made.network.name,
            made.network.chain(),
            folder.display(),
            folder.join("node-0").display(),
        )),
        Format::Json => print_json(&json!({
            "chain": made.network.chain().to_string(),
            "nodes": made.nodes.iter().map(|home| home.display().to_string()).collect::<Vec<_>>(),
            "wallet": wallet.to_string(),
        })),
    }
}
