//! `quorate bridge`

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quorate_node::client::{Client, State};
use quorate_node::config::{Finding, HostPort, LogFormat, Place};
use quorate_service::bridge::{Door, Limits, serve};
use quorate_service::client::{self, ClientConfig};
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::seconds;
use crate::client_home::ClientHome;
use crate::cluster::{KeyArgument, cluster_of};
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::output::{Format, print, print_json_line};
use crate::parent::ParentArgument;

/// Let programs of any language submit commands and ask questions, over HTTP with JSON. A reply or
/// answer is given when f + 1 replicas agree on it. docs/own-service.md has the requests.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml. Each run has a session of its own.
    #[command(flatten)]
    pub home: ClientHome,
    #[command(flatten)]
    pub key: KeyArgument,
    /// Where to listen; port 0: any free one, which is printed.
    #[arg(long, default_value = "127.0.0.1:8080", value_name = "ADDRESS", conflicts_with = "unix")]
    pub listen: HostPort,
    /// Listen on this Unix socket instead. It is made for its owner alone.
    #[arg(long, value_name = "PATH")]
    pub unix: Option<PathBuf>,
    /// How long a command may wait for the cluster, in seconds.
    #[arg(long, default_value = "10", value_name = "N", value_parser = seconds)]
    pub give_up_after: Duration,
    #[command(flatten)]
    pub parent: ParentArgument,
}

/// Runs `bridge`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let mut parent = arguments.parent.watch();
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    logging::to_stderr(LevelFilter::INFO, LogFormat::Text);
    let key = arguments.key.key(&home)?;
    let authenticity = arguments.home.authenticity(&cluster)?;
    let failed = |error: std::io::Error| failure(error.to_string(), arguments);
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    runtime.block_on(async {
        let (door, address) = open(arguments).await.map_err(failed)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
        let config = client::config(&cluster, Some(arguments.give_up_after));
        let client = Client::start(ClientConfig { authenticity, ..config }, key);
        match format {
            Format::Table => print(&format!("HTTP with JSON at {address}\n"))?,
            Format::Json => print_json_line(&json!({ "bridge_address": address }))?,
        }
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
                () = parent.wait() => {}
                // Nothing will be executed any more.
                _ = client.ended() => {}
            }
        };
        serve(door, client.clone(), Limits::default(), stop).await;
        if let Some(socket) = &arguments.unix {
            let _ = std::fs::remove_file(socket);
        }
        match client.state() {
            State::Ended(fatal) => Err(failure(fatal.to_string(), arguments)),
            State::Opening | State::Open(_) => Ok(()),
        }
    })
}

async fn open(arguments: &Arguments) -> std::io::Result<(Door, String)> {
    let Some(path) = &arguments.unix else {
        let listener = TcpListener::bind(arguments.listen.to_string()).await?;
        let address = listener.local_addr()?.to_string();
        return Ok((Door::Tcp(listener), address));
    };
    remove_left(path).await?;
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
    Ok((Door::Unix(listener), path.display().to_string()))
}

/// Removes the socket of a bridge that was killed: one that nobody answers at.
async fn remove_left(path: &Path) -> std::io::Result<()> {
    let is_socket =
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && tokio::net::UnixStream::connect(path).await.is_err() {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn failure(what: String, arguments: &Arguments) -> Failure {
    let place = match &arguments.unix {
        Some(path) => Place::File(path.clone()),
        None => Place::Flag(format!("--listen {}", arguments.listen)),
    };
    let remedy = "choose a free address, and see that the cluster runs".to_owned();
    Failure::new(Exit::Failed, Finding { what, place, remedy })
}
