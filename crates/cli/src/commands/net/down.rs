//! `quorate net down`

use std::time::{Duration, Instant};

use clap::Args;
use quorate_netem::leftovers::Found;
use quorate_netem::{control, leftovers};
use serde_json::json;

use super::{NameArgument, usage};
use crate::failure::Failure;
use crate::output::{Format, print, print_json};

/// How long an owner may take to take its network down.
const WITHIN: Duration = Duration::from_secs(10);

/// Take a network down, and remove what is left of networks whose owners were killed. Programs that
/// run in it go on, without links.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    name: NameArgument,
    /// All of them.
    #[arg(long, conflicts_with = "name")]
    all: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let removed = leftovers::remove()?;
    let mut meant = arguments.name.meant();
    let named = arguments.name.name.as_ref();
    let gone = named.is_none_or(|name| removed.iter().any(|found| found.name == *name));
    // To take nothing down is no failure, unless something was named that is not there.
    let known = arguments.all || (meant.is_empty() && gone);
    if !known {
        meant = vec![arguments.name.running()?];
    }
    let mut said = Vec::new();
    for found in &meant {
        said.push(end(found)?);
    }
    if format == Format::Json {
        let left: Vec<_> = removed.iter().map(|found| &found.name).collect();
        return print_json(&json!({ "down": said, "removed": left }));
    }
    for found in &removed {
        print(&format!("{}: removed, its owner was killed\n", found.name))?;
    }
    for (found, down) in meant.iter().zip(&said) {
        print(&format!("{}: down\n", found.name))?;
        if let Some(processes) = down["processes"].as_array().filter(|some| !some.is_empty()) {
            let numbers: Vec<String> = processes.iter().map(ToString::to_string).collect();
            eprintln!("warning: still running, without links: processes {}", numbers.join(", "));
        }
    }
    if removed.is_empty() && meant.is_empty() {
        print("nothing is up\n")?;
    }
    Ok(())
}

/// Asks its owner to take it down, and waits until it is.
fn end(found: &Found) -> Result<serde_json::Value, Failure> {
    let inside = found.processes();
    control::ask(&found.socket, "down")?;
    let began = Instant::now();
    let there =
        || leftovers::find().iter().any(|one| one.name == found.name && one.owner == found.owner);
    while there() {
        if began.elapsed() > WITHIN {
            let what = format!("process {} does not take \"{}\" down", found.owner, found.name);
            return Err(usage(what, "end that process, and then run this again"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(json!({ "name": found.name, "owner": found.owner, "processes": inside }))
}
