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
        Format::Table => {
            let (folder, wallet) =
                (quoted(&folder.display().to_string()), quoted(&wallet.to_string()));
            print(&format!(
                "{} nodes of network {} ({}) in {folder}\n\n\
                 run them all, until Ctrl-C:\n  \
                 (for home in {folder}/node-*; do quorate pay node --home $home & done; wait)\n\
                 then, in another terminal, from the wallet that has everything:\n  \
                 quorate wallet balance --home {wallet}\n  \
                 quorate wallet new --home {folder}/ada --network {wallet}/config/payments.toml\n  \
                 quorate wallet send --home {wallet} ADDRESS 250\n",
                made.nodes.len(),
                made.network.name,
                made.network.chain(),
            ))
        }
        Format::Json => print_json(&json!({
            "chain": made.network.chain().to_string(),
            "nodes": made.nodes.iter().map(|home| home.display().to_string()).collect::<Vec<_>>(),
            "wallet": wallet.to_string(),
        })),
    }
}

/// A path as a shell reads it: in quotes where something in it has a meaning there.
fn quoted(path: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-+,:@%".contains(letter);
    match !path.is_empty() && path.chars().all(is_plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_newcomer_copies_names_the_folder_whatever_is_in_it() {
        assert_eq!(quoted("/tmp/net-1"), "/tmp/net-1");
        assert_eq!(quoted("my net"), "'my net'");
        assert_eq!(quoted("Ada's $net"), "'Ada'\\''s $net'");
    }
}
