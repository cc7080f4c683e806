//! `quorate testnet up`

use std::path::PathBuf;

use clap::Args;

/// Run all replicas of a testnet, each a process of its own, until told to stop.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Where `testnet init` made the homes.
    #[arg(default_value = "testnet", value_name = "FOLDER")]
    pub folder: PathBuf,
}
