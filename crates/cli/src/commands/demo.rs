//! `quorate demo`

use clap::Args;
use quorate_node::config::ProtocolName;

use crate::arguments::protocol;

/// Run a cluster in a temporary folder, with load, and show what it does.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Stop after this long. Default: when told to.
    #[arg(long, value_name = "N")]
    pub seconds: Option<u64>,
    /// The protocol that orders the blocks.
    #[arg(long, default_value = "hotstuff-chained", value_parser = protocol(), value_name = "NAME")]
    pub protocol: ProtocolName,
    /// How many replicas; n tolerates (n - 1) / 3 faulty ones.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    pub replicas: usize,
    /// The port that answers redis-cli; 0: any free one, which is printed.
    #[arg(long, default_value_t = 6379, value_name = "PORT")]
    pub port: u16,
}
