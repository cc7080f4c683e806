//! The log of a process that goes on running, on standard error.

use std::io::IsTerminal as _;

use quorate_node::config::LogFormat;
use tracing_subscriber::filter::LevelFilter;

/// Logs to standard error from now on. Only a terminal gets colours: in a file their codes are
/// noise.
pub fn to_stderr(level: LevelFilter, format: LogFormat) {
    let logs = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(std::io::stderr);
    match format {
        LogFormat::Text => logs.with_target(false).init(),
        LogFormat::Json => logs.json().init(),
    }
}
