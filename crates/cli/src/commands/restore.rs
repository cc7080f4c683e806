//! `quorate restore`

use std::path::PathBuf;

use clap::Args;
use quorate_core::Height;
use quorate_node::backup::folder::Folder;
use quorate_node::backup::restore::{self, Given, NewCluster};
use quorate_node::backup::verify::Backup;
use quorate_node::config::{Durability, Home, load};
use quorate_node::testnet::{Options, Service, Testnet};
use serde_json::json;

use super::services;
use super::testnet::{for_people, for_programs};
use crate::arguments::durability;
use crate::failure::Failure;
use crate::output::{Format, print, print_json, warn};

/// Start from a backup: make a new cluster of it, or give one replica its state back.
///
/// With --new, the homes of a new cluster: new keys, a new chain identity, and the backed-up state
/// as its first. With --home, the state goes into the data folder of a replica that lost it. What
/// the replica signed is in no backup: start it once with --rejoin-after-data-loss.
#[derive(Debug, Args)]
pub struct Arguments {
    /// The folder of the backup.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// The home of the replica that lost its data.
    #[arg(long, value_name = "DIR", required_unless_present = "new", conflicts_with = "new")]
    home: Option<PathBuf>,
    /// The name of the new chain.
    #[arg(long, value_name = "CHAIN", requires = "out")]
    new: Option<String>,
    /// Where the homes of the new cluster go. The folder must not be there.
    #[arg(long, value_name = "HOMES", requires = "new")]
    out: Option<PathBuf>,
    /// The height of the state. Default: the highest there is. For one replica, the newest state in
    /// the backup up to this height.
    #[arg(long, value_name = "HEIGHT")]
    height: Option<u64>,
    /// How many replicas the new cluster has. Default: as many as the backed-up one.
    #[arg(short = 'n', long, value_name = "N", requires = "new")]
    replicas: Option<usize>,
    /// The first of three ports a replica. Default: whichever are free now.
    #[arg(long, value_name = "PORT", requires = "new")]
    port: Option<u16>,
    /// What a vote waits for: the disk, or the operating system.
    #[arg(long, default_value = "sync", value_parser = durability(), value_name = "NAME")]
    durability: Durability,
    /// The program of the service that is replicated, which `testnet up` runs.
    #[arg(long, value_name = "PATH", requires = "new", conflicts_with = "pipe")]
    program: Option<PathBuf>,
    /// The command of the application behind a pipe that is replicated.
    #[arg(long, value_name = "COMMAND", requires = "new")]
    pipe: Option<String>,
    /// How many administrators may change the members of the new cluster.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    #[arg(requires = "new")]
    administrators: usize,
    /// How many of them must sign a change. Default: more than half.
    #[arg(long, value_name = "M", requires = "administrators")]
    approvals: Option<u16>,
}

/// Runs `restore`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let folder = Folder::read(&arguments.folder)?;
    let backup = Backup::read(&folder)?;
    let height = arguments.height.map(Height);
    match (&arguments.home, &arguments.new, &arguments.out) {
        (_, Some(chain), Some(out)) => {
            let service = match (&arguments.program, &arguments.pipe) {
                (Some(program), _) => services::of_program(program)?,
                (None, Some(command)) => services::of_command(command)?,
                (None, None) => Service::default(),
            };
            let options = Options {
                chain: chain.clone(),
                base_port: arguments.port,
                service,
                durability: arguments.durability,
                administrators: arguments.administrators,
                approvals: arguments.approvals,
                ..Options::default()
            };
            let new = NewCluster { replicas: arguments.replicas, height, options };
            let made = restore::cluster((&backup, &folder), out, new)?;
            warn(&made.warnings);
            tell_cluster(&made, format)
        }
        (Some(home), ..) => replica((&backup, &folder), &Home::new(home), height, format),
        // Clap does not let this come.
        _ => Ok(()),
    }
}

fn tell_cluster(made: &Testnet, format: Format) -> Result<(), Failure> {
    let restored = made.cluster.restored.as_ref();
    match format {
        Format::Table => {
            let from = restored.map(|from| {
                format!(
                    "it begins with the state of height {} of the chain {} ({})\n",
                    from.height, from.chain, from.chain_digest
                )
            });
            print(&format!("{}{}", for_people(made), from.unwrap_or_default()))
        }
        Format::Json => {
            let mut value = for_programs(made);
            value["restored"] = restored.map_or(serde_json::Value::Null, |from| {
                json!({
                    "chain": from.chain,
                    "chain_digest": from.chain_digest.to_string(),
                    "height": from.height.0,
                    "root": from.root.to_string(),
                })
            });
            print_json(&value)
        }
    }
}

fn replica(
    backup: (&Backup, &Folder),
    home: &Home,
    height: Option<Height>,
    format: Format,
) -> Result<(), Failure> {
    let loaded = load(home, &Default::default())?;
    warn(&loaded.warnings);
    let place = (&loaded.member.consensus_key, loaded.node.storage.folder.as_path());
    let given = restore::replica(backup, &loaded.cluster, place, height)?;
    let (id, root) = (loaded.node.replica, home.root().display());
    let (what, height) = match given {
        Given::State(height) => (format!("the state of height {height}"), height),
        Given::First => ("the state that its chain begins with".to_owned(), Height(0)),
    };
    match format {
        Format::Table => print(&format!(
            "replica {id} has {what}\n\
             if it ran before, what it signed is not known: start it once with\n\
             quorate start --home {root} --rejoin-after-data-loss\n"
        )),
        Format::Json => print_json(&json!({
            "replica": id.0,
            "height": height.0,
            "first": given == Given::First,
        })),
    }
}
