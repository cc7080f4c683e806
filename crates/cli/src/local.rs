//! A runtime for clients, and the laboratory's clusters on this machine.

#[cfg(feature = "laboratory")]
mod clusters;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::{Exit, Failure};
#[cfg(feature = "laboratory")]
pub use clusters::{failure, program, start_gateway};

/// A runtime for clients, and a flag that SIGINT and SIGTERM set. A second one exits at once.
pub fn runtime() -> Result<(tokio::runtime::Runtime, Arc<AtomicBool>), Failure> {
    let failed = |error| Failure::io(error, Path::new("quorate"), "see the system's limits");
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(failed)?;
    let told = Arc::new(AtomicBool::new(false));
    let entered = runtime.enter();
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let tell = Arc::clone(&told);
    runtime.spawn(async move {
        loop {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if tell.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(Exit::Failed as u8));
            }
        }
    });
    drop(entered);
    Ok((runtime, told))
}
