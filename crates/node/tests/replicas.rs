//! Whole replicas in one process: sockets, threads and disks are real, and what they count can be
//! read.

#[path = "replicas/backups.rs"]
mod backups;
#[path = "../../cli/tests/cluster/ports.rs"]
mod ports;
#[path = "replicas/whole.rs"]
mod whole;

use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use ports::ports;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use quorate_core::base::crypto::{ClientSigner as _, Signature, Signer as _};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Outcome, Refusal, Rejection, Request, Response, Unproven};
use quorate_core::client::{Route, SessionConfig};
use quorate_core::ledger::frame::Frame;
use quorate_core::protocols::hotstuff::Types;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, TimeOut, Vote};
use quorate_core::protocols::hotstuff::message::Message;
use quorate_core::protocols::protocol::Ballot;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Digest, Height, ReplicaId, Sequence, View};
use quorate_crypto::{ConsensusKey, SecretKey};
use quorate_node::begin::begin;
use quorate_node::client::{Authenticity, Client, ClientConfig, ReplicaAddress};
use quorate_node::config::{Cluster, FlagSetting, Overrides, load};
use quorate_node::family::Family;
use quorate_node::launch::{Launched, Remedies, launch};
use quorate_node::testnet::{self, Options, Testnet};
use quorate_transport::{
    Counters, Identity, Limits, Member, Mesh, PeerSocket, Peers, ReceiveHalf, SendHalf, Versions,
    dial, inbound,
};
use tempfile::TempDir;
use whole::whole_messages;

const DEADLINE: Duration = Duration::from_secs(60);

struct Replicas {
    testnet: Testnet,
    launched: Vec<Launched>,
    _folder: TempDir,
    _ports: TcpListener,
}

async fn start(count: usize) -> Replicas {
    start_with(count, Overrides::default()).await
}

async fn start_with(count: usize, overrides: Overrides) -> Replicas {
    start_changed(count, overrides, |_| {}).await
}

/// Of a testnet that `change` may change before anything starts.
async fn start_changed(
    count: usize,
    overrides: Overrides,
    change: impl FnOnce(&mut Testnet),
) -> Replicas {
    let folder = tempfile::tempdir().unwrap();
    let (held, first_port) = ports(3 * 4);
    let options = Options { base_port: Some(first_port), ..Options::default() };
    let mut testnet = testnet::init(folder.path(), 4, &options).unwrap();
    change(&mut testnet);
    let mut launched = Vec::new();
    for home in &testnet.replicas[..count] {
        let loaded = load(home, &overrides).unwrap();
        let keys = loaded.open_keys().unwrap();
        let committee = loaded.cluster.committee().unwrap();
        launched.push(launch(&loaded, committee, keys, Remedies::default()).await.unwrap());
    }
    Replicas { testnet, launched, _folder: folder, _ports: held }
}

impl Replicas {
    fn cluster(&self) -> &Cluster {
        &self.testnet.cluster
    }

    fn total(&self, number: &str) -> u64 {
        let of = |launched: &Launched| {
            let numbers = launched.running.metrics().numbers();
            numbers.into_iter().find(|(name, _, _)| *name == number).unwrap().2
        };
        self.launched.iter().map(of).sum()
    }

    fn refused(&self, reason: &str) -> u64 {
        let of = |launched: &Launched| launched.running.metrics().refused().get(reason).copied();
        self.launched.iter().filter_map(of).sum()
    }

    async fn client(&self) -> Client {
        self.client_that(|_| {}).await
    }

    /// A client whose session is changed before it is opened.
    async fn client_that(&self, change: impl FnOnce(&mut SessionConfig)) -> Client {
        let addresses = self.cluster().members.iter().map(|member| ReplicaAddress {
            address: member.client_address.to_string(),
            key: member.transport_key,
        });
        let mut session = SessionConfig::new(self.cluster().chain_digest(), 4);
        change(&mut session);
        let config = ClientConfig {
            replicas: addresses.collect(),
            session,
            give_up_after: None,
            authenticity: Authenticity::Channel,
            incarnation: None,
        };
        let key = Arc::new(SecretKey::generate().unwrap());
        tokio::time::timeout(DEADLINE, Client::connect(config, key)).await.unwrap().unwrap()
    }

    async fn dial(&self, chain: Digest) -> Option<(SendHalf, ReceiveHalf)> {
        let member = &self.cluster().members[0];
        let address = member.client_address.to_string();
        dial(&address, member.transport_key, chain, Limits::clients()).await.ok()
    }
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < DEADLINE, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn commit(client: &Client, count: usize) {
    for _ in 0..count {
        let done = tokio::time::timeout(DEADLINE, client.submit(vec![Bytes::new()])).await;
        assert_eq!(done.expect("it is committed in time").unwrap().len(), 1);
    }
}

/// No blocks, no time-outs, no turns but for channels that open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_cluster_is_silent() {
    let replicas = start(4).await;
    let client = replicas.client().await;
    commit(&client, 50).await;
    let activity = ["turns_total", "proposals_total", "timeouts_total", "votes_total"];
    let read = || activity.map(|number| replicas.total(number));
    let begin = Instant::now();
    let mut before = read();
    loop {
        assert!(begin.elapsed() < DEADLINE, "it does not come to rest: {before:?}");
        tokio::time::sleep(Duration::from_millis(3500)).await;
        let now = read();
        if now == before {
            break;
        }
        before = now;
    }
    commit(&client, 5).await;
}

/// Clients that came and went filled the table of sessions. Nothing was ordered, so none of them
/// grew old, and newcomers were turned away for good.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_are_gone_make_room_for_newcomers() {
    let replicas = start_changed(4, Overrides::default(), |testnet| {
        testnet.cluster.sessions.max_sessions = 2;
        for home in &testnet.replicas {
            let file = home.cluster_file();
            let text = std::fs::read_to_string(&file).unwrap();
            let few = text.replace("max_sessions = 1024", "max_sessions = 2");
            assert_ne!(text, few);
            std::fs::write(&file, few).unwrap();
            // It begins anew: its chain is another one.
            let loaded = load(home, &Overrides::default()).unwrap();
            std::fs::remove_file(home.begun_file()).unwrap();
            std::fs::remove_dir_all(&loaded.node.storage.folder).unwrap();
            begin(&loaded, &loaded.open_keys().unwrap()).unwrap();
        }
    })
    .await;
    for _ in 0..5 {
        let in_a_hurry = |session: &mut SessionConfig| {
            session.retry_least = Duration::from_millis(20);
        };
        commit(&replicas.client_that(in_a_hurry).await, 1).await;
    }
}

/// A client that sends to one replica says so, and that replica passes its commands on at once.
/// Both would be made good for later, by timers that take half an hour or more here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_for_one_replica_is_passed_on_at_once() {
    const HOUR: Duration = Duration::from_secs(3600);
    let setting = |key: &str, value: &str| FlagSetting {
        flag: "--set".to_owned(),
        key: key.to_owned(),
        value: value.to_owned(),
    };
    let waits = [setting("view_timeout.base", "1h"), setting("view_timeout.max", "1h")];
    let replicas = start_with(4, Overrides { flags: waits.into(), ..Overrides::default() }).await;
    for first in (0..4).map(ReplicaId) {
        let client = replicas
            .client_that(|session| {
                session.route = Route::One { first };
                (session.retry_least, session.retry_most) = (HOUR, HOUR);
            })
            .await;
        commit(&client, 3).await;
    }
}

/// Views end the abstention of a replica that lost its data, and an idle cluster makes none: the
/// replica asks for some. Until then it could not stand in for another one that fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_lost_its_data_does_not_abstain_for_ever_in_an_idle_cluster() {
    let mut replicas = start(3).await;
    commit(&replicas.client().await, 5).await;
    let loaded = load(&replicas.testnet.replicas[3], &Overrides::default()).unwrap();
    std::fs::remove_dir_all(&loaded.node.storage.folder).unwrap();
    let (keys, committee) = (loaded.open_keys().unwrap(), loaded.cluster.committee().unwrap());
    let lost = Remedies { rejoin: true, ..Remedies::default() };
    let back = launch(&loaded, committee, keys, lost).await.unwrap();
    until("it abstains", || back.running.metrics().abstain_until_view.get() > 0).await;
    until("it abstains no more", || back.running.metrics().abstain_until_view.get() == 0).await;
    // It votes: one of the others is not needed any more.
    replicas.launched.push(back);
    replicas.launched.remove(0).running.stop();
    commit(&replicas.client().await, 3).await;
}

/// An executor asks again on the same connection as soon as it has its answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_is_answered_as_often_as_it_asks() {
    let replicas = start(4).await;
    commit(&replicas.client().await, 3).await;
    let (send, mut receive) = replicas.dial(replicas.cluster().chain_digest()).await.unwrap();
    for round in 0..5 {
        let request = Request::Pull { from: Height(1), budget_bytes: 1 };
        send.try_send(request.to_bytes().into()).unwrap();
        let answer = tokio::time::timeout(DEADLINE, receive.receive()).await;
        let answer = answer.unwrap_or_else(|_| panic!("no answer in round {round}")).unwrap();
        let answer = Response::from_bytes(answer).unwrap();
        assert!(matches!(answer, Response::Blocks { from: Height(1), .. }), "{answer:?}");
    }
}

/// A member's key in the wrong hands: its channel is as good as any, what comes through it is not.
struct Liar {
    peers: Peers,
    domain: Domain,
    key: ConsensusKey,
}

impl Liar {
    async fn start(replicas: &Replicas) -> Self {
        let loaded = load(&replicas.testnet.replicas[3], &Overrides::default()).unwrap();
        let keys = loaded.open_keys().unwrap();
        let cluster = replicas.cluster();
        let address = cluster.members[3].peer_address.to_string();
        let socket = PeerSocket::bind(cluster.transport, &address).await.unwrap();
        let members = cluster.members.iter().map(|member| Member {
            key: member.transport_key,
            former: None,
            address: member.peer_address.to_string(),
        });
        let mesh = Mesh {
            me: ReplicaId(3),
            chain: cluster.chain_digest(),
            identity: Identity::new(&keys.transport).unwrap(),
            members: members.map(Some).collect(),
            versions: Versions::PROGRAM,
            limits: Limits::peers(),
            seed: 3,
        };
        let (inbound, mut received) = inbound(64, 64 << 20);
        tokio::spawn(async move { while received.recv().await.is_some() {} });
        let counters: Arc<Counters> = Arc::default();
        let peers = Peers::start(mesh, socket, inbound, Arc::new(|| {}), counters).unwrap();
        until("all are connected to the liar", || peers.connected().len() == 3).await;
        let Family::HotStuff(settings) = Family::agreed(cluster) else {
            panic!("a cluster of the HotStuff family")
        };
        let domain = settings.domain(cluster.committee().unwrap());
        Self { peers, domain, key: keys.consensus }
    }

    fn say(&self, message: Message) {
        let message: PeerMessage<Types> = PeerMessage::of(message);
        self.peers.broadcast(&message.to_bytes().into());
    }

    fn say_other(&self, message: &PeerMessage<Types>) {
        self.peers.broadcast(&message.to_bytes().into());
    }

    /// Votes and time-outs of ever later views, signed well.
    fn flood_of_the_future(&self, round: u64) {
        let genesis = {
            let committee = self.domain.committee();
            quorate_core::protocols::hotstuff::block::Block::genesis(
                committee.chain(),
                committee.epoch(),
            )
            .id()
        };
        for view in (1_000_000 + 200 * round..).map(View).take(200) {
            let block = Digest::of("no block", &view.0.to_le_bytes());
            let signature = self.key.sign(&self.domain.vote(view, 1, &block));
            let ballot = Ballot { view, phase: 1, block };
            self.say(Message::Vote(Vote { ballot, voter: ReplicaId(3), signature }));
            let signature = self.key.sign(&self.domain.time_out(view, View(0), &genesis));
            let time_out =
                TimeOut { view, high_qc_view: View(0), replica: ReplicaId(3), signature };
            let high_qc = Qc::genesis(genesis);
            self.say(Message::TimeOut { time_out, high_qc, high_tc: None, last_vote: None });
        }
    }

    /// What nobody should send: unasked, forged, cut short, of no kind at all.
    fn flood_of_nonsense(&self, round: u64) {
        let forged = Vote {
            ballot: Ballot { view: View(round + 1), phase: 1, block: Digest::of("no block", b"") },
            voter: ReplicaId(1),
            signature: Signature::from([7; 64]),
        };
        for _ in 0..50 {
            self.say(Message::Vote(forged));
            self.say_other(&PeerMessage::Chain(Vec::new()));
            let bytes = Bytes::from_static(&[1; 1000]);
            self.say_other(&PeerMessage::Chunk { height: Height(9), chunk: 0, last: true, bytes });
            self.say_other(&PeerMessage::FetchChain {
                tip: Digest::of("no block", b""),
                above: Height(0),
                budget_bytes: u32::MAX,
            });
            self.say_other(&PeerMessage::FetchChunk { height: Height(round), chunk: u32::MAX });
            self.say_other(&PeerMessage::NeedFrames(vec![Digest::of("no frame", b""); 1000]));
            self.say_other(&PeerMessage::AskTestimony { nonce: Digest::of("nonce", b"") });
            let whole = PeerMessage::<Types>::Chain(Vec::new()).to_bytes();
            self.peers.broadcast(&Bytes::copy_from_slice(&whole[..whole.len() - 1]));
            self.peers.broadcast(&Bytes::from_static(&[200, 1, 2, 3]));
            self.peers.broadcast(&Bytes::from(vec![3; 20_000]));
        }
    }
}

fn memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    1024 * line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lying_member_holds_nobody_up() {
    let replicas = start(3).await;
    let liar = Liar::start(&replicas).await;
    let client = replicas.client().await;
    commit(&client, 3).await;
    let before = memory_bytes();
    for round in 0..20 {
        liar.flood_of_the_future(round);
        liar.flood_of_nonsense(round);
        commit(&client, 1).await;
    }
    // Beside what three replicas and the flood itself have queued.
    let grown = memory_bytes().saturating_sub(before);
    assert!(grown < 256 << 20, "memory grew by {grown} bytes");
    for reason in ["peer_malformed", "unasked", "wrong_sender"] {
        let reasons = || replicas.launched[0].running.metrics().refused();
        until(&format!("{reason} is counted among {:?}", reasons()), || {
            replicas.refused(reason) > 0
        })
        .await;
    }
    assert!(replicas.launched.iter().all(|one| !one.running.has_ended()));
}

/// What comes from clients: refused by reason, with an answer where one is due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_clients_are_refused_by_reason() {
    let replicas = start(4).await;
    let good = replicas.client().await;
    commit(&good, 1).await;
    let chain = replicas.cluster().chain_digest();
    let key = SecretKey::generate().unwrap();
    let frame = |session, commands: usize| {
        let commands = vec![&[][..]; commands];
        let built =
            Frame::build(key.public_key(), session, Sequence(1), commands, &chain, |s| key.sign(s));
        built.unwrap()
    };
    let submit = |frame: Frame| {
        Bytes::from(Request::Submit { relay: false, frame: frame.into() }.to_bytes())
    };
    let counters = replicas.launched[0].running.counters();

    assert!(replicas.dial(Digest::of("another", b"chain")).await.is_none());
    until("the wrong chain is counted", || counters.wrong_chain.load(Ordering::Relaxed) > 0).await;

    // A signature over something else.
    let (send, mut receive) = replicas.dial(chain).await.unwrap();
    let mut forged = submit(frame(quorate_core::SessionId(1), 1)).to_vec();
    *forged.last_mut().unwrap() ^= 1;
    send.try_send(forged.into()).unwrap();
    let answer = Response::from_bytes(receive.receive().await.unwrap()).unwrap();
    assert!(
        matches!(answer, Response::Refused { reason: Refusal::BadSignature, .. }),
        "{answer:?}"
    );
    assert_eq!(replicas.refused("client_bad_signature"), 1);

    // Another client's session: the first is the good one's.
    send.try_send(submit(frame(quorate_core::SessionId(1), 1))).unwrap();
    let answer = Response::from_bytes(receive.receive().await.unwrap()).unwrap();
    assert!(
        matches!(
            answer,
            Response::Outcome(Outcome::Rejected { reason: Rejection::ForeignSession, .. })
        ),
        "{answer:?}"
    );

    // What cannot be read ends the connection: of no kind, cut short, too long.
    let whole = submit(frame(quorate_core::SessionId(1), 3));
    for bad in [Bytes::from_static(&[99, 1]), whole.slice(..whole.len() / 2)] {
        let (send, mut receive) = replicas.dial(chain).await.unwrap();
        send.try_send(bad).unwrap();
        assert!(receive.receive().await.is_none());
    }
    assert_eq!(replicas.refused("client_malformed"), 2);
    let (send, mut receive) = replicas.dial(chain).await.unwrap();
    send.try_send(vec![1; 6 << 20].into()).unwrap();
    assert!(receive.receive().await.is_none());
    until("the length is counted", || counters.oversized_frame.load(Ordering::Relaxed) > 0).await;
    commit(&good, 5).await;
}

/// Questions whose proofs nobody can give: a single replica of four certifies nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_for_proofs_are_bounded() {
    const OF_ONE: u64 = 32;
    let replicas = start(1).await;
    let chain = replicas.cluster().chain_digest();
    let ask = |send: &SendHalf, count: u64| {
        for id in 0..count {
            let question = Bytes::from_static(b"key");
            send.try_send(Request::Prove { id, question }.to_bytes().into()).unwrap();
        }
    };
    let busy = |message: Option<Bytes>| match Response::from_bytes(message.unwrap()).unwrap() {
        Response::Unproven { id, reason: Unproven::Busy } => id,
        other => panic!("{other:?}"),
    };
    // As many as one client may have wait; each one more is answered at once.
    let (send, mut receive) = replicas.dial(chain).await.unwrap();
    ask(&send, OF_ONE + 5);
    for id in OF_ONE..OF_ONE + 5 {
        assert_eq!(busy(receive.receive().await), id);
    }
    // As many as all may have.
    let mut others = Vec::new();
    for _ in 1..16 {
        let (send, mut receive) = replicas.dial(chain).await.unwrap();
        ask(&send, OF_ONE + 1);
        assert_eq!(busy(receive.receive().await), OF_ONE);
        others.push((send, receive));
    }
    let (late, mut answers) = replicas.dial(chain).await.unwrap();
    ask(&late, 1);
    assert_eq!(busy(answers.receive().await), 0);
    // Who leaves makes room.
    drop(others);
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < DEADLINE, "no room was made");
        let (send, mut receive) = replicas.dial(chain).await.unwrap();
        ask(&send, OF_ONE + 1);
        if busy(receive.receive().await) == OF_ONE {
            break;
        }
    }
    // A question too long to be one ends its connection.
    let (send, mut receive) = replicas.dial(chain).await.unwrap();
    let question = Bytes::from(vec![0; (64 << 10) + 1]);
    send.try_send(Request::Prove { id: 0, question }.to_bytes().into()).unwrap();
    assert!(receive.receive().await.is_none());
}

/// The same of questions for the newest certified block. They are answered a turn later: those of
/// one connection that come in one turn are too many. How many come in one is the machine's affair.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn questions_for_the_newest_block_are_bounded() {
    const OF_ONE: u64 = 32;
    let replicas = start(1).await;
    let chain = replicas.cluster().chain_digest();
    let mut refused = 0;
    let begin = Instant::now();
    while refused == 0 {
        assert!(begin.elapsed() < DEADLINE, "all are taken in");
        let (send, mut receive) = replicas.dial(chain).await.unwrap();
        for id in 0..=OF_ONE {
            send.try_send(Request::Newest { id }.to_bytes().into()).unwrap();
        }
        for _ in 0..=OF_ONE {
            match Response::from_bytes(receive.receive().await.unwrap()).unwrap() {
                Response::Unproven { id: OF_ONE, reason: Unproven::Busy } => refused += 1,
                Response::Newest { id: 0..=OF_ONE, .. } => {}
                answer => panic!("{answer:?}"),
            }
        }
    }
}

/// Whatever a member's channel carries, the others go on: bytes drawn at random, and messages that
/// are bent, cut short or lengthened. The channel is authentic; what it carries is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_a_member_s_channel_carries_the_others_go_on() {
    let replicas = start(3).await;
    let liar = Liar::start(&replicas).await;
    let client = replicas.client().await;
    commit(&client, 3).await;
    let kind = any::<u8>().prop_map(|kind| kind % 16);
    let junk =
        (kind, vec(any::<u8>(), 0..200)).prop_map(|(kind, bytes)| [&[kind], &*bytes].concat());
    let bend = (any::<Index>(), any::<u8>());
    let bent = (any::<Index>(), vec(bend, 0..4), any::<Index>(), vec(any::<u8>(), 0..3)).prop_map(
        |(which, bends, end, more)| {
            let mut bytes = which.get(&whole_messages()).clone();
            for (at, by) in bends {
                let at = at.index(bytes.len());
                bytes[at] ^= by;
            }
            bytes.truncate(1 + end.index(2 * bytes.len()));
            bytes.extend_from_slice(&more);
            bytes
        },
    );
    let frames = vec(prop_oneof![junk, bent], 200);
    let mut runner = TestRunner::deterministic();
    for _ in 0..10 {
        for frame in frames.new_tree(&mut runner).unwrap().current() {
            liar.peers.broadcast(&frame.into());
        }
        commit(&client, 2).await;
    }
    until("some of it is refused", || replicas.refused("peer_malformed") > 100).await;
    assert!(replicas.launched.iter().all(|one| !one.running.has_ended()));
}

/// How this process's threads of this name are niced.
#[cfg(target_os = "linux")]
fn niceness(name: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let of_name = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    let stats = of_name.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    // The 17th field behind the name, which is in brackets.
    stats.filter_map(|stat| stat.rsplit(") ").next()?.split(' ').nth(16)?.parse().ok()).collect()
}

/// What strangers may ask for without a signature never competes with the deciding thread as an
/// equal.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_strangers_ask_for_gives_way_to_the_thread_that_decides() {
    let _replicas = start(1).await;
    let least = niceness("requests").into_iter().max().unwrap_or(0).saturating_add(1).min(19);
    for name in ["queries", "proofs", "pulls"] {
        // A thread takes its priority as it starts. Those of other tests have the same.
        let gives_way = async {
            while niceness(name).into_iter().min() < Some(least) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(DEADLINE, gives_way).await.unwrap_or_else(|_| panic!("{name}"));
    }
}
