//! Reads that are not ordered keep the order of their connection.
#![allow(missing_docs)]

mod support;

use std::sync::Arc;

use bytes::Bytes;
use quorate_gateway::server::Limits;
use quorate_gateway::{Cluster, Submission};
use support::{Alone, Gateway, Pending, Scripted};
use tokio::sync::mpsc;

/// A cluster that hands every submission to the test, and reads apart from what is ordered.
struct Reading {
    ordered: Arc<Scripted>,
    read: Arc<Scripted>,
}

impl Cluster for Reading {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        self.ordered.submit(commands)
    }

    fn reads_by_index(&self) -> bool {
        true
    }

    fn read(&self, commands: Vec<Bytes>) -> Submission {
        self.read.submit(commands)
    }
}

struct Test {
    gateway: Gateway,
    ordered: mpsc::UnboundedReceiver<Pending>,
    read: mpsc::UnboundedReceiver<Pending>,
    store: Alone,
}

impl Test {
    async fn start() -> Self {
        let ((ordered, orders), (read, reads)) = (Scripted::new(), Scripted::new());
        let cluster = Arc::new(Reading { ordered, read });
        let gateway = Gateway::start(cluster, Limits::default()).await;
        Self { gateway, ordered: orders, read: reads, store: Alone::default() }
    }

    fn decide(&self, pending: Pending) {
        let replies = self.store.apply(&pending.commands);
        pending.decide(Ok(replies));
    }
}

#[tokio::test]
async fn commands_that_only_read_are_not_ordered() {
    let mut test = Test::start().await;
    let mut client = test.gateway.connect().await;
    for (command, reply) in [
        ("GET k", "$-1\r\n"),
        ("MGET a b", "*2\r\n$-1\r\n$-1\r\n"),
        ("EXISTS k", ":0\r\n"),
        ("HGET h f", "$-1\r\n"),
        ("SCAN 0", "*2\r\n$1\r\n0\r\n*0\r\n"),
        ("TTL k", ":-2\r\n"),
    ] {
        client.send(format!("{command}\r\n")).await;
        let pending = test.read.recv().await.expect(command);
        test.decide(pending);
        client.expect(reply).await;
    }
    for (command, reply) in [
        ("SET k v", "+OK\r\n"),
        ("GETSET k w", "$1\r\nv\r\n"),
        ("SET k x GET", "$1\r\nw\r\n"),
        ("INCR n", ":1\r\n"),
        ("HSET h f v", ":1\r\n"),
        ("GETDEL k", "$1\r\nx\r\n"),
        ("FLUSHALL", "+OK\r\n"),
    ] {
        client.send(format!("{command}\r\n")).await;
        let pending = test.ordered.recv().await.expect(command);
        test.decide(pending);
        client.expect(reply).await;
    }
    // What is between MULTI and EXEC is one, and has its place in the order.
    client.send("MULTI\r\nGET k\r\nEXEC\r\n").await;
    let pending = test.ordered.recv().await.expect("a transaction");
    test.decide(pending);
    assert!(test.read.try_recv().is_err());
}

#[tokio::test]
async fn a_read_behind_a_write_is_ordered_behind_it() {
    let mut test = Test::start().await;
    let mut client = test.gateway.connect().await;
    client.send("SET k v\r\n").await;
    let write = test.ordered.recv().await.expect("a write");
    client.send("GET k\r\n").await;
    let read = test.ordered.recv().await.expect("the read, behind it");
    assert!(test.read.try_recv().is_err());
    test.decide(write);
    test.decide(read);
    client.expect("+OK\r\n$1\r\nv\r\n").await;
    client.send("GET k\r\n").await;
    let read = test.read.recv().await.expect("nothing is under way any more");
    test.decide(read);
    client.expect("$1\r\nv\r\n").await;
}

/// A read that is under way could see a write behind it, and two reads could see two states in the
/// wrong order.
#[tokio::test]
async fn nothing_overtakes_a_read() {
    let mut test = Test::start().await;
    let mut client = test.gateway.connect().await;
    client.send("GET k\r\n").await;
    let read = test.read.recv().await.expect("a read");
    client.send("SET k v\r\n").await;
    // Another connection is served meanwhile, so the gateway is not merely slow.
    let mut other = test.gateway.connect().await;
    other.send("GET k\r\n").await;
    let of_other = test.read.recv().await.expect("the other's");
    test.decide(of_other);
    other.expect("$-1\r\n").await;
    assert!(test.ordered.try_recv().is_err(), "the write waits for the read before it");
    test.decide(read);
    let write = test.ordered.recv().await.expect("the write");
    test.decide(write);
    client.expect("$-1\r\n+OK\r\n").await;
}
