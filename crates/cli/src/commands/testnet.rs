//! `quorate testnet`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use quorate_node::config::{Application, Durability};
use quorate_node::testnet::{Options, Testnet, init};
use serde_json::json;

use super::services;
use crate::arguments::{ChoiceArguments, application, described, durability};
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table, warn};

/// What to do with a testnet.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make the homes of a cluster on this machine: keys, configuration, empty data folders.
    Init(InitArguments),
    /// Run the cluster: all its replicas, and a gateway for Redis clients.
    Up(super::testnet_up::Arguments),
}

/// What kind of cluster to make.
#[derive(Debug, Args)]
pub struct InitArguments {
    /// Where the homes go; made if need be. Homes that are there are never written over.
    #[arg(default_value = "testnet", value_name = "FOLDER")]
    folder: PathBuf,
    /// How many replicas; n tolerates (n - 1) / 3 faulty ones.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    replicas: usize,
    /// The chain's name.
    #[arg(long, default_value = "testnet", value_name = "NAME")]
    chain: String,
    /// The first of three ports a replica. Default: whichever are free now.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// What is replicated.
    #[arg(long, default_value = "kv", value_parser = application(), value_name = "NAME")]
    #[arg(conflicts_with_all = ["program", "pipe"])]
    application: Application,
    /// Replicate the service of this program, as `quorate new` makes them. `testnet up` runs it.
    #[arg(long, value_name = "PATH", conflicts_with = "pipe")]
    program: Option<PathBuf>,
    /// Replicate an application that is a process of its own, in any language: this command, its
    /// words separated by spaces. docs/own-service.md has the protocol.
    #[arg(long, value_name = "COMMAND")]
    pipe: Option<String>,
    /// What a vote waits for: the disk, or the operating system.
    #[arg(long, default_value = "sync", value_parser = durability(), value_name = "NAME")]
    durability: Durability,
    /// Most commands in a block.
    #[arg(long, value_name = "COMMANDS")]
    batch: Option<u32>,
    /// How many administrators may change the members (`quorate member`). Their keys go to
    /// FOLDER/administrator-N.key. Default: none, and the members are fixed.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    administrators: usize,
    /// How many administrators must sign a change. Default: more than half.
    #[arg(long, value_name = "M")]
    approvals: Option<u16>,
    #[command(flatten)]
    choices: ChoiceArguments,
}

/// Runs `testnet`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    let arguments = match command {
        Command::Init(arguments) => arguments,
        Command::Up(arguments) => return super::testnet_up::run(arguments, format),
    };
    let service = match (&arguments.program, &arguments.pipe) {
        (Some(program), _) => Some(services::of_program(program)?),
        (None, Some(command)) => Some(services::of_command(command)?),
        (None, None) if arguments.application == Application::Service => {
            return Err(services::unnamed());
        }
        (None, None) => None,
    };
    let application = service.as_ref().map_or(arguments.application, |_| Application::Service);
    let options = Options {
        chain: arguments.chain.clone(),
        base_port: arguments.port,
        application,
        service: service.unwrap_or_default(),
        batch_commands: arguments.batch,
        durability: arguments.durability,
        administrators: arguments.administrators,
        approvals: arguments.approvals,
        ..arguments.choices.options(arguments.replicas)
    };
    let made = init(&arguments.folder, arguments.replicas, &options)?;
    warn(&made.warnings);
    match format {
        Format::Table => print(&for_people(&made)),
        Format::Json => print_json(&for_programs(&made)),
    }
}

/// Each replica: its home, and its addresses for peers, clients and HTTP.
fn rows(made: &Testnet) -> Vec<[String; 5]> {
    let homes = made.replicas.iter().zip(&made.cluster.members).zip(&made.http_addresses);
    homes
        .map(|((home, member), http)| {
            [
                member.id.to_string(),
                home.root().display().to_string(),
                member.peer_address.to_string(),
                member.client_address.to_string(),
                http.to_string(),
            ]
        })
        .collect()
}

/// The backup that was made, for people.
pub fn for_people(made: &Testnet) -> String {
    let keys = made.administrator_keys.iter();
    let keys: String = keys.map(|file| format!("administrator: {}\n", file.display())).collect();
    format!(
        "chain {} ({}), {}\n\n{}\nclient home: {}\n{keys}",
        made.cluster.chain,
        made.cluster.chain_digest(),
        described(&made.cluster.combination(), made.cluster.transport),
        table(["REPLICA", "HOME", "PEERS", "CLIENTS", "HTTP"], &rows(made)),
        made.client.root().display(),
    )
}

/// The backup that was made, for programs.
pub fn for_programs(made: &Testnet) -> serde_json::Value {
    let replicas: Vec<_> = rows(made)
        .into_iter()
        .enumerate()
        .map(|(id, [_, home, peer, client, http])| {
            json!({
                "id": id,
                "home": home,
                "peer_address": peer,
                "client_address": client,
                "http_address": http,
            })
        })
        .collect();
    json!({
        "chain": made.cluster.chain,
        "chain_digest": made.cluster.chain_digest().to_string(),
        "replicas": replicas,
        "administrator_keys": made.administrator_keys.iter()
            .map(|file| file.display().to_string()).collect::<Vec<_>>(),
        "client_home": made.client.root().display().to_string(),
    })
}
