//! MULTI and EXEC: all of a transaction is submitted as one, or nothing of it.
#![allow(missing_docs)]

mod support;

use std::time::Duration;

use bytes::Bytes;
use quorate_app::kv::reply::encode;
use quorate_gateway::server::Limits;
use quorate_gateway::{ClusterError, MAX_SUBMITTED_COMMANDS};
use support::{Gateway, Pending, Scripted, request, request_of};

const ABORTED: &str = "-EXECABORT Transaction discarded because of previous errors.\r\n";

#[tokio::test]
async fn a_transaction_is_executed_at_exec_and_its_errors_stay_with_their_commands() {
    let gateway = Gateway::alone().await;
    let (mut client, mut other) = (gateway.connect().await, gateway.connect().await);
    client.ask("MULTI", "+OK\r\n").await;
    for command in ["SET k 1", "INCR k", "INCRBY k x", "HGET k f", "PING", "ECHO e", "GET k"] {
        client.ask(command, "+QUEUED\r\n").await;
    }
    other.ask("GET k", "$-1\r\n").await;
    client
        .ask(
            "EXEC",
            "*7\r\n+OK\r\n:2\r\n-ERR value is not an integer or out of range\r\n-WRONGTYPE \
             Operation against a key holding the wrong kind of value\r\n+PONG\r\n$1\r\ne\r\n$1\r\n2\r\n",
        )
        .await;
    client.ask("EXEC", "-ERR EXEC without MULTI\r\n").await;
    client.ask("DISCARD", "-ERR DISCARD without MULTI\r\n").await;
    client.ask("MULTI", "+OK\r\n").await;
    client.ask("EXEC", "*0\r\n").await;
}

#[tokio::test]
async fn nothing_is_executed_of_a_transaction_that_was_discarded_or_not_finished() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    client.send(["MULTI", "SET k v", "DISCARD", "GET k"].map(request).concat()).await;
    client.expect("+OK\r\n+QUEUED\r\n+OK\r\n$-1\r\n").await;
    client.send(["MULTI", "SET k v", "RESET", "EXEC", "GET k"].map(request).concat()).await;
    client.expect("+OK\r\n+QUEUED\r\n+RESET\r\n-ERR EXEC without MULTI\r\n$-1\r\n").await;
    client.send(["MULTI", "SET k v", "QUIT"].map(request).concat()).await;
    client.expect("+OK\r\n+QUEUED\r\n+OK\r\n").await;
    client.expect_end().await;
    let mut client = gateway.connect().await;
    client.ask("GET k", "$-1\r\n").await;
}

/// Whatever cannot be kept, and whether or not the client looks: EXEC executes nothing.
#[tokio::test]
async fn a_command_that_is_refused_spoils_its_transaction() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let refusals = [
        ("NOPE", "-ERR unknown command 'NOPE', with args beginning with: \r\n"),
        ("GET", "-ERR wrong number of arguments for 'get' command\r\n"),
        (
            "EXPIRE k 1",
            "-ERR EXPIRE is not supported: keys do not expire, since replicas agree on no clock\r\n",
        ),
        ("CLIENT REPLY OFF", "-ERR CLIENT is not allowed in a transaction\r\n"),
        ("HELLO 2", "-ERR HELLO is not allowed in a transaction\r\n"),
    ];
    for (refused, complaint) in refusals {
        client.send(["MULTI", "SET k v", refused, "INCR n", "EXEC"].map(request).concat()).await;
        let expected = format!("+OK\r\n+QUEUED\r\n{complaint}+QUEUED\r\n{ABORTED}");
        client.expect(expected).await;
    }
    client.ask("EXISTS k n", ":0\r\n").await;
    // A transaction in a transaction is an error of its own, as in Redis.
    client.send(["MULTI", "MULTI", "INCR n", "EXEC"].map(request).concat()).await;
    client.expect("+OK\r\n-ERR MULTI calls can not be nested\r\n+QUEUED\r\n*1\r\n:1\r\n").await;
}

/// As redis-py and others send a guarded transaction in one write, without reading first.
#[tokio::test]
async fn a_transaction_behind_a_refused_watch_writes_nothing() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let refused = "-ERR WATCH is not supported: use MULTI alone, SET with NX or GETSET; the \
                   transaction that follows is not executed\r\n";
    let guarded = ["WATCH k", "MULTI", "SET k v", "EXEC", "GET k"];
    client.send(guarded.map(request).concat()).await;
    client.expect(format!("{refused}+OK\r\n+QUEUED\r\n{ABORTED}$-1\r\n")).await;
    // The next one is on its own again; and UNWATCH takes a WATCH back.
    for before in [vec![], vec!["WATCH k", "UNWATCH"]] {
        for (command, reply) in before.into_iter().zip([refused, "+OK\r\n"]) {
            client.ask(command, reply).await;
        }
        client.send(["MULTI", "SET k v", "EXEC"].map(request).concat()).await;
        client.expect("+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n").await;
    }
    client.send(["MULTI", "WATCH k", "SET k w", "EXEC", "GET k"].map(request).concat()).await;
    client.expect(format!("+OK\r\n{refused}+QUEUED\r\n{ABORTED}$1\r\nv\r\n")).await;
}

async fn next(submissions: &mut tokio::sync::mpsc::UnboundedReceiver<Pending>) -> Pending {
    let waiting = tokio::time::timeout(Duration::from_secs(60), submissions.recv());
    waiting.await.expect("a submission in time").expect("a submission")
}

fn ok() -> Bytes {
    let mut out = Vec::new();
    encode::ok(&mut out);
    out.into()
}

#[tokio::test]
async fn a_transaction_is_one_submission_of_its_own_and_has_one_outcome() {
    let (cluster, mut submissions) = Scripted::new();
    let gateway = Gateway::start(cluster, Limits::default()).await;
    let mut client = gateway.connect().await;
    let pipeline = ["SET a 1", "MULTI", "SET b 1", "PING", "SET c 1", "EXEC", "SET d 1"];
    for (outcome, answer) in [
        (Ok(vec![ok(), ok()]), "*3\r\n+OK\r\n+PONG\r\n+OK\r\n".to_owned()),
        (Err(ClusterError::Unknown), format!("-{}\r\n", ClusterError::Unknown)),
    ] {
        client.send(pipeline.map(request).concat()).await;
        let mut sizes = Vec::new();
        for outcome in [Ok(vec![ok()]), outcome, Ok(vec![ok()])] {
            let pending = next(&mut submissions).await;
            sizes.push(pending.commands.len());
            pending.decide(outcome);
        }
        assert_eq!(sizes, [1, 2, 1]);
        let before = "+OK\r\n+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n";
        client.expect(format!("{before}{answer}+OK\r\n")).await;
    }
    // Without answers there is none.
    client.send(request("CLIENT REPLY OFF")).await;
    client.send(["MULTI", "SET b 1", "PING", "EXEC"].map(request).concat()).await;
    next(&mut submissions).await.decide(Err(ClusterError::Unknown));
    client.send(["MULTI", "SET b 1", "PING", "EXEC"].map(request).concat()).await;
    next(&mut submissions).await.decide(Ok(vec![ok()]));
    client.ask("CLIENT REPLY ON", "+OK\r\n").await;
}

#[tokio::test]
async fn a_transaction_that_fits_no_frame_is_refused_whole() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    // One command too many.
    client.ask("MULTI", "+OK\r\n").await;
    for _ in 0..MAX_SUBMITTED_COMMANDS {
        client.ask("INCR k", "+QUEUED\r\n").await;
    }
    client
        .ask("INCR k", "-ERR a transaction has at most 1024 commands and 8388608 bytes\r\n")
        .await;
    client.ask("EXEC", ABORTED).await;
    // Too many bytes for a frame, then for the gateway.
    let value = vec![b'v'; 1 << 20];
    for (count, refused, outcome) in [
        (4, 0, "-EXECABORT Transaction discarded: its commands are longer than 4194304 bytes\r\n"),
        (8, 1, ABORTED),
    ] {
        client.ask("MULTI", "+OK\r\n").await;
        for place in 0..count {
            client.send(request_of(&[b"SET", b"k", &value])).await;
            let is_refused = place >= count - refused;
            client
                .expect(if is_refused {
                    &b"-ERR a transaction has at most 1024 commands and 8388608 bytes\r\n"[..]
                } else {
                    b"+QUEUED\r\n"
                })
                .await;
        }
        client.ask("EXEC", outcome).await;
    }
    client.ask("EXISTS k", ":0\r\n").await;
}
