//! A load that is one of several processes of an experiment.
//!
//! When every replica has answered it and it is warm, it says so on standard output. A line of
//! standard input then says when measuring begins, in nanoseconds since 1970. Standard input that
//! ends means that whoever started it is gone: it ends as well.

use std::io::BufRead as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use quorate_lab::experiment::Counted;
use quorate_lab::load::{self, LoadConfig, LoadError};
use serde_json::json;

use crate::failure::Failure;
use crate::output::print_json_line;

/// Makes the load, and writes what was counted to `file`.
pub fn run(
    config: &LoadConfig,
    file: &Path,
    failed: impl Fn(LoadError) -> Failure,
) -> Result<(), Failure> {
    let mut report = load::run_from(config, beginning).map_err(failed)?;
    let distribution = std::mem::take(&mut report.distribution);
    let counted = serde_json::to_vec(&Counted { report, distribution }).unwrap_or_default();
    // Whole or not at all: its reader takes a file that is there as one that is complete.
    let part = file.with_extension("part");
    std::fs::write(&part, counted)
        .and_then(|()| std::fs::rename(&part, file))
        .map_err(|error| Failure::io(error, file, "see to the disk"))
}

fn beginning() -> Result<SystemTime, String> {
    print_json_line(&json!({ "ready": true })).map_err(|_| "nobody listens".to_owned())?;
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| error.to_string())?;
    let nanoseconds: u64 =
        line.trim().parse().map_err(|_| "standard input ended, or said no time".to_owned())?;
    end_with_parent();
    Ok(SystemTime::UNIX_EPOCH + Duration::from_nanos(nanoseconds))
}

/// Ends this process when standard input ends.
fn end_with_parent() {
    let watching = std::thread::Builder::new().name("parent".to_owned()).spawn(|| {
        let mut line = String::new();
        while std::io::stdin().lock().read_line(&mut line).is_ok_and(|count| count > 0) {
            line.clear();
        }
        std::process::exit(1);
    });
    // Without it, it ends by itself when all is counted.
    drop(watching);
}
