//! Arguments that programs share.

use std::path::PathBuf;

use clap::Args;
use quorate_node::config::{FlagSetting, Home, Overrides};

/// Which home.
#[derive(Clone, Debug, Args)]
pub struct HomeArgument {
    /// The folder with config/ and data/.
    #[arg(long, env = "QUORATE_HOME", default_value = ".", value_name = "FOLDER")]
    home: PathBuf,
}

impl HomeArgument {
    /// The home.
    pub fn home(&self) -> Home {
        Home::new(&self.home)
    }
}

/// Settings of `node.toml` on the command line.
#[derive(Clone, Debug, Args)]
pub struct SettingArguments {
    /// Set a key of node.toml, as in `--set view_timeout.base=1s`. Can be repeated.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_and_value)]
    set: Vec<(String, String)>,
    /// How much is logged (log.level).
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
    /// What a log line looks like: text or json (log.format).
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<String>,
}

fn key_and_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.trim().to_owned(), value.trim().to_owned())),
        None => Err("expected KEY=VALUE, such as view_timeout.base=1s".to_owned()),
    }
}

impl SettingArguments {
    /// These, before the environment of this process.
    pub fn overrides(&self) -> Overrides {
        let set = self.set.iter().map(|(key, value)| ("--set", key.as_str(), value));
        let level = self.log_level.iter().map(|level| ("--log-level", "log.level", level));
        let format = self.log_format.iter().map(|format| ("--log-format", "log.format", format));
        let flags = set.chain(level).chain(format).map(|(flag, key, value)| FlagSetting {
            flag: flag.to_owned(),
            key: key.to_owned(),
            value: value.clone(),
        });
        Overrides::with_process_environment(flags.collect())
    }
}
