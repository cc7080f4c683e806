//! `quorate load`

use clap::{Args, ValueEnum};
use quorate_node::config::ByteSize;

use crate::arguments::{HomeArgument, SendTo};

/// Put load on a running cluster, and report throughput and latency.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its key and cluster.toml.
    #[command(flatten)]
    pub home: HomeArgument,
    /// Commands in one request frame.
    #[arg(long, default_value_t = 100, value_name = "COMMANDS")]
    pub batch: u32,
    /// Bytes of a command's value.
    #[arg(long, default_value = "128B", value_name = "SIZE")]
    pub payload: ByteSize,
    /// Open loop: commands a second, sent whether or not answers come, latency counted from the
    /// planned moment of sending. Default: closed loop.
    #[arg(long, conflicts_with = "outstanding", value_name = "COMMANDS")]
    pub rate: Option<u64>,
    /// How many clients, each with a key and a session of its own.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub clients: u32,
    /// Closed loop: commands a client has under way at once.
    #[arg(long, default_value_t = 1000, value_name = "COMMANDS")]
    pub outstanding: u32,
    /// How long to measure.
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub seconds: u64,
    /// How long to run before measuring, in seconds.
    #[arg(long, default_value_t = 5, value_name = "N")]
    pub warmup: u64,
    /// To whom frames go.
    #[arg(long, value_enum, default_value_t = SendTo::All, value_name = "WHOM")]
    pub send_to: SendTo,
    /// What the commands do.
    #[arg(long, value_enum, default_value_t = Workload::Set, value_name = "NAME")]
    pub workload: Workload,
}

/// What the commands of a load do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Write random keys.
    Set,
    /// Nine reads for one write, all ordered.
    Mixed,
    /// Bytes that mean nothing: for the ordering application.
    Opaque,
}
