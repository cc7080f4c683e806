//! The gateway when things go wrong: a cluster that is slow or silent, clients that are.
#![allow(missing_docs)]

mod support;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use proptest::collection::vec;
use proptest::prelude::*;
use quorate_app::kv::Command;
use quorate_app::kv::reply::encode;
use quorate_gateway::commands::table::COMMANDS;
use quorate_gateway::commands::{Answer, Batch, Shared, Then, dispatch};
use quorate_gateway::resp::Args;
use quorate_gateway::server::Limits;
use quorate_gateway::{ClusterError, FrameLimits, MAX_SUBMITTED_COMMANDS};
use support::{Alone, Gateway, Pending, Scripted, element, request};

fn integers(numbers: impl IntoIterator<Item = i64>) -> Vec<Bytes> {
    let encoded = |number| {
        let mut out = Vec::new();
        encode::integer(&mut out, number);
        Bytes::from(out)
    };
    numbers.into_iter().map(encoded).collect()
}

async fn next(submissions: &mut tokio::sync::mpsc::UnboundedReceiver<Pending>) -> Pending {
    let waiting = tokio::time::timeout(Duration::from_secs(60), submissions.recv());
    waiting.await.expect("a submission in time").expect("a submission")
}

#[tokio::test]
async fn what_is_in_the_buffer_is_one_submission_and_replies_keep_their_order() {
    let (cluster, mut submissions) = Scripted::new();
    let gateway = Gateway::start(cluster, Limits::default()).await;
    let mut client = gateway.connect().await;
    client.send(["INCR a", "PING", "INCR b", "INCR c"].map(request).concat()).await;
    let first = next(&mut submissions).await;
    assert_eq!(first.commands.len(), 3);
    // More is submitted while the first is on its way, and decided before it.
    client.send([request("PING"), request("INCR d")].concat()).await;
    let second = next(&mut submissions).await;
    assert_eq!(Command::decode(&second.commands[0]), Ok(Command::IncrBy { key: b"d", by: 1 }));
    second.decide(Ok(integers([4])));
    first.decide(Ok(integers([1, 2, 3])));
    client.expect(":1\r\n+PONG\r\n:2\r\n:3\r\n+PONG\r\n:4\r\n").await;
}

#[tokio::test]
async fn errors_of_the_cluster_are_told_and_stay_with_their_submission() {
    let (cluster, mut submissions) = Scripted::new();
    let gateway = Gateway::start(cluster, Limits::default()).await;
    let (mut one, mut other) = (gateway.connect().await, gateway.connect().await);
    for (outcome, text) in [
        (
            Err(ClusterError::Busy),
            "-TRYAGAIN the cluster is busy: the command was not executed, send it again\r\n",
        ),
        (
            Err(ClusterError::Unavailable),
            "-CLUSTERDOWN too few replicas answer: the command was not executed\r\n",
        ),
        (
            Err(ClusterError::Unknown),
            "-UNKNOWN the outcome is not known: the command may or may not have been executed\r\n",
        ),
        // Too few replies: which are missing cannot be known.
        (
            Ok(integers([1])),
            "-UNKNOWN the outcome is not known: the command may or may not have been executed\r\n",
        ),
    ] {
        one.send(["INCR a", "PING", "INCR b"].map(request).concat()).await;
        let pending = next(&mut submissions).await;
        // Meanwhile the other connection is served.
        other.send(request("INCR a")).await;
        next(&mut submissions).await.decide(Ok(integers([7])));
        other.expect(":7\r\n").await;
        pending.decide(outcome);
        one.expect(format!("{text}+PONG\r\n{text}")).await;
    }
    one.send(request("GET a")).await;
    next(&mut submissions).await.decide(Ok(vec![Bytes::from_static(b"\xffno reply")]));
    one.expect("-ERR the cluster's answer is no reply of this application\r\n").await;
}

#[tokio::test]
async fn a_long_pipeline_is_cut_and_only_so_many_submissions_are_on_their_way() {
    let (cluster, mut submissions) = Scripted::new();
    let limits = Limits { max_submissions: 2, ..Limits::default() };
    let gateway = Gateway::start(cluster, limits).await;
    let mut client = gateway.connect().await;
    let count = 10 * MAX_SUBMITTED_COMMANDS;
    // Inline, so that one read brings more than one submission may hold.
    client.send(b"INCR k\n".repeat(count)).await;
    let (mut seen, mut done, mut waiting) = (0, 0, VecDeque::new());
    while done < count {
        // One may be with the writer beside those in the queue.
        while waiting.len() < 3 && seen < count {
            let pending = next(&mut submissions).await;
            assert!(pending.commands.len() <= MAX_SUBMITTED_COMMANDS);
            seen += pending.commands.len();
            waiting.push_back(pending);
        }
        tokio::task::yield_now().await;
        assert!(submissions.try_recv().is_err(), "one more is on its way");
        let first = waiting.pop_front().expect("one is waiting");
        let replies = done..done + first.commands.len();
        done = replies.end;
        first.decide(Ok(integers(replies.clone().map(|number| number as i64))));
        client.expect(replies.map(|number| format!(":{number}\r\n")).collect::<String>()).await;
    }
}

#[tokio::test]
async fn one_client_too_many_is_told_and_a_place_becomes_free() {
    let limits = Limits { max_clients: 2, ..Limits::default() };
    let gateway = Gateway::start(Arc::new(Alone::default()), limits).await;
    let (mut one, mut two) = (gateway.connect().await, gateway.connect().await);
    one.ask("PING", "+PONG\r\n").await;
    two.ask("PING", "+PONG\r\n").await;
    let mut three = gateway.connect().await;
    three.expect("-ERR max number of clients reached\r\n").await;
    three.expect_end().await;
    one.ask("QUIT", "+OK\r\n").await;
    one.expect_end().await;
    // The place is free once the connection's task is over, a moment after its end is seen.
    let mut reply = Vec::new();
    while reply != b"+PONG\r\n" {
        let mut four = gateway.connect().await;
        // A connection that is turned away may already be reset.
        let asked = [request("PING"), request("QUIT")].concat();
        let _ = tokio::io::AsyncWriteExt::write_all(&mut four.stream, &asked).await;
        reply = vec![0; 7];
        let _ = tokio::io::AsyncReadExt::read(&mut four.stream, &mut reply).await;
    }
    two.ask("PING", "+PONG\r\n").await;
}

#[tokio::test]
async fn an_idle_client_is_closed_but_not_one_that_waits() {
    let (cluster, mut submissions) = Scripted::new();
    let idle_timeout = Some(Duration::from_millis(20));
    let gateway = Gateway::start(cluster, Limits { idle_timeout, ..Limits::default() }).await;
    // Sent before the gateway gets to run: it never sees this client idle.
    let waiting = std::net::TcpStream::connect(gateway.address).expect("a connection");
    std::io::Write::write_all(&mut &waiting, &request("INCR k")).expect("it is sent");
    waiting.set_nonblocking(true).expect("a socket");
    let stream = tokio::net::TcpStream::from_std(waiting).expect("a socket");
    let mut waiting = support::Client { stream };
    let first = next(&mut submissions).await;
    for _ in 0..3 {
        // Each of these is closed for being idle, while the other still waits.
        gateway.connect().await.expect_end().await;
    }
    waiting.send(request("INCR k")).await;
    let second = next(&mut submissions).await;
    first.decide(Ok(integers([1])));
    second.decide(Ok(integers([2])));
    waiting.expect(":1\r\n:2\r\n").await;
    waiting.expect_end().await;
}

#[tokio::test]
async fn a_client_that_takes_nothing_or_is_owed_too_much_is_closed() {
    let (cluster, mut submissions) = Scripted::new();
    let stall_timeout = Duration::from_millis(50);
    let limits = Limits { stall_timeout, max_output_bytes: 64 << 20, ..Limits::default() };
    let gateway = Gateway::start(cluster, limits).await;
    let mut other = gateway.connect().await;
    let huge = |bytes: usize| {
        let mut out = Vec::new();
        encode::bulk(&mut out, &vec![0; bytes]);
        Bytes::from(out)
    };
    for owed in [40 << 20, 80 << 20] {
        let mut client = gateway.connect().await;
        client.send(request("GET k")).await;
        next(&mut submissions).await.decide(Ok(vec![huge(owed)]));
        other.send(request("GET k")).await;
        next(&mut submissions).await.decide(Ok(integers([1])));
        other.expect(":1\r\n").await;
        // It reads only once it has been given up.
        while clients(&mut other).await > 1 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut rest = Vec::new();
        let _ = tokio::io::AsyncReadExt::read_to_end(&mut client.stream, &mut rest).await;
        assert!(rest.len() < owed, "the rest was not sent");
    }
}

/// How many clients there are, as one of them sees it.
async fn clients(client: &mut support::Client) -> usize {
    client.send(request("CLIENT LIST")).await;
    let mut reply = Vec::new();
    loop {
        tokio::io::AsyncReadExt::read_buf(&mut client.stream, &mut reply).await.expect("a reply");
        if reply.ends_with(b"\n\r\n") {
            return reply.iter().filter(|byte| **byte == b'\n').count() - 2;
        }
    }
}

#[tokio::test]
async fn a_gateway_that_stops_answers_what_was_submitted() {
    let (cluster, mut submissions) = Scripted::new();
    let gateway = Gateway::start(cluster, Limits::default()).await;
    let (mut busy, mut idle) = (gateway.connect().await, gateway.connect().await);
    busy.send(request("INCR k")).await;
    idle.ask("PING", "+PONG\r\n").await;
    let pending = next(&mut submissions).await;
    let stopped = gateway.stop();
    idle.expect_end().await;
    assert!(!stopped.is_finished());
    pending.decide(Ok(integers([1])));
    busy.expect(":1\r\n").await;
    busy.expect_end().await;
    stopped.await.expect("no panic").expect("no error");
}

/// A connection in its place, from an address of the loopback network.
async fn connect_from(gateway: &Gateway, address: [u8; 4]) -> support::Client {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind((address, 0).into()).expect("an address");
    support::Client { stream: socket.connect(gateway.address).await.expect("a connection") }
}

#[tokio::test]
async fn an_address_with_many_connections_gives_way_to_others() {
    let limits = Limits { max_clients: 3, ..Limits::default() };
    let gateway = Gateway::start(Arc::new(Alone::default()), limits).await;
    let mut many = Vec::new();
    for _ in 0..3 {
        let mut client = connect_from(&gateway, [127, 0, 0, 2]).await;
        client.ask("PING", "+PONG\r\n").await;
        many.push(client);
    }
    // Its own have no reason to go: none has been idle for long.
    let mut refused = connect_from(&gateway, [127, 0, 0, 2]).await;
    refused.expect("-ERR max number of clients reached\r\n").await;
    // Another address gets a place, of the one that said nothing for longest.
    many[0].ask("PING", "+PONG\r\n").await;
    let mut other = connect_from(&gateway, [127, 0, 0, 3]).await;
    other.ask("PING", "+PONG\r\n").await;
    let served: Vec<_> = which_are_served(&mut many).await;
    assert_eq!(served.iter().filter(|served| **served).count(), 2);
    // Two and one: that is fair, and nobody else is sent away.
    let mut refused = connect_from(&gateway, [127, 0, 0, 3]).await;
    refused.expect("-ERR max number of clients reached\r\n").await;
}

/// Which of these are served.
async fn which_are_served(clients: &mut [support::Client]) -> Vec<bool> {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut served = Vec::new();
    for client in clients {
        let mut answer = [0; 7];
        let sent = client.stream.write_all(&request("PING")).await.is_ok();
        served.push(sent && client.stream.read_exact(&mut answer).await.is_ok());
    }
    served
}

/// What a request takes while it arrives, and what is under way, has one limit for all.
#[tokio::test]
async fn requests_that_do_not_end_are_let_go_and_leave_their_room_to_others() {
    let limits = Limits {
        max_held_bytes: 1 << 20,
        request_timeout: Duration::from_secs(3),
        ..Limits::default()
    };
    let gateway = Gateway::start(Arc::new(Alone::default()), limits).await;
    let value = vec![b'v'; 600 << 10];
    let whole = support::request_of(&[b"SET", b"k", &value]);
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut client = gateway.connect().await;
        client.send(&whole[..whole.len() - 10]).await;
        slow.push(client);
    }
    // Small requests are served meanwhile, a large one when there is room.
    let mut client = gateway.connect().await;
    client.ask("PING", "+PONG\r\n").await;
    for client in slow {
        assert!(ends(client).await, "a request that does not end is let go");
    }
    client.send(&whole).await;
    client.expect("+OK\r\n").await;
    // A client that says nothing between its requests is none of those.
    client.ask("STRLEN k", ":614400\r\n").await;
}

async fn ends(mut client: support::Client) -> bool {
    use tokio::io::AsyncReadExt as _;
    let mut rest = Vec::new();
    // The end may be a reset: more was sent than was read.
    let ending = client.stream.read_to_end(&mut rest);
    tokio::time::timeout(Duration::from_secs(60), ending).await.is_ok()
}

#[tokio::test]
async fn a_gateway_that_stops_does_not_wait_for_ever() {
    let (cluster, mut submissions) = Scripted::new();
    let stop_timeout = Duration::from_millis(20);
    let gateway = Gateway::start(cluster, Limits { stop_timeout, ..Limits::default() }).await;
    let mut client = gateway.connect().await;
    client.send(request("INCR k")).await;
    let pending = next(&mut submissions).await;
    gateway.stop().await.expect("no panic").expect("no error");
    pending.decide(Ok(integers([1])));
    client.expect_end().await;
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    let known = COMMANDS.iter().flat_map(|spec| {
        std::iter::once(spec.name)
            .chain(spec.parts.iter().filter_map(|part| part.name.split('|').nth(1)))
    });
    let options =
        ["nx", "xx", "get", "match", "count", "type", "hash", "help", "0", "1", "-5", "on"];
    let known: Vec<_> = known.chain(options).map(|word| word.as_bytes().to_vec()).collect();
    prop_oneof![3 => prop::sample::select(known), 1 => vec(any::<u8>(), 0..20)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn every_request_has_one_answer_and_what_is_ordered_is_a_command(words in vec(word(), 1..6)) {
        let address = "127.0.0.1:1".parse().expect("an address");
        let shared = Arc::new(Shared::new(address, 1, FrameLimits::default()));
        let mut connection = shared.admit(address).expect("room");
        let ranges: Vec<_> = words
            .iter()
            .scan(0, |end, word| {
                let start = *end;
                *end += word.len();
                Some((start, *end))
            })
            .collect();
        let bytes = words.concat();
        let mut batch = Batch::default();
        let then = dispatch(Args::new(&bytes, &ranges), &mut connection, &mut batch);
        prop_assert_eq!(then == Then::Close, words[0].eq_ignore_ascii_case(b"quit"));
        match batch.answers[..] {
            [Answer::Ordered(..)] => {
                prop_assert_eq!(&batch.ends, &[batch.encoded.len()]);
                prop_assert!(Command::decode(&batch.encoded).is_ok());
                prop_assert!(batch.local.is_empty());
            }
            [Answer::Local(length)] => {
                prop_assert_eq!(length, batch.local.len());
                prop_assert!(batch.encoded.is_empty() && batch.ends.is_empty());
                // Only CLIENT REPLY OFF and SKIP say nothing.
                let mut rest = &batch.local[..];
                if !rest.is_empty() {
                    element(&mut rest);
                }
                prop_assert!(rest.is_empty());
                let silent = words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"reply"));
                prop_assert!(silent || !batch.local.is_empty());
            }
            ref other => prop_assert!(false, "{:?}", other),
        }
    }
}

#[test]
fn a_command_that_no_longer_fits_the_frame_is_taken_out_again() {
    let address = "127.0.0.1:1".parse().expect("an address");
    let shared = Arc::new(Shared::new(address, 1, FrameLimits::default()));
    let mut connection = shared.admit(address).expect("room");
    let (small, large) = (vec![b's'; 400], vec![b'l'; 1_048_500]);
    let mut batch = Batch::default();
    let mut run = |batch: &mut Batch, words: &[&[u8]]| {
        let ends = words.iter().scan(0, |end, word| {
            *end += word.len();
            Some((*end - word.len(), *end))
        });
        let ends: Vec<_> = ends.collect();
        dispatch(Args::new(&words.concat(), &ends), &mut connection, batch);
    };
    run(&mut batch, &[b"SET", b"k", &small]);
    run(&mut batch, &[b"PING"]);
    assert!(batch.split_overflow(FrameLimits::default().bytes).is_none());
    let keys: [&[u8]; 4] = [b"a", b"b", b"c", b"d"];
    let m_set: Vec<&[u8]> = std::iter::once(&b"MSET"[..])
        .chain(keys.into_iter().flat_map(|key| [key, &large]))
        .collect();
    run(&mut batch, &m_set);
    assert_eq!(batch.ends.len(), 2, "it fits a frame alone");
    let overflow = batch.split_overflow(FrameLimits::default().bytes).expect("too long together");
    assert_eq!((batch.ends.len(), batch.answers.len()), (1, 2));
    assert_eq!(overflow.ends, [overflow.encoded.len()]);
    assert!(matches!(overflow.answers[..], [Answer::Ordered(..)]));
    for encoded in [&batch.encoded, &overflow.encoded] {
        assert!(
            Command::decode(encoded).is_ok()
                && encoded.len() <= FrameLimits::default().command_bytes()
        );
    }
}

#[test]
fn the_table_is_in_order_and_finds_every_command() {
    assert!(COMMANDS.is_sorted_by(|one, next| one.name < next.name));
    for spec in COMMANDS {
        let upper = spec.name.to_ascii_uppercase();
        let found = quorate_gateway::commands::table::find(COMMANDS, upper.as_bytes());
        assert_eq!(found.map(|found| found.name), Some(spec.name));
        assert!(!spec.summary.is_empty() && !spec.since.is_empty());
        let prefix = format!("{}|", spec.name);
        assert!(spec.parts.iter().all(|part| part.name.starts_with(&prefix)));
    }
}
