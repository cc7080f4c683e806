//! What the gateway's tests share: clusters without a cluster, and a client that speaks raw RESP.
#![allow(dead_code, missing_docs)]

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use quorate_app::kv::KeyValue;
use quorate_core::ledger::state_machine::{Decided, Replies, StateMachine};
use quorate_core::{Height, View};
use quorate_gateway::server::{Limits, Security, serve};
use quorate_gateway::{Cluster, ClusterError, Submission};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// When a test that hangs is given up. No test that passes comes near it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The store itself, applied on the spot.
#[derive(Default)]
pub struct Alone(Mutex<KeyValue>);

impl Alone {
    pub fn apply(&self, commands: &[Bytes]) -> Vec<Bytes> {
        let commands: Vec<&[u8]> = commands.iter().map(|command| &command[..]).collect();
        let block = Decided {
            height: Height(1),
            view: View(1),
            commands: &commands,
            rules: 1,
            callers: &[],
        };
        let mut replies = Replies::default();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).apply(&block, &mut replies);
        replies.iter().map(Bytes::copy_from_slice).collect()
    }
}

impl Cluster for Alone {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        let replies = self.apply(&commands);
        Box::pin(async { Ok(replies) })
    }
}

/// A submission whose fate the test decides.
pub struct Pending {
    pub commands: Vec<Bytes>,
    decide: oneshot::Sender<Result<Vec<Bytes>, ClusterError>>,
}

impl Pending {
    pub fn decide(self, outcome: Result<Vec<Bytes>, ClusterError>) {
        // The connection may be gone, and the outcome of no interest any more.
        let _ = self.decide.send(outcome);
    }
}

/// A cluster that hands every submission to the test.
pub struct Scripted(mpsc::UnboundedSender<Pending>);

impl Scripted {
    pub fn new() -> (Arc<Self>, mpsc::UnboundedReceiver<Pending>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (Arc::new(Self(sender)), receiver)
    }
}

impl Cluster for Scripted {
    fn submit(&self, commands: Vec<Bytes>) -> Submission {
        let (decide, decided) = oneshot::channel();
        self.0.send(Pending { commands, decide }).expect("the test is running");
        Box::pin(async { decided.await.unwrap_or(Err(ClusterError::Unknown)) })
    }
}

pub struct Gateway {
    pub address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Gateway {
    pub async fn start(cluster: Arc<dyn Cluster>, limits: Limits) -> Self {
        Self::start_for(cluster, limits, Security::default()).await
    }

    pub async fn start_for(cluster: Arc<dyn Cluster>, limits: Limits, security: Security) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let (stop, stopped) = oneshot::channel();
        let stopped = async {
            let _ = stopped.await;
        };
        let serving = tokio::spawn(serve(listener, cluster, limits, security, stopped));
        Self { address, stop, serving }
    }

    pub async fn alone() -> Self {
        Self::start(Arc::new(Alone::default()), Limits::default()).await
    }

    pub async fn connect(&self) -> Client {
        Client { stream: TcpStream::connect(self.address).await.expect("a connection") }
    }

    /// Tells it to stop; gives what ends when it has.
    pub fn stop(self) -> JoinHandle<std::io::Result<()>> {
        self.stop.send(()).expect("it is running");
        self.serving
    }
}

pub struct Client {
    pub stream: TcpStream,
}

impl Client {
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).await.expect("it is sent");
    }

    /// Reads as many bytes as are expected, and compares.
    pub async fn expect(&mut self, bytes: impl AsRef<[u8]>) {
        let expected = bytes.as_ref();
        let (mut got, mut at) = (vec![0; expected.len()], 0);
        while at < expected.len() {
            let reading = timeout(PATIENCE, self.stream.read(&mut got[at..])).await;
            let read = reading.expect("an answer in time").expect("an answer");
            at += read;
            if read == 0 || got[..at] != expected[..at] {
                break;
            }
        }
        assert_eq!(got[..at].escape_ascii().to_string(), expected.escape_ascii().to_string());
    }

    pub async fn expect_end(&mut self) {
        let mut rest = Vec::new();
        let reading = timeout(PATIENCE, self.stream.read_to_end(&mut rest)).await;
        reading.expect("an end in time").expect("an orderly end");
        assert_eq!(rest.escape_ascii().to_string(), "");
    }

    /// Sends a command, its words apart by spaces, and expects a reply.
    pub async fn ask(&mut self, command: &str, reply: &str) {
        self.send(request(command)).await;
        self.expect(reply).await;
    }
}

/// A command, its words apart by spaces, as clients send it.
pub fn request(command: &str) -> Vec<u8> {
    let words: Vec<&[u8]> = command.split(' ').map(str::as_bytes).collect();
    request_of(&words)
}

pub fn request_of(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// An element of RESP2 or RESP3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    Array(Vec<Element>),
    /// Keys and values in turn.
    Map(Vec<Element>),
    Set(Vec<Element>),
    Text(String),
}

/// Reads the element in front, as strictly as a client would.
pub fn element(bytes: &mut &[u8]) -> Element {
    let end = bytes.windows(2).position(|two| two == b"\r\n").expect("a line");
    let line = String::from_utf8_lossy(&bytes[1..end]).into_owned();
    let marker = bytes[0];
    *bytes = &bytes[end + 2..];
    match marker {
        b'+' => Element::Simple(line),
        b'-' => Element::Error(line),
        b':' => Element::Integer(line.parse().expect("a number")),
        b'$' | b'*' if line == "-1" => Element::Nil,
        b'$' => {
            let length = line.parse().expect("a length");
            let (body, rest) = bytes.split_at(length);
            *bytes = rest.strip_prefix(b"\r\n").expect("the end of a bulk");
            Element::Bulk(body.to_vec())
        }
        b'*' => {
            let count: usize = line.parse().expect("a count");
            Element::Array((0..count).map(|_| element(bytes)).collect())
        }
        b'%' => {
            let pairs: usize = line.parse().expect("a count");
            Element::Map((0..2 * pairs).map(|_| element(bytes)).collect())
        }
        b'~' => {
            let count: usize = line.parse().expect("a count");
            Element::Set((0..count).map(|_| element(bytes)).collect())
        }
        b'_' if line.is_empty() => Element::Nil,
        b'=' => {
            let length = line.parse().expect("a length");
            let (body, rest) = bytes.split_at(length);
            *bytes = rest.strip_prefix(b"\r\n").expect("the end of a text");
            let text = body.strip_prefix(b"txt:").expect("plain text");
            Element::Text(String::from_utf8_lossy(text).into_owned())
        }
        other => panic!("{}", other.escape_ascii()),
    }
}
