//! RESP3: what HELLO 3 changes, and what it leaves as it is.
#![allow(missing_docs)]

mod support;

use support::{Element, Gateway, element, request, request_of};
use tokio::io::AsyncReadExt as _;

const GREETING: &str = "%7\r\n$6\r\nserver\r\n$7\r\nquorate\r\n$7\r\nversion\r\n$5\r\n7.0.0\r\n\
                        $5\r\nproto\r\n:3\r\n$2\r\nid\r\n:1\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n\
                        $4\r\nrole\r\n$6\r\nmaster\r\n$7\r\nmodules\r\n*0\r\n";

#[tokio::test]
async fn replies_have_the_types_of_the_version_that_was_asked_for() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    client.ask("HELLO 3 SETNAME me", GREETING).await;
    for (command, reply) in [
        ("CLIENT GETNAME", "$2\r\nme\r\n"),
        ("GET none", "_\r\n"),
        ("SET k v", "+OK\r\n"),
        ("SET k v NX", "_\r\n"),
        ("GET k", "$1\r\nv\r\n"),
        ("MGET k none", "*2\r\n$1\r\nv\r\n_\r\n"),
        ("SETNX k v", ":0\r\n"),
        ("EXISTS k", ":1\r\n"),
        ("TTL k", ":-1\r\n"),
        ("HSET h a 1 b 2", ":2\r\n"),
        ("HGETALL h", "%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n"),
        ("HGETALL none", "%0\r\n"),
        ("HGET h none", "_\r\n"),
        ("HKEYS h", "*2\r\n$1\r\na\r\n$1\r\nb\r\n"),
        ("HMGET h a none", "*2\r\n$1\r\n1\r\n_\r\n"),
        ("SCAN 0 MATCH k", "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n"),
        ("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n"),
        ("COMMAND INFO nope", "*1\r\n_\r\n"),
        ("COMMAND DOCS nope", "%0\r\n"),
        ("GET h", "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"),
        ("MULTI", "+OK\r\n"),
        ("HGETALL h", "+QUEUED\r\n"),
        ("GET none", "+QUEUED\r\n"),
        ("EXEC", "*2\r\n%2\r\n$1\r\na\r\n$1\r\n1\r\n$1\r\nb\r\n$1\r\n2\r\n_\r\n"),
    ] {
        client.ask(command, reply).await;
    }
    // HELLO alone tells, and changes nothing; so does one that is refused.
    client.ask("HELLO", GREETING).await;
    client.ask("HELLO 4", "-NOPROTO unsupported protocol version\r\n").await;
    let no_users = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    client.ask("HELLO 2 AUTH nobody secret SETNAME you", no_users).await;
    client.send(request_of(&[b"HELLO", b"2", b"SETNAME", b"a b"])).await;
    client
        .expect("-ERR Client names cannot contain spaces, newlines or special characters.\r\n")
        .await;
    client.ask("GET none", "_\r\n").await;
    // Others are as they were, and see who speaks what.
    let mut other = gateway.connect().await;
    other.ask("GET none", "$-1\r\n").await;
    other.send(request("CLIENT LIST")).await;
    other.send(request("QUIT")).await;
    let mut list = Vec::new();
    other.stream.read_to_end(&mut list).await.expect("a reply");
    let list = String::from_utf8(list).expect("text");
    assert!(list.contains("name=me ") && list.contains("resp=3\n") && list.contains("resp=2\n"));
    // What is on its way is written as it was asked for.
    client.send(["GET none", "HELLO 2", "GET none"].map(request).concat()).await;
    client.expect("_\r\n*14\r\n").await;
    let mut rest = vec![0; GREETING.len() - "%7\r\n".len()];
    client.stream.read_exact(&mut rest).await.expect("a greeting");
    client.expect("$-1\r\n").await;
    client.send(["HELLO 3", "RESET", "GET none"].map(request).concat()).await;
    client.expect(format!("{GREETING}+RESET\r\n$-1\r\n")).await;
}

/// The same description in both versions, in the types of each.
#[tokio::test]
async fn descriptions_have_maps_sets_and_texts() {
    let gateway = Gateway::alone().await;
    let ask = async |hello: &str, command: &str| {
        let mut client = gateway.connect().await;
        client.send([request(hello), request(command), request("QUIT")].concat()).await;
        let mut reply = Vec::new();
        client.stream.read_to_end(&mut reply).await.expect("a reply");
        let mut rest = &reply[..];
        element(&mut rest);
        let described = element(&mut rest);
        assert_eq!(rest, b"+OK\r\n", "{command}");
        described
    };
    for command in ["COMMAND", "COMMAND DOCS", "COMMAND INFO client|id", "COMMAND HELP"] {
        let (old, new) = (ask("HELLO 2", command).await, ask("HELLO 3", command).await);
        assert_eq!(old, as_resp2(&new), "{command}");
    }
    assert!(matches!(ask("HELLO 3", "COMMAND DOCS GET").await, Element::Map(_)));
    let Element::Array(commands) = ask("HELLO 3", "COMMAND INFO GET").await else {
        panic!("an array of commands")
    };
    let Element::Array(fields) = &commands[0] else { panic!("an array of fields") };
    assert!(matches!(fields[2], Element::Set(_)) && matches!(fields[6], Element::Set(_)));
    for command in ["INFO", "CLIENT LIST", "CLIENT INFO"] {
        assert!(matches!(ask("HELLO 3", command).await, Element::Text(_)), "{command}");
        assert!(matches!(ask("HELLO 2", command).await, Element::Bulk(_)), "{command}");
    }
}

fn as_resp2(element: &Element) -> Element {
    match element {
        Element::Array(items) | Element::Map(items) | Element::Set(items) => {
            Element::Array(items.iter().map(as_resp2).collect())
        }
        Element::Text(text) => Element::Bulk(text.clone().into_bytes()),
        other => other.clone(),
    }
}

/// A question of a few kilobytes must not be answered with a thousand times as much.
#[tokio::test]
async fn many_names_in_one_question_are_refused() {
    let gateway = Gateway::alone().await;
    let mut client = gateway.connect().await;
    let refusal = "-ERR at most 64 names are answered for at a time\r\n";
    for question in
        [&[b"COMMAND".as_slice(), b"DOCS"][..], &[b"COMMAND", b"INFO"], &[b"CONFIG", b"GET"]]
    {
        let names = std::iter::repeat_n(&b"set"[..], 65);
        let words: Vec<&[u8]> = question.iter().copied().chain(names).collect();
        client.send(request_of(&words)).await;
        client.expect(refusal).await;
    }
    let pattern = vec![b'*'; 1025];
    let refusal = "-ERR pattern is longer than 1024 bytes\r\n";
    client.send(request_of(&[b"CONFIG", b"GET", &pattern])).await;
    client.expect(refusal).await;
    client.send(request_of(&[b"COMMAND", b"LIST", b"FILTERBY", b"PATTERN", &pattern])).await;
    client.expect(refusal).await;
}
