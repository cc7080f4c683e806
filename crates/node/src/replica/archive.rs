//! What is read from and written to disk beside the log: blocks for peers and executors, snapshots and checkpoints.
//! One thread, so that a peer that catches up takes no time of the deciding one.

mod transfer;

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use quorate_core::base::wire::Encode;
use quorate_core::client::message::{MAX_REPLY_BYTES, Response};
use quorate_core::ledger::execution::SnapshotHandle;
use quorate_core::ledger::state_machine::Checkpoint;
use quorate_core::protocols::protocol::{FullBlockOf, Types};
use quorate_core::replica::SnapshotMeta;
use quorate_core::replica::message::{MAX_BLOCKS_SENT, Offer, PeerMessage};
use quorate_core::{Height, ReplicaId, planted};
use quorate_journal::{BlockIndex, States};
use quorate_transport::{ClientListener, ConnectionId};

use super::inbox::{Answer, Outside};
use super::links::Links;
use super::metrics::Metrics;
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
    /// An offer to keep: replicas that are behind can be helped with its snapshot from now on.
    Offer(Box<Offer<T>>),
    /// Decided blocks for an executor.
    Pull {
        /// To whom.
        connection: ConnectionId,
        /// From which height on.
        from: Height,
        /// About so many bytes.
        budget_bytes: u32,
    },
    /// Nothing follows.
    End,
}

/// The way to the archive's thread.
pub struct Archive<T: Types> {
    tasks: SyncSender<Task<T>>,
    /// Those with a task under way: one each, so that none can keep this replica busy.
    busy: Arc<Mutex<BTreeSet<Asker>>>,
}

/// Who asked for something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Asker {
    Peer(ReplicaId),
    Client(ConnectionId),
}

impl<T: Types> Task<T> {
    fn asker(&self) -> Option<Asker> {
        match self {
            Self::Chain { to, .. } | Self::Chunk { to, .. } => Some(Asker::Peer(*to)),
            Self::Pull { connection, .. } => Some(Asker::Client(*connection)),
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
        Self { tasks: self.tasks.clone(), busy: Arc::clone(&self.busy) }
    }
}

impl<T: Types> Archive<T> {
    /// A way in, and the end for the thread.
    #[must_use]
    pub fn new() -> (Self, Receiver<Task<T>>) {
        let (tasks, queue) = sync_channel(TASKS);
        (Self { tasks, busy: Arc::default() }, queue)
    }

    /// Hands a task over. One too many of its asker, or of all clients, is dropped: peers and
    /// clients ask again.
    pub fn ask(&self, task: Task<T>) {
        let Some(asker) = task.asker() else { return };
        let mut busy = self.busy();
        let pulls = || busy.iter().filter(|asker| matches!(asker, Asker::Client(_))).count();
        if busy.contains(&asker) || matches!(asker, Asker::Client(_)) && pulls() >= PULLS {
            return;
        }
        if self.tasks.try_send(task).is_ok() {
            busy.insert(asker);
        }
    }

    /// Hands over what is to be written, and must not be dropped.
    pub fn write(&self, task: Task<T>) {
        // Without a thread there the replica is about to stop.
        let _ = self.tasks.send(task);
    }

    /// The task of `asker` is done. Told before the answer leaves: the next question may follow it
    /// at once.
    fn done(&self, asker: Asker) {
        if planted!("askers-busy-for-ever", false, true) {
            self.busy().remove(&asker);
        }
    }

    fn busy(&self) -> std::sync::MutexGuard<'_, BTreeSet<Asker>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shelf {
    /// Works until nothing follows. `checkpoint` is the one that the state was recovered from, if it was one.
    pub fn run<T: Types>(
        &self,
        archive: &Archive<T>,
        queue: &Receiver<Task<T>>,
        checkpoint: Option<(Height, Box<dyn Checkpoint>)>,
    ) {
        let mut transfers = Transfers::new(self.max_snapshot_bytes);
        let mut checkpoints = Checkpoints::new(checkpoint);
        loop {
            let task = match queue.recv_timeout(if transfers.is_empty() { FOR_EVER } else { SWEEP })
            {
                Ok(task) => task,
                Err(RecvTimeoutError::Timeout) => {
                    transfers.sweep();
                    continue;
                }
                Err(RecvTimeoutError::Disconnected) => return,
            };
            match task {
                Task::End => return,
                Task::Chain { to, above, through, budget_bytes, tail } => {
                    let message = self.chain::<T>(above, through, budget_bytes, &tail);
                    archive.done(Asker::Peer(to));
                    self.send("chain", to, message);
                }
                Task::Chunk { to, height, chunk } => {
                    let found = transfers.chunk(&self.states, &checkpoints, height, chunk);
                    let message = found.map(|(bytes, last)| {
                        PeerMessage::<T>::Chunk { height, chunk, last, bytes }.to_bytes()
                    });
                    archive.done(Asker::Peer(to));
                    self.send("chunk", to, message);
                }
                Task::Pull { connection, from, budget_bytes } => {
                    let response = self.pulled::<T>(from, budget_bytes);
                    archive.done(Asker::Client(connection));
                    // The executor may be gone; it asks again elsewhere.
                    let _ = self.listener.send(connection, response.to_bytes().into());
                }
                Task::Snapshot(meta, handle) => {
                    let height = meta.block.height();
                    checkpoints.will_change();
                    let answer = match self.states.write(&meta, *handle) {
                        Ok(checkpoint) => {
                            checkpoints.finished(height, checkpoint);
                            Answer::SnapshotWritten(height)
                        }
                        Err(error) => Answer::Fail(format!("snapshot at height {height}: {error}")),
                    };
                    if !self.outside.answer(answer) {
                        return;
                    }
                }
                Task::Offer(offer) => {
                    let height = offer.block.height();
                    let answer = match self.states.keep_offer(&offer) {
                        Ok(()) => {
                            checkpoints.offered(height);
                            Answer::OfferKept(height)
                        }
                        Err(error) => Answer::Fail(format!("offer at height {height}: {error}")),
                    };
                    if !self.outside.answer(answer) {
                        return;
                    }
                }
            }
        }
    }

    fn send(&self, kind: &'static str, to: ReplicaId, message: Option<Vec<u8>>) {
        if let Some(message) = message {
            self.metrics.sent(kind, message.len());
            self.links.send(to, message.into());
        }
    }

    fn chain<T: Types>(
        &self,
        above: Height,
        through: Height,
        budget_bytes: u32,
        tail: &[FullBlockOf<T>],
    ) -> Option<Vec<u8>> {
        let blocks = self.index.chain(above, through, budget_bytes, tail);
        if blocks.is_empty() {
            return None;
        }
        // A chain message, put together from blocks that are encoded already.
        let head = PeerMessage::<T>::Chain(Vec::new()).to_bytes();
        let mut message = vec![head[0]];
        (blocks.len() as u32).encode(&mut message);
        for block in &blocks {
            message.extend_from_slice(block);
        }
        Some(message)
    }

    fn pulled<T: Types>(&self, from: Height, budget_bytes: u32) -> Response {
        let from = from.max(self.index.first());
        let budget = (budget_bytes as usize).min(MAX_REPLY_BYTES / 2);
        let mut blocks = Vec::new();
        let mut bytes = 0;
        let mut height = from;
        while let Some(block) = self.index.read(height) {
            bytes += block.len();
            if !blocks.is_empty() && bytes > budget || blocks.len() >= MAX_BLOCKS_SENT {
                break;
            }
            blocks.push(block);
            height = height.next();
        }
        if bytes <= budget && blocks.len() < MAX_BLOCKS_SENT {
            // Up to the head: what proves it goes along. An idle cluster would never send it.
            for (above, block) in self.index.tail::<T::Content>() {
                bytes += block.len();
                if above == height && bytes <= MAX_REPLY_BYTES {
                    blocks.push(block);
                    height = height.next();
                }
            }
        }
        Response::Blocks { from, blocks }
    }
}
