//! `quorate pay demo`: ten nodes, some wallets, payments, and a double spend.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Args;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::Encode as _;
use quorate_crypto::SecretKey;
use quorate_payments::ask::{Answer, Question};
use quorate_payments::client::Client;
use quorate_payments::network::Network;
use quorate_payments::setup::{self, Options};
use quorate_payments::transaction::Body;
use quorate_payments::{Address, Output, OutputId, Transaction, TransactionId};
use serde_json::json;

use super::failed;
use super::load::{Chain, Tally, pay};
use super::local::Nodes;
use crate::arguments::seconds;
use crate::failure::{Exit, Failure};
use crate::local::runtime;
use crate::output::{Format, print, print_json_line};

/// The wallets, and the one that tries to spend twice.
const WALLETS: [&str; 5] = ["Ada", "Ben", "Cleo", "Dan", "Mallory"];
/// Outputs of each in the beginning, and how much each is.
const OUTPUTS: usize = 8;
const AMOUNT: u64 = 10_000;
/// How long undecided payments are waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long the double spend is waited for: it need never end.
const DOUBLE: Duration = Duration::from_secs(8);
const TICK: Duration = Duration::from_millis(500);

/// Run ten nodes with wallets, payments and a double spend in a temporary folder, and show what
/// they do. Ends by itself; the exit code is 0 if all went well, and 1 if anything was lost or
/// spent twice.
#[derive(Debug, Args)]
pub struct Arguments {
    /// How many nodes.
    #[arg(short = 'n', long, default_value_t = 10, value_name = "N")]
    nodes: usize,
    /// How long honest wallets pay each other.
    #[arg(long, default_value = "8", value_parser = seconds, value_name = "SECONDS")]
    seconds: Duration,
}

struct Demo {
    network: Arc<Network>,
    nodes: Nodes,
    keys: Vec<Arc<SecretKey>>,
    live: bool,
    drawn: usize,
}

/// What became of the two payments of one output.
struct Twice {
    ids: [TransactionId; 2],
    /// At how many nodes each is accepted.
    accepted: [usize; 2],
    /// Why one of them is pending, if none was accepted.
    why: Option<String>,
}

/// Runs `pay demo`.
pub fn run(arguments: &Arguments, format: Format) -> Result<(), Failure> {
    let folder = tempfile::Builder::new().prefix("quorate-pay-").tempdir().map_err(|error| {
        Failure::io(error, &std::env::temp_dir(), "set TMPDIR to a folder that can be written")
    })?;
    let folder = folder.path();
    let wrong = |error: &dyn std::fmt::Display| failed(Exit::Failed, error, folder, "run it again");
    let keys = WALLETS.iter().map(|_| SecretKey::generate().map(Arc::new));
    let keys = keys.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    let of = |key: &Arc<SecretKey>| vec![(Some(Address::of(&key.public_key())), AMOUNT); OUTPUTS];
    let options = Options {
        name: "demo".to_owned(),
        base_port: None,
        genesis: keys.iter().flat_map(of).collect(),
        parameters: setup::parameters_among(arguments.nodes),
    };
    let made = setup::init(folder, arguments.nodes, &options).map_err(|error| wrong(&error))?;
    let (runtime, _told) = runtime()?;
    eprintln!("starting {} nodes", arguments.nodes);
    let nodes = Nodes::start(&made, folder, "sync")?;
    let live = format == Format::Table && std::io::stdout().is_terminal();
    let mut demo = Demo { network: Arc::new(made.network), nodes, keys, live, drawn: 0 };

    let tally = Tally::new();
    let paying = demo.pay(&runtime, arguments.seconds, &tally);
    let begun = Instant::now();
    // Half-way, while the others pay.
    while begun.elapsed() < arguments.seconds / 2 {
        std::thread::sleep(TICK);
        demo.draw(&tally, begun, None);
    }
    let twice = runtime.block_on(demo.spend_twice()).map_err(|error| wrong(&error))?;
    let mut undecided = 0;
    for task in paying {
        while !task.is_finished() {
            std::thread::sleep(TICK);
            demo.draw(&tally, begun, Some(&twice));
        }
        let joined = runtime.block_on(task).map_err(|error| wrong(&error))?;
        undecided += joined.map_err(|error| wrong(&error))?;
    }
    let took = begun.elapsed();
    let twice = demo.await_twice(twice);
    let agree = demo.nodes.await_agreement();
    let value = runtime.block_on(demo.value()).map_err(|error| wrong(&error))?;
    let refused = tally.refused.load(Ordering::Relaxed);
    let conserved = value == demo.network.genesis.supply();
    let ended = Ended { took, twice, refused, undecided, agree, conserved };
    ended.show(arguments.nodes, &tally, format)?;
    if ended.is_good() {
        return Ok(());
    }
    Err(wrong(&"a payment was lost or spent twice, or ledgers differ"))
}

/// How the demonstration ended.
struct Ended {
    took: Duration,
    twice: Twice,
    refused: u64,
    undecided: usize,
    agree: bool,
    /// Whether the wallets have together what there was in the beginning.
    conserved: bool,
}

impl Ended {
    /// Whether both payments of one output were accepted.
    fn accepted_both(&self) -> bool {
        self.twice.accepted.iter().all(|nodes| *nodes > 0)
    }

    fn is_good(&self) -> bool {
        let nothing_lost = self.refused == 0 && self.undecided == 0 && self.conserved;
        self.agree && !self.accepted_both() && nothing_lost
    }

    fn show(&self, nodes: usize, tally: &Tally, format: Format) -> Result<(), Failure> {
        let Self { took, twice, refused, undecided, agree, conserved } = self;
        let accepted = tally.accepted.load(Ordering::Relaxed);
        match format {
            Format::Table => print(&format!(
                "{accepted} payments accepted in {:.0} s by {nodes} nodes, p50 {:.0} ms, \
                 p99 {:.0} ms\n\
                 double spend: {} and {} of one output, accepted at {} and {} nodes: {}\n{}\
                 refused: {refused}   undecided: {undecided}   ledgers agree: {agree}   \
                 value conserved: {conserved}\n",
                took.as_secs_f64(),
                tally.quantile_ms(0.5),
                tally.quantile_ms(0.99),
                short(&twice.ids[0]),
                short(&twice.ids[1]),
                twice.accepted[0],
                twice.accepted[1],
                match (self.accepted_both(), twice.accepted.iter().any(|nodes| *nodes > 0)) {
                    (true, _) => "BOTH",
                    (_, true) => "one accepted",
                    _ => "none accepted",
                },
                twice.why.as_ref().map(|why| format!("why not yet: {why}\n")).unwrap_or_default(),
            )),
            Format::Json => print_json_line(&json!({
                "nodes": nodes,
                "accepted": accepted,
                "refused": refused,
                "undecided": undecided,
                "p50_ms": tally.quantile_ms(0.5),
                "p99_ms": tally.quantile_ms(0.99),
                "double_spend_accepted_at": twice.accepted,
                "agree": agree,
                "conserved": conserved,
            })),
        }
    }
}

fn short(id: &TransactionId) -> String {
    id.to_string().chars().take(8).collect()
}

type Task = tokio::task::JoinHandle<Result<usize, quorate_payments::client::AskError>>;

impl Demo {
    fn addresses(&self) -> Vec<Address> {
        self.keys.iter().map(|key| Address::of(&key.public_key())).collect()
    }

    /// The genesis outputs of a wallet.
    fn outputs(&self, wallet: usize) -> Vec<OutputId> {
        let all = self.network.genesis.outputs().skip(wallet * OUTPUTS).take(OUTPUTS);
        all.map(|(id, _)| id).collect()
    }

    /// All but the last wallet pay each other, each through a node of its own.
    fn pay(
        &self,
        runtime: &tokio::runtime::Runtime,
        span: Duration,
        tally: &Arc<Tally>,
    ) -> Vec<Task> {
        let recipients = Arc::new(self.addresses());
        let end = Instant::now() + span;
        let honest = 0..WALLETS.len() - 1;
        honest
            .map(|wallet| {
                let key = &self.keys[wallet];
                let chain = |output| Chain { key: Arc::clone(key), output, amount: AMOUNT };
                let chains = self.outputs(wallet).into_iter().map(chain).collect();
                let node = ReplicaId((wallet % self.nodes.size()) as u16);
                let (network, tally) = (Arc::clone(&self.network), Arc::clone(tally));
                runtime.spawn(pay(
                    network,
                    node,
                    chains,
                    Arc::clone(&recipients),
                    end,
                    PATIENCE,
                    tally,
                ))
            })
            .collect()
    }

    /// Mallory signs two payments of one output, and gives each to another node at the same moment.
    async fn spend_twice(&self) -> Result<Twice, quorate_payments::client::AskError> {
        let (mallory, to) = (WALLETS.len() - 1, self.addresses());
        let key = &self.keys[mallory];
        let output = self.outputs(mallory)[0];
        let chain = self.network.chain();
        let spend = |to: Address| -> Option<Transaction> {
            let body =
                Body::new(&[(output, key.public_key())], vec![Output { to, amount: AMOUNT }]);
            body.ok()?.sign(&chain, &[&**key]).ok()
        };
        let (Some(one), Some(other)) = (spend(to[0]), spend(to[1])) else {
            unreachable!("a payment of one output by its owner is in order")
        };
        let last = ReplicaId((self.nodes.size() - 1) as u16);
        let mut first = Client::connect(&self.network, ReplicaId(0)).await?;
        let mut second = Client::connect(&self.network, last).await?;
        first.send(&Question::Submit(Bytes::from(one.to_bytes()))).await?;
        second.send(&Question::Submit(Bytes::from(other.to_bytes()))).await?;
        // Both are under way or refused once this is answered.
        first.receive().await?;
        second.receive().await?;
        Ok(Twice { ids: [one.id(), other.id()], accepted: [0, 0], why: None })
    }

    /// At how many nodes each of the two is accepted; waits a while for one of them to be.
    fn await_twice(&self, mut twice: Twice) -> Twice {
        let begun = Instant::now();
        loop {
            let state = |node: usize, id: &TransactionId| self.nodes.why(node, &id.to_string());
            let accepted = |id: &TransactionId| {
                let nodes = 0..self.nodes.size();
                nodes
                    .filter(|node| {
                        state(*node, id).is_some_and(|known| known["state"] == "accepted")
                    })
                    .count()
            };
            twice.accepted = [accepted(&twice.ids[0]), accepted(&twice.ids[1])];
            if twice.accepted.contains(&self.nodes.size()) {
                return twice;
            }
            if begun.elapsed() > DOUBLE {
                let known = state(0, &twice.ids[0]);
                twice.why = known.and_then(|known| Some(known["why"].as_str()?.to_owned()));
                return twice;
            }
            std::thread::sleep(TICK);
        }
    }

    /// What all wallets have together.
    async fn value(&self) -> Result<u64, quorate_payments::client::AskError> {
        let mut client = Client::connect(&self.network, ReplicaId(0)).await?;
        let mut value = 0;
        for address in self.addresses() {
            if let Answer::Account(account) = client.ask(&Question::Account(address)).await? {
                value += account.balance;
            }
        }
        Ok(value)
    }

    /// Shows how things are: in place on a terminal, a line elsewhere.
    fn draw(&mut self, tally: &Tally, begun: Instant, twice: Option<&Twice>) {
        let head = format!(
            "{:4.1} s   {} payments accepted   p50 {:.0} ms{}",
            begun.elapsed().as_secs_f64(),
            tally.accepted.load(Ordering::Relaxed),
            tally.quantile_ms(0.5),
            twice
                .map(|_| "   Mallory spent an output twice: what rests on it waits")
                .unwrap_or_default(),
        );
        if !self.live {
            return eprintln!("{head}");
        }
        let mut text = String::new();
        if self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A", self.drawn));
        }
        text.push_str(&format!("{head}\x1b[K\n"));
        for node in 0..self.nodes.size() {
            let status = self.nodes.status(node).unwrap_or_default();
            let numbers = &status["numbers"];
            text.push_str(&format!(
                "  node {node:<3} accepted {:>7}   peers {:>3}   questions {:>8}   \
                 signatures {:>8}\x1b[K\n",
                status["accepted"],
                status["peers"].as_array().map_or(0, Vec::len),
                numbers["queries_sent"],
                numbers["signatures"],
            ));
        }
        self.drawn = self.nodes.size() + 1;
        // A terminal that has gone away is no reason to end.
        let _ = std::io::stdout().write_all(text.as_bytes());
        let _ = std::io::stdout().flush();
    }
}
