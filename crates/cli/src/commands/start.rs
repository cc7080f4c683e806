//! `quorate start`

use quorate_node::config::Application;
use quorate_node::launch::launch;
use quorate_service::pipe;
pub use quorate_service::start::Arguments;
use quorate_service::start::{self, Ready, launch_failure};

use crate::failure::Failure;
use crate::output::Format;

/// Runs `start`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let ended = start::run(arguments, version, format == Format::Json, async |ready| {
        if ready.loaded.cluster.application == Application::Service {
            return pipe::launch(ready).await;
        }
        let Ready { loaded, committee, keys, remedies } = ready;
        let launched = launch(loaded, committee, keys, remedies).await;
        launched.map_err(|error| launch_failure(&error, loaded))
    });
    Ok(ended?)
}
