//! `quorate status`

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use quorate_node::config::{Finding, Home, HostPort, Http, Overrides, Place, load};
use quorate_node::http::Asker;
use quorate_node::http::access::AccessError;
use quorate_node::launch::{last_end, last_http_address};
use serde_json::{Value, json};

use crate::arguments::HomeArgument;
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// How long a replica may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Ask running replicas how they are.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A replica's home; or a testnet's folder or its client's home, for all replicas of it.
    #[command(flatten)]
    pub home: HomeArgument,
    /// Where one replica answers (listen.http): comes before the home.
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<HostPort>,
    /// Show the token in this file (http.token). Default: that of a replica's home.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Ask over TLS, of those with a certificate of one of these authorities (PEM). Default: by the
    /// certificate that a replica's home names.
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

/// A replica to ask.
pub struct Target {
    /// Its number, or the address that was given.
    pub name: String,
    /// Where it answers, if that is known.
    pub address: Option<String>,
    /// Why the last process ended by itself, if it did.
    pub ended: Option<String>,
    /// How it is asked.
    pub asker: Asker,
}

impl Arguments {
    /// The replicas to ask.
    pub fn targets(&self) -> Result<Vec<Target>, Failure> {
        match &self.address {
            Some(address) => {
                let asker = self.asker(&Http::default())?;
                let (name, address) = (address.to_string(), Some(address.to_string()));
                Ok(vec![Target { name, address, ended: None, asker }])
            }
            None => self.targets_of(&self.home.home()),
        }
    }

    /// How a replica is asked whose configuration says this.
    fn asker(&self, http: &Http) -> Result<Asker, Failure> {
        let wrong = |error: AccessError, flag: &str, file: &Path| {
            let remedy = format!("mend {}, or name another file with {flag}", file.display());
            Failure::io(error, file, &remedy)
        };
        let mut asker = Asker::default();
        if let Some(file) = self.token_file.as_ref().or(http.token.as_ref()) {
            asker = asker.showing(file).map_err(|error| wrong(error, "--token-file", file))?;
        }
        if let Some(file) = &self.ca {
            asker = asker.trusting(file).map_err(|error| wrong(error, "--ca", file))?;
        } else if let Some(file) = &http.certificate {
            asker = asker.knowing(file).map_err(|error| wrong(error, "--ca", file))?;
        }
        Ok(asker)
    }

    fn targets_of(&self, home: &Home) -> Result<Vec<Target>, Failure> {
        if home.node_file().exists() {
            return Ok(vec![self.target(home.root())?]);
        }
        let around = [home.root().to_owned(), home.root().join("..")];
        let found = around.iter().map(|folder| replica_homes(folder)).find(|it| !it.is_empty());
        match found {
            Some(homes) => homes.iter().map(|home| self.target(home)).collect(),
            None => {
                let what = "there is no home of a replica here, nor a testnet".to_owned();
                let remedy = "name one with --home, or an address with --address".to_owned();
                let place = Place::File(home.root().to_owned());
                Err(Failure::new(Exit::Usage, Finding { what, place, remedy }))
            }
        }
    }

    /// Where the last process of this home answered, or where the next one is to.
    fn target(&self, root: &Path) -> Result<Target, Failure> {
        let loaded = load(&Home::new(root), &Overrides::with_process_environment(Vec::new()))?;
        let (data, name) = (&loaded.node.storage.folder, loaded.node.replica.to_string());
        let address = last_http_address(data).or_else(|| {
            let configured = &loaded.node.listen.http;
            (!configured.to_string().ends_with(":0")).then(|| configured.to_string())
        });
        Ok(Target { name, address, ended: last_end(data), asker: self.asker(&loaded.node.http)? })
    }
}

/// Runs `status`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let targets = arguments.targets()?;
    let answers: Vec<_> = targets.iter().map(|target| (target, ask(target))).collect();
    match format {
        Format::Table => print(&for_people(&answers))?,
        Format::Json => print_json(&for_programs(&answers))?,
    }
    if answers.iter().any(|(_, answer)| answer.is_ok()) {
        return Ok(());
    }
    let place = Place::File(arguments.home.home().root().to_owned());
    let (what, remedy) =
        ("no replica answers".to_owned(), "see that they run: quorate start".to_owned());
    Err(Failure::new(Exit::Failed, Finding { what, place, remedy }))
}

/// The folders `replica-N` of a testnet, by N.
fn replica_homes(folder: &Path) -> Vec<PathBuf> {
    let mut homes: Vec<(usize, PathBuf)> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.strip_prefix("replica-")?.parse().ok()?;
            Some((id, entry.path()))
        })
        .collect();
    homes.sort();
    homes.into_iter().map(|(_, home)| home).collect()
}

/// Asks one for its status; the error says why there is none.
pub fn ask(target: &Target) -> Result<Value, String> {
    let address = target.address.as_ref().ok_or("not started yet: its port is not known")?;
    target.asker.ask_json(address, "/status", PATIENCE).map_err(|error| match &target.ended {
        Some(ended) => format!("it ended by itself: {ended}"),
        None => error.to_string(),
    })
}

type Answers<'a> = [(&'a Target, Result<Value, String>)];

fn for_people(answers: &Answers<'_>) -> String {
    let mut rows = Vec::new();
    let mut complaints = String::new();
    for (target, answer) in answers {
        match answer {
            Ok(status) => rows.push(row(status)),
            Err(error) => {
                let mut row = [const { String::new() }; 10];
                row[0].clone_from(&target.name);
                row[1] = if target.ended.is_some() { "ended" } else { "unreachable" }.to_owned();
                rows.push(row);
                complaints.push_str(&format!("replica {}: {error}\n", target.name));
            }
        }
    }
    let head = [
        "REPLICA",
        "STATE",
        "VIEW",
        "LEADER",
        "COMMITTED",
        "EXECUTED",
        "WAITING",
        "PEERS",
        "CLIENTS",
        "LOG MIB",
    ];
    table(head, &rows) + &complaints + &warnings(answers)
}

/// What the replicas say is wrong, with the remedy.
fn warnings(answers: &Answers<'_>) -> String {
    let mut lines = String::new();
    for (target, answer) in answers {
        let told = answer.as_ref().ok().and_then(|status| status["warnings"].as_array());
        for warning in told.into_iter().flatten() {
            let text = |name: &str| warning[name].as_str().unwrap_or_default();
            let (level, what, remedy) = (text("level"), text("what"), text("remedy"));
            lines.push_str(&format!("replica {}: {level}: {what}: {remedy}\n", target.name));
        }
    }
    lines
}

fn row(status: &Value) -> [String; 10] {
    let flag = |name: &str| status[name] == true;
    let state = match status["not_ready"].as_str() {
        Some(_) if flag("rejoining") => "rejoining".to_owned(),
        Some(reason) => format!("not ready: {reason}"),
        None if flag("abstaining") => "ready, abstaining".to_owned(),
        None if status["details"]["in_fallback"] == 1 => "ready, in the fallback".to_owned(),
        None => "ready".to_owned(),
    };
    let text = |value: &Value| value.to_string();
    [
        text(&status["replica"]),
        state,
        text(&status["view"]),
        text(&status["leader"]),
        text(&status["committed_height"]),
        text(&status["executed_height"]),
        text(&status["mempool"]["frames"]),
        text(&json!(status["peers"].as_array().map_or(0, Vec::len))),
        text(&status["clients"]),
        text(&json!(status["log_bytes"].as_u64().unwrap_or(0) >> 20)),
    ]
}

fn for_programs(answers: &Answers<'_>) -> Value {
    let replicas: Vec<_> = answers
        .iter()
        .map(|(target, answer)| match answer {
            Ok(status) => {
                let mut status = status.clone();
                status["http_address"] = json!(target.address);
                status
            }
            Err(error) => json!({
                "replica": target.name.parse::<u16>().ok(),
                "http_address": target.address,
                "unreachable": error,
            }),
        })
        .collect();
    json!({ "replicas": replicas })
}
