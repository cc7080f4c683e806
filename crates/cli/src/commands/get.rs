//! `quorate get`

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use quorate_app::kv::proof::Shown;
use quorate_core::ReplicaId;
use quorate_node::client::verified::{DEFAULT_MAX_LAG_BLOCKS, ReadError, Reading, VerifiedReader};
use quorate_node::config::{Application, Cluster, Finding, Home, Place};
use serde_json::{Map, Value, json};

use crate::client_home::ClientHome;
use crate::cluster::{addresses, cluster_of};
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, hex, print, print_json};

/// Read what is under a key from one replica, believing its proof and not its word. The answer is
/// bounded-stale: of a state that the cluster was in, at most so many blocks ago.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A client's home: its cluster.toml.
    #[command(flatten)]
    pub home: ClientHome,
    /// Verify what one replica says. (Reads that are ordered, and so always the newest, go through
    /// quorate gateway.)
    #[arg(long, required = true)]
    pub verified: bool,
    /// Refuse a state that is more blocks behind the newest certified one.
    #[arg(long, default_value_t = DEFAULT_MAX_LAG_BLOCKS, value_name = "BLOCKS")]
    pub max_lag: u64,
    /// Ask this replica and no other. Default: any, until one is believed.
    #[arg(long, value_name = "ID")]
    pub replica: Option<u16>,
    /// The key.
    #[arg(value_name = "KEY")]
    pub key: String,
}

/// Runs `get`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home();
    let cluster = cluster_of(&home)?;
    check(arguments, &cluster, &home)?;
    let mut reader = VerifiedReader::new(addresses(&cluster), &cluster, anyone())
        .map_err(|error| failed(&home, error.to_string(), "mend cluster.toml"))?;
    if let Some(following) = arguments.home.following(&cluster)? {
        reader = reader.following(&cluster, &following);
    }
    let (runtime, _) = runtime()?;
    let key = arguments.key.as_bytes();
    let reading = runtime.block_on(async {
        match arguments.replica {
            Some(replica) => reader.get_from(ReplicaId(replica), key, arguments.max_lag).await,
            None => reader.get(key, arguments.max_lag).await,
        }
    });
    let reading = reading.map_err(|error| unread(&home, &error))?;
    for (replica, error) in &reading.passed_over {
        eprintln!("warning: replica {replica} {error}");
    }
    match format {
        Format::Table => print(&for_people(&reading)),
        Format::Json => print_json(&for_programs(&arguments.key, &reading)),
    }
}

/// Some number, so that not all who read burden the same replica.
fn anyone() -> u32 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.subsec_micros())
}

fn check(arguments: &Arguments, cluster: &Cluster, home: &Home) -> Result<(), Failure> {
    let usage = |what: String, place: Place, remedy: &str| {
        Err(Failure::new(Exit::Usage, Finding { what, place, remedy: remedy.to_owned() }))
    };
    let count = cluster.members.len();
    // Where members may change, who they are is known later.
    let beyond = |id: &u16| usize::from(*id) >= count && !cluster.is_governed();
    if let Some(replica) = arguments.replica.filter(beyond) {
        let what = format!("there is no replica {replica}: the cluster has {count}, from 0");
        return usage(what, Place::Flag("--replica".to_owned()), "name one of them, or none");
    }
    if cluster.application != Application::Kv {
        let what = format!("the application `{}` holds no keys", cluster.application.name());
        return usage(
            what,
            Place::File(home.cluster_file()),
            "name the home of a client of a kv cluster",
        );
    }
    Ok(())
}

fn failed(home: &Home, what: String, remedy: &str) -> Failure {
    let place = Place::File(home.cluster_file());
    Failure::new(Exit::Failed, Finding { what, place, remedy: remedy.to_owned() })
}

fn unread(home: &Home, error: &ReadError) -> Failure {
    let remedy = match error {
        ReadError::TooFew { .. } => "see that the replicas run, and that cluster.toml is theirs",
        ReadError::NotBelieved(_) => {
            "ask another replica, allow more with --max-lag if all are only behind, and see that cluster.toml is \
             theirs: a replica whose proof does not hold is faulty"
        }
    };
    failed(home, error.to_string(), remedy)
}

fn for_people(reading: &Reading) -> String {
    let mut text = String::new();
    match &reading.verified.value {
        None => text.push_str("(nothing)\n"),
        Some(Shown::Text(value)) => {
            text.push_str(&String::from_utf8_lossy(value));
            text.push('\n');
        }
        Some(Shown::Hash(fields)) => {
            for (name, value) in fields {
                let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value));
                text.push_str(&format!("{name}: {value}\n"));
            }
        }
    }
    let (height, lag) = (reading.verified.height, reading.verified.lag_blocks);
    let replica = reading.replica;
    text + &format!(
        "verified: replica {replica}, height {height}, {lag} blocks behind the newest\n"
    )
}

/// Byte strings as text where they are text, and always in hexadecimal.
fn for_programs(key: &str, reading: &Reading) -> Value {
    let verified = &reading.verified;
    let mut object = Map::new();
    object.insert("key".to_owned(), key.into());
    object.insert("found".to_owned(), verified.value.is_some().into());
    match &verified.value {
        None => {}
        Some(Shown::Text(value)) => {
            object.insert("kind".to_owned(), "string".into());
            object.insert("value".to_owned(), text(value));
            object.insert("value_hex".to_owned(), hex(value).into());
        }
        Some(Shown::Hash(fields)) => {
            let field = |(name, value): &(Vec<u8>, Vec<u8>)| {
                json!({
                    "name": text(name), "name_hex": hex(name),
                    "value": text(value), "value_hex": hex(value),
                })
            };
            object.insert("kind".to_owned(), "hash".into());
            object.insert("fields".to_owned(), fields.iter().map(field).collect());
        }
    }
    object.insert("height".to_owned(), verified.height.0.into());
    object.insert("newest_height".to_owned(), reading.newest.0.into());
    object.insert("lag_blocks".to_owned(), verified.lag_blocks.into());
    object.insert("replica".to_owned(), reading.replica.0.into());
    object.into()
}

fn text(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or(Value::Null, Into::into)
}
