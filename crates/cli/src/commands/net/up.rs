//! `quorate net up`

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use quorate_lab::experiment::read_network;
use quorate_netem::leftovers::{self, Found};
use quorate_netem::preset::{self, Preset};
use quorate_netem::topology::Description;
use quorate_netem::{Naming, NetError, Network, Settings};
use quorate_node::config::{Finding, Place};
use serde_json::{Value, json};

use crate::failure::{Exit, Failure};
use crate::local::{program, runtime};
use crate::output::{Format, print, print_json_line, table};

/// How often it is looked whether it is to end.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often it is looked whether the emulator is well.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Bring up an emulated network: a namespace for each of N replicas and one for clients, with the
/// links that a preset or a file describes (docs/networks.md). It stays until this is interrupted,
/// or `quorate net down`. Start programs in it with `ip netns exec NAMESPACE PROGRAM`. Needs root.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A preset (lan, wan-100ms, 4-regions-us, 20-cities) or a file that describes a network.
    #[arg(value_name = "PRESET|FILE")]
    description: String,
    /// How many replicas.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N")]
    replicas: usize,
    /// What it is called: 1 to 16 of a-z and 0-9.
    #[arg(long, default_value = "net", value_name = "NAME")]
    name: String,
    /// What chance is drawn from: which packets are lost.
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Leave it running in the background.
    #[arg(long)]
    detach: bool,
    /// Be what was left running.
    #[arg(long, hide = true, conflicts_with = "detach")]
    detached: bool,
}

/// Runs it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let description = describe(arguments)?;
    if arguments.detach {
        return detach(arguments, format);
    }
    if arguments.detached {
        // A terminal that is closed is none of its business. It fails only for who leads a session
        // already.
        let _ = rustix::process::setsid();
    }
    let (_runtime, told) = runtime()?;
    let is_meant = |found: &Found| found.alive && found.name == arguments.name;
    let living = leftovers::find().into_iter().find(is_meant);
    if let Some(found) = living {
        return Err(NetError::Clash { name: found.name, place: found.socket }.into());
    }
    let topology = description.topology(arguments.replicas).map_err(NetError::from)?;
    let settings = Settings {
        naming: Naming::Named(arguments.name.clone()),
        seed: arguments.seed,
        ..Settings::default()
    };
    let network = Network::up(&topology, &settings)?;
    // Now that it is known that this process may.
    for found in leftovers::remove()? {
        eprintln!("removed what a network \"{}\" left whose owner was killed", found.name);
    }
    print_up(&announcement(arguments, &network), format)?;
    let mut asked = Instant::now();
    while !told.load(Ordering::Relaxed) && !network.is_told_to_end() {
        std::thread::sleep(LOOK_EVERY);
        if asked.elapsed() > ASK_EVERY {
            network.report()?;
            asked = Instant::now();
        }
    }
    Ok(())
}

fn describe(arguments: &Arguments) -> Result<Description, Failure> {
    let written = &arguments.description;
    let description = match Preset::named(written) {
        Some(_) => Description::of_preset(written),
        None if Path::new(written).exists() => {
            return Ok(read_network(Path::new(written), arguments.replicas)?);
        }
        None => {
            let presets = preset::ALL.map(|(name, _)| name).join(", ");
            return Err(Failure::new(
                Exit::Usage,
                Finding {
                    what: format!("there is neither a preset nor a file \"{written}\""),
                    place: Place::File(PathBuf::from(written)),
                    remedy: format!("name one of {presets}, or a file (docs/networks.md)"),
                },
            ));
        }
    };
    description.topology(arguments.replicas).map_err(NetError::from)?;
    Ok(description)
}

/// What is said once it is up.
fn announcement(arguments: &Arguments, network: &Network) -> Value {
    let nodes = network.namespaces().iter().zip(network.names());
    let node = |(node, name): (&quorate_netem::Namespace, &String)| json!({ "node": node.node(), "namespace": name, "address": node.address() });
    json!({
        "name": arguments.name,
        "owner": std::process::id(),
        "nodes": nodes.map(node).collect::<Vec<_>>(),
    })
}

fn print_up(said: &Value, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        return print_json_line(said);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let nodes = said["nodes"].as_array().into_iter().flatten();
    let row = |node: &Value| ["node", "namespace", "address"].map(|key| text(&node[key]));
    let rows: Vec<_> = nodes.map(row).collect();
    let namespace = rows.first().map(|[_, name, _]| name.clone()).unwrap_or_default();
    print(&table(["NODE", "NAMESPACE", "ADDRESS"], &rows))?;
    print(&format!("\nip netns exec {namespace} PROGRAM starts a program in the first.\n"))
}

/// Starts this again, to be left running, and says what it says once it is up.
fn detach(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let failed = |error| Failure::io(error, Path::new("quorate"), "see the system's limits");
    let mut child = Command::new(program()?)
        .args(["net", "up", &arguments.description, "--name", &arguments.name, "--detached"])
        .args(["--replicas", &arguments.replicas.to_string()])
        .args(["--seed", &arguments.seed.to_string(), "--output", "json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(out) = &mut child.stdout {
        BufReader::new(out).read_line(&mut line).map_err(failed)?;
    }
    if let Ok(said) = serde_json::from_str(&line) {
        return print_up(&said, format);
    }
    let mut words = String::new();
    if let Some(mut err) = child.stderr.take() {
        err.read_to_string(&mut words).map_err(failed)?;
    }
    let ended = child.wait().map_err(failed)?;
    // Its words are an error as this program tells them.
    eprint!("{words}");
    std::process::exit(ended.code().unwrap_or(i32::from(Exit::Failed as u8)))
}
