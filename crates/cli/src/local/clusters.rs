//! What commands need that run whole clusters on this machine.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use quorate_lab::local::{Echo, LocalError, Process, Start};
use quorate_node::config::{Finding, Home, Place};

use crate::failure::{Exit, Failure};

/// How long a gateway may take to find the cluster.
const GATEWAY_WITHIN: Duration = Duration::from_secs(60);

/// This program, to be run again.
pub fn program() -> Result<PathBuf, Failure> {
    std::env::current_exe()
        .map_err(|error| Failure::io(error, Path::new("quorate"), "run it by its full path"))
}

/// Starts a gateway on the port asked for, or on a free one if that is taken. Where it listens.
pub fn start_gateway(
    program: &Path,
    client: &Home,
    port: u16,
    echo: Echo,
) -> Result<(Process, String), Failure> {
    let free = TcpListener::bind(("127.0.0.1", port)).is_ok();
    let listen = format!("127.0.0.1:{}", if free { port } else { 0 });
    let mut arguments = vec!["gateway".into(), "--home".into(), client.root().into()];
    arguments.extend(["--listen", &listen, "-o", "json", "--exit-with-parent"].map(Into::into));
    let start = Start {
        name: "gateway".to_owned(),
        program: program.to_owned(),
        arguments,
        log: client.root().join("gateway.log"),
        echo,
        namespace: None,
    };
    let failed = |error| failure(&LocalError::Process(error), client.root());
    let mut gateway = Process::start(&start).map_err(failed)?;
    let said = gateway.announced(GATEWAY_WITHIN).map_err(failed)?;
    Ok((gateway, said["redis_address"].as_str().unwrap_or(&listen).to_owned()))
}

/// A cluster that is not of use.
pub fn failure(error: &dyn std::error::Error, place: &Path) -> Failure {
    let place = Place::File(place.to_owned());
    let remedy = "see the log that is named, or the logs beside the data folders".to_owned();
    Failure::new(Exit::Failed, Finding { what: error.to_string(), place, remedy })
}
