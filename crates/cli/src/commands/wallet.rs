//! `quorate wallet`

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use clap::{Args, Subcommand};
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::Encode as _;
use quorate_crypto::SecretKey;
use quorate_crypto::key_file::{self, KeyFileError};
use quorate_node::config::{Finding, Place};
use quorate_payments::ask::{Answer, MAX_LISTED, Question};
use quorate_payments::client::{AskError, Client};
use quorate_payments::network::{Network, read_digest};
use quorate_payments::setup::{make_home, network_file, wallet_key};
use quorate_payments::{Address, TransactionId, wallet};
use quorate_store::lock::{FolderLock, LockError};
use serde_json::json;

use crate::arguments::{HomeArgument, seconds};
use crate::failure::{Exit, Failure};
use crate::output::{Format, print, print_json, table};

/// Keys, balances and payments.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a wallet: a key of its own (mode 0600), in a home.
    New(New),
    /// Print the wallet's address.
    Address(Of),
    /// Print what the wallet, or another address, has.
    Balance(Query),
    /// Pay, and wait until the payment is accepted.
    Send(Send),
    /// Print what happened to the wallet, or to another address; the newest first.
    History(History),
    /// Say what is known of a transaction: why it is still pending, or why it was rejected.
    Why(Why),
}

/// Make a wallet.
#[derive(Debug, Args)]
pub struct New {
    #[command(flatten)]
    home: HomeArgument,
    /// The network's file, to be copied into the home: config/payments.toml of another home.
    #[arg(long, value_name = "FILE")]
    network: Option<PathBuf>,
}

/// A wallet.
#[derive(Debug, Args)]
pub struct Of {
    #[command(flatten)]
    home: HomeArgument,
}

/// A wallet, and the node that is asked.
#[derive(Debug, Args)]
pub struct Asked {
    #[command(flatten)]
    home: HomeArgument,
    /// The node to ask. Default: the first that answers. It is believed.
    #[arg(long, value_name = "ID")]
    node: Option<u16>,
}

/// Whose balance.
#[derive(Debug, Args)]
pub struct Query {
    #[command(flatten)]
    asked: Asked,
    /// Another address than the wallet's.
    #[arg(long, value_name = "ADDRESS")]
    of: Option<Address>,
}

/// A payment.
#[derive(Debug, Args)]
pub struct Send {
    #[command(flatten)]
    asked: Asked,
    /// Whom to pay.
    to: Address,
    /// How much.
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    amount: u64,
    /// How long to wait for its acceptance.
    #[arg(long, default_value = "30", value_parser = seconds, value_name = "SECONDS")]
    wait: Duration,
}

/// Whose history.
#[derive(Debug, Args)]
pub struct History {
    #[command(flatten)]
    query: Query,
    /// How many entries at most.
    #[arg(long, default_value_t = 20, value_name = "N")]
    most: u32,
}

/// Which transaction.
#[derive(Debug, Args)]
pub struct Why {
    #[command(flatten)]
    asked: Asked,
    /// The transaction's id.
    #[arg(value_parser = transaction)]
    transaction: TransactionId,
}

fn transaction(text: &str) -> Result<TransactionId, String> {
    let digest = read_digest(text).ok_or("a transaction's id has 64 hexadecimal digits")?;
    Ok(TransactionId(digest))
}

/// Runs `wallet`.
pub fn run(command: &Command, format: Format) -> Result<(), Failure> {
    match command {
        Command::New(arguments) => new(arguments, format),
        Command::Address(arguments) => {
            let key = key_of(arguments.home.home().root())?;
            tell_address(&Address::of(&key.public_key()), format)
        }
        Command::Balance(arguments) => balance(arguments, format),
        Command::Send(arguments) => send(arguments, format),
        Command::History(arguments) => history(arguments, format),
        Command::Why(arguments) => why(arguments, format),
    }
}

fn failure(exit: Exit, what: impl ToString, place: &Path, remedy: &str) -> Failure {
    let place = Place::File(place.to_owned());
    Failure::new(exit, Finding { what: what.to_string(), place, remedy: remedy.to_owned() })
}

fn tell_address(address: &Address, format: Format) -> Result<(), Failure> {
    match format {
        Format::Table => print(&format!("{address}\n")),
        Format::Json => print_json(&json!({ "address": address.to_string() })),
    }
}

fn new(arguments: &New, format: Format) -> Result<(), Failure> {
    let home = arguments.home.home().root().to_owned();
    let made = network_file(&home);
    if let Some(file) = &arguments.network {
        let network = load(file)?;
        if !made.exists() {
            let remedy = "name a home in a folder that can be written with --home";
            make_home(&home, &network.to_toml())
                .map_err(|error| failure(Exit::Failed, error, &home, remedy))?;
        }
    }
    load(&made)?;
    let file = wallet_key(&home);
    let key = SecretKey::generate().map_err(|error| {
        failure(Exit::Failed, error, &file, "try again when the system has started up")
    })?;
    key_file::write(&file, &key).map_err(|error| match error {
        KeyFileError::Exists { .. } => {
            let remedy =
                "name another home with --home, or move the key away: it may be the only copy";
            failure(Exit::Usage, "there is a wallet already", &file, remedy)
        }
        other => failure(Exit::Failed, other, &file, "name a home that can be written with --home"),
    })?;
    tell_address(&Address::of(&key.public_key()), format)
}

fn load(file: &Path) -> Result<Network, Failure> {
    Network::load(file).map_err(|error| {
        let remedy = match file.exists() {
            true => error.remedy,
            false => "give the network's file with --network, or a home that has it with --home",
        };
        failure(Exit::Usage, error.what, file, remedy)
    })
}

fn key_of(home: &Path) -> Result<SecretKey, Failure> {
    let file = wallet_key(home);
    key_file::read(&file).map_err(|error| {
        let remedy = match &error {
            KeyFileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                "make one with `quorate wallet new`, or name the wallet's home with --home"
            }
            _ => "do what the message says, or restore the file from a copy",
        };
        failure(Exit::Usage, error, &file, remedy)
    })
}

/// A connection to a node, and what the network agreed on.
struct Connection {
    runtime: tokio::runtime::Runtime,
    client: Client,
    network: Network,
    file: PathBuf,
}

impl Connection {
    fn open(asked: &Asked) -> Result<Self, Failure> {
        let file = network_file(asked.home.home().root());
        let network = load(&file)?;
        let count = network.nodes.len();
        if let Some(node) = asked.node.filter(|node| usize::from(*node) >= count) {
            let what = format!("there is no node {node}");
            let remedy = format!("name one from 0 to {}", count - 1);
            let place = Place::Flag("--node".to_owned());
            return Err(Failure::new(Exit::Usage, Finding { what, place, remedy }));
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Failure::io(error, &file, "see the system's limits"))?;
        let candidates = match asked.node {
            Some(node) => node..node + 1,
            None => 0..u16::try_from(count).unwrap_or(u16::MAX),
        };
        let mut last = AskError::TimedOut;
        for node in candidates {
            match runtime.block_on(Client::connect(&network, ReplicaId(node))) {
                Ok(client) => return Ok(Self { runtime, client, network, file }),
                Err(error) => last = error,
            }
        }
        let remedy = "start its nodes with `quorate pay node`, or name one that runs with --node";
        Err(failure(Exit::Failed, format!("no node can be reached: {last}"), &file, remedy))
    }

    fn failed(&self, what: impl ToString) -> Failure {
        failure(Exit::Failed, what, &self.file, "ask another node with --node")
    }

    fn ask(&mut self, question: &Question) -> Result<Answer, Failure> {
        let answer = self.runtime.block_on(self.client.ask(question));
        match answer.map_err(|error| self.failed(error))? {
            Answer::Refused(_, why) => Err(self.failed(format!("the node refuses: {why}"))),
            answer => Ok(answer),
        }
    }

    fn foreign(&self) -> Failure {
        self.failed("the node's answer makes no sense")
    }
}

/// The address that is asked about.
fn whose(query: &Query) -> Result<Address, Failure> {
    match query.of {
        Some(address) => Ok(address),
        None => Ok(Address::of(&key_of(query.asked.home.home().root())?.public_key())),
    }
}

fn balance(arguments: &Query, format: Format) -> Result<(), Failure> {
    let address = whose(arguments)?;
    let mut connection = Connection::open(&arguments.asked)?;
    let Answer::Account(account) = connection.ask(&Question::Account(address))? else {
        return Err(connection.foreign());
    };
    match format {
        Format::Table => print(&format!("{}\n", account.balance)),
        Format::Json => print_json(&json!({
            "address": address.to_string(),
            "balance": account.balance,
            "outputs": account.unspent,
            "entries": account.entries,
        })),
    }
}

/// It waits for nobody: two payments at once may choose the same outputs.
fn hold(home: &Path) -> Result<FolderLock, Failure> {
    wallet::hold(home).map_err(|error| match error {
        LockError::Held { pid, .. } => {
            let by =
                pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
            let what = format!("{by} is paying from this wallet");
            let remedy = "wait until it ends: two payments at once may spend one output twice";
            failure(Exit::Failed, what, home, remedy)
        }
        other => failure(Exit::Failed, other, home, "name a home that can be written with --home"),
    })
}

fn send(arguments: &Send, format: Format) -> Result<(), Failure> {
    let key = key_of(arguments.asked.home.home().root())?;
    let owner = key.public_key();
    let _held = hold(arguments.asked.home.home().root())?;
    let mut connection = Connection::open(&arguments.asked)?;
    let question = Question::Unspent(Address::of(&owner), MAX_LISTED as u32);
    let Answer::Unspent(unspent) = connection.ask(&question)? else {
        return Err(connection.foreign());
    };
    let usage = |error: &dyn std::error::Error| {
        let file = wallet_key(arguments.asked.home.home().root());
        failure(Exit::Usage, error, &file, "see `quorate wallet balance`")
    };
    let body = wallet::pay(&owner, &unspent, arguments.to, arguments.amount);
    let body = body.map_err(|error| usage(&error))?;
    let payment = body.sign(&connection.network.chain(), &[&key]).map_err(|error| usage(&error))?;
    let id = payment.id();
    let home = arguments.asked.home.home().root().display().to_string();
    let why = format!("quorate wallet why --home {home} {id}");
    // Said before it is handed in: whoever is cut short then knows what to ask for.
    eprintln!("handing in payment {id}; to see what becomes of it: {why}");
    let bytes = Bytes::from(payment.to_bytes());
    let state = submit(&mut connection, bytes, arguments.wait, &why)?;
    match format {
        Format::Table => print(&format!("{id} {state}\n"))?,
        Format::Json => {
            print_json(&json!({ "transaction": id.to_string(), "state": state }))?;
        }
    }
    if state == "accepted" {
        return Ok(());
    }
    let remedy = format!("it may yet be accepted, so send nothing else until it is; ask: {why}");
    Err(failure(Exit::Failed, "the payment is still pending", &connection.file, &remedy))
}

/// Hands a payment in, and waits for what becomes of it; `why` is the command that tells it later.
fn submit(
    connection: &mut Connection,
    payment: Bytes,
    wait: Duration,
    why: &str,
) -> Result<&'static str, Failure> {
    let Connection { runtime, client, .. } = connection;
    let asked = runtime.block_on(async {
        let number = client.send(&Question::Submit(payment)).await?;
        let first = client.answer(number, Duration::from_secs(10)).await?;
        match first {
            Answer::Taken(_) => client.answer(number, wait).await,
            other => Ok(other),
        }
    });
    match asked {
        Ok(Answer::Accepted(_)) => Ok("accepted"),
        Err(AskError::TimedOut) => Ok("pending"),
        Ok(Answer::Refused(name, why)) => {
            let what = format!("the payment is refused: {why}");
            let remedy = match name.as_str() {
                // Another node may not know of the first payment yet.
                "pending" => {
                    "wait until the first payment is decided, and pay again then; do not ask \
                     another node, or neither may ever be decided"
                }
                _ => "ask another node with --node",
            };
            Err(failure(Exit::Failed, what, &connection.file, remedy))
        }
        Ok(Answer::Rejected(_, why)) => {
            Err(connection.failed(format!("the payment is rejected: {why}")))
        }
        Ok(_) => Err(connection.foreign()),
        Err(error) => {
            let what = format!("the payment was handed in, and its node says no more: {error}");
            let remedy = format!("it may be accepted: before you pay again, ask: {why}");
            Err(failure(Exit::Failed, what, &connection.file, &remedy))
        }
    }
}

fn history(arguments: &History, format: Format) -> Result<(), Failure> {
    let address = whose(&arguments.query)?;
    let mut connection = Connection::open(&arguments.query.asked)?;
    let question = Question::History(address, 0, arguments.most);
    let Answer::History(entries) = connection.ask(&question)? else {
        return Err(connection.foreign());
    };
    let genesis = connection.network.genesis.id();
    let name =
        |id: TransactionId| if id == genesis { "genesis".to_owned() } else { id.to_string() };
    match format {
        Format::Table => {
            let rows: Vec<_> = entries
                .iter()
                .map(|entry| {
                    let change = i128::from(entry.received) - i128::from(entry.spent);
                    [format!("{change:+}"), name(entry.transaction)]
                })
                .collect();
            print(&table(["CHANGE", "TRANSACTION"], &rows))
        }
        Format::Json => {
            let entries = entries.iter().map(|entry| {
                json!({
                    "transaction": name(entry.transaction),
                    "spent": entry.spent,
                    "received": entry.received,
                })
            });
            print_json(
                &json!({ "address": address.to_string(), "entries": entries.collect::<Vec<_>>() }),
            )
        }
    }
}

fn why(arguments: &Why, format: Format) -> Result<(), Failure> {
    let mut connection = Connection::open(&arguments.asked)?;
    let Answer::Status(state, text) = connection.ask(&Question::Status(arguments.transaction))?
    else {
        return Err(connection.foreign());
    };
    match format {
        Format::Table => print(&format!("{state}: {text}\n")),
        Format::Json => print_json(&json!({ "state": state, "why": text })),
    }
}
