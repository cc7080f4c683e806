//! Applications that behave badly, in whole replicas in one process: slow, not deterministic,
//! panicking, without bound.

mod blocking;
#[path = "../../../cli/tests/cluster/ports.rs"]
mod ports;
mod unbounded;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ports::ports;
use quorate_core::Digest;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::SessionConfig;
use quorate_core::client::message::{Request, Response, Unproven};
use quorate_core::ledger::execution::command_digest;
use quorate_core::ledger::state_machine::{
    Decided, KeepError, MAX_CHUNK_BYTES, MAX_COMMAND_REPLY_BYTES, Reader, Replies, RestoreError,
    Snapshot, StateMachine, Usage,
};
use quorate_crypto::SecretKey;
use quorate_node::client::{Authenticity, Client, ClientConfig, QueryError, ReplicaAddress};
use quorate_node::config::{Loaded, Overrides, load};
use quorate_node::http::{self, Facts, ask_json};
use quorate_node::launch::{Remedies, setup};
use quorate_node::replica::Running;
use quorate_node::replica::decide::End;
use quorate_node::testnet::{self, Options, Testnet};
use quorate_transport::{Limits, PeerSocket, ReceiveHalf, SendHalf, dial};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::TcpListener;

const DEADLINE: Duration = Duration::from_secs(60);

/// What a question may wait for.
#[derive(Default)]
struct Gate {
    open: Mutex<bool>,
    opened: Condvar,
    waiting: AtomicU64,
}

impl Gate {
    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }
}

/// Counts commands. `poison` panics; `clock` makes each replica's state another one; `block` holds
/// the last replica up until the gate opens; `long` has a reply that is too long. From `fat` on a
/// chunk of a snapshot is too long, and from `brittle` on handing it out panics. From `full` to
/// `empty` the state is near its limit.
///
/// To the question `one lies` the last replica answers otherwise, to `all differ` each does. `wait`
/// waits for the gate, and `long` has an answer that is too long.
struct Bad {
    replica: u8,
    count: u64,
    clock: Arc<AtomicU64>,
    gate: Arc<Gate>,
}

impl StateMachine for Bad {
    fn apply(&mut self, block: &Decided<'_>, replies: &mut Replies) {
        for command in block.commands {
            if *command == b"block" && self.replica == 3 {
                self.gate.pass();
            }
            match *command {
                b"poison" => panic!("cannot digest this"),
                b"clock" => self.count += self.clock.fetch_add(1, Ordering::Relaxed) << 32,
                b"fat" => self.count |= FAT,
                b"brittle" => self.count |= BRITTLE,
                b"full" => self.count |= FULL,
                b"empty" => self.count &= !FULL,
                _ => self.count += 1,
            }
            match *command {
                b"long" => replies.push(&vec![0; MAX_COMMAND_REPLY_BYTES + 1]),
                _ => replies.push(b"done"),
            }
        }
    }

    fn query(&self, question: &[u8]) -> Bytes {
        match question {
            b"wait" => self.gate.pass(),
            b"long" => return vec![0; MAX_COMMAND_REPLY_BYTES + 1].into(),
            b"poison" => panic!("cannot digest this question"),
            b"one lies" if self.replica == 3 => return Bytes::from_static(b"a lie"),
            b"all differ" => return Bytes::copy_from_slice(&[self.replica]),
            _ => {}
        }
        Bytes::copy_from_slice(&self.count.to_le_bytes())
    }

    fn reader(&self) -> Option<Box<dyn Reader>> {
        let (clock, gate) = (Arc::clone(&self.clock), Arc::clone(&self.gate));
        let (replica, count) = (self.replica, self.count);
        Some(Box::new(Frozen(Self { replica, count, clock, gate })))
    }

    fn usage(&self) -> Option<Usage> {
        let used_bytes = if self.count & FULL == 0 { 10 } else { 95 };
        Some(Usage { used_bytes, limit_bytes: 100 })
    }

    fn root(&mut self) -> Digest {
        Digest::of("bad application", &self.count.to_le_bytes())
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        Box::new(Count(self.count))
    }

    fn restore(&mut self, chunks: &mut dyn Iterator<Item = Bytes>) -> Result<(), RestoreError> {
        let chunk = chunks.next().unwrap_or_default();
        let bytes = chunk.as_ref().try_into();
        let reason = "no count".to_owned();
        let bytes = bytes.map_err(|_| RestoreError { chunk: 0, reason })?;
        self.count = u64::from_le_bytes(bytes);
        Ok(())
    }
}

struct Frozen(Bad);

impl Reader for Frozen {
    fn answer(&self, question: &[u8]) -> Result<Bytes, KeepError> {
        Ok(self.0.query(question))
    }
}

struct Count(u64);

const FAT: u64 = 1 << 40;
const BRITTLE: u64 = 1 << 41;
const FULL: u64 = 1 << 42;

impl Snapshot for Count {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        assert_eq!(self.0 & BRITTLE, 0, "too brittle to be handed out");
        if self.0 & FAT == 0 {
            sink(&self.0.to_le_bytes());
        } else {
            sink(&vec![7; MAX_CHUNK_BYTES + 1]);
        }
    }
}

struct World {
    testnet: Testnet,
    clock: Arc<AtomicU64>,
    gate: Arc<Gate>,
    /// So many blocks behind a snapshot there is the next one; none: as usual.
    snapshot_every: Option<u64>,
    /// Most bytes of a snapshot that replicas take over; none: as usual.
    max_snapshot_bytes: Option<u64>,
    _folder: TempDir,
    _ports: std::net::TcpListener,
}

impl World {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (held, first_port) = ports(3 * 4);
        let options = Options { base_port: Some(first_port), ..Options::default() };
        let testnet = testnet::init(folder.path(), 4, &options).unwrap();
        Self {
            testnet,
            clock: Arc::default(),
            gate: Arc::default(),
            snapshot_every: None,
            max_snapshot_bytes: None,
            _folder: folder,
            _ports: held,
        }
    }

    fn loaded(&self, replica: usize) -> Loaded {
        let mut loaded = load(&self.testnet.replicas[replica], &Overrides::default()).unwrap();
        if let Some(blocks) = self.snapshot_every {
            loaded.node.storage.snapshot_every_blocks = blocks;
        }
        loaded
    }

    /// Answers what is asked of a replica over HTTP. Returns where.
    async fn serve(&self, replica: usize, running: &Running) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let loaded = self.loaded(replica);
        tokio::spawn(http::serve(
            listener,
            Arc::default(),
            Facts::new(&loaded.node, loaded.cluster, running),
        ));
        address
    }

    async fn start(&self, replica: usize, skipped: &[&[u8]]) -> Running {
        let loaded = self.loaded(replica);
        let keys = loaded.open_keys().unwrap();
        let committee = loaded.cluster.committee().unwrap();
        let skipped_commands: BTreeSet<_> = skipped.iter().map(|one| command_digest(one)).collect();
        let remedies = Remedies { skipped_commands, ..Remedies::default() };
        let mut setup = setup(&loaded, committee, keys, remedies);
        let settings = &mut setup.settings;
        settings.max_snapshot_bytes =
            self.max_snapshot_bytes.unwrap_or(settings.max_snapshot_bytes);
        let (listen, transport) = (&loaded.node.listen, loaded.cluster.transport);
        let (peer, client) = (listen.peer.to_string(), listen.client.to_string());
        // The tasks of a replica that has ended close their sockets when they are next looked at.
        let peers = in_time(|| PeerSocket::bind(transport, &peer)).await;
        let clients = in_time(|| TcpListener::bind(client.clone())).await;
        let (clock, gate) = (Arc::clone(&self.clock), Arc::clone(&self.gate));
        let fresh = move || Bad {
            replica: replica as u8,
            count: 0,
            clock: Arc::clone(&clock),
            gate: Arc::clone(&gate),
        };
        setup.start(peers, clients, Box::new(fresh)).unwrap()
    }

    async fn start_all(&self, skipped: &[&[u8]]) -> Vec<Running> {
        let mut running = Vec::new();
        for replica in 0..4 {
            running.push(self.start(replica, skipped).await);
        }
        running
    }

    async fn client(&self) -> Client {
        let cluster = &self.testnet.cluster;
        let addresses = cluster.members.iter().map(|member| ReplicaAddress {
            address: member.client_address.to_string(),
            key: member.transport_key,
        });
        let config = ClientConfig {
            replicas: addresses.collect(),
            session: SessionConfig::new(cluster.chain_digest(), 4),
            give_up_after: None,
            authenticity: Authenticity::Channel,
            incarnation: None,
        };
        let key = Arc::new(SecretKey::generate().unwrap());
        tokio::time::timeout(DEADLINE, Client::connect(config, key)).await.unwrap().unwrap()
    }

    /// To the first replica, as a stranger.
    async fn stranger(&self) -> (SendHalf, ReceiveHalf) {
        let cluster = &self.testnet.cluster;
        let member = &cluster.members[0];
        let address = member.client_address.to_string();
        let chain = cluster.chain_digest();
        dial(&address, member.transport_key, chain, Limits::clients()).await.unwrap()
    }
}

/// What `make` gives when it succeeds.
async fn in_time<T, F: Future<Output = std::io::Result<T>>>(make: impl Fn() -> F) -> T {
    let start = Instant::now();
    loop {
        match make().await {
            Ok(made) => return made,
            Err(error) => assert!(start.elapsed() < DEADLINE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn submit(client: &Client, command: &'static [u8]) -> Bytes {
    let submitted = client.submit(vec![Bytes::from_static(command)]);
    let replies = tokio::time::timeout(DEADLINE, submitted).await.expect("in time").unwrap();
    replies[0].clone()
}

async fn status(address: &str) -> Value {
    let address = address.to_owned();
    let asked = tokio::task::spawn_blocking(move || ask_json(&address, "/status", DEADLINE));
    asked.await.unwrap().unwrap()
}

/// What is wrong with a replica, by its own word: the name and the text of each.
async fn warnings(address: &str) -> Vec<(String, String)> {
    let status = status(address).await;
    let text = |warning: &Value, key: &str| warning[key].as_str().unwrap().to_owned();
    let warnings = status["warnings"].as_array().unwrap();
    warnings.iter().map(|one| (text(one, "name"), text(one, "what"))).collect()
}

/// Waits until all of these are told.
async fn until_warned(address: &str, names: &[&str]) {
    let began = Instant::now();
    loop {
        let told = warnings(address).await;
        if names.iter().all(|name| told.iter().any(|(one, _)| one == name)) {
            return;
        }
        assert!(began.elapsed() < DEADLINE, "{told:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// How a replica has ended, or that it was stopped.
fn end_of(replica: Running) -> End {
    replica.stop();
    replica.join()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Stops a replica, and waits until it answers nobody any more.
fn stopped(replica: Running) {
    replica.stop();
    assert_eq!(replica.join(), End::Stopped);
}

fn ask(send: &SendHalf, id: u64, question: &'static [u8]) {
    let question = Bytes::from_static(question);
    send.try_send(Request::Query { id, question }.to_bytes().into()).unwrap();
}

async fn answer(receive: &mut ReceiveHalf) -> Response {
    let message = tokio::time::timeout(DEADLINE, receive.receive()).await.expect("in time");
    Response::from_bytes(message.expect("a message")).unwrap()
}

/// A question that takes for ever holds up neither the cluster nor its own replica, and is answered
/// from the state as it was when it was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_takes_long_keeps_the_replica_from_nothing() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let client = world.client().await;
    submit(&client, b"one").await;
    let executed = replicas[0].metrics();
    until("it is executed", || executed.committed_commands_total.get() == 1).await;
    let (send, mut receive) = world.stranger().await;
    ask(&send, 1, b"wait");
    until("it is asked", || world.gate.waiting.load(Ordering::Relaxed) == 1).await;
    for _ in 0..50 {
        submit(&client, b"another").await;
    }
    until("the replica executes meanwhile", || executed.committed_commands_total.get() == 51).await;
    ask(&send, 2, b"how many?");
    world.gate.open();
    let counts = [answer(&mut receive).await, answer(&mut receive).await];
    for (response, (expected_id, expected)) in counts.into_iter().zip([(1, 1u64), (2, 51)]) {
        let Response::Answer { id, answer } = response else { panic!("{response:?}") };
        assert_eq!((id, answer.as_ref()), (expected_id, &expected.to_le_bytes()[..]));
    }
}

/// Anybody may ask anything: a question at which the application panics is the asker's concern.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_at_which_the_application_panics_is_refused() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let client = world.client().await;
    let (send, mut receive) = world.stranger().await;
    ask(&send, 1, b"poison");
    let refused = answer(&mut receive).await;
    let expected = Response::Unproven { id: 1, reason: Unproven::Unavailable };
    assert_eq!(refused, expected);
    ask(&send, 2, b"how many?");
    assert!(matches!(answer(&mut receive).await, Response::Answer { id: 2, .. }));
    submit(&client, b"one").await;
    assert!(!replicas[0].has_ended());
    assert_eq!(replicas[0].metrics().query_panics_total.get(), 1);
}

/// One replica lies and one is down: the others' answer is believed. A liar and two that are down
/// are not; nor are answers of which no two are equal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_believed_if_one_more_than_may_lie_gave_it() {
    let world = World::new();
    let mut replicas = world.start_all(&[]).await;
    let client = world.client().await;
    submit(&client, b"one").await;
    let executed = |replica: &Running| replica.metrics().committed_commands_total.get() == 1;
    until("all have executed it", || replicas.iter().all(executed)).await;
    let ask = |question: &'static [u8]| client.query(Bytes::from_static(question));
    assert_eq!(ask(b"how many?").await.unwrap().as_ref(), 1u64.to_le_bytes());
    stopped(replicas.remove(0));
    for _ in 0..5 {
        assert_eq!(ask(b"one lies").await.unwrap().as_ref(), 1u64.to_le_bytes());
    }
    let unequal = ask(b"all differ").await.unwrap_err();
    assert!(matches!(unequal, QueryError::Unequal { needed: 2, .. }), "{unequal}");
    stopped(replicas.remove(0));
    let refused = ask(b"one lies").await.unwrap_err();
    assert!(matches!(refused, QueryError::Unequal { needed: 2, .. }), "{refused}");
    stopped(replicas.remove(0));
    let refused = ask(b"how many?").await.unwrap_err();
    assert!(matches!(refused, QueryError::TooFew { answered: 0 | 1, needed: 2, .. }), "{refused}");
    let long = client.query(Bytes::from(vec![0; 1 << 20])).await.unwrap_err();
    assert_eq!(long, QueryError::TooLong(1 << 20));
}

/// Nothing is committed any more, and every replica says why.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_that_is_not_deterministic_is_told() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let address = world.serve(0, &replicas[0]).await;
    let client = world.client().await;
    submit(&client, b"one").await;
    let differs = |replica: &Running| replica.metrics().state_root_differs_views.get();
    assert!(replicas.iter().all(|replica| differs(replica) == 0));
    submit(&client, b"clock").await;
    // The root behind `clock` is in a block that comes later: two blocks may still be committed.
    let next = tokio::spawn(async move {
        loop {
            submit(&client, b"another").await;
        }
    });
    // In more views than faulty replicas can lead.
    until("all have noticed", || replicas.iter().all(|replica| differs(replica) > 1)).await;
    assert!(replicas.iter().all(|replica| !replica.has_ended()));
    let began = Instant::now();
    let (status, why) = loop {
        let status = status(&address).await;
        let why = status["not_ready"].as_str().unwrap_or_default().to_owned();
        if why.contains("the application `kv` is not deterministic") {
            break (status, why);
        }
        // One of those two was committed just now.
        assert!(began.elapsed() < DEADLINE, "{status}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let height = status["state"]["root_differs_at"].as_u64().unwrap();
    assert!(why.contains(&format!("state root at height {height} differs")), "{why}");
    assert_eq!(status["ready"], false);
    // Both alerts fire: of the cause, and of what it comes to.
    until_warned(&address, &["state-root-differs", "stalled"]).await;
    next.abort();
}

/// Every replica stops at the command, and names it; without a remedy again after a restart. Told
/// to skip it, they go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_the_application_does_not_survive_is_named_and_can_be_skipped() {
    let world = World::new();
    let replicas = world.start_all(&[]).await;
    let client = Arc::new(world.client().await);
    submit(&client, b"one").await;
    let waits = Arc::clone(&client);
    let poisoned = tokio::spawn(async move { submit(&waits, b"poison").await });
    // Two of four that are left decide nothing, and may never learn that the block is committed.
    let have_ended =
        |replicas: &[Running]| replicas.iter().filter(|replica| replica.has_ended()).count() >= 2;
    until("f + 1 have ended", || have_ended(&replicas)).await;
    let named = format!("digest {}", command_digest(b"poison"));
    let ended = |replica: Running| match end_of(replica) {
        End::Stopped => false,
        End::Application(reason) => {
            assert!(reason.contains(&named) && reason.contains("session 1"), "{reason}");
            assert!(reason.starts_with("application `kv`: "), "{reason}");
            assert!(
                reason.contains("command 2 of") && reason.contains("cannot digest"),
                "{reason}"
            );
            true
        }
        other => panic!("{other:?}"),
    };
    assert!(replicas.into_iter().map(ended).filter(|ended| *ended).count() >= 2);
    let again = world.start_all(&[]).await;
    until("f + 1 have ended again", || have_ended(&again)).await;
    assert!(again.into_iter().map(ended).filter(|ended| *ended).count() >= 2);
    let replicas = world.start_all(&[b"poison"]).await;
    assert_eq!(
        poisoned.await.unwrap(),
        Bytes::new(),
        "a command that is skipped has an empty reply"
    );
    assert_eq!(submit(&client, b"two").await, "done");
    assert!(replicas.iter().all(|replica| !replica.has_ended()));
}
