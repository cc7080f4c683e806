//! Who may send commands to whole replicas, while others go on.

#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;

use std::net::TcpListener;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ports::ports;
use quorate_app::kv::Reply;
use quorate_app::kv::command::encode;
use quorate_core::base::crypto::{ClientSigner as _, Signer as _};
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{Rejection, Request};
use quorate_core::client::{ClientError, Fatal, SessionConfig, Unknown};
use quorate_core::ledger::clients::{Admission, Clients, Grant};
use quorate_core::ledger::directive::{Directive, Order, Refusal, SignedDirective};
use quorate_core::ledger::frame::Frame;
use quorate_core::{Sequence, SessionId};
use quorate_crypto::{SecretKey, key_file};
use quorate_node::client::rights::{self, DirectiveError};
use quorate_node::client::succession::{Chain, Following};
use quorate_node::client::{Authenticity, Client, ClientConfig, ReplicaAddress};
use quorate_node::config::{Home, Overrides, load};
use quorate_node::launch::{Launched, Remedies, launch};
use quorate_node::testnet::{self, Options, Testnet};
use quorate_transport::Limits;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

const DEADLINE: Duration = Duration::from_secs(60);

struct Replicas {
    testnet: Testnet,
    launched: Vec<Launched>,
    /// Theirs alone: it ends with them, and lets go of their sockets.
    runtime: Option<Runtime>,
    administrators: Vec<Arc<SecretKey>>,
    chain: Chain,
    _folder: TempDir,
    _ports: TcpListener,
}

/// Four replicas with two administrators, both of whom must sign.
async fn start() -> Replicas {
    let folder = tempfile::tempdir().unwrap();
    let (held, first_port) = ports(3 * 4);
    let options = Options {
        base_port: Some(first_port),
        administrators: 2,
        approvals: Some(2),
        ..Options::default()
    };
    let testnet = testnet::init(folder.path(), 4, &options).unwrap();
    let read = |file: &PathBuf| Arc::new(key_file::read(file).unwrap());
    let administrators = testnet.administrator_keys.iter().map(read).collect();
    let chain = Following::of(&testnet.cluster).unwrap().begin();
    let mut replicas = Replicas {
        testnet,
        launched: Vec::new(),
        runtime: None,
        administrators,
        chain,
        _folder: folder,
        _ports: held,
    };
    replicas.launch().await;
    replicas
}

/// Starts a replica. One that has just ended may hold its sockets for a moment.
async fn launched(home: &Home) -> Launched {
    let begin = Instant::now();
    loop {
        let loaded = load(home, &Overrides::default()).unwrap();
        let keys = loaded.open_keys().unwrap();
        let committee = loaded.cluster.committee().unwrap();
        match launch(&loaded, committee, keys, Remedies::default()).await {
            Ok(launched) => return launched,
            Err(error) => assert!(begin.elapsed() < DEADLINE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

impl Replicas {
    async fn launch(&mut self) {
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        for home in self.testnet.replicas.clone() {
            let launching = runtime.spawn(async move { launched(&home).await });
            self.launched.push(launching.await.unwrap());
        }
        self.runtime = Some(runtime);
    }

    async fn restart(&mut self) {
        for launched in std::mem::take(&mut self.launched) {
            launched.running.stop();
            let ended = tokio::task::spawn_blocking(move || launched.running.join());
            ended.await.unwrap();
        }
        self.end_runtime();
        self.launch().await;
    }

    fn end_runtime(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }

    fn refused(&self, reason: &str) -> u64 {
        let of = |launched: &Launched| launched.running.metrics().refused().get(reason).copied();
        self.launched.iter().filter_map(of).sum()
    }

    fn config(&self) -> ClientConfig {
        let cluster = &self.testnet.cluster;
        let addresses = cluster.members.iter().map(|member| ReplicaAddress {
            address: member.client_address.to_string(),
            key: member.transport_key,
        });
        ClientConfig {
            replicas: addresses.collect(),
            session: SessionConfig::new(cluster.chain_digest(), 4),
            give_up_after: None,
            authenticity: Authenticity::Channel,
            incarnation: None,
        }
    }

    async fn connect(&self, key: &Arc<SecretKey>) -> Result<Client, Fatal> {
        let key = Arc::clone(key);
        tokio::time::timeout(DEADLINE, Client::connect(self.config(), key)).await.unwrap()
    }

    async fn list(&self) -> Clients {
        rights::list(self.chain.committee()).await.unwrap()
    }

    /// Gives an order that the first so many administrators sign.
    async fn order(&self, signers: usize, order: Order) -> Result<SignedDirective, DirectiveError> {
        let clients = self.list().await;
        let signed = self.signed(signers, Directive { serial: clients.next_serial(), order });
        self.submit(&signed, &clients).await?;
        self.until_listed(signed.directive.serial + 1).await;
        Ok(signed)
    }

    /// A directive that the first so many administrators sign.
    fn signed(&self, signers: usize, directive: Directive) -> SignedDirective {
        let mut signed = SignedDirective { directive, approvals: Vec::new() };
        for administrator in &self.administrators[..signers] {
            rights::approve(&mut signed, self.chain.committee(), administrator);
        }
        signed
    }

    /// f + 1 replicas said that it was executed; the others come to it.
    async fn until_listed(&self, next_serial: u64) {
        let begin = Instant::now();
        while self.list().await.next_serial() < next_serial {
            assert!(begin.elapsed() < DEADLINE, "the list stays as it was");
        }
    }

    async fn submit(
        &self,
        signed: &SignedDirective,
        clients: &Clients,
    ) -> Result<(), DirectiveError> {
        let client = Arc::clone(&self.administrators[0]);
        rights::submit(signed, clients, &self.testnet.cluster, &self.chain, client).await
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        self.end_runtime();
    }
}

fn key() -> Arc<SecretKey> {
    Arc::new(SecretKey::generate().unwrap())
}

async fn commit(client: &Client, count: usize) -> Result<(), ClientError> {
    for _ in 0..count {
        let done = tokio::time::timeout(DEADLINE, client.submit(vec![Bytes::new()])).await;
        assert_eq!(done.expect("it is answered in time")?.len(), 1);
    }
    Ok(())
}

/// Adds one to a counter, without end.
async fn count_up(client: &Client) -> Result<(), ClientError> {
    let mut add = Vec::new();
    encode::incr_by(&mut add, b"counter", 1);
    loop {
        let submitted = client.submit(vec![Bytes::from(add.clone())]);
        tokio::time::timeout(DEADLINE, submitted).await.expect("it is answered in time")?;
    }
}

/// What the counter says, read in order: no command before it is left out, and none behind counts.
async fn counted(client: &Client) -> String {
    let mut get = Vec::new();
    encode::get(&mut get, b"counter");
    let submitted = client.submit(vec![get.into()]);
    let replies = tokio::time::timeout(DEADLINE, submitted).await.expect("in time").unwrap();
    format!("{:?}", Reply::decode(&replies[0]).unwrap())
}

/// A client works without a pause when its key is revoked. Nothing of it is executed any more when
/// the directive is answered (that it stops where the directive stands is shown in
/// `core/tests/execution/clients.rs`). It ends, by that name; another one goes on; and so it is
/// after all replicas have started again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_client_stops_and_others_go_on() {
    let mut replicas = start().await;
    let [bad, good] = [key(), key()];
    let (bad_client, good_client) =
        (replicas.connect(&bad).await.unwrap(), replicas.connect(&good).await.unwrap());
    let works = tokio::spawn(async move { count_up(&bad_client).await });
    commit(&good_client, 20).await.unwrap();
    let clients = replicas.list().await;
    let order = Order::Revoke(bad.public_key());
    let directive = Directive { serial: clients.next_serial(), order };
    let signed = replicas.signed(2, directive);
    replicas.submit(&signed, &clients).await.unwrap();
    // The directive is executed, and this is ordered behind it.
    let at_the_end = counted(&good_client).await;
    assert!(at_the_end.starts_with("Bulk"), "it worked before: {at_the_end}");
    let ended = tokio::time::timeout(DEADLINE, works).await.unwrap().unwrap();
    let revoked = Rejection::Revoked;
    let expected = [
        Err(ClientError::Ambiguous(Unknown::RightsLost(revoked))),
        Err(ClientError::Fatal(Fatal::Rejected(revoked))),
    ];
    assert!(expected.contains(&ended), "{ended:?}");
    commit(&good_client, 20).await.unwrap();
    assert_eq!(counted(&good_client).await, at_the_end, "it went on behind the directive");
    replicas.until_listed(2).await;
    let again = replicas.connect(&bad).await.map(drop);
    assert_eq!(again, Err(Fatal::Rejected(revoked)));
    assert!(replicas.refused("client_revoked") >= 2, "f + 1 doors said so");
    // What was signed once takes effect once.
    let replayed = replicas.submit(&signed, &replicas.list().await).await.unwrap_err();
    let is_of_serial =
        matches!(replayed, DirectiveError::Refused(Refusal::Serial { found: 1, next: 2 }));
    assert!(is_of_serial, "{replayed}");
    let too_few = replicas.order(1, Order::Admit(Admission::Listed)).await.unwrap_err();
    let is_of_few = matches!(too_few, DirectiveError::Refused(Refusal::NotApproved { .. }));
    assert!(is_of_few, "{too_few}");
    drop(good_client);
    replicas.restart().await;
    assert_eq!(replicas.list().await.next_serial(), 2);
    let again = replicas.connect(&bad).await.map(drop);
    assert_eq!(again, Err(Fatal::Rejected(revoked)));
    commit(&replicas.connect(&good).await.unwrap(), 5).await.unwrap();
}

/// The list need not name the administrators: they change it all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_may_be_closed_and_opened_while_it_runs() {
    let replicas = start().await;
    let [listed, stranger] = [key(), key()];
    let works = replicas.connect(&stranger).await.unwrap();
    commit(&works, 3).await.unwrap();
    replicas.order(2, Order::Allow(listed.public_key(), Grant::default())).await.unwrap();
    replicas.order(2, Order::Admit(Admission::Listed)).await.unwrap();
    assert!(commit(&works, 1).await.is_err(), "its session has ended");
    let turned_away = replicas.connect(&stranger).await.map(drop);
    assert_eq!(turned_away, Err(Fatal::Rejected(Rejection::NotListed)));
    commit(&replicas.connect(&listed).await.unwrap(), 3).await.unwrap();
    replicas.order(2, Order::Admit(Admission::Open)).await.unwrap();
    commit(&replicas.connect(&stranger).await.unwrap(), 3).await.unwrap();
}

/// It sends all it has at once, again and again, and may have two commands a second executed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flooding_client_is_held_to_its_rate_and_leaves_others_alone() {
    let replicas = start().await;
    let [flood, good] = [key(), key()];
    let grant = Grant { commands_per_second: NonZeroU32::new(2), ..Grant::default() };
    replicas.order(2, Order::Allow(flood.public_key(), grant)).await.unwrap();
    // One frame may hold more than its rate; so that there are many, each batch has its own.
    let mut config = replicas.config();
    config.session.frame_commands = 64;
    let flooding = Client::connect(config, flood);
    let flooding = tokio::time::timeout(DEADLINE, flooding).await.unwrap().unwrap();
    let sent: Vec<_> = (0..64)
        .map(|_| {
            let client = flooding.clone();
            tokio::spawn(async move { client.submit(vec![Bytes::new(); 64]).await.map(drop) })
        })
        .collect();
    let client = replicas.connect(&good).await.unwrap();
    commit(&client, 50).await.unwrap();
    let begin = Instant::now();
    while replicas.refused("client_beyond_rate") == 0 {
        assert!(begin.elapsed() < DEADLINE, "nobody refuses the flood");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(sent.iter().any(|one| !one.is_finished()), "it is through, and was to wait");
    sent.iter().for_each(tokio::task::JoinHandle::abort);
}

/// It sends without end to a replica, and listens to nothing. The replica stops answering and
/// reading it. (`transport/src/tests/pauses.rs` shows that nothing is read then.) Others go on, and
/// so does the client itself once it listens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_does_not_listen_is_not_listened_to() {
    let replicas = start().await;
    let [flood, good] = [key(), key()];
    let grant = Grant { commands_per_second: NonZeroU32::new(2), ..Grant::default() };
    replicas.order(2, Order::Allow(flood.public_key(), grant)).await.unwrap();
    let config = replicas.config();
    let (at, chain) = (config.replicas[0].clone(), config.session.chain);
    let (session, sign) = (SessionId(u64::MAX), |statement: &_| flood.sign(statement));
    let commands = [&b""[..]; 64];
    let frame =
        Frame::build(flood.public_key(), session, Sequence(1), commands, &chain, sign).unwrap();
    let frame = Bytes::from(Request::Submit { relay: false, frame: frame.into() }.to_bytes());
    let limits = Limits { queue_messages: 4, ..Limits::clients() };
    let (sender, receiver) =
        quorate_transport::dial(&at.address, at.key, chain, limits).await.unwrap();
    let flooding = tokio::spawn(async move {
        while sender.send(frame.clone()).await.is_ok() {
            tokio::task::yield_now().await;
        }
    });
    let begin = Instant::now();
    while replicas.refused("client_unanswered") == 0 {
        assert!(begin.elapsed() < DEADLINE, "it is answered without end");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let client = replicas.connect(&good).await.unwrap();
    commit(&client, 50).await.unwrap();
    let begin = Instant::now();
    loop {
        let before = replicas.refused("client_unanswered");
        commit(&client, 5).await.unwrap();
        if replicas.refused("client_unanswered") == before {
            break;
        }
        assert!(begin.elapsed() < DEADLINE, "it is read without end");
    }
    assert!(!flooding.is_finished(), "it is connected, and waits");
    flooding.abort();
    drop(receiver);
    commit(&replicas.connect(&flood).await.unwrap(), 1).await.unwrap();
}
