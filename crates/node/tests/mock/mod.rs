//! Replicas without consensus, for tests of clients: one ledger behind several listeners, each
//! with its own vice.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use quorate_core::client::Packed;
use quorate_core::client::message::{Outcome, Refusal, Rejection, Request, Response};
use quorate_core::crypto::{PublicKey, Scheme};
use quorate_core::frame::{Frame, SharedFrame};
use quorate_core::state_machine::Replies;
use quorate_core::wire::{Decode, Encode};
use quorate_core::{Digest, ReplicaId, Sequence, SessionId};
use quorate_crypto::Ed25519;
use quorate_node::client::{Dial, DialFuture, Stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;

/// How a replica behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vice {
    None,
    /// Takes connections, and never says anything.
    Silent,
    /// Answers at once, and wrongly.
    Lying,
    /// Takes no frame in.
    Busy,
    /// Sends bytes that are no response.
    Garbage,
    /// Cannot be reached.
    Down,
    /// Closes the connection instead of giving the next answer, once.
    Dropping,
}

/// The application: appends the reply to a command.
pub type Execute = fn(command: &[u8], reply: &mut Vec<u8>);

type Outbox = mpsc::UnboundedSender<Bytes>;

/// The cluster, and a way to dial it.
#[derive(Clone)]
pub struct Mock {
    shared: Arc<Shared>,
}

struct Shared {
    chain: Digest,
    scheme: Ed25519,
    ledger: Mutex<Ledger>,
    replicas: Vec<Mutex<Replica>>,
}

struct Replica {
    vice: Vice,
    clients: HashMap<PublicKey, Outbox>,
}

struct Ledger {
    execute: Execute,
    sessions: u64,
    by_key: HashMap<PublicKey, (u64, SessionId)>,
    next: HashMap<SessionId, Sequence>,
    answers: HashMap<(SessionId, Sequence), Outcome>,
    executed: u64,
}

impl Ledger {
    fn order(&mut self, frame: &Frame) -> Option<Outcome> {
        let (session, first) = (frame.session(), frame.first());
        if frame.is_open() {
            let live = self.by_key.get(&frame.key()).copied().unwrap_or_default();
            if live.0 > first.0 {
                let reason = Rejection::StaleIncarnation;
                return Some(Outcome::Rejected { session, first, reason });
            }
            if live.0 < first.0 {
                self.next.remove(&live.1);
                self.sessions += 1;
                self.by_key.insert(frame.key(), (first.0, SessionId(self.sessions)));
                self.next.insert(SessionId(self.sessions), Sequence(1));
            }
            let session = self.by_key.get(&frame.key())?.1;
            return Some(Outcome::Opened { incarnation: first.0, session });
        }
        if let Some(answer) = self.answers.get(&(session, first)) {
            return Some(answer.clone());
        }
        let Some(next) = self.next.get_mut(&session) else {
            let reason = Rejection::UnknownSession;
            return Some(Outcome::Rejected { session, first, reason });
        };
        if *next != first {
            return None;
        }
        *next = frame.end();
        self.executed += u64::from(frame.count());
        let mut replies = Replies::default();
        for command in frame.commands() {
            replies.push_with(|out| (self.execute)(command, out));
        }
        let replies = replies.into_parts().0;
        let outcome = Outcome::Executed { session, first, count: frame.count(), replies };
        self.answers.insert((session, first), outcome.clone());
        Some(outcome)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mock {
    pub fn new(vices: &[Vice], execute: Execute) -> Self {
        let replicas =
            vices.iter().map(|vice| Mutex::new(Replica { vice: *vice, clients: HashMap::new() }));
        let ledger = Ledger {
            execute,
            sessions: 0,
            by_key: HashMap::new(),
            next: HashMap::new(),
            answers: HashMap::new(),
            executed: 0,
        };
        Self {
            shared: Arc::new(Shared {
                chain: Digest::of("test", b"chain"),
                scheme: Ed25519::new(&[]),
                ledger: Mutex::new(ledger),
                replicas: replicas.collect(),
            }),
        }
    }

    pub fn chain(&self) -> Digest {
        self.shared.chain
    }

    /// How many commands were executed, each once.
    #[allow(dead_code)]
    pub fn executed(&self) -> u64 {
        lock(&self.shared.ledger).executed
    }

    #[allow(dead_code)]
    pub fn set_vice(&self, replica: usize, vice: Vice) {
        lock(&self.shared.replicas[replica]).vice = vice;
    }

    /// All sessions expire.
    #[allow(dead_code)]
    pub fn forget_sessions(&self) {
        lock(&self.shared.ledger).next.clear();
    }
}

impl Dial for Mock {
    fn dial(&self, replica: ReplicaId) -> DialFuture {
        let shared = self.shared.clone();
        Box::pin(async move {
            if lock(&shared.replicas[replica.index()]).vice == Vice::Down {
                return Err(std::io::ErrorKind::ConnectionRefused.into());
            }
            let (ours, theirs) = tokio::io::duplex(1 << 20);
            tokio::spawn(shared.serve(replica.index(), theirs));
            Ok(Box::new(ours) as Box<dyn Stream>)
        })
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, replica: usize, stream: DuplexStream) {
        let (mut reading, mut writing) = tokio::io::split(stream);
        let (outbox, mut outgoing) = mpsc::unbounded_channel::<Bytes>();
        let reader = async {
            let mut incoming = BytesMut::new();
            while let Ok(1..) = reading.read_buf(&mut incoming).await {
                while let Some(message) = split_message(&mut incoming) {
                    let Ok(request) = Request::from_bytes(message) else { return };
                    if !self.receive(replica, request, &outbox) {
                        return;
                    }
                }
            }
        };
        let writer = async {
            while let Some(message) = outgoing.recv().await {
                if writing.write_all(&message).await.is_err() {
                    return;
                }
            }
        };
        tokio::select! { () = reader => {}, () = writer => {} }
    }

    /// `false` if the connection is to be closed.
    fn receive(&self, replica: usize, request: Request, outbox: &Outbox) -> bool {
        let Request::Submit { relay, frame } = request else { return false };
        assert!(self.is_signed(&frame), "the client signs what it sends");
        let vice = {
            let mut replica = lock(&self.replicas[replica]);
            replica.clients.insert(frame.key(), outbox.clone());
            replica.vice
        };
        match vice {
            Vice::None | Vice::Down => {
                let Some(outcome) = lock(&self.ledger).order(&frame) else { return true };
                let message = message(&Response::Outcome(outcome));
                if relay && !frame.is_open() {
                    self.tell_all(frame.key(), &message);
                } else {
                    let _ = outbox.send(message);
                }
            }
            Vice::Silent => {}
            Vice::Lying => {
                for lie in lies(&frame) {
                    let _ = outbox.send(message(&lie));
                }
            }
            Vice::Busy => {
                let (session, first) = (frame.session(), frame.first());
                let reason = Refusal::Busy;
                let _ = outbox.send(message(&Response::Refused { session, first, reason }));
            }
            Vice::Garbage => drop(outbox.send(Bytes::from_static(b"\xff\xff\xff\xff garbage"))),
            Vice::Dropping => {
                if !frame.is_open() {
                    lock(&self.replicas[replica]).vice = Vice::None;
                    return false;
                }
                if let Some(outcome) = lock(&self.ledger).order(&frame) {
                    let _ = outbox.send(message(&Response::Outcome(outcome)));
                }
            }
        }
        true
    }

    fn is_signed(&self, frame: &SharedFrame) -> bool {
        let claim = frame.clone().claim(&self.chain);
        self.scheme.verify(claim.checks()).iter().all(|holds| *holds)
    }

    fn tell_all(&self, key: PublicKey, message: &Bytes) {
        for replica in &self.replicas {
            let replica = lock(replica);
            if let (Vice::None, Some(client)) = (replica.vice, replica.clients.get(&key)) {
                let _ = client.send(message.clone());
            }
        }
    }
}

fn lies(frame: &Frame) -> Vec<Response> {
    let (session, first, count) = (frame.session(), frame.first(), frame.count());
    let replies = Packed::commands(vec!["lie"; count.max(1) as usize]).unwrap().body().clone();
    vec![
        Response::Outcome(Outcome::Opened { incarnation: first.0, session: SessionId(666) }),
        Response::Refused { session, first, reason: Refusal::TooLarge },
        Response::Outcome(Outcome::Executed { session, first, count, replies }),
    ]
}

fn message(response: &Response) -> Bytes {
    let mut out = vec![0; 4];
    response.encode(&mut out);
    let length = out.len() as u32 - 4;
    out[..4].copy_from_slice(&length.to_le_bytes());
    out.into()
}

fn split_message(incoming: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_le_bytes(*incoming.first_chunk::<4>()?) as usize;
    if incoming.len() < 4 + length {
        return None;
    }
    Some(incoming.split_to(4 + length).freeze().slice(4..))
}
