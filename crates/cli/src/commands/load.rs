//! `quorate load`

mod told;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use quorate_app::kv;
use quorate_core::base::crypto::ClientSigner;
use quorate_core::client::Fatal;
use quorate_core::client::message::Rejection;
use quorate_lab::load::{self, Arrivals, LoadConfig, LoadReport, Mix, Workload as Batches};
use quorate_node::config::{ByteSize, Cluster, Finding, Home, Place};
use serde_json::Value;

use crate::arguments::{ReadsName, SendTo, reads_by_index, seconds};
use crate::client_home::ClientHome;
use crate::cluster::{addresses, cluster_of, fresh_key, key_of, session};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json_line, table};

/// Put load on a running cluster, and report throughput and latency.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub home: ClientHome,
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
    #[arg(long, value_parser = rate, value_name = "COMMANDS")]
    pub rate: Option<f64>,
    /// Open loop: how commands arrive.
    #[arg(long, value_enum, default_value_t = ArrivalName::Even, requires = "rate", value_name = "NAME")]
    pub arrivals: ArrivalName,
    /// What random arrivals, keys, and with `--send-to one` each client's replica are drawn from.
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub seed: u64,
    /// How many clients, each with a key and a session of its own. Default: 4, or one for each
    /// --client-key.
    #[arg(long, value_name = "N", conflicts_with = "client_key")]
    pub clients: Option<u32>,
    /// A client's key file (`quorate keygen`), for clusters that take commands from listed clients
    /// alone; repeated, for several clients. Nobody else may use it meanwhile. Default: fresh keys.
    #[arg(long, value_name = "KEYFILE")]
    pub client_key: Vec<PathBuf>,
    /// Frames a client has under way at once; what has arrived beyond that waits at the client, and
    /// its latency counts. Default: 4, with --rate 32.
    #[arg(long, value_name = "FRAMES")]
    pub outstanding: Option<u32>,
    /// Closed loop: so many callers share each client, as the tasks of a service do, and each has
    /// one command under way. The client groups them.
    #[arg(
        long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..),
        conflicts_with_all = ["frame", "outstanding", "rate"]
    )]
    pub callers: Option<u32>,
    /// How long to measure, in seconds.
    #[arg(long, default_value = "30", value_name = "N", value_parser = seconds)]
    pub seconds: Duration,
    /// How long to run before measuring, in seconds.
    #[arg(long, default_value = "2", value_name = "N", value_parser = seconds)]
    pub warmup: Duration,
    /// How long each interval of the series is, in seconds.
    #[arg(long, default_value = "1", value_name = "N", value_parser = seconds)]
    pub interval: Duration,
    /// To whom frames go.
    #[arg(long, value_enum, default_value_t = SendTo::All, value_name = "WHOM")]
    pub send_to: SendTo,
    /// What the commands do.
    #[arg(long, value_enum, default_value_t = Workload::Set, value_name = "NAME")]
    pub workload: Workload,
    /// How many different keys are written, or records there are.
    #[arg(long, default_value_t = 100_000, value_name = "N")]
    pub keys: u64,
    /// Of a YCSB workload, which keys are asked for more often. Default: as YCSB has it.
    #[arg(long, value_enum, value_name = "NAME")]
    pub popularity: Option<Popularity>,
    /// How commands that only read are answered, if they are in a frame of their own: as with
    /// --callers, or where the workload only reads. An option of a closed loop.
    #[arg(long, value_enum, default_value_t = ReadsName::Ordered, conflicts_with = "rate", value_name = "HOW")]
    pub reads: ReadsName,
    /// Do not write the records of a YCSB workload first: they are there.
    #[arg(long)]
    pub records_are_there: bool,
    /// Be one of several processes of an experiment: say when all is warm, begin when told to on
    /// standard input, and write everything counted to this file.
    #[arg(long, hide = true, value_name = "FILE")]
    pub told: Option<PathBuf>,
}

/// How the commands of an open loop arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalName {
    /// One every 1 / rate.
    Even,
    /// At random, independently of each other.
    Poisson,
}

fn rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|_| "not a number of commands a second".to_owned())?;
    let fits = rate.is_finite() && rate > 0.0;
    fits.then_some(rate).ok_or_else(|| "must be above 0".to_owned())
}

/// What the commands of a load do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// Write random keys; with a payload of 0, commands without a byte, which do nothing.
    Set,
    /// Write random keys and answer what was there: replies as large as requests.
    Exchange,
    /// YCSB A: half reads, half updates.
    YcsbA,
    /// YCSB B: 95 % reads, 5 % updates.
    YcsbB,
    /// YCSB C: reads.
    YcsbC,
    /// YCSB D: 95 % reads of what was inserted last, 5 % inserts.
    YcsbD,
    /// YCSB E: 95 % scans, 5 % inserts.
    YcsbE,
    /// YCSB F: half reads, half read-modify-writes.
    YcsbF,
    /// Bytes that mean nothing: for the ordering application.
    Opaque,
}

impl Workload {
    fn mix(self) -> Option<Mix> {
        Some(match self {
            Self::YcsbA => Mix::A,
            Self::YcsbB => Mix::B,
            Self::YcsbC => Mix::C,
            Self::YcsbD => Mix::D,
            Self::YcsbE => Mix::E,
            Self::YcsbF => Mix::F,
            Self::Set | Self::Exchange | Self::Opaque => return None,
        })
    }
}

/// Which keys are asked for more often than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Popularity {
    /// None.
    Uniform,
    /// A few, by Zipf's law.
    Zipfian,
    /// Those that were written last.
    Latest,
}

impl From<Popularity> for load::Popularity {
    fn from(name: Popularity) -> Self {
        match name {
            Popularity::Uniform => Self::Uniform,
            Popularity::Zipfian => Self::Zipfian,
            Popularity::Latest => Self::Latest,
        }
    }
}

/// Runs `load`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    let config = config(arguments, &cluster)?;
    let failed = |error: load::LoadError| failure(error.to_string(), home.root(), remedy(&error));
    if let Some(file) = &arguments.told {
        return told::run(&config, file, failed);
    }
    let report = load::run(&config).map_err(failed)?;
    match format {
        Format::Table => print(&for_people(&report)),
        Format::Json => print_json_line(&json_of(&report)),
    }
}

/// The load that the arguments ask for.
pub fn config(arguments: &Arguments, cluster: &Cluster) -> Result<LoadConfig, Failure> {
    let home = arguments.home.home();
    let keys = keys(arguments, &home)?;
    let clients = u32::try_from(keys.len()).unwrap_or(u32::MAX);
    let batch = cluster.batch.max_commands;
    let usual = if arguments.callers.is_some() { 1 } else { (batch / clients).max(1) };
    let frame = arguments.frame.unwrap_or(usual) as usize;
    let payload = usize::try_from(arguments.payload.0).unwrap_or(usize::MAX);
    let workload = workload(arguments, frame, payload).map_err(|error| {
        failure(error.to_string(), home.root(), "ask for a smaller --frame or --payload")
    })?;
    let workload = match reads_by_index(cluster, Some(arguments.reads))? {
        true => workload.reading_by_index(),
        false => workload,
    };
    Ok(LoadConfig {
        protocol: cluster.protocol.name().to_owned(),
        replicas: addresses(cluster),
        session: session(cluster, arguments.send_to),
        authenticity: arguments.home.authenticity(cluster)?,
        contacts: Some(arguments.seed),
        keys,
        workload,
        write_records: !arguments.records_are_there,
        outstanding: outstanding(arguments),
        callers: arguments.callers.map(|callers| callers as usize),
        arrivals: match arguments.rate {
            None => Arrivals::Closed,
            Some(rate) => match arguments.arrivals {
                ArrivalName::Even => Arrivals::Even { rate },
                ArrivalName::Poisson => Arrivals::Poisson { rate, seed: arguments.seed },
            },
        },
        warm_up: arguments.warmup,
        duration: arguments.seconds,
        interval: arguments.interval,
        patience: Duration::from_secs(20),
        notice: if arguments.told.is_some() { |_| {} } else { |what| eprintln!("{what}") },
    })
}

/// The clients' keys: those of the files, or fresh ones.
fn keys(arguments: &Arguments, home: &Home) -> Result<Vec<Arc<dyn ClientSigner>>, Failure> {
    let files = &arguments.client_key;
    match files.is_empty() {
        true => (0..arguments.clients.unwrap_or(4).max(1)).map(|_| fresh_key(home)).collect(),
        false => {
            let keys: Vec<_> = files.iter().map(|file| key_of(file)).collect::<Result<_, _>>()?;
            let is_twice = |at: usize| {
                keys[..at].iter().any(|other| other.public_key() == keys[at].public_key())
            };
            match (0..keys.len()).find(|at| is_twice(*at)) {
                None => Ok(keys),
                Some(at) => {
                    let what = "this key is named twice, and a key has one session".to_owned();
                    Err(failure(what, &files[at], "name each key once"))
                }
            }
        }
    }
}

/// What helps against a load that could not begin.
fn remedy(error: &load::LoadError) -> &'static str {
    match error {
        load::LoadError::TurnedDown { reason: Fatal::Rejected(Rejection::NotListed), .. } => {
            "make a key (`quorate keygen`), have administrators allow it (`quorate client allow`), \
             and name its file with --client-key"
        }
        load::LoadError::TurnedDown { .. } => {
            "see what the list says of the keys: quorate client list"
        }
        _ => "see that the replicas run: quorate status",
    }
}

fn outstanding(arguments: &Arguments) -> usize {
    let usual = if arguments.rate.is_some() { 32 } else { 4 };
    arguments.outstanding.unwrap_or(usual).max(1) as usize
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
        Workload::Set => Batches::put(frame, payload, arguments.keys, arguments.seed, &ok, set),
        Workload::Exchange => Batches::exchange(frame, payload, (arguments.keys, arguments.seed)),
        Workload::Opaque => Batches::new(frame, payload, || load::Command {
            command: vec![b'x'; payload],
            answer: load::Answer::Any,
        }),
        ycsb => {
            let mix = ycsb.mix().unwrap_or(Mix::A);
            let popularity = arguments.popularity.map_or(mix.usual(), Into::into);
            Batches::ycsb(frame, payload, mix, popularity, (arguments.keys, arguments.seed))
        }
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
