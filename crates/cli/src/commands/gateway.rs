//! `quorate gateway`

use clap::Args;
use quorate_node::config::HostPort;

use crate::arguments::HomeArgument;

/// Answer the Redis protocol, and order what comes in through the cluster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its key and cluster.toml.
    #[command(flatten)]
    pub home: HomeArgument,
    /// Where to listen; port 0: any free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:6379", value_name = "ADDRESS")]
    pub listen: HostPort,
}
