//! `quorate net status`

use clap::Args;
use quorate_netem::leftovers::{self, Found};
use quorate_netem::{NetError, control};
use serde_json::{Value, json};

use super::NameArgument;
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// Print the networks there are, who owns them, and what they carried; with --name also the links
/// of one.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    name: NameArgument,
}

/// Runs it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let found = match &arguments.name.name {
        Some(_) => vec![arguments.name.running()?],
        None => leftovers::find(),
    };
    let known = found.iter().map(known_of).collect::<Result<Vec<_>, _>>()?;
    if format == Format::Json {
        return print_json(&json!(known));
    }
    let rows: Vec<_> = known.iter().map(row).collect();
    let head = [
        "NAME",
        "OWNER",
        "NODES",
        "PROCESSES",
        "PACKETS",
        "LATE P50 MS",
        "P99 MS",
        "NO ROOM",
        "STATE",
    ];
    let mut text = if rows.is_empty() { "nothing is up\n".to_owned() } else { table(head, &rows) };
    if arguments.name.name.is_some() {
        let links = known.iter().filter_map(|one| one["links"].as_str());
        links.for_each(|links| text.push_str(&format!("\n{links}")));
    }
    print(&text)
}

fn known_of(found: &Found) -> Result<Value, NetError> {
    let mut known = json!({
        "name": found.name,
        "owner": found.owner,
        "alive": found.alive,
        "namespaces": found.namespaces,
        "processes": found.processes(),
    });
    if found.alive {
        known["links"] = json!(control::links(&found.socket)?.to_string());
        let report = control::ask(&found.socket, "report")?;
        known["report"] = serde_json::from_str(&report).unwrap_or_default();
    }
    Ok(known)
}

fn row(known: &Value) -> [String; 9] {
    let count = |value: &Value| value.as_array().map_or(0, Vec::len).to_string();
    let report = &known["report"];
    let ms = |span: &Value| match (span["secs"].as_f64(), span["nanos"].as_f64()) {
        (Some(seconds), Some(nanos)) => format!("{:.3}", seconds * 1e3 + nanos / 1e6),
        _ => String::new(),
    };
    let number = |value: &Value| value.as_u64().map_or_else(String::new, |one| one.to_string());
    let alive = known["alive"] == true;
    [
        known["name"].as_str().unwrap_or_default().to_owned(),
        known["owner"].to_string(),
        count(&known["namespaces"]),
        count(&known["processes"]),
        number(&report["carried"]),
        ms(&report["late_p50"]),
        ms(&report["late_p99"]),
        number(&report["no_room"]),
        if alive { "up" } else { "its owner was killed: quorate net down removes it" }.to_owned(),
    ]
}
