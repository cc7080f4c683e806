//! `quorate net measure`

use std::time::Duration;

use clap::Args;
use quorate_netem::measure::{Observed, Probe, measure_between};
use quorate_netem::{Link, Topology, control};
use serde_json::{Value, json};

use super::{NameArgument, usage};
use crate::failure::Failure;
use crate::output::{Format, print, print_json, table};

/// Measure links of a running network with the kernel's own UDP and TCP: what was asked for against
/// what is observed. It takes some seconds a link.
#[derive(Debug, Args)]
pub struct Arguments {
    /// From which node: a replica's number, or clients. Default: one of each kind of link there is.
    #[arg(requires = "to")]
    from: Option<String>,
    /// To which node.
    to: Option<String>,
    /// UDP packets to send.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000), value_name = "N")]
    packets: u64,
    /// How many of them a second.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000), value_name = "N")]
    rate: u64,
    /// How long TCP sends as fast as it can, in seconds. Default: 4 on links with a bandwidth, 0 on
    /// others.
    #[arg(long, value_parser = clap::value_parser!(u64).range(0..=600), value_name = "N")]
    tcp: Option<u64>,
    #[command(flatten)]
    name: NameArgument,
}

/// Runs it.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let found = arguments.name.running()?;
    let links = control::links(&found.socket)?;
    let mut measured = Vec::new();
    for (from, to) in pairs(arguments, &links)? {
        let Some(asked) = links.link(from, to) else { continue };
        let (source, sink) = (found.namespace(&links, from)?, found.namespace(&links, to)?);
        let observed = measure_between(&source, &sink, asked, &probe(arguments, asked))?;
        measured.push((source.node().to_owned(), sink.node().to_owned(), observed));
    }
    match format {
        Format::Json => print_json(&json!(measured.iter().map(for_programs).collect::<Vec<_>>())),
        Format::Table => print(&for_people(&measured)),
    }
}

/// Which links to look at: the one that is named, or the first of each kind.
fn pairs(arguments: &Arguments, links: &Topology) -> Result<Vec<(usize, usize)>, Failure> {
    if let (Some(from), Some(to)) = (&arguments.from, &arguments.to) {
        let node = |name: &String| {
            let nodes =
                links.nodes_named(name, "measure").map_err(quorate_netem::NetError::from)?;
            match nodes.as_slice() {
                [node] => Ok(*node),
                _ => Err(usage(format!("\"{name}\" is not one node"), "name a single one")),
            }
        };
        let (from, to) = (node(from)?, node(to)?);
        if from == to {
            let what = "there is no link from a node to itself".to_owned();
            return Err(usage(what, "name two nodes"));
        }
        return Ok(vec![(from, to)]);
    }
    let (mut kinds, mut pairs): (Vec<&Link>, Vec<_>) = (Vec::new(), Vec::new());
    for from in 0..links.size() {
        for to in (0..links.size()).filter(|to| *to != from) {
            if let Some(link) = links.link(from, to).filter(|link| !kinds.contains(link)) {
                kinds.push(link);
                pairs.push((from, to));
            }
        }
    }
    Ok(pairs)
}

fn probe(arguments: &Arguments, asked: &Link) -> Probe {
    let usual = if asked.rate_bits.is_some() && !asked.cut { 4 } else { 0 };
    Probe {
        packets: arguments.packets,
        packets_per_second: arguments.rate,
        bulk: Duration::from_secs(arguments.tcp.unwrap_or(usual)),
        ..Probe::default()
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn for_programs((from, to, observed): &(String, String, Observed)) -> Value {
    json!({
        "from": from,
        "to": to,
        "asked": observed.asked.to_string(),
        "packets_per_second": observed.packets_per_second,
        "sent": observed.sent,
        "arrived": observed.arrived,
        "arrived_again": observed.again,
        "overtaken": observed.overtaken,
        "loss": observed.loss(),
        "delay_mean_ms": ms(observed.delay_mean),
        "delay_p1_ms": ms(observed.delay_p1),
        "delay_p50_ms": ms(observed.delay_p50),
        "delay_p99_ms": ms(observed.delay_p99),
        "tcp_bits_per_second": observed.bulk_bits,
    })
}

fn for_people(measured: &[(String, String, Observed)]) -> String {
    let row = |(from, to, observed): &(String, String, Observed)| {
        let delay = |time: Duration| match observed.arrived {
            0 => String::new(),
            _ => format!("{:.3}", ms(time)),
        };
        [
            format!("{from} -> {to}"),
            observed.asked.to_string(),
            delay(observed.delay_p1),
            delay(observed.delay_p50),
            delay(observed.delay_p99),
            format!("{:.3} %", observed.loss() * 100.0),
            observed.bulk_bits.map_or_else(String::new, |bits| format!("{:.1}", bits / 1e6)),
        ]
    };
    let rows: Vec<_> = measured.iter().map(row).collect();
    table(["LINK", "ASKED FOR", "P1 MS", "P50 MS", "P99 MS", "LOST", "TCP MBIT/S"], &rows)
}
