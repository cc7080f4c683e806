//! The client against replicas with vices.

mod mock;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mock::{Mock, Vice};
use quorate_core::ReplicaId;
use quorate_core::client::{ClientError, Fatal, NotExecuted, Route, SessionConfig, Unknown};
use quorate_crypto::SecretKey;
use quorate_node::client::{Authenticity, BlockingClient, Client, ClientConfig, State};

fn echo(command: &[u8], reply: &mut Vec<u8>) {
    reply.extend_from_slice(b"re:");
    reply.extend_from_slice(command);
}

fn config(mock: &Mock, route: Route) -> ClientConfig {
    let mut session = SessionConfig::new(mock.chain(), 4);
    session.route = route;
    session.retry_least = Duration::from_millis(20);
    session.retry_most = Duration::from_millis(200);
    ClientConfig {
        replicas: mock.addresses(),
        session,
        give_up_after: None,
        authenticity: Authenticity::Channel,
        incarnation: None,
    }
}

async fn connect(mock: &Mock, route: Route) -> Client {
    let key = SecretKey::from_seed(&[1; 32]);
    Client::connect(config(mock, route), Arc::new(key)).await.unwrap()
}

fn command(name: &str) -> Vec<Bytes> {
    vec![Bytes::copy_from_slice(name.as_bytes())]
}

/// Many tasks submit at once, in turns; each gets its own replies, and all is executed once.
async fn converse(mock: &Mock, client: &Client) {
    let before = mock.executed();
    let tasks = (0..40).map(|task| {
        let client = client.clone();
        tokio::spawn(async move {
            for turn in 0..5 {
                let commands = (0..turn + 1).map(|i| Bytes::from(format!("{task}.{turn}.{i}")));
                let replies = client.submit(commands.collect()).await.unwrap();
                for (i, reply) in replies.iter().enumerate() {
                    assert_eq!(*reply, format!("re:{task}.{turn}.{i}"));
                }
                assert_eq!(replies.len(), turn + 1);
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.unwrap();
    }
    assert_eq!(mock.executed() - before, 40 * 15);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bad_replica_of_four_changes_nothing() {
    use Vice::{Busy, Down, Dropping, Garbage, Lying, Silent};
    for vice in [Vice::None, Silent, Lying, Busy, Garbage, Down, Dropping] {
        for route in [Route::All, Route::One { first: ReplicaId(0) }] {
            let mock = Mock::start(&[vice, Vice::None, Vice::None, Vice::None], echo).await;
            let client = connect(&mock, route).await;
            converse(&mock, &client).await;
        }
    }
}

#[tokio::test]
async fn calls_are_executed_in_their_order_even_if_the_futures_are_dropped() {
    let mock = Mock::start(&[Vice::None; 4], |_, reply| reply.push(b'x')).await;
    let client = connect(&mock, Route::All).await;
    let answers = (0..100).map(|i| client.submit(command(&i.to_string()))).collect::<Vec<_>>();
    let last = client.submit(command("last"));
    drop(answers);
    last.await.unwrap();
    assert_eq!(mock.executed(), 101);
}

#[tokio::test]
async fn a_quorum_that_comes_back_is_found_again() {
    let mock = Mock::start(&[Vice::None, Vice::None, Vice::None, Vice::None], echo).await;
    let client = connect(&mock, Route::All).await;
    for replica in 0..4 {
        mock.set_vice(replica, Vice::Silent);
    }
    let answer = client.submit(command("patience"));
    let waiting = tokio::spawn(answer);
    tokio::time::sleep(Duration::from_millis(30)).await;
    for replica in 1..3 {
        mock.set_vice(replica, Vice::None);
    }
    assert_eq!(waiting.await.unwrap().unwrap(), ["re:patience"]);
    assert_eq!(mock.executed(), 1);
}

#[tokio::test]
async fn giving_up_says_whether_it_was_sent() {
    let mock = Mock::start(&[Vice::None; 4], echo).await;
    let mut config = config(&mock, Route::All);
    config.give_up_after = Some(Duration::from_secs(2));
    config.session.window = 1;
    let key = Arc::new(SecretKey::from_seed(&[1; 32]));
    let client = Client::connect(config, key).await.unwrap();
    for replica in 0..4 {
        mock.set_vice(replica, Vice::Silent);
    }
    let sent = client.submit(command("sent"));
    until_sent(&mock).await;
    let waiting = client.submit(command("waiting"));
    assert_eq!(sent.await, Err(ClientError::Ambiguous(Unknown::TimeUp)));
    assert_eq!(waiting.await, Err(ClientError::Retryable(NotExecuted::TimeUp)));
}

#[tokio::test]
async fn a_session_that_ends_is_followed_by_another() {
    let mock = Mock::start(&[Vice::None, Vice::Lying, Vice::None, Vice::None], echo).await;
    let client = connect(&mock, Route::All).await;
    let State::Open(session) = client.state() else { panic!("{:?}", client.state()) };
    mock.forget_sessions();
    let lost = client.submit(command("lost")).await;
    assert_eq!(lost, Err(ClientError::Ambiguous(Unknown::SessionEnded)));
    assert_eq!(client.submit(command("next")).await.unwrap(), ["re:next"]);
    assert!(matches!(client.state(), State::Open(next) if next > session));
}

#[tokio::test]
async fn an_older_incarnation_is_told_to_stop() {
    let mock = Mock::start(&[Vice::None; 4], echo).await;
    let key = Arc::new(SecretKey::from_seed(&[1; 32]));
    let mut config = config(&mock, Route::All);
    config.incarnation = Some(5);
    let old = Client::connect(config.clone(), key.clone()).await.unwrap();
    config.incarnation = Some(7);
    let new = Client::connect(config.clone(), key.clone()).await.unwrap();
    let lost = old.submit(command("lost")).await;
    assert_eq!(lost, Err(ClientError::Ambiguous(Unknown::SessionEnded)));
    let superseded = Fatal::Superseded { by: 7 };
    let ended = Err(ClientError::Fatal(superseded));
    assert_eq!(old.submit(command("ended")).await, ended);
    assert_eq!(old.state(), State::Ended(superseded));
    config.incarnation = Some(6);
    assert_eq!(Client::connect(config, key).await.unwrap_err(), superseded);
    assert_eq!(new.submit(command("new")).await.unwrap(), ["re:new"]);
}

/// Incarnations are drawn from the clock, and clocks are set back.
#[tokio::test]
async fn a_client_whose_clock_was_set_back_takes_over() {
    let mock = Mock::start(&[Vice::None; 4], echo).await;
    let key = Arc::new(SecretKey::from_seed(&[1; 32]));
    let mut config = config(&mock, Route::All);
    config.incarnation = Some(u64::MAX / 2);
    let before = Client::connect(config.clone(), key.clone()).await.unwrap();
    config.incarnation = None;
    let after = Client::connect(config, key).await.unwrap();
    assert_eq!(after.submit(command("after")).await.unwrap(), ["re:after"]);
    let lost = before.submit(command("lost")).await;
    assert_eq!(lost, Err(ClientError::Ambiguous(Unknown::SessionEnded)));
}

/// Waits until a replica has received a frame with commands.
async fn until_sent(mock: &Mock) {
    while mock.received() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn nobody_waits_for_ever_when_the_client_is_gone() {
    let mock = Mock::start(&[Vice::None; 4], echo).await;
    let client = connect(&mock, Route::All).await;
    for replica in 0..4 {
        mock.set_vice(replica, Vice::Silent);
    }
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let batch = quorate_core::client::Packed::commands(["x"]).unwrap();
    client.submit_then(batch, None, |result| drop(sender.send(result)));
    // It is sent: nobody can say that it is not executed.
    until_sent(&mock).await;
    drop(client);
    assert_eq!(receiver.await.unwrap(), Err(ClientError::Ambiguous(Unknown::Closed)));
}

#[tokio::test]
async fn a_batch_that_fits_in_no_frame_is_turned_down() {
    let mock = Mock::start(&[Vice::None; 4], echo).await;
    let client = connect(&mock, Route::All).await;
    let large = vec![Bytes::from(vec![0; 5 << 20])];
    let refused = Err(ClientError::Retryable(NotExecuted::DoesNotFit));
    assert_eq!(client.submit(large).await, refused);
    assert_eq!(client.submit(Vec::new()).await, refused);
    let replies = client.submit(vec![Bytes::from(vec![b'x'; 4 << 20 >> 1])]).await.unwrap();
    assert_eq!(replies[0].len(), 3 + (4 << 20 >> 1));
}

#[test]
fn a_blocking_client() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mock = runtime.block_on(Mock::start(&[Vice::None; 4], echo));
    let connect = async { Ok(connect(&mock, Route::All).await) };
    let client = BlockingClient::connect(connect).unwrap();
    assert_eq!(client.submit(command("a")).unwrap(), ["re:a"]);
}
