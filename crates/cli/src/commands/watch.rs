//! `quorate watch`

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use quorate_app::kv::feed::Change;
use quorate_core::{Height, ReplicaId};
use quorate_node::client::watch::{Block, WatchError, Watcher};
use quorate_node::config::{Application, Cluster, Finding, Home, Place};
use quorate_node::watching::Json;

use crate::client_home::ClientHome;
use crate::cluster::{addresses, cluster_of};
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, print};

/// Before replicas are asked again of which none was of use.
const PAUSE: Duration = Duration::from_millis(500);
/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Print what committed commands change, as they do: every change of the keys with a prefix, in
/// order, each once. No replica is believed: what is printed is all there is, by a proof. With `-o
/// json` each change is a line.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub home: ClientHome,
    /// The first height. Default: behind the newest state.
    #[arg(long, value_name = "HEIGHT")]
    pub from: Option<u64>,
    /// Ask this replica first. Another one is asked when it is of no use.
    #[arg(long, value_name = "ID")]
    pub replica: Option<u16>,
    /// What keys begin with. Default: all keys.
    #[arg(value_name = "PREFIX", default_value = "")]
    pub prefix: String,
}

/// Runs `watch`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    check(&cluster, &home)?;
    let (replicas, from) = (addresses(&cluster), arguments.from.map(Height));
    let mut watcher = Watcher::new(replicas, &cluster, arguments.prefix.as_bytes(), from)
        .map_err(|error| failed(&home, error.to_string(), "mend cluster.toml"))?;
    if let Some(following) = arguments.home.following(&cluster)? {
        watcher = watcher.following(&cluster, &following);
    }
    let first = arguments.replica.unwrap_or_else(|| anyone(cluster.members.len()));
    let mut watcher = watcher.beginning_at(ReplicaId(first));
    let (runtime, told) = runtime()?;
    let mut began = false;
    loop {
        let next = runtime.block_on(async {
            tokio::select! {
                next = next(&mut watcher, &mut began) => Some(next),
                () = stopped(&told) => None,
            }
        });
        match next {
            None => return Ok(()),
            Some(Ok(block)) => show(&block, format)?,
            Some(Err(error @ WatchError::Gone { .. })) => {
                let remedy = "read what you need (quorate get --verified), and watch from the height \
                              behind the one that you read at";
                return Err(failed(&home, error.to_string(), remedy));
            }
            Some(Err(error)) => {
                eprintln!("warning: {error}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// The next block, having said where it begins.
async fn next(watcher: &mut Watcher, began: &mut bool) -> Result<Block, WatchError> {
    if !*began {
        let from = watcher.begin().await?;
        eprintln!("watching from height {from}");
        *began = true;
    }
    watcher.next().await
}

async fn stopped(told: &AtomicBool) {
    while !told.load(Ordering::Relaxed) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Some replica, so that not all who watch burden the same one.
fn anyone(replicas: usize) -> u16 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let number = since.map_or(0, |since| since.subsec_micros());
    (number % replicas.max(1) as u32) as u16
}

fn check(cluster: &Cluster, home: &Home) -> Result<(), Failure> {
    if cluster.application == Application::Kv {
        return Ok(());
    }
    let what = format!("the application `{}` has no change feed", cluster.application.name());
    let (place, remedy) =
        (Place::File(home.cluster_file()), "name the home of a client of a kv cluster");
    Err(Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() }))
}

fn failed(home: &Home, what: String, remedy: &str) -> Failure {
    let place = Place::File(home.cluster_file());
    Failure::new(Exit::Failed, Finding { what, place, remedy: remedy.to_owned() })
}

fn show(block: &Block, format: Format) -> Result<(), Failure> {
    for (index, change) in &block.changes {
        match format {
            Format::Table => print(&format!("{}:{index}  {}\n", block.height, for_people(change)))?,
            Format::Json => {
                let mut line = Vec::new();
                Json::of(block.height, *index, change).write(&mut line, usize::MAX);
                print(&format!("{}\n", String::from_utf8_lossy(&line)))?;
            }
        }
    }
    Ok(())
}

fn for_people(change: &Change) -> String {
    let text = |bytes: &[u8]| bytes.escape_ascii().to_string();
    match change {
        Change::Set { key, value } => format!("set      {} = {}", text(key), text(value)),
        Change::Appended { key, text: tail } => format!("append   {} + {}", text(key), text(tail)),
        Change::FieldsSet { key, fields } => {
            let each =
                fields.iter().map(|(name, value)| format!(" {}={}", text(name), text(value)));
            format!("fields   {}{}", text(key), each.collect::<String>())
        }
        Change::Removed { key } => format!("removed  {}", text(key)),
        Change::FieldsRemoved { key, fields } => {
            let each = fields.iter().map(|name| format!(" {}", text(name)));
            format!("removed  {}{}", text(key), each.collect::<String>())
        }
        Change::AllRemoved => "removed  everything".to_owned(),
    }
}
