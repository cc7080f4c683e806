//! Payments by real nodes: wallets pay, one spends twice, a third of the nodes is killed and comes
//! back.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, ChildStdout, Stdio};
use std::sync::MutexGuard;
use std::time::Duration;

use bytes::Bytes;
use quorate_core::ReplicaId;
use quorate_core::base::crypto::ClientSigner as _;
use quorate_core::base::wire::Encode as _;
use quorate_crypto::{SecretKey, key_file};
use quorate_node::http::{ask, ask_json};
use quorate_payments::ask::{Answer, Question};
use quorate_payments::client::Client;
use quorate_payments::setup::{self, Made, Options};
use quorate_payments::transaction::Body;
use quorate_payments::{Address, Output, OutputId, Transaction, TransactionId};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use crate::cluster::{DEADLINE, ports, quorate, turn, wait_until};

const NODES: usize = 7;
const PATIENCE: Duration = Duration::from_secs(60);
/// Outputs of the wallet in the beginning, and how much each is.
const OUTPUTS: usize = 40;
const AMOUNT: u64 = 100;

struct Net {
    processes: Vec<Option<Process>>,
    made: Made,
    owner: SecretKey,
    runtime: Runtime,
    folder: TempDir,
    _ports: TcpListener,
    _turn: MutexGuard<'static, ()>,
}

struct Process {
    child: Child,
    _stdout: BufReader<ChildStdout>,
}

impl Drop for Process {
    fn drop(&mut self) {
        // kill −9; it may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Net {
    fn start() -> Self {
        let turn = turn();
        let folder = tempfile::tempdir().unwrap();
        let (held, base) = ports(3 * NODES as u16);
        let options = Options {
            name: "test".to_owned(),
            base_port: Some(base),
            genesis: vec![(None, AMOUNT); OUTPUTS],
            parameters: setup::parameters_among(NODES),
        };
        let made = setup::init(folder.path(), NODES, &options).unwrap();
        let owner = key_file::read(&setup::wallet_key(&made.wallet)).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let processes = (0..NODES).map(|_| None).collect();
        let mut net = Self { processes, made, owner, runtime, folder, _ports: held, _turn: turn };
        (0..NODES).for_each(|node| net.start_node(node));
        net.await_all("every node takes part", |status| status["ready"] == true);
        net
    }

    fn start_node(&mut self, node: usize) {
        let home = &self.made.nodes[node];
        let log =
            std::fs::File::options().append(true).create(true).open(home.join("log")).unwrap();
        let mut command = quorate();
        command.args(["--output", "json", "pay", "node", "--home"]).arg(home);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        self.processes[node] = Some(Process { child, _stdout: stdout });
        let text = || std::fs::read_to_string(home.join("log")).unwrap_or_default();
        assert!(line.contains("client_address"), "node {node} did not come up:\n{}", text());
    }

    fn kill(&mut self, node: usize) {
        self.processes[node] = None;
    }

    fn signal(&self, node: usize, signal: Signal) {
        let process = self.processes[node].as_ref().unwrap().child.id();
        kill_process(Pid::from_raw(process as i32).unwrap(), signal).unwrap();
    }

    fn http(&self, node: usize) -> &str {
        &self.made.network.nodes[node].http_address
    }

    fn status(&self, node: usize) -> Option<Value> {
        ask_json(self.http(node), "/status", PATIENCE).ok()
    }

    fn await_all(&self, what: &str, holds: impl Fn(&Value) -> bool) {
        wait_until(what, || {
            (0..NODES).all(|node| self.status(node).is_some_and(|status| holds(&status)))
        });
    }

    fn assert_agreement(&self) {
        wait_until("all ledgers hold the same payments", || {
            let sums: Vec<_> =
                (0..NODES).map(|node| Some(self.status(node)?["sum"].clone())).collect();
            sums[0].is_some() && sums.windows(2).all(|pair| pair[0] == pair[1])
        });
    }

    fn client(&self, node: usize) -> Client {
        let network = &self.made.network;
        self.runtime.block_on(Client::connect(network, ReplicaId(node as u16))).unwrap()
    }

    fn genesis(&self) -> Vec<OutputId> {
        self.made.network.genesis.outputs().map(|(id, _)| id).collect()
    }

    /// A payment of one genesis output.
    fn payment(&self, output: OutputId, to: Address) -> Transaction {
        let body =
            Body::new(&[(output, self.owner.public_key())], vec![Output { to, amount: AMOUNT }]);
        body.unwrap().sign(&self.made.network.chain(), &[&self.owner]).unwrap()
    }

    /// Hands a payment in; the question's number.
    fn submit(&self, client: &mut Client, payment: &Transaction) -> u64 {
        let question = Question::Submit(Bytes::from(payment.to_bytes()));
        self.runtime.block_on(client.send(&question)).unwrap()
    }

    /// Waits until the payments of these questions are accepted.
    fn accepted(
        &self,
        client: &mut Client,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Vec<TransactionId> {
        let numbers: BTreeSet<u64> = numbers.into_iter().collect();
        let all = async { tokio::time::timeout(DEADLINE, all_accepted(client, numbers)).await };
        self.runtime.block_on(all).expect("all are accepted in time")
    }

    /// What a node knows of a transaction.
    fn state(&self, node: usize, id: &TransactionId) -> Value {
        ask_json(self.http(node), &format!("/why/{id}"), PATIENCE).unwrap()
    }

    fn wallet(&self, arguments: &[&str]) -> (Option<i32>, String, String) {
        let mut command = quorate();
        let output = command.arg("wallet").args(arguments).current_dir(self.folder.path()).output();
        let output = output.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }
}

/// Waits until all these payments are accepted, in whatever order, and returns their ids.
async fn all_accepted(client: &mut Client, mut left: BTreeSet<u64>) -> Vec<TransactionId> {
    let mut accepted = Vec::new();
    while !left.is_empty() {
        let (number, answer) = client.receive().await.unwrap();
        match answer {
            _ if !left.contains(&number) => {}
            Answer::Taken(_) => {}
            Answer::Accepted(id) => {
                left.remove(&number);
                accepted.push(id);
            }
            other => panic!("{other:?}"),
        }
    }
    accepted
}

fn somebody(number: u8) -> Address {
    Address::of(&SecretKey::from_seed(&[number; 32]).public_key())
}

#[test]
fn a_third_that_is_killed_comes_back_and_nothing_accepted_is_lost() {
    let mut net = Net::start();
    let outputs = net.genesis();
    let mut client = net.client(0);
    let pay = |net: &Net, client: &mut Client, outputs: &[OutputId], to| {
        let pay = |output: &OutputId| net.submit(client, &net.payment(*output, somebody(to)));
        let numbers: Vec<_> = outputs.iter().map(pay).collect();
        net.accepted(client, numbers)
    };
    let mut accepted = pay(&net, &mut client, &outputs[..10], 1);
    // Two of seven: the others need not accept anything meanwhile, and must not lose anything.
    for node in [5, 6] {
        net.kill(node);
    }
    let late = net.payment(outputs[10], somebody(2));
    let number = net.submit(&mut client, &late);
    for node in [5, 6] {
        net.start_node(node);
    }
    accepted.extend(net.accepted(&mut client, [number]));
    net.await_all("every node takes part", |status| status["ready"] == true);
    accepted.extend(pay(&net, &mut client, &outputs[11..20], 3));
    // And all at once.
    (0..NODES).for_each(|node| net.kill(node));
    (0..NODES).for_each(|node| net.start_node(node));
    net.await_all("every node takes part", |status| status["ready"] == true);
    let mut client = net.client(3);
    accepted.extend(pay(&net, &mut client, &outputs[20..25], 4));
    net.assert_agreement();
    for node in 0..NODES {
        for id in &accepted {
            assert_eq!(net.state(node, id)["state"], "accepted", "node {node}");
        }
    }
    let balance = |node, address| {
        let mut client = net.client(node);
        match net.runtime.block_on(client.ask(&Question::Account(address))).unwrap() {
            Answer::Account(account) => account.balance,
            other => panic!("{other:?}"),
        }
    };
    for node in 0..NODES {
        let paid = [1, 2, 3, 4].map(|to| balance(node, somebody(to)));
        assert_eq!(paid, [10, 1, 9, 5].map(|count| count * AMOUNT), "node {node}");
        let left = balance(node, Address::of(&net.owner.public_key()));
        assert_eq!(left, (OUTPUTS as u64 - 25) * AMOUNT, "node {node}");
    }
}

/// A node that stood still for so long that its peers gave up their connections lost what they said
/// meanwhile. Nobody says it again, and nobody restarts the node.
#[test]
fn a_node_that_stood_still_catches_up_by_itself() {
    let net = Net::start();
    let outputs = net.genesis();
    let mut client = net.client(0);
    let pay = |client: &mut Client, outputs: &[OutputId]| {
        let pay = |output: &OutputId| net.submit(client, &net.payment(*output, somebody(1)));
        let numbers: Vec<_> = outputs.iter().map(pay).collect();
        net.accepted(client, numbers);
    };
    pay(&mut client, &outputs[..5]);
    net.signal(6, Signal::STOP);
    wait_until("its peers gave up its connections", || {
        let status = net.status(0).unwrap_or_default();
        status["peers"].as_array().is_some_and(|peers| !peers.iter().any(|peer| *peer == 6))
    });
    pay(&mut client, &outputs[5..15]);
    net.signal(6, Signal::CONT);
    net.assert_agreement();
}

#[test]
fn of_two_payments_of_one_output_at_most_one_is_accepted() {
    let net = Net::start();
    let outputs = net.genesis();
    let pairs: Vec<_> = outputs[..3]
        .iter()
        .map(|output| [1, 2].map(|to| net.payment(*output, somebody(to))))
        .collect();
    let (mut first, mut second) = (net.client(0), net.client(NODES - 1));
    for [one, other] in &pairs {
        net.submit(&mut first, one);
        net.submit(&mut second, other);
    }
    let honest = net.submit(&mut first, &net.payment(outputs[3], somebody(3)));
    net.accepted(&mut first, [honest]);
    for [one, other] in &pairs {
        let accepted = |id: &TransactionId| {
            (0..NODES).filter(|node| net.state(*node, id)["state"] == "accepted").count()
        };
        assert!(accepted(&one.id()) == 0 || accepted(&other.id()) == 0);
        // One that is rejected says by what, and one that is pending says why.
        for (node, id, rival) in [(0, one.id(), other.id()), (NODES - 1, other.id(), one.id())] {
            let known = net.state(node, &id);
            if known["state"] == "rejected" {
                let why = known["why"].as_str().unwrap();
                assert!(why.starts_with(&rival.to_string()), "{why}");
            }
        }
        let known = net.state(0, &one.id());
        assert!(
            known["state"] != "pending" || known["why"].as_str().unwrap().contains("confidence")
        );
    }
    // At one node nobody spends twice: it knows the first payment.
    let [one, other] = [1, 2].map(|to| net.payment(outputs[4], somebody(to)));
    let answer = |client: &mut Client, number| {
        net.runtime.block_on(client.answer(number, DEADLINE)).unwrap()
    };
    let number = net.submit(&mut first, &one);
    assert_eq!(answer(&mut first, number), Answer::Taken(one.id()));
    let number = net.submit(&mut first, &other);
    match answer(&mut first, number) {
        Answer::Refused(name, _) => assert!(["pending", "spent"].contains(&&*name), "{name}"),
        taken => panic!("{taken:?}"),
    }
    let metrics = ask(net.http(0), "/metrics", PATIENCE).unwrap().body;
    assert!(metrics.contains("quorate_payments_peer_refused_total{reason=\"unasked_answer\"} 0"));
    assert!(metrics.ends_with("# EOF\n"));
}

#[test]
fn wallets_pay_and_say_what_is_wrong() {
    let net = Net::start();
    let file = setup::network_file(&net.made.wallet);
    let network = ["--network", file.to_str().unwrap()];
    let (code, address, error) = net.wallet(&[&["new", "--home", "ada"], &network[..]].concat());
    assert_eq!(code, Some(0), "{error}");
    let address: Address = address.parse().unwrap();
    let key = net.folder.path().join("ada/wallet.key");
    use std::os::unix::fs::PermissionsExt as _;
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, _, error) = net.wallet(&["new", "--home", "ada"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("there is a wallet already"), "{error}");

    let to = address.to_string();
    let (code, out, error) = net.wallet(&["send", "--home", "wallet", &to, "250", "--wait", "120"]);
    assert_eq!((code, out.ends_with("accepted")), (Some(0), true), "{out} {error}");
    let id = out.split(' ').next().unwrap().to_owned();
    let (_, out, _) = net.wallet(&["why", "--home", "ada", &id]);
    assert!(out.starts_with("accepted"), "{out}");
    // The node that is asked may be another one, which accepts a moment later.
    wait_until("the payment has arrived", || {
        net.wallet(&["balance", "--home", "ada", "--node", "3"]).1 == "250"
    });
    let (_, out, _) = net.wallet(&["history", "--home", "ada", "--node", "3"]);
    assert!(out.contains("+250") && out.contains(&id), "{out}");

    // Two at once would spend one output twice.
    let held = quorate_payments::wallet::hold(&net.folder.path().join("ada")).unwrap();
    let (code, _, error) = net.wallet(&["send", "--home", "ada", &to, "1"]);
    assert_eq!(code, Some(1), "{error}");
    let paying = format!("process {} is paying from this wallet", std::process::id());
    assert!(error.contains(&paying) && error.contains("wait until it ends"), "{error}");
    drop(held);

    let (code, _, error) = net.wallet(&["send", "--home", "ada", &to, "251"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("the wallet has 250, the payment needs 251"), "{error}");
    let wrong = format!("{}q", &to[..to.len() - 1]);
    let wrong = if wrong == to { format!("{}p", &to[..to.len() - 1]) } else { wrong };
    let (code, _, error) = net.wallet(&["send", "--home", "ada", &wrong, "1"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("checksum"), "{error}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (code, _, error) = net.wallet(&["address", "--home", "ada"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("chmod 600"), "{error}");
    let (code, _, error) = net.wallet(&["address", "--home", "nobody"]);
    assert_eq!(code, Some(2));
    assert!(error.contains("quorate wallet new"), "{error}");
}
