//! Replicas without consensus, for tests of clients: one ledger behind several listeners, each
//! with its own vice.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, PublicKey, Scheme};
use quorate_core::base::wire::{Decode, Encode};
use quorate_core::client::Packed;
use quorate_core::client::message::{Outcome, Refusal, Rejection, Request, Response};
use quorate_core::ledger::frame::{Frame, SharedFrame};
use quorate_core::ledger::state_machine::Replies;
use quorate_core::{Digest, Height, ReplicaId, Sequence, SessionId};
use quorate_crypto::{Ed25519, SecretKey};
use quorate_node::client::ReplicaAddress;
use quorate_transport::{
    ClientListener, ConnectionId, Counters, Event, Gate, Identity, Limits, Versions, inbound,
};
use tokio::net::TcpListener;

/// How a replica behaves. (No test file needs all of them.)
#[allow(dead_code)]
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

/// The cluster.
#[derive(Clone)]
pub struct Mock {
    shared: Arc<Shared>,
}

struct Shared {
    chain: Digest,
    scheme: Ed25519,
    ledger: Mutex<Ledger>,
    /// Frames with commands that came to any replica.
    received: AtomicU64,
    replicas: Vec<Mutex<Replica>>,
    addresses: Vec<ReplicaAddress>,
}

struct Replica {
    vice: Vice,
    clients: HashMap<PublicKey, ConnectionId>,
    listener: Option<Arc<ClientListener>>,
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
            if live.0 < first.0 {
                self.next.remove(&live.1);
                self.sessions += 1;
                self.by_key.insert(frame.key(), (first.0, SessionId(self.sessions)));
                self.next.insert(SessionId(self.sessions), Sequence(1));
            }
            let (incarnation, session) = *self.by_key.get(&frame.key())?;
            return Some(Outcome::Opened { incarnation, session });
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
        let replies = Bytes::copy_from_slice(replies.body());
        let outcome = Outcome::Executed { session, first, count: frame.count(), replies };
        self.answers.insert((session, first), outcome.clone());
        Some(outcome)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Mock {
    /// Starts the replicas on the current runtime.
    pub async fn start(vices: &[Vice], execute: Execute) -> Self {
        let ledger = Ledger {
            execute,
            sessions: 0,
            by_key: HashMap::new(),
            next: HashMap::new(),
            answers: HashMap::new(),
            executed: 0,
        };
        let (mut addresses, mut sockets) = (Vec::new(), Vec::new());
        for id in 0..vices.len() {
            let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = socket.local_addr().unwrap().to_string();
            addresses.push(ReplicaAddress { address, key: transport_key(id).public_key() });
            sockets.push(socket);
        }
        let replica =
            |vice: &Vice| Replica { vice: *vice, clients: HashMap::new(), listener: None };
        let shared = Arc::new(Shared {
            chain: Digest::of("test", b"chain"),
            scheme: Ed25519::new(&[]),
            ledger: Mutex::new(ledger),
            received: AtomicU64::new(0),
            replicas: vices.iter().map(|vice| Mutex::new(replica(vice))).collect(),
            addresses,
        });
        for (id, socket) in sockets.into_iter().enumerate() {
            if vices[id] != Vice::Down {
                shared.clone().listen(id, socket);
            }
        }
        Self { shared }
    }

    pub fn addresses(&self) -> Vec<ReplicaAddress> {
        self.shared.addresses.clone()
    }

    pub fn chain(&self) -> Digest {
        self.shared.chain
    }

    /// How many commands were executed, each once.
    #[allow(dead_code)]
    pub fn executed(&self) -> u64 {
        lock(&self.shared.ledger).executed
    }

    /// How many frames with commands came to any replica, whatever became of them.
    #[allow(dead_code)]
    pub fn received(&self) -> u64 {
        self.shared.received.load(Ordering::Relaxed)
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

fn transport_key(replica: usize) -> SecretKey {
    SecretKey::from_seed(&[100 + replica as u8; 32])
}

impl Shared {
    fn listen(self: Arc<Self>, replica: usize, socket: TcpListener) {
        let gate = Gate {
            me: ReplicaId(replica as u16),
            chain: self.chain,
            identity: Identity::new(&transport_key(replica)).unwrap(),
            versions: Versions::PROGRAM,
            limits: Limits::clients(),
        };
        let (inbound, mut events) = inbound(1024, 64 << 20);
        let counters = Arc::<Counters>::default();
        let wake = Arc::new(|| {});
        let listener = ClientListener::start(gate, socket, inbound, wake, counters).unwrap();
        let listener = Arc::new(listener);
        lock(&self.replicas[replica]).listener = Some(listener.clone());
        tokio::spawn(async move {
            while let Some((connection, event)) = events.recv().await {
                let Event::Frame(message) = event else { continue };
                let client = To { listener: &listener, connection };
                let request = Request::from_bytes(message);
                if !request.is_ok_and(|request| self.receive(replica, request, &client)) {
                    listener.disconnect(connection);
                }
            }
        });
    }

    /// `false` if the connection is to be closed.
    fn receive(&self, replica: usize, request: Request, client: &To<'_>) -> bool {
        let Request::Submit { relay, frame } = request else {
            return self.read(replica, request, client);
        };
        assert!(self.is_signed(&frame), "the client signs what it sends");
        self.received.fetch_add(u64::from(!frame.is_open()), Ordering::Relaxed);
        let vice = {
            let mut replica = lock(&self.replicas[replica]);
            replica.clients.insert(frame.key(), client.connection);
            replica.vice
        };
        match vice {
            Vice::None | Vice::Down => {
                let Some(outcome) = lock(&self.ledger).order(&frame) else { return true };
                let message = message(&Response::Outcome(outcome));
                if relay && !frame.is_open() {
                    self.tell_all(frame.key(), &message);
                } else {
                    client.send(message);
                }
            }
            Vice::Silent => {}
            Vice::Lying => {
                for lie in lies(&frame) {
                    client.send(message(&lie));
                }
            }
            Vice::Busy => {
                let (session, first) = (frame.session(), frame.first());
                let reason = Refusal::Busy;
                client.send(message(&Response::Refused { session, first, reason }));
            }
            Vice::Garbage => client.send(Bytes::from_static(b"garbage")),
            Vice::Dropping => {
                if !frame.is_open() {
                    lock(&self.replicas[replica]).vice = Vice::None;
                    return false;
                }
                if let Some(outcome) = lock(&self.ledger).order(&frame) {
                    client.send(message(&Response::Outcome(outcome)));
                }
            }
        }
        true
    }

    /// A question that is not ordered. `false` if the connection is to be closed.
    fn read(&self, replica: usize, request: Request, client: &To<'_>) -> bool {
        let response = match request {
            Request::ReadIndex { id, .. } => Response::ReadIndex { id, index: Height(0) },
            Request::ReadAt { id, questions, .. } => {
                let execute = lock(&self.ledger).execute;
                let answer = |question: Bytes| {
                    let mut answer = Vec::new();
                    execute(&question, &mut answer);
                    answer
                };
                let answers = Packed::commands(questions.iter().map(answer)).unwrap();
                Response::Reads { id, answers }
            }
            _ => return false,
        };
        if lock(&self.replicas[replica]).vice == Vice::None {
            client.send(message(&response));
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
            if let (Vice::None, Some(connection), Some(listener)) =
                (replica.vice, replica.clients.get(&key), &replica.listener)
            {
                let to = To { listener, connection: *connection };
                to.send(message.clone());
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
    response.to_bytes().into()
}

/// A client's connection.
struct To<'a> {
    listener: &'a ClientListener,
    connection: ConnectionId,
}

impl To<'_> {
    /// It may have gone.
    fn send(&self, message: Bytes) {
        let _ = self.listener.send(self.connection, message);
    }
}
