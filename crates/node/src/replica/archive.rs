//! What is read from and written to disk beside the log: blocks for peers and executors, snapshots
//! and checkpoints.
//!
//! One thread serves the peers, so that one that catches up takes no time of the deciding one; what
//! a peer asks for again is [paced](pace). Another one, which gives way to all others, serves the
//! executors ([`Puller`]).

mod pace;
mod pull;
mod transfer;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::wire::Encode;
use quorate_core::client::message::{Response, Unproven};
use quorate_core::ledger::execution::SnapshotHandle;
use quorate_core::ledger::state_machine::Checkpoint;
use quorate_core::protocols::protocol::{FullBlockOf, Types};
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::{Offer, PeerMessage};
use quorate_core::{Height, ReplicaId, planted};
use quorate_journal::{BlockIndex, States, StatesError, Written};
use quorate_transport::{ClientListener, ConnectionId};

use super::inbox::{Answer, Outside};
use super::links::Links;
use super::metrics::Metrics;
use pace::Paced;
pub use pull::{Pull, Puller};
use transfer::{Checkpoints, Transfers};

/// Tasks that may wait: more than askers can have, so that what is to be written finds room.
const TASKS: usize = 1024;
/// Clients' tasks that may wait, one each; beyond, the newest is dropped, and asked for again.
const PULLS: usize = 16;

/// How often it is seen to what peers have stopped asking for, ...
const SWEEP: Duration = Duration::from_secs(2);
/// ... and where there is nothing.
const FOR_EVER: Duration = Duration::from_secs(1 << 20);

/// Something to read or write.
pub enum Task<T: Types> {
    /// Committed blocks for a peer.
    Chain {
        /// To whom.
        to: ReplicaId,
        /// Above this height ...
        above: Height,
        /// ... up to this one.
        through: Height,
        /// About so many bytes.
        budget_bytes: u32,
        /// If all of that fits: these as well.
        tail: Vec<FullBlockOf<T>>,
    },
    /// A snapshot's chunk for a peer.
    Chunk {
        /// To whom.
        to: ReplicaId,
        /// Which snapshot.
        height: Height,
        /// Which chunk.
        chunk: u32,
    },
    /// A snapshot to write, or a checkpoint to finish.
    Snapshot(Box<SnapshotMeta<T>>, Box<SnapshotHandle>),
    /// What a client asks about the newest snapshot.
    Backup(Backup),
    /// An offer to keep: replicas that are behind can be helped with its snapshot from now on.
    Offer(Box<Offer<T>>),
    /// Nothing follows.
    End,
}

/// A client's question about the newest snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Backup {
    /// Whose.
    pub connection: ConnectionId,
    /// The client's number of it.
    pub id: u64,
    /// The snapshot and the chunk wanted; `None`: which snapshot there is.
    pub chunk: Option<(Height, u32)>,
}

/// The way to the threads of the archive.
pub struct Archive<T: Types> {
    tasks: SyncSender<Task<T>>,
    pulls: SyncSender<Pull>,
    busy: Busy,
}

/// Those with a task under way: one each, so that none can keep this replica busy.
#[derive(Clone, Default)]
pub struct Busy(Arc<Mutex<BTreeSet<Asker>>>);

/// Who asked for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asker {
    /// A peer.
    Peer(ReplicaId),
    /// A client.
    Client(ConnectionId),
}

impl<T: Types> Task<T> {
    /// Who asked for it.
    fn asker(&self) -> Option<Asker> {
        match self {
            Self::Chain { to, .. } | Self::Chunk { to, .. } => Some(Asker::Peer(*to)),
            Self::Backup(backup) => Some(Asker::Client(backup.connection)),
            Self::Snapshot(..) | Self::Offer(_) | Self::End => None,
        }
    }
}

/// What the archive's thread works with.
pub struct Shelf {
    /// Where blocks are.
    pub index: Arc<BlockIndex>,
    /// Where snapshots are.
    pub states: States,
    /// The way to peers.
    pub links: Links,
    /// The way to clients.
    pub listener: Arc<ClientListener>,
    /// The way back.
    pub outside: Outside,
    /// No peer takes over a larger snapshot.
    pub max_snapshot_bytes: u64,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

impl<T: Types> Clone for Archive<T> {
    fn clone(&self) -> Self {
        Self { tasks: self.tasks.clone(), pulls: self.pulls.clone(), busy: self.busy.clone() }
    }
}

impl<T: Types> Archive<T> {
    /// A way in, and the ends for the two threads.
    #[must_use]
    pub fn new() -> (Self, Receiver<Task<T>>, Receiver<Pull>) {
        let (tasks, queue) = sync_channel(TASKS);
        let (pulls, pull_queue) = sync_channel(PULLS);
        (Self { tasks, pulls, busy: Busy::default() }, queue, pull_queue)
    }

    /// Who has a task under way.
    #[must_use]
    pub fn busy(&self) -> Busy {
        self.busy.clone()
    }

    /// Hands a peer's task over, or a client's question about snapshots. One too many is dropped,
    /// which is told: they ask again.
    pub fn ask(&self, task: Task<T>) -> bool {
        let Some(asker) = task.asker() else { return false };
        let mut busy = self.busy.askers();
        let taken = has_room_for(&busy, asker) && self.tasks.try_send(task).is_ok();
        taken && busy.insert(asker)
    }

    /// Hands an executor's question over. One too many, of its connection or of all, is dropped:
    /// clients ask again.
    pub fn pull(&self, pull: Pull) {
        let asker = Asker::Client(pull.connection);
        let mut busy = self.busy.askers();
        if has_room_for(&busy, asker) && self.pulls.try_send(pull).is_ok() {
            busy.insert(asker);
        }
    }

    /// Hands over what is to be written, and must not be dropped.
    pub fn write(&self, task: Task<T>) {
        // Without a thread there the replica is about to stop.
        let _ = self.tasks.send(task);
    }
}

/// Whether one more of `asker` may be under way.
fn has_room_for(busy: &BTreeSet<Asker>, asker: Asker) -> bool {
    let is_client = |asker: &Asker| matches!(asker, Asker::Client(_));
    let clients = busy.iter().filter(|asker| is_client(asker)).count();
    let is_full = is_client(&asker) && clients >= PULLS;
    !is_full && !busy.contains(&asker)
}

impl Busy {
    /// The task of `asker` is done. Told before the answer leaves: the next question may follow it
    /// at once.
    fn done(&self, asker: Asker) {
        if planted!("askers-busy-for-ever", false, true) {
            self.askers().remove(&asker);
        }
    }

    fn askers(&self) -> MutexGuard<'_, BTreeSet<Asker>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Works until nothing follows. `checkpoint` is the one that the state was recovered from, if
    /// it was one.
    pub fn run<T: Types>(
        &self,
        busy: &Busy,
        queue: &Receiver<Task<T>>,
        checkpoint: Option<(Height, Box<dyn Checkpoint>)>,
    ) {
        let mut transfers = Transfers::new(self.max_snapshot_bytes);
        let mut checkpoints = Checkpoints::new(checkpoint);
        let mut paced = Paced::default();
        loop {
            let now = Instant::now();
            if let Some((asker, task)) = paced.due(now) {
                let sent = self.serve(busy, &task, (&mut transfers, &checkpoints));
                paced.served(asker, &task, sent, now);
                continue;
            }
            let sweep = if transfers.is_empty() { FOR_EVER } else { SWEEP };
            let task = match queue.recv_timeout(paced.wait(now).unwrap_or(sweep).min(sweep)) {
                Ok(task) => task,
                Err(RecvTimeoutError::Timeout) => {
                    transfers.sweep();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let answer = match task {
                Task::End => return,
                Task::Chain { .. } | Task::Chunk { .. } | Task::Backup(_) => {
                    paced.add(task, now);
                    continue;
                }
                Task::Snapshot(meta, handle) => {
                    let height = meta.block.height();
                    checkpoints.will_change();
                    match self.states.write(&meta, *handle) {
                        Ok(Written { whole_bytes, checkpoint }) => {
                            self.metrics.snapshot_bytes.set(whole_bytes.unwrap_or_default());
                            checkpoints.finished(height, checkpoint);
                            Answer::SnapshotWritten(height)
                        }
                        Err(error @ StatesError::Chunk { .. }) => Answer::Unfit(error.to_string()),
                        Err(error) => Answer::Fail(format!("snapshot at height {height}: {error}")),
                    }
                }
                Task::Offer(offer) => {
                    let height = offer.block.height();
                    match self.states.keep_offer(&offer) {
                        Ok(()) => {
                            checkpoints.offered(height);
                            Answer::OfferKept(height)
                        }
                        Err(error) => Answer::Fail(format!("offer at height {height}: {error}")),
                    }
                }
            };
            if !self.outside.answer(answer) {
                return;
            }
        }
    }

    /// Answers a peer, or a client. How many bytes it is sent, and in how many blocks.
    fn serve<T: Types>(
        &self,
        busy: &Busy,
        task: &Task<T>,
        (transfers, checkpoints): (&mut Transfers, &Checkpoints),
    ) -> (usize, usize) {
        let mut blocks = 0;
        let (to, kind, message) = match task {
            Task::Chain { to, above, through, budget_bytes, tail } => {
                let found = self.index.chain(*above, *through, *budget_bytes, tail);
                blocks = found.len();
                (*to, "chain", (blocks > 0).then(|| chain_message::<T>(&found)))
            }
            Task::Chunk { to, height, chunk } => {
                let (height, chunk) = (*height, *chunk);
                let found = transfers.chunk(&self.states, checkpoints, height, chunk);
                let message = found.map(|(bytes, last)| {
                    PeerMessage::<T>::Chunk { height, chunk, last, bytes }.to_bytes()
                });
                (*to, "chunk", message)
            }
            Task::Backup(backup) => {
                let response =
                    told::<T>(*backup, &self.states, (transfers, checkpoints)).to_bytes();
                busy.done(Asker::Client(backup.connection));
                let bytes = response.len();
                // The client may be gone.
                let _ = self.listener.send(backup.connection, response.into());
                return (bytes, 0);
            }
            Task::Snapshot(..) | Task::Offer(_) | Task::End => return (0, 0),
        };
        busy.done(Asker::Peer(to));
        let bytes = message.as_ref().map_or(0, Vec::len);
        if let Some(message) = message {
            self.metrics.sent(kind, message.len());
            self.links.send(to, message.into());
        }
        (bytes, blocks)
    }
}

/// What a client is told about the newest snapshot. Whoever asks for one that is gone gets the
/// offer of the one that took its place.
fn told<T: Types>(
    Backup { id, chunk, .. }: Backup,
    states: &States,
    (transfers, checkpoints): (&mut Transfers, &Checkpoints),
) -> Response {
    let offer = |offer: Option<Offer<T>>| Response::Offer {
        id,
        offer: offer.map(|offer| offer.to_bytes().into()).unwrap_or_default(),
    };
    let Some((height, chunk)) = chunk else { return offer(states.offer()) };
    if let Some((bytes, last)) = transfers.chunk(states, checkpoints, height, chunk) {
        return Response::Chunk { id, last, bytes };
    }
    let is_other = |offer: &Offer<T>| offer.block.height() != height;
    match states.offer().filter(is_other) {
        Some(other) if !transfers.sends(height) => offer(Some(other)),
        _ => Response::Unproven { id, reason: Unproven::Unavailable },
    }
}

/// A chain message, put together from blocks that are encoded already.
fn chain_message<T: Types>(blocks: &[Bytes]) -> Vec<u8> {
    let head = PeerMessage::<T>::Chain(Vec::new()).to_bytes();
    let mut message = vec![head[0]];
    (blocks.len() as u32).encode(&mut message);
    for block in blocks {
        message.extend_from_slice(block);
    }
    message
}
