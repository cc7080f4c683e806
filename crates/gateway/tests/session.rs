//! The gateway on a real client session: what becomes of a command whose replicas are gone, silent,
//! or of another opinion. Nothing between the socket and the replicas' answers is left out.
#![allow(missing_docs)]

#[path = "../../node/tests/mock/mod.rs"]
mod mock;
mod support;

use std::sync::Arc;
use std::time::Duration;

use mock::{Mock, Vice};
use quorate_core::client::SessionConfig;
use quorate_crypto::SecretKey;
use quorate_gateway::server::Limits;
use quorate_gateway::{ClusterError, FrameLimits, Reads, SharedSession};
use quorate_node::client::{Authenticity, Client, ClientConfig};
use support::{Gateway, request, request_of};

/// The application: answers OK to everything.
fn ok(_: &[u8], reply: &mut Vec<u8>) {
    quorate_app::kv::reply::encode::ok(reply);
}

async fn gateway(mock: &Mock, give_up_after: Duration, frame: FrameLimits) -> (Gateway, Client) {
    let addresses = mock.addresses();
    let session = SessionConfig::new(mock.chain(), addresses.len());
    let config = ClientConfig {
        replicas: addresses,
        session,
        give_up_after: None,
        authenticity: Authenticity::Channel,
        incarnation: None,
    };
    let client = Client::start(config, Arc::new(SecretKey::generate().expect("a key")));
    let session = SharedSession::new(client.clone(), give_up_after, frame, 1 << 20);
    let session = session.reading(Reads::Index);
    (Gateway::start(Arc::new(session), Limits::default()).await, client)
}

const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(60);

fn told(error: ClusterError) -> String {
    format!("-{error}\r\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_was_not_sent_in_time_is_not_executed_and_says_so() {
    // One of four answers: no session is opened, and nothing leaves.
    let vices = [Vice::None, Vice::Down, Vice::Down, Vice::Silent];
    let mock = Mock::start(&vices, ok).await;
    let (gateway, _) = gateway(&mock, SOON, FrameLimits::default()).await;
    let mut client = gateway.connect().await;
    client.ask("SET k v", &told(ClusterError::Unavailable)).await;
    client.ask("PING", "+PONG\r\n").await;
    // A transaction has one outcome.
    client.send(["MULTI", "SET k v", "INCR n", "EXEC"].map(request).concat()).await;
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n").await;
    client.expect(told(ClusterError::Unavailable)).await;
    assert_eq!(mock.executed(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_was_sent_and_not_answered_has_an_unknown_outcome() {
    let mock = Mock::start(&[Vice::None; 4], ok).await;
    let (gateway, session) = gateway(&mock, Duration::from_secs(2), FrameLimits::default()).await;
    session.opened().await.expect("a session");
    (1..4).for_each(|replica| mock.set_vice(replica, Vice::Silent));
    let mut client = gateway.connect().await;
    client.ask("SET k v", &told(ClusterError::Unknown)).await;
    assert_eq!(mock.executed(), 1, "it was");
    (1..4).for_each(|replica| mock.set_vice(replica, Vice::None));
    client.ask("SET k w", "+OK\r\n").await;
}

/// The command may yet be executed. Whoever looks what has become of it, from any connection, is
/// not answered before that is settled.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_after_an_unknown_outcome_are_ordered_until_one_is_answered() {
    let mock = Mock::start(&[Vice::None; 4], ok).await;
    let (gateway, session) = gateway(&mock, Duration::from_secs(2), FrameLimits::default()).await;
    session.opened().await.expect("a session");
    let (mut client, mut other) = (gateway.connect().await, gateway.connect().await);
    client.ask("GET k", "+OK\r\n").await;
    assert_eq!(mock.executed(), 0, "it is not ordered");
    (1..4).for_each(|replica| mock.set_vice(replica, Vice::Silent));
    client.ask("SET k v", &told(ClusterError::Unknown)).await;
    (1..4).for_each(|replica| mock.set_vice(replica, Vice::None));
    other.ask("GET k", "+OK\r\n").await;
    assert_eq!(mock.executed(), 2, "the read is ordered behind the write");
    other.ask("GET k", "+OK\r\n").await;
    assert_eq!(mock.executed(), 2, "nothing is in doubt any more");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_is_turned_down_says_so_at_once_and_ends() {
    let mock = Mock::start(&[Vice::None; 4], ok).await;
    let (gateway, session) = gateway(&mock, LATE, FrameLimits::default()).await;
    session.opened().await.expect("a session");
    (0..4).for_each(|replica| mock.set_vice(replica, Vice::Lying));
    let mut client = gateway.connect().await;
    client.ask("SET k v", &told(ClusterError::TurnedDown)).await;
    client.ask("SET k v", &told(ClusterError::TurnedDown)).await;
    session.ended().await;
    assert_eq!(mock.executed(), 0);
}

/// A frame that is larger than the cluster takes in would end the session: it never leaves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn submissions_fit_the_frames_of_the_cluster() {
    let mock = Mock::start(&[Vice::None; 4], ok).await;
    let frame = FrameLimits::of_cluster(2, 1024);
    let (gateway, _) = gateway(&mock, LATE, frame).await;
    let mut client = gateway.connect().await;
    client.send(request("SET k v").repeat(7)).await;
    client.expect("+OK\r\n".repeat(7)).await;
    let value = [b'v'; 1024];
    client.send(request_of(&[b"SET", b"k", &value])).await;
    client.expect("-ERR command is longer than 1020 bytes\r\n").await;
    client.send(["MULTI", "INCR a", "INCR a", "INCR a", "EXEC"].map(request).concat()).await;
    client.expect("+OK\r\n+QUEUED\r\n+QUEUED\r\n-ERR a transaction has at most 2 commands").await;
    assert_eq!(mock.executed(), 7);
}
