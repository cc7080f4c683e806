//! `quorate bench flood`: the attacker's process of `bench attacks`.
//!
//! It says so on standard output when everything is prepared. A line of standard input lets it
//! begin, the end of standard input ends it: it says how much it did.

use std::io::{BufRead as _, Read as _};
use std::sync::Arc;
use std::sync::mpsc;

use clap::Args;
use quorate_lab::attacks::{By, Target, named};
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use serde_json::json;

use super::attacks::unknown;
use crate::arguments::{HomeArgument, SendTo};
use crate::cluster::{addresses, cluster_of, session};
use crate::failure::Failure;
use crate::output::print_json_line;

/// How much lower its priority is than its victims': the processor time that an attacker spends is
/// not theirs.
const NICENESS: i32 = 10;

/// Flood a cluster.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Which flood.
    #[arg(value_name = "NAME")]
    name: String,
    /// A client's home.
    #[command(flatten)]
    home: HomeArgument,
    /// Where replicas tell their status, by id.
    #[arg(long, value_name = "ADDRESS")]
    http: Vec<String>,
    /// A gateway.
    #[arg(long, value_name = "ADDRESS")]
    gateway: Option<String>,
}

/// Runs `bench flood`.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    let flood = named(&arguments.name).ok_or_else(|| unknown(&arguments.name))?;
    let By::Client(act) = flood.by else { return Err(unknown(&arguments.name)) };
    take_descriptors();
    // It attacks all the same if the system does not let itself be told.
    let _ = nice(NICENESS);
    let target = Arc::new(Target::new(
        addresses(&cluster),
        cluster.members.iter().map(|member| member.peer_address.to_string()).collect(),
        arguments.http.clone(),
        arguments.gateway.clone(),
        session(&cluster, SendTo::All),
    ));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| Failure::io(error, home.root(), "see the system's limits"))?;
    let (end, ended) = tokio::sync::oneshot::channel();
    let (go, gone) = mpsc::channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        let mut input = std::io::stdin().lock();
        let told = input.read_line(&mut line).unwrap_or(0);
        // Who waits for either may have ended.
        let _ = go.send(told > 0);
        let mut rest = Vec::new();
        let _ = input.read_to_end(&mut rest);
        let _ = end.send(());
    });
    let flooding = act(Arc::clone(&target));
    runtime.block_on(async {
        let orders = async {
            target.prepared().await;
            let said = print_json_line(&json!({ "ready": true }));
            let go = tokio::task::spawn_blocking(move || gone.recv().unwrap_or(false)).await;
            if said.is_ok() && go.unwrap_or(false) {
                target.let_go();
            }
            let _ = ended.await;
        };
        tokio::select! {
            () = flooding => {}
            () = orders => {}
        }
    });
    print_json_line(&json!({ "did": target.done() }))
}

/// Raises the limit of open files as far as the system lets it.
fn take_descriptors() {
    let limits = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limits.maximum, maximum: limits.maximum };
    // With fewer it floods less, and says how much.
    let _ = setrlimit(Resource::Nofile, raised);
}
