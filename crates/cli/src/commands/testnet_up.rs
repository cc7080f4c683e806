//! `quorate testnet up`

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use quorate_lab::local::{Echo, LocalCluster, Options, Process};
use quorate_node::config::{Application, Finding, Home, Place};
use quorate_node::testnet::program_of;
use serde_json::json;

use crate::cluster::cluster_of;
use crate::failure::{Exit, Failure};
use crate::local::{failure, program, runtime, start_gateway};
use crate::output::{Format, print, print_json_line};

/// How often it is looked whether a process has ended.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How long the gateway may take to stop.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// Run all replicas of a testnet and a gateway for Redis clients, each a process of its own, until
/// told to stop. What they print is shown behind their names, and kept in replica-N/replica.log.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Where `testnet init` made the homes.
    #[arg(default_value = "testnet", value_name = "FOLDER")]
    pub folder: PathBuf,
    /// The port that answers Redis clients; another free one if it is taken.
    #[arg(long, default_value_t = 6379, value_name = "PORT")]
    pub port: u16,
}

/// Runs `testnet up`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let folder = &arguments.folder;
    let client = Home::new(folder.join("client"));
    let cluster = cluster_of(&client)?;
    let count = cluster.members.len();
    let homes = (0..count).map(|id| Home::new(folder.join(format!("replica-{id}")))).collect();
    let application = cluster.application;
    let name = cluster.application_name();
    let (_runtime, told) = runtime()?;
    let program = program()?;
    let echo = Echo::Prefixed;
    let options = Options {
        program: program_of(folder).unwrap_or_else(|| program.clone()),
        arguments: Vec::new(),
        own_arguments: BTreeMap::new(),
        echo,
        namespaces: Vec::new(),
    };
    let mut replicas =
        LocalCluster::start(cluster, homes, options).map_err(|error| failure(&error, folder))?;
    let mut gateway = match application {
        Application::Kv => Some(start_gateway(&program, &client, arguments.port, echo)?),
        Application::Ordering | Application::Service => None,
    };
    let redis = gateway.as_ref().map(|(_, address)| address.clone());
    match (format, &redis) {
        (Format::Json, _) => {
            print_json_line(&json!({ "replicas": count, "redis_address": redis }))?;
        }
        (Format::Table, Some(address)) => print(&format!(
            "{count} replicas run; redis-cli -p {}\n",
            address.rsplit(':').next().unwrap_or_default()
        ))?,
        (Format::Table, None) if application == Application::Service => print(&format!(
            "{count} replicas of `{name}` run; clients use {}\n",
            client.cluster_file().display()
        ))?,
        (Format::Table, None) => print(&format!(
            "{count} replicas run; no gateway for Redis clients: application = \"ordering\" \
             answers no commands, see quorate pull\n"
        ))?,
    }
    let mut left = count;
    while left > 0 && !told.load(Ordering::Relaxed) {
        std::thread::sleep(LOOK_EVERY);
        // Told from the terminal, the children were told as well: that is no news.
        let news = (replicas.ended(), gateway.as_mut().and_then(|(gateway, _)| gateway.ended()));
        if told.load(Ordering::Relaxed) {
            break;
        }
        for (id, how, log) in news.0 {
            left -= 1;
            eprintln!("replica-{id} {how}; see {}", log.display());
        }
        if let Some(how) = news.1 {
            let log = gateway.take().map(|(gateway, _)| gateway.log().display().to_string());
            eprintln!("the gateway {how}; see {}", log.unwrap_or_default());
        }
    }
    if let Some((gateway, _)) = &mut gateway {
        Process::stop(gateway, STOP_WITHIN);
    }
    replicas.stop();
    if left > 0 {
        return Ok(());
    }
    let what = "every replica has ended by itself".to_owned();
    let remedy = "see the logs in the replicas' homes".to_owned();
    Err(Failure::new(Exit::Failed, Finding { what, place: Place::File(folder.clone()), remedy }))
}
