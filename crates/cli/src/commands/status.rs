//! `quorate status`

use clap::Args;
use quorate_node::config::HostPort;

use crate::arguments::HomeArgument;

/// Ask a running replica how it is.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The replica's home, which says where it answers.
    #[command(flatten)]
    pub home: HomeArgument,
    /// Where it answers (listen.http): comes before the home.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<HostPort>,
}
