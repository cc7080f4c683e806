//! `quorate gateway`

use std::sync::Arc;

use clap::Args;
use quorate_core::client::Fatal;
use quorate_node::client::Client;
use quorate_node::config::{Finding, HostPort, Place};
use quorate_node::gateway::server::{Limits, serve};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::arguments::{HomeArgument, SendTo};
use crate::cluster::{client_config, cluster_of, fresh_key};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json_line};
use crate::parent::ParentArgument;

/// Answer the Redis protocol, and order what comes in through the cluster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its key and cluster.toml.
    #[command(flatten)]
    pub home: HomeArgument,
    /// Where to listen; port 0: any free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:6379", value_name = "ADDRESS")]
    pub listen: HostPort,
    #[command(flatten)]
    pub parent: ParentArgument,
}

/// Runs `gateway`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let mut parent = arguments.parent.watch();
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    // A session of its own for each run: nothing of an earlier one is to be found again.
    let key = fresh_key(&home)?;
    let failed = |error: std::io::Error| failure(error.to_string(), &arguments.listen);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let listener = TcpListener::bind(arguments.listen.to_string()).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let config = client_config(&cluster, SendTo::All);
        let client = tokio::select! {
            client = Client::connect(config, key) => {
                client.map_err(|fatal: Fatal| failure(fatal.to_string(), &arguments.listen))?
            }
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            () = parent.wait() => return Ok(()),
        };
        match format {
            Format::Table => print(&format!("redis clients at {address}\n"))?,
            Format::Json => print_json_line(&json!({ "redis_address": address.to_string() }))?,
        }
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = parent.wait() => {}
            }
        };
        serve(listener, Arc::new(client), Limits::default(), stop).await.map_err(failed)
    })
}

fn failure(what: String, address: &HostPort) -> Failure {
    let place = Place::Flag(format!("--listen {address}"));
    let remedy = "choose a free address, and see that the cluster runs".to_owned();
    Failure::new(Exit::Failed, Finding { what, place, remedy })
}
