//! `quorate start`

use clap::Args;

use crate::arguments::{HomeArgument, SettingArguments};

/// Run one replica until it is told to stop (SIGTERM or SIGINT; a second one exits at once).
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    pub home: HomeArgument,
    #[command(flatten)]
    pub settings: SettingArguments,
    /// The data folder was lost: ask the others which views this replica may have signed in, and
    /// take part only behind them. Without this, a missing signing state is refused.
    #[arg(long)]
    pub rejoin_after_data_loss: bool,
}
