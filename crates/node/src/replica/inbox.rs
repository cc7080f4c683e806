//! The queues of the deciding thread. Other replicas' messages come before clients' frames; every
//! queue is bounded and pushes back.

use std::sync::Arc;
use std::sync::mpsc as channel;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::base::crypto::Verified;
use quorate_core::base::types::Epoch;
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::limits::MAX_PEER_MESSAGE_BYTES;
use quorate_core::replica::reads::Read;
use quorate_core::{Height, ReplicaId};
use quorate_transport::{Arrivals, ConnectionId, Inbound, Room, inbound};

use super::doorbell::Doorbell;

/// Messages of peers that may wait.
pub const PEER_MESSAGES: usize = 256;
/// Their bytes, and those of the messages that are at work: four of the longest.
pub const PEER_BYTES: u32 = 4 * MAX_PEER_MESSAGE_BYTES as u32;
/// So many bytes of messages and pending commands are little to do.
pub const LITTLE_BYTES: usize = 16 << 10;
/// Batches of client frames that may wait.
pub const CLIENT_BATCHES: usize = 32;
/// Answers of pool and archive that may wait: what they were asked is bounded, so these are.
pub const ANSWERS: usize = 4096;

/// From this replica's own threads.
#[derive(Debug)]
pub enum Answer {
    /// Verdicts of the verifier.
    Verdicts {
        /// Which ask.
        ask: u64,
        /// One a check.
        verdicts: Vec<bool>,
    },
    /// The joint signature of the verifier.
    Combined {
        /// Which ask.
        ask: u64,
        /// The signature, if the scheme could make one.
        signature: Option<quorate_core::base::crypto::Signature>,
    },
    /// A snapshot is on disk.
    SnapshotWritten(Height),
    /// An offer of the snapshot at this height is on disk: the log may be cut below.
    OfferKept(Height),
    /// Stop in an orderly way.
    Stop,
    /// Stop: something that must not fail did.
    Fail(String),
    /// Stop: the application broke its contract.
    Unfit(String),
    /// Stop: one of this replica's threads panicked.
    Panicked(String),
}

/// A question of a client.
#[derive(Debug)]
pub struct Question {
    /// Where it came from.
    pub connection: ConnectionId,
    /// The client's number for it.
    pub id: u64,
    /// What the application is asked.
    pub bytes: Bytes,
    /// How many questions that is, packed, where they are to be answered from one state.
    pub packed: Option<usize>,
}

/// What a client asks [`Queries`](super::queries::Queries).
#[derive(Debug)]
pub enum Asked {
    /// The application, about its state as it is.
    Now(Question),
    /// The application, about a state that an index covers.
    At(Read<ConnectionId>),
    /// This replica, for its part of a read index.
    Index {
        /// Where the question came from.
        connection: ConnectionId,
        /// The client's number for it.
        id: u64,
        /// The epoch that it is asked for.
        epoch: Epoch,
    },
}

/// A client's doing, looked over.
#[derive(Debug)]
pub enum FromClient {
    /// A frame whose signature holds.
    Frame {
        /// Where it came from.
        connection: ConnectionId,
        /// The frame.
        frame: Verified<SharedFrame>,
        /// The client sent it here alone.
        relay: bool,
        /// When it was read.
        arrived: Instant,
    },
    /// A question to the application, or for a read index.
    Query(Asked),
    /// A question whose answer is to be proven.
    Prove(Question),
    /// A question for the newest certified block.
    Newest {
        /// Where it came from.
        connection: ConnectionId,
        /// The client's number for it.
        id: u64,
    },
    /// A question for what the program of this replica is.
    Program {
        /// Where it came from.
        connection: ConnectionId,
        /// The client's number for it.
        id: u64,
    },
    /// A change whose approvals hold: is this replica ready for it?
    Ready(Question),
    /// The connection is gone.
    Closed(ConnectionId),
}

/// What clients did that was looked over together.
#[derive(Debug)]
pub struct Batch {
    /// Each, in the order in which it came.
    pub doings: Vec<FromClient>,
    /// What their frames take of the bytes that may wait.
    pub room: Room,
}

impl Batch {
    /// Whether it is soon dealt with.
    #[must_use]
    pub fn is_little(&self) -> bool {
        self.room.bytes() <= LITTLE_BYTES
    }
}

/// The receiving ends.
pub struct Inbox {
    /// Peers' messages, undecoded.
    pub peers: Arrivals<(ReplicaId, Bytes)>,
    /// Answers.
    pub answers: channel::Receiver<Answer>,
    /// Batches of clients' doings.
    pub clients: channel::Receiver<Batch>,
    /// The bell that goes with them.
    pub bell: Arc<Doorbell>,
}

/// The sending ends.
#[derive(Clone)]
pub struct Outside {
    /// For answers.
    pub answers: channel::SyncSender<Answer>,
    /// For clients' doings.
    pub clients: channel::SyncSender<Batch>,
    /// The bell to ring.
    pub bell: Arc<Doorbell>,
}

impl Outside {
    /// Hands an answer over. `false` if nobody listens any more.
    pub fn answer(&self, answer: Answer) -> bool {
        let sent = self.answers.send(answer).is_ok();
        self.bell.ring();
        sent
    }

    /// `run`, after whose panic the replica stops: without one of its threads it would go on as
    /// if it were well, and never answer.
    pub fn guard<F: FnOnce()>(&self, name: &'static str, run: F) -> impl FnOnce() + use<F> {
        let guard = Guard { outside: self.clone(), name };
        move || {
            let _guard = guard;
            run();
        }
    }
}

struct Guard {
    outside: Outside,
    name: &'static str,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let reason = format!("the {} thread panicked; see above", self.name);
            self.outside.answer(Answer::Panicked(reason));
        }
    }
}

/// Makes the queues. The sender is for the transport, the rest for this replica's threads.
#[must_use]
pub fn inbox() -> (Inbound<(ReplicaId, Bytes)>, Outside, Inbox) {
    let (peer_sender, peers) = inbound(PEER_MESSAGES, PEER_BYTES);
    let (answer_sender, answers) = channel::sync_channel(ANSWERS);
    let (client_sender, clients) = channel::sync_channel(CLIENT_BATCHES);
    let bell = Arc::new(Doorbell::default());
    let outside =
        Outside { answers: answer_sender, clients: client_sender, bell: Arc::clone(&bell) };
    (peer_sender, outside, Inbox { peers, answers, clients, bell })
}
