//! `quorate pay node`

use std::time::Duration;

use clap::Args;
use quorate_node::config::{Durability, LogFormat};
use quorate_payments::ledger::LedgerError;
use quorate_payments::node::{End, Options, Running, StartError, launch};
use quorate_store::lazy_trie;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::failed;
use crate::arguments::{HomeArgument, durability};
use crate::failure::{Exit, Failure};
use crate::logging;
use crate::output::{Format, print, print_json_line};
use crate::parent::{Gone, ParentArgument};

/// How often it is looked whether the node has ended by itself.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Run one node until it is told to stop (SIGTERM or SIGINT; a second one exits at once).
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    home: HomeArgument,
    /// What an acceptance waits for before anybody is told: the disk, or the operating system.
    #[arg(long, default_value = "sync", value_parser = durability(), value_name = "NAME")]
    durability: Durability,
    #[command(flatten)]
    parent: ParentArgument,
}

/// Runs `pay node`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let parent = arguments.parent.watch();
    logging::to_stderr(tracing_subscriber::filter::LevelFilter::INFO, LogFormat::Text);
    let home = arguments.home.home().root().to_owned();
    let io = |error| Failure::io(error, &home, "see the system's limits");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("network")
        .enable_all()
        .build()
        .map_err(io)?;
    runtime.block_on(async {
        let durability = match arguments.durability {
            Durability::Sync => lazy_trie::Durability::Sync,
            Durability::Os => lazy_trie::Durability::Os,
        };
        let options = Options { home: home.clone(), durability };
        let running = launch(&options).await.map_err(|error| start_failure(&error, &home))?;
        // Before anybody hears that it is up, and may tell it to stop.
        let terminate = signal(SignalKind::terminate()).map_err(io)?;
        let interrupt = signal(SignalKind::interrupt()).map_err(io)?;
        announce(&running, format)?;
        serve(running, &home, parent, [terminate, interrupt]).await
    })
}

fn announce(running: &Running, format: Format) -> Result<(), Failure> {
    let Running { me, peer_address, client_address, http_address, .. } = running;
    match format {
        Format::Table => print(&format!(
            "node {me}: nodes at {peer_address}, wallets at {client_address}, http at {http_address}\n"
        )),
        Format::Json => print_json_line(&json!({
            "node": me.0,
            "peer_address": peer_address.to_string(),
            "client_address": client_address.to_string(),
            "http_address": http_address.to_string(),
        })),
    }
}

/// Until a signal, or the node's own end.
async fn serve(
    running: Running,
    home: &std::path::Path,
    mut parent: Gone,
    [mut terminate, mut interrupt]: [Signal; 2],
) -> Result<(), Failure> {
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut asked = false;
    while !running.has_ended() {
        let told = tokio::select! {
            _ = terminate.recv() => true,
            _ = interrupt.recv() => true,
            () = parent.wait() => true,
            _ = look.tick() => false,
        };
        if told && asked {
            std::process::exit(i32::from(Exit::Failed as u8));
        }
        if told {
            asked = true;
            running.stop();
        }
    }
    match running.join() {
        End::Stopped => Ok(()),
        End::Ledger(error) => Err(ledger_failure(&error, home)),
        End::Unsafe(what) => {
            let remedy = "keep this data folder as evidence, and report it";
            Err(failed(Exit::Unsafe, what, home, remedy))
        }
        End::Panicked => {
            let remedy = "report it with the log, and start again: what was accepted is on disk";
            Err(failed(Exit::Failed, "a thread of the node panicked", home, remedy))
        }
    }
}

fn ledger_failure(error: &LedgerError, home: &std::path::Path) -> Failure {
    let exit = match error {
        LedgerError::Store(lazy_trie::Error::Lock(_)) => Exit::Locked,
        LedgerError::Chain { .. } => Exit::Usage,
        LedgerError::Record(_) | LedgerError::Inconsistent(_) => Exit::Corrupt,
        LedgerError::Store(lazy_trie::Error::Damaged { .. }) => Exit::Corrupt,
        LedgerError::Store(_) => Exit::Failed,
    };
    let remedy = "or move the data folder away: the node fetches what the others accepted";
    failed(exit, error, &home.join("data"), remedy)
}

fn start_failure(error: &StartError, home: &std::path::Path) -> Failure {
    let (exit, remedy) = match error {
        StartError::Ledger(error) => return ledger_failure(error, home),
        StartError::Network(_) | StartError::Key(_) | StartError::Stranger(_) => {
            (Exit::Usage, "name a node's home with --home: `quorate pay init` makes some")
        }
        StartError::Parameters(_) => (Exit::Usage, "correct payments.toml at every node"),
        StartError::Listen { .. } => (Exit::Failed, "choose another address in payments.toml"),
        _ => (Exit::Failed, "see the system's limits"),
    };
    failed(exit, error, home, remedy)
}
