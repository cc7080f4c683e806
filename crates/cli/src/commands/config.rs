//! `quorate config check` and `quorate config show`

use clap::{Args, Subcommand};
use quorate_node::config::schema::Value as Setting;
use quorate_node::config::{Effective, Loaded, Place, load};
use serde_json::{Value, json};

use crate::arguments::{HomeArgument, SettingArguments};
use crate::failure::Failure;
use crate::output::{Format, finding_json, print, print_json, table, warn};

/// What to do with a configuration.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say whether a replica could start with it; exit code 2 if not.
    Check(CheckArguments),
    /// Print the settings, and who set each.
    Show(ShowArguments),
}

/// What to check.
#[derive(Debug, Args)]
pub struct CheckArguments {
    #[command(flatten)]
    home: HomeArgument,
    #[command(flatten)]
    settings: SettingArguments,
}

/// What to show.
#[derive(Debug, Args)]
pub struct ShowArguments {
    #[command(flatten)]
    home: HomeArgument,
    #[command(flatten)]
    settings: SettingArguments,
    /// Show every setting in force, those that nobody set among them.
    #[arg(long)]
    effective: bool,
}

/// Runs `config check` or `config show`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::Check(arguments) => check(arguments, format),
        Command::Show(arguments) => show(arguments, format),
    }
}

fn check(arguments: &CheckArguments, format: Format) -> Result<(), Failure> {
    let checked = load(&arguments.home.home(), &arguments.settings.overrides())
        .and_then(|mut loaded| {
            loaded.open_keys()?;
            loaded.warnings.extend(loaded.doubtful_share());
            Ok(loaded)
        })
        .map_err(Failure::from);
    match (format, checked) {
        (Format::Table, Err(failure)) => Err(failure),
        (Format::Table, Ok(loaded)) => {
            warn(&loaded.warnings);
            print(&format!(
                "the configuration holds: replica {} of {} in chain {} ({})\n",
                loaded.node.replica,
                loaded.cluster.members.len(),
                loaded.cluster.chain,
                loaded.cluster.chain_digest(),
            ))
        }
        (Format::Json, Err(failure)) => {
            let findings: Vec<_> = failure.findings().iter().map(finding_json).collect();
            print_json(&json!({ "ok": false, "findings": findings }))?;
            Err(failure)
        }
        (Format::Json, Ok(loaded)) => {
            let warnings: Vec<_> = loaded.warnings.iter().map(finding_json).collect();
            let mut report = identity(&loaded);
            report["ok"] = true.into();
            report["warnings"] = warnings.into();
            print_json(&report)
        }
    }
}

fn show(arguments: &ShowArguments, format: Format) -> Result<(), Failure> {
    let loaded = load(&arguments.home.home(), &arguments.settings.overrides())?;
    let shown = loaded
        .effective
        .iter()
        .filter(|setting| arguments.effective || setting.setting.source != Place::Default);
    match format {
        Format::Table => {
            warn(&loaded.warnings);
            let rows: Vec<_> = shown.map(row).collect();
            let digest = loaded.cluster.chain_digest();
            print(&format!(
                "chain digest {digest}\n\n{}",
                table(["FILE", "KEY", "VALUE", "SOURCE"], &rows)
            ))
        }
        Format::Json => {
            let settings: Vec<_> = shown.map(setting_json).collect();
            let mut report = identity(&loaded);
            report["settings"] = settings.into();
            print_json(&report)
        }
    }
}

fn identity(loaded: &Loaded) -> Value {
    json!({
        "chain": loaded.cluster.chain,
        "chain_digest": loaded.cluster.chain_digest().to_string(),
        "replica": loaded.node.replica.0,
    })
}

fn row(effective: &Effective) -> [String; 4] {
    let setting = &effective.setting;
    let (value, source) = (setting.value.to_toml(), setting.source.to_string());
    [format!("{}.toml", effective.file), effective.key.clone(), value, source]
}

fn setting_json(effective: &Effective) -> Value {
    let value = match &effective.setting.value {
        Setting::Integer(n) => json!(n),
        Setting::Ratio(n) => json!(n),
        Setting::Bool(value) => json!(value),
        other => json!(other.to_string()),
    };
    json!({
        "file": format!("{}.toml", effective.file),
        "key": effective.key,
        "value": value,
        "source": effective.setting.source.to_string(),
    })
}
