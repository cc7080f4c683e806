//! `quorate load`

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use quorate_app::kv;
use quorate_lab::load::{self, Arrivals, LoadConfig, LoadReport, Workload as Batches};
use quorate_node::config::{ByteSize, Cluster, Finding, Place};
use serde_json::Value;

use crate::arguments::{HomeArgument, SendTo};
use crate::cluster::{addresses, cluster_of, fresh_key, session};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json_line, table};

/// Put load on a running cluster, and report throughput and latency.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub home: HomeArgument,
    /// Commands in one request frame. Default: the cluster's batch over the number of clients.
    #[arg(long, value_name = "COMMANDS")]
    pub frame: Option<u32>,
    /// What the report calls the batch: the cluster's batch.max_commands is what counts.
    #[arg(long, value_name = "COMMANDS")]
    pub batch: Option<u32>,
    /// Bytes of a command's value; 0: commands without a byte.
    #[arg(long, default_value = "128B", value_name = "SIZE")]
    pub payload: ByteSize,
    /// Open loop: commands a second, sent whether or not answers come, latency counted from the
    /// planned moment of sending. Default: closed loop.
    #[arg(long, conflicts_with = "outstanding", value_name = "COMMANDS")]
    pub rate: Option<u64>,
    /// How many clients, each with a key and a session of its own.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub clients: u32,
    /// Closed loop: frames a client has under way at once.
    #[arg(long, default_value_t = 4, value_name = "FRAMES")]
    pub outstanding: u32,
    /// How long to measure.
    #[arg(long, default_value_t = 30, value_name = "N")]
    pub seconds: u64,
    /// How long to run before measuring, in seconds.
    #[arg(long, default_value_t = 2, value_name = "N")]
    pub warmup: u64,
    /// To whom frames go.
    #[arg(long, value_enum, default_value_t = SendTo::All, value_name = "WHOM")]
    pub send_to: SendTo,
    /// What the commands do.
    #[arg(long, value_enum, default_value_t = Workload::Set, value_name = "NAME")]
    pub workload: Workload,
    /// How many different keys are written.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub keys: u64,
}

/// What the commands of a load do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Write random keys; with a payload of 0, commands without a byte, which do nothing.
    Set,
    /// Nine reads for one write, all ordered.
    Mixed,
    /// Bytes that mean nothing: for the ordering application.
    Opaque,
}

/// Runs `load`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    let config = config(arguments, &cluster)?;
    let report = load::run(&config).map_err(|error| {
        failure(error.to_string(), home.root(), "see that the replicas run: quorate status")
    })?;
    match format {
        Format::Table => print(&for_people(&report)),
        Format::Json => print_json_line(&json_of(&report)),
    }
}

/// The load that the arguments ask for.
pub fn config(arguments: &Arguments, cluster: &Cluster) -> Result<LoadConfig, Failure> {
    let home = arguments.home.home();
    let clients = arguments.clients.max(1);
    let batch = cluster.batch.max_commands;
    let frame = arguments.frame.unwrap_or((batch / clients).max(1)) as usize;
    let payload = usize::try_from(arguments.payload.0).unwrap_or(usize::MAX);
    let workload = workload(arguments, frame, payload).map_err(|error| {
        failure(error.to_string(), home.root(), "ask for a smaller --frame or --payload")
    })?;
    let keys = (0..clients).map(|_| fresh_key(&home)).collect::<Result<_, _>>()?;
    Ok(LoadConfig {
        protocol: cluster.protocol.name().to_owned(),
        replicas: addresses(cluster),
        session: session(cluster, arguments.send_to),
        keys,
        workload,
        outstanding: arguments.outstanding.max(1) as usize,
        arrivals: match arguments.rate {
            None => Arrivals::Closed,
            Some(rate) => Arrivals::Even { rate: rate as f64 },
        },
        warm_up: Duration::from_secs(arguments.warmup),
        duration: Duration::from_secs(arguments.seconds),
        patience: Duration::from_secs(20),
    })
}

fn workload(
    arguments: &Arguments,
    frame: usize,
    payload: usize,
) -> Result<Batches, load::WorkloadError> {
    let mut ok = Vec::new();
    kv::reply::encode::ok(&mut ok);
    let set = |key: &[u8], value: &[u8]| {
        let mut command = Vec::with_capacity(32 + value.len());
        kv::command::encode::set(&mut command, key, value, kv::Condition::Always, false);
        command
    };
    match arguments.workload {
        Workload::Set if payload == 0 => Batches::noop(frame, &[]),
        Workload::Set => Batches::put(frame, payload, arguments.keys, 1, &ok, set),
        Workload::Mixed => {
            let mut turn = 0u64;
            Batches::new(frame, payload, || {
                turn += 1;
                let key =
                    format!("key-{:012}", turn.wrapping_mul(0x9E37_79B9) % arguments.keys.max(1));
                let mut command = Vec::new();
                if turn.is_multiple_of(10) {
                    command = set(key.as_bytes(), &vec![b'x'; payload]);
                    load::Command { command, reply: Some(ok.clone()) }
                } else {
                    kv::command::encode::get(&mut command, key.as_bytes());
                    load::Command { command, reply: None }
                }
            })
        }
        Workload::Opaque => Batches::new(frame, payload, || load::Command {
            command: vec![b'x'; payload],
            reply: None,
        }),
    }
}

fn failure(what: String, place: &Path, remedy: &str) -> Failure {
    let place = Place::File(place.to_owned());
    Failure::new(Exit::Failed, Finding { what, place, remedy: remedy.to_owned() })
}

/// One JSON object.
pub fn json_of(report: &LoadReport) -> Value {
    serde_json::to_value(report).unwrap_or_default()
}

fn for_people(report: &LoadReport) -> String {
    let value = json_of(report);
    let rows: Vec<[String; 2]> = value
        .as_object()
        .into_iter()
        .flatten()
        .filter(|(_, value)| !value.is_array())
        .map(|(name, value)| [name.clone(), value.to_string()])
        .collect();
    let mut text = table(["FIGURE", "VALUE"], &rows);
    for warning in &report.warnings {
        text.push_str(&format!("warning: {warning}\n"));
    }
    text
}
