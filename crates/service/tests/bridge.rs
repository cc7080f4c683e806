//! What a bridge does with clients that say too much, too little, or nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quorate_crypto::SecretKey;
use quorate_node::client::Client;
use quorate_node::testnet::{self, Options};
use quorate_service::bridge::{Door, Limits, serve};
use quorate_service::client::config;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const DEADLINE: Duration = Duration::from_secs(60);

const LIMITS: Limits = Limits {
    connections: 3,
    head_within: Duration::from_millis(500),
    body_within: Duration::from_millis(500),
    body_bytes: 1000,
    life: DEADLINE,
};

/// A bridge to a cluster that does not run.
async fn bridge(give_up_after: Duration, limits: Limits) -> SocketAddr {
    let folder = tempfile::tempdir().unwrap();
    let made = testnet::init(folder.path(), 4, &Options::default()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let key = Arc::new(SecretKey::generate().unwrap());
    let client = Client::start(config(&made.cluster, Some(give_up_after)), key);
    tokio::spawn(serve(Door::Tcp(listener), client, limits, std::future::pending()));
    address
}

/// Sends bytes, and reads what comes until the connection ends.
async fn exchange(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    // The bridge may close before it has read all.
    let _ = stream.write_all(bytes).await;
    let mut said = Vec::new();
    let read = tokio::time::timeout(DEADLINE, stream.read_to_end(&mut said)).await;
    // A reset is an end too.
    let _ = read.expect("the bridge ends the connection");
    String::from_utf8_lossy(&said).into_owned()
}

async fn post(address: SocketAddr, path: &str, body: &str) -> String {
    let length = body.len();
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    exchange(address, format!("{head}Content-Length: {length}\r\n\r\n{body}").as_bytes()).await
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_with_what_is_expected() {
    let address = bridge(Duration::from_millis(100), LIMITS).await;
    for (path, body, status, said) in [
        ("/submit", "{", "400", "the body is no JSON"),
        ("/submit", "[]", "400", "the body is no JSON object"),
        ("/submit", "{}", "400", "expected {"),
        ("/submit", r#"{"commands": "one"}"#, "400", "expected {"),
        ("/submit", r#"{"commands": [1]}"#, "400", "expected {"),
        ("/submit", r#"{"commands": ["a"], "commands_hex": ["61"]}"#, "400", "expected {"),
        ("/submit", r#"{"commands": ["a"], "more": 1}"#, "400", "expected {"),
        ("/submit", r#"{"commands_hex": ["6"]}"#, "400", "expected {"),
        ("/submit", r#"{"commands": []}"#, "413", "does not fit"),
        ("/query", r#"{"question_hex": "zz"}"#, "400", "expected {"),
        ("/query", r#"{"commands": ["a"]}"#, "400", "expected {"),
        ("/nowhere", "{}", "404", ""),
    ] {
        let answer = post(address, path, body).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path} {body}: {answer}");
        assert!(answer.contains(said), "{path} {body}: {answer}");
    }
    let get = b"GET /submit HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let got = exchange(address, get).await;
    assert!(got.starts_with("HTTP/1.1 405"), "{got}");
    let page = "POST /submit HTTP/1.1\r\nHost: x\r\nOrigin: https://example.com\r\n\
                Content-Length: 17\r\nConnection: close\r\n\r\n{\"commands\":[\"a\"]}";
    let page = exchange(address, page.as_bytes()).await;
    assert!(page.starts_with("HTTP/1.1 403"), "{page}");
    let garbage = exchange(address, b"\x16\x03\x01 no HTTP\r\n\r\n").await;
    assert!(garbage.starts_with("HTTP/1.1 400"), "{garbage}");
}

#[tokio::test]
async fn a_cluster_that_does_not_run_is_said_to_be_no_fault_of_the_request() {
    let address = bridge(Duration::from_millis(100), LIMITS).await;
    let answer = post(address, "/submit", r#"{"commands": ["a"]}"#).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains(r#""class":"retryable""#), "{answer}");
    let answer = post(address, "/query", r#"{"question": "a"}"#).await;
    assert!(answer.starts_with("HTTP/1.1 503"), "{answer}");
    assert!(answer.contains("0 replicas answered, and 2 are needed"), "{answer}");
}

#[tokio::test]
async fn half_a_request_and_one_that_is_too_long_are_refused() {
    let address = bridge(DEADLINE, LIMITS).await;
    let long = format!("{{\"commands\": [\"{}\"]}}", "x".repeat(2000));
    let long = post(address, "/submit", &long).await;
    assert!(long.starts_with("HTTP/1.1 413"), "{long}");
    let head = "POST /submit HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{\"comm";
    let half = exchange(address, head.as_bytes()).await;
    assert!(half.starts_with("HTTP/1.1 408"), "{half}");
    let head = exchange(address, b"POST /submit HTTP/1.1\r\nHos").await;
    assert!(head.is_empty() || head.starts_with("HTTP/1.1 408"), "{head}");
    let endless = format!("GET /status HTTP/1.1\r\nX: {}", "y".repeat(1 << 20));
    let endless = exchange(address, endless.as_bytes()).await;
    assert!(endless.is_empty() || endless.starts_with("HTTP/1.1 4"), "{endless}");
}

#[tokio::test]
async fn more_connections_than_there_are_places_are_closed() {
    // Who has a place keeps it as long as this test holds on to it.
    let address = bridge(DEADLINE, Limits { head_within: DEADLINE, ..LIMITS }).await;
    let request = b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n";
    let mut held = Vec::new();
    for _ in 0..LIMITS.connections {
        let mut stream = TcpStream::connect(address).await.unwrap();
        // It has a place once it is answered.
        stream.write_all(request).await.unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        held.push(stream);
    }
    let one_more = exchange(address, request).await;
    assert!(one_more.is_empty(), "{one_more}");
    drop(held);
    let request = b"GET /status HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let began = tokio::time::Instant::now();
    while !exchange(address, request).await.starts_with("HTTP/1.1 200") {
        assert!(began.elapsed() < DEADLINE, "no place is free again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_client_that_says_nothing_does_not_keep_its_place() {
    let address = bridge(DEADLINE, LIMITS).await;
    let began = tokio::time::Instant::now();
    let silent: Vec<_> = (0..LIMITS.connections).map(|_| exchange(address, b"")).collect();
    for said in silent {
        assert!(said.await.is_empty(), "after {:?}", began.elapsed());
    }
}

/// A command of two bytes in JSON costs many times that in memory.
#[tokio::test]
async fn more_commands_than_a_request_may_have_are_refused() {
    let limits = Limits { body_bytes: 1 << 20, body_within: DEADLINE, ..LIMITS };
    let address = bridge(Duration::from_millis(100), limits).await;
    let body = |count: usize| format!(r#"{{"commands":[{}]}}"#, vec![r#""""#; count].join(","));
    let said = post(address, "/submit", &body(65_537)).await;
    assert!(said.starts_with("HTTP/1.1 413 "), "{said}");
    assert!(said.contains("a request has at most 65536 commands"), "{said}");
    let said = post(address, "/submit", &body(65_536)).await;
    assert!(!said.contains("a request has at most"), "{said}");
}
