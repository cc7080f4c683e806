//! The life of one replica: a protocol, and what surrounds it whatever the protocol is.
//!
//! - commands come in as signed frames, wait in the [mempool](crate::mempool), and are executed
//!   behind the [session table](crate::sessions) once committed;
//! - a block carries the identities of its frames: before the protocol sees a proposal, the
//!   bodies are at hand ([`arrivals`]);
//! - missing blocks are fetched, or a snapshot taken over ([`catch_up`]);
//! - a replica that lost its data comes back without lying ([`rejoin`]).
//!
//! All of it is pure. [`drive`] is the loop that production, the simulator and tests share: step,
//! persist, release, execute.

pub mod arrivals;
pub mod catch_up;
pub mod drive;
mod execute;
mod known;
pub mod message;
mod peers;
pub mod rejoin;
mod verify;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::block::{BlockId, SharedBlock};
use crate::certificate::{Domain, Malformed};
use crate::client::message::{Refusal, Response};
use crate::crypto::{Check, PublicKey, Signature, Statement, Verified};
use crate::execution::{Execution, ExecutionError, SnapshotHandle};
use crate::frame::{FrameId, SharedFrame};
use crate::mempool::{self, Admission, Mempool, Origin};
use crate::protocol::{self, Effects, Event, Ledger, Output, Protocol, Recovered, Safety};
use crate::state_machine::StateMachine;
use crate::types::{Digest, Duration, Height, ReplicaId, Time, View};
use arrivals::Arrivals;
use catch_up::CatchUp;
use known::KnownSignatures;
use message::{FullBlock, Offer, PeerMessage};
use rejoin::Rejoin;
use verify::{Asked, Pending};

/// What a replica is told at its making.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Its id.
    pub me: ReplicaId,
    /// Most commands in a block (a single frame may have more).
    pub batch_commands: usize,
    /// Most encoded bytes of frames in a block (a single frame may have more).
    pub batch_bytes: usize,
    /// The bodies of a proposal's frames travel with it up to this many bytes; larger ones are
    /// expected to have come from the client and are asked for if they did not.
    pub inline_bytes: usize,
    /// A frame that came from a client and is in no block after this long is passed on to the
    /// other replicas.
    pub relay_after: Duration,
    /// Blocks from one snapshot to the next.
    pub snapshot_blocks: u64,
    /// The bounds of the mempool.
    pub mempool: mempool::Limits,
}

/// What a replica is told.
#[derive(Clone, Debug)]
pub enum Input<M> {
    /// First of all: what survived the last run.
    Start(Box<Recovery>),
    /// First of all, for a replica that lost its data: a nonce never used before.
    Rejoin(Digest),
    /// A peer's message.
    Peer {
        /// The peer, known by its channel.
        from: ReplicaId,
        /// The message.
        message: PeerMessage<M>,
    },
    /// Frames of clients, whose signatures hold.
    Frames(Vec<Submitted>),
    /// The deadline has passed.
    Timeout,
    /// The verdicts on an [`Action::Verify`].
    Checked {
        /// Which one.
        ask: u64,
        /// One verdict a check, in order.
        verdicts: Vec<bool>,
    },
    /// The signature of an [`Action::Sign`].
    Signed {
        /// What was signed.
        statement: Statement,
        /// The signature.
        signature: Signature,
    },
    /// A channel to a peer has just opened.
    Connected(ReplicaId),
    /// The snapshot at this height is on disk.
    SnapshotWritten(Height),
    /// The log holds no committed block below this height any more.
    LogBegins(Height),
    /// The log grows large: take a snapshot now.
    TakeSnapshot,
}

/// A client's frame on its way in.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The frame.
    pub frame: Verified<SharedFrame>,
    /// The client sent it here alone.
    pub relay: bool,
}

/// What survived the last run. The state of `snapshot` is already in the replica's [`Execution`].
#[derive(Clone, Debug)]
pub struct Recovery {
    /// The safety record; `None` only for a replica that never ran.
    pub safety: Option<Safety>,
    /// The newest snapshot, if there is one.
    pub snapshot: Option<SnapshotMeta>,
    /// The newest [offer](Action::Offered), whose snapshot may be an older one.
    pub offer: Option<Offer>,
    /// The recorded blocks, in the order they were recorded.
    pub blocks: Vec<FullBlock>,
}

/// What is kept beside a snapshot's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta {
    /// The block whose state it is.
    pub block: SharedBlock,
    /// What the chain up to that block commits by itself.
    pub committed: Height,
    /// The committed blocks right below it, oldest first.
    pub recent: Vec<SharedBlock>,
    /// The roots of the states up to and including this one, the latest last.
    pub roots: Vec<Digest>,
}

/// Something that must be durable before what rests on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block with its frames.
    Block(FullBlock),
    /// The safety record as it is now.
    Safety(Arc<Safety>),
}

/// What a replica wants done, once its records are durable.
#[derive(Debug)]
pub enum Action<M> {
    /// Send to one replica.
    Send {
        /// To whom.
        to: ReplicaId,
        /// What.
        message: PeerMessage<M>,
    },
    /// Send to every other replica.
    Broadcast(PeerMessage<M>),
    /// Sign and answer with [`Input::Signed`].
    Sign(Statement),
    /// Verify as one batch and answer with [`Input::Checked`].
    Verify {
        /// Names the request.
        ask: u64,
        /// The signatures.
        checks: Vec<Check>,
    },
    /// Tell a client.
    Respond {
        /// The client.
        client: PublicKey,
        /// What.
        response: Response,
    },
    /// These blocks are committed: from now on they can be asked for by height.
    Committed(Vec<SharedBlock>),
    /// A block was executed.
    Executed {
        /// How many commands, retries not counted.
        commands: u64,
    },
    /// Send committed blocks to a peer, from the log.
    ServeChain {
        /// To whom.
        to: ReplicaId,
        /// From the height above this one ...
        above: Height,
        /// ... up to this one.
        through: Height,
        /// About this many bytes.
        budget_bytes: u32,
        /// If all of that fits: these too.
        tail: Vec<FullBlock>,
    },
    /// Send a chunk of a snapshot to a peer.
    ServeChunk {
        /// To whom.
        to: ReplicaId,
        /// Which snapshot.
        height: Height,
        /// Which chunk.
        chunk: u32,
    },
    /// Write this snapshot out while the replica goes on; then [`Input::SnapshotWritten`].
    WriteSnapshot(Box<SnapshotMeta>, SnapshotHandle),
    /// The snapshot of this offer is attested and on disk: replicas that are behind can be helped
    /// with it. Keep the offer beside it, for [`Recovery::offer`]. Only now may older snapshots go,
    /// and blocks at or below its height.
    Offered(Box<Offer>),
    /// For logs, metrics and transcripts.
    Event(Event),
    /// A peer's message was refused.
    Refused {
        /// The peer.
        from: ReplicaId,
        /// Why.
        reason: Refused,
    },
    /// This replica must stop: going on could do harm.
    Halt(Halt),
}

/// Why a peer's message was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Refused {
    /// Before any signature was looked at.
    Malformed(Malformed),
    /// A signature does not hold.
    BadSignature,
    /// Nobody asked for it.
    Unasked,
    /// It does not fit what was asked for, or the cluster's limits.
    Unfit,
    /// Too many of the sender's messages wait for their verification.
    Flood,
}

/// Why a replica must stop.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Halt {
    /// A quorum computed another state.
    #[error(
        "safety: the committed block {block} at height {height} carries state root {theirs}, and this \
         replica computed none like it; its state is wrong or its application is not deterministic. \
         Keep the data folder as evidence and rejoin with an empty one"
    )]
    StateRoot {
        /// The block's height.
        height: Height,
        /// The block.
        block: BlockId,
        /// Its root.
        theirs: Digest,
    },
    /// A committed block cannot be executed.
    #[error(transparent)]
    Execution(ExecutionError),
    /// A committed block's frames are not here.
    #[error("the frames of the committed block {0} are missing; this is a bug")]
    MissingFrames(BlockId),
}

type Fx<M> = Effects<Action<M>, Record>;

/// One replica.
pub struct Replica<P: Protocol, S> {
    settings: Settings,
    domain: Domain,
    protocol: P,
    mempool: Mempool,
    execution: Execution<S>,
    /// Makes the application anew, for a snapshot to be restored into.
    fresh: Box<dyn Fn() -> S + Send>,
    /// The frames of the blocks that the protocol holds.
    bodies: BTreeMap<BlockId, Vec<SharedFrame>>,
    arrivals: Arrivals<P::Message>,
    catch_up: CatchUp,
    rejoin: Option<Rejoin>,
    known: KnownSignatures,
    /// What waits for verdicts, by the number of the ask.
    pending: BTreeMap<u64, Asked<P::Message>>,
    /// Asks that turned out to need no verdict.
    ready: VecDeque<u64>,
    pending_of: Vec<usize>,
    next_ask: u64,
    to_execute: VecDeque<SharedBlock>,
    /// The height of the state whose root the last executed block carries, if it was found.
    root_shown: Height,
    /// The height of the last snapshot begun.
    snapshot_at: Height,
    /// The newest snapshot, which may still be on its way to the disk.
    snapshot: Option<SnapshotMeta>,
    /// The height of the newest snapshot on disk.
    snapshot_written: Height,
    /// The committed block that carries the newest snapshot's root; its child certifies it.
    attesting: Option<SharedBlock>,
    /// The newest snapshot that a certified block attests, before it is on disk.
    attested: Option<Offer>,
    /// The one that is offered to peers.
    offer: Option<Offer>,
    /// Testimonies being signed: to whom, for which nonce, of which view.
    testimonies: BTreeMap<Statement, (ReplicaId, Digest, View)>,
    log_begins: Height,
    halted: bool,
}

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// A replica before its [`Input::Start`] (or [`Input::Rejoin`]).
    ///
    /// `execution` holds the state of the newest snapshot, or the state behind genesis; `fresh`
    /// makes an application in its first state.
    #[must_use]
    pub fn new(
        settings: Settings,
        domain: Domain,
        protocol: P,
        execution: Execution<S>,
        fresh: Box<dyn Fn() -> S + Send>,
    ) -> Self {
        let peers = domain.committee().size();
        Self {
            mempool: Mempool::new(settings.mempool),
            arrivals: Arrivals::new(settings.me, peers),
            settings,
            domain,
            protocol,
            execution,
            fresh,
            bodies: BTreeMap::new(),
            catch_up: CatchUp::default(),
            rejoin: None,
            known: KnownSignatures::default(),
            pending: BTreeMap::new(),
            ready: VecDeque::new(),
            pending_of: vec![0; peers],
            next_ask: 0,
            to_execute: VecDeque::new(),
            root_shown: Height(0),
            snapshot_at: Height(0),
            snapshot: None,
            snapshot_written: Height(0),
            attesting: None,
            attested: None,
            offer: None,
            testimonies: BTreeMap::new(),
            log_begins: Height(0),
            halted: false,
        }
    }

    /// The protocol, for status and transcripts.
    #[must_use]
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The replicated state, for status and checkers.
    #[must_use]
    pub fn execution(&self) -> &Execution<S> {
        &self.execution
    }

    /// The frames that wait, for status and checkers.
    #[must_use]
    pub fn mempool(&self) -> &Mempool {
        &self.mempool
    }

    /// Of how many blocks the frames are held, for status and checkers.
    #[must_use]
    pub fn held_blocks(&self) -> usize {
        self.bodies.len()
    }

    /// Whether this replica waits for testimonies, having lost its data.
    #[must_use]
    pub fn is_rejoining(&self) -> bool {
        self.rejoin.is_some()
    }

    /// The earliest timer, if one is running.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if self.halted {
            return None;
        }
        if let Some(rejoin) = &self.rejoin {
            return Some(rejoin.deadline());
        }
        let relay = self.mempool.oldest_unrelayed().map(|t| t.after(self.settings.relay_after));
        let own = [self.protocol.deadline(), self.catch_up.deadline(), self.arrivals.deadline()];
        own.into_iter().chain([relay]).flatten().min()
    }

    /// Takes one input. Nothing of what it leads to leaves before it is durable.
    pub fn step(&mut self, now: Time, input: Input<P::Message>) -> Fx<P::Message> {
        let mut fx = Fx::default();
        if self.halted {
            return fx;
        }
        match input {
            Input::Frames(frames) if self.rejoin.is_some() => {
                for Submitted { frame, .. } in frames {
                    let response = refusal(&frame, Refusal::Unavailable);
                    fx.output(Action::Respond { client: frame.key(), response });
                }
            }
            Input::Start(recovery) => self.start(now, *recovery, &mut fx),
            Input::Rejoin(nonce) => self.begin_rejoin(now, nonce, &mut fx),
            Input::Peer { from, message } => self.on_peer(now, from, message, &mut fx),
            Input::Frames(frames) => self.on_frames(now, frames, &mut fx),
            Input::Timeout => self.on_timeout(now, &mut fx),
            Input::Checked { ask, verdicts } => self.on_checked(now, ask, &verdicts, &mut fx),
            Input::Signed { statement, signature } => {
                self.on_signed(now, statement, signature, &mut fx);
            }
            Input::Connected(peer) => {
                if self.rejoin.is_none() {
                    self.consult(now, protocol::Input::Connected(peer), &mut fx);
                }
            }
            Input::SnapshotWritten(height) => self.on_snapshot_written(height, &mut fx),
            Input::LogBegins(height) => self.log_begins = height,
            Input::TakeSnapshot => self.take_snapshot(&mut fx),
        }
        self.follow_up(now, &mut fx);
        fx
    }

    /// What any input may have led to: verdicts that were known already, blocks to fetch.
    fn follow_up(&mut self, now: Time, fx: &mut Fx<P::Message>) {
        while let Some(ask) = self.ready.pop_front() {
            self.on_checked(now, ask, &[], fx);
        }
        if self.arrivals.deadline().is_some() {
            self.arrivals.forget_below(self.view());
        }
        self.catch_up.want(self.protocol.missing(), self.settings.me);
        if let Some((to, message)) = self.catch_up.due(now, self.protocol.tree().root().height) {
            fx.output(Action::Send { to, message });
        }
    }

    fn start(&mut self, now: Time, recovery: Recovery, fx: &mut Fx<P::Message>) {
        let genesis = Arc::clone(self.protocol.tree().root());
        let (root, root_committed, recent) = match &recovery.snapshot {
            None => (genesis, Height(0), Vec::new()),
            Some(meta) => (Arc::clone(&meta.block), meta.committed, meta.recent.clone()),
        };
        if let Some(meta) = &recovery.snapshot {
            let earlier = meta.roots.split_last().map_or(&[][..], |(_, earlier)| earlier);
            self.execution.recall_roots(earlier);
            self.snapshot_at = meta.block.height;
            self.snapshot_written = meta.block.height;
        }
        self.snapshot = recovery.snapshot;
        self.offer = recovery.offer;
        let mut blocks = Vec::with_capacity(recovery.blocks.len());
        for FullBlock { block, frames } in recovery.blocks {
            if block.height > root.height {
                self.bodies.insert(block.id(), frames);
                blocks.push(block);
            }
        }
        let safety = recovery.safety;
        let recovered = Recovered { safety, root, root_committed, recent, blocks };
        self.consult(now, protocol::Input::Start(Box::new(recovered)), fx);
        self.drop_unheld_bodies();
    }

    fn on_frames(&mut self, now: Time, frames: Vec<Submitted>, fx: &mut Fx<P::Message>) {
        let mut relayed = Vec::new();
        for Submitted { frame, relay } in frames {
            let frame = frame.into_inner();
            let origin = if relay { Origin::Relayed } else { Origin::Client };
            let response = match self.admit(now, &frame, origin) {
                Admission::Added => {
                    if relay {
                        relayed.push(frame);
                    }
                    continue;
                }
                Admission::Known | Admission::Waiting => continue,
                Admission::Answered(outcome) => Response::Outcome(outcome),
                Admission::Refused(reason) => refusal(&frame, reason),
            };
            fx.output(Action::Respond { client: frame.key(), response });
        }
        if !relayed.is_empty() {
            fx.output(Action::Broadcast(PeerMessage::Relay(relayed)));
        }
        self.release_arrivals(now, fx);
        self.consult(now, protocol::Input::Wake, fx);
    }

    /// Takes a verified frame into the mempool, and to the proposals that wait for it.
    fn admit(&mut self, now: Time, frame: &SharedFrame, origin: Origin) -> Admission {
        self.arrivals.supply(frame);
        self.mempool.insert(Arc::clone(frame), origin, now, self.execution.sessions())
    }

    fn on_timeout(&mut self, now: Time, fx: &mut Fx<P::Message>) {
        if let Some(rejoin) = &self.rejoin {
            if now >= rejoin.deadline() {
                self.ask_testimonies(now, fx);
            }
            return;
        }
        self.relay_overdue(now, fx);
        for (to, ids) in self.arrivals.overdue(now) {
            fx.output(Action::Send { to, message: PeerMessage::NeedFrames(ids) });
        }
        self.consult(now, protocol::Input::Timeout, fx);
    }

    /// Passes on what has waited long in no block: the leader may not have it, or be dead and the
    /// others not know that there is work.
    fn relay_overdue(&mut self, now: Time, fx: &mut Fx<P::Message>) {
        let Some(oldest) = self.mempool.oldest_unrelayed() else { return };
        if now < oldest.after(self.settings.relay_after) {
            return;
        }
        let overdue = Time(now.0.saturating_sub(self.settings.relay_after.as_nanos() as u64) + 1);
        let in_blocks: BTreeSet<FrameId> = self.bodies.values().flatten().map(|f| f.id()).collect();
        let mut batch = Vec::new();
        let mut bytes = 0;
        for frame in self.mempool.unrelayed_before(overdue) {
            if in_blocks.contains(&frame.id()) {
                continue;
            }
            bytes += frame.encoded_bytes().len();
            batch.push(frame);
            if bytes > RELAY_BYTES || batch.len() >= RELAY_FRAMES {
                bytes = 0;
                let full = std::mem::take(&mut batch);
                fx.output(Action::Broadcast(PeerMessage::Relay(full)));
            }
        }
        if !batch.is_empty() {
            fx.output(Action::Broadcast(PeerMessage::Relay(batch)));
        }
    }

    fn on_signed(
        &mut self,
        now: Time,
        statement: Statement,
        signature: Signature,
        fx: &mut Fx<P::Message>,
    ) {
        if self.send_testimony(&statement, signature, fx) {
            return;
        }
        if let Some(key) = self.domain.committee().key(self.settings.me) {
            self.known.insert(Check { key: *key, statement, signature });
        }
        self.consult(now, protocol::Input::Signed { statement, signature }, fx);
    }

    /// Steps the protocol and carries its effects into the replica's.
    fn consult(&mut self, now: Time, input: protocol::Input<P::Message>, fx: &mut Fx<P::Message>) {
        let mut desk = Desk {
            mempool: &self.mempool,
            execution: &self.execution,
            settings: &self.settings,
            batch: Vec::new(),
        };
        let effects = self.protocol.step(now, input, &mut desk);
        let batch = desk.batch;
        let (early, records, outputs) = effects.into_parts();
        for record in &records {
            if let protocol::Record::Block(block) = record {
                self.keep_own_frames(block, &batch);
            }
        }
        for output in early {
            match output {
                Output::Broadcast(message) => {
                    let message = self.with_frames(message);
                    fx.early(Action::Broadcast(message));
                }
                output => self.carry_out(output, fx),
            }
        }
        for record in records {
            match record {
                protocol::Record::Safety(safety) => fx.record(Record::Safety(safety)),
                protocol::Record::Block(block) => self.record_block(block, fx),
            }
        }
        for output in outputs {
            self.carry_out(output, fx);
        }
    }

    /// The frames handed out for a block of its own are that block's bodies.
    fn keep_own_frames(&mut self, block: &SharedBlock, batch: &[SharedFrame]) {
        if block.proposer == self.settings.me && !self.bodies.contains_key(&block.id()) {
            self.bodies.insert(block.id(), batch.to_vec());
        }
    }

    fn record_block(&mut self, block: SharedBlock, fx: &mut Fx<P::Message>) {
        match self.bodies.get(&block.id()) {
            Some(frames) if frames.len() == block.frames.len() => {
                let frames = frames.clone();
                fx.record(Record::Block(FullBlock { block, frames }));
            }
            _ => self.halt(Halt::MissingFrames(block.id()), fx),
        }
    }

    fn carry_out(&mut self, output: Output<P::Message>, fx: &mut Fx<P::Message>) {
        match output {
            Output::Send { to, message } => {
                let message = self.with_frames(message);
                fx.output(Action::Send { to, message });
            }
            Output::Broadcast(message) => {
                let message = self.with_frames(message);
                fx.output(Action::Broadcast(message));
            }
            Output::Sign(statement) => fx.output(Action::Sign(statement)),
            Output::Verify { ask, checks } => {
                self.verify(Pending::Protocol { ask }, checks, None, fx)
            }
            Output::Commit(blocks) => {
                self.to_execute.extend(blocks.iter().cloned());
                fx.output(Action::Committed(blocks));
            }
            Output::Event(event) => fx.output(Action::Event(event)),
        }
    }

    /// A message with the bodies of its block's frames, as far as they are small.
    fn with_frames(&self, message: P::Message) -> PeerMessage<P::Message> {
        let mut frames = Vec::new();
        if let Some(bodies) = P::carried_block(&message).and_then(|b| self.bodies.get(&b.id())) {
            let mut bytes = 0;
            for frame in bodies {
                bytes += frame.encoded_bytes().len();
                if bytes > self.settings.inline_bytes {
                    break;
                }
                frames.push(Arc::clone(frame));
            }
        }
        PeerMessage::Protocol { message, frames }
    }

    fn drop_unheld_bodies(&mut self) {
        let (protocol, to_execute) = (&self.protocol, &self.to_execute);
        self.bodies.retain(|id, _| {
            protocol.holds(id) && protocol.tree().root().id() != *id
                || to_execute.iter().any(|block| block.id() == *id)
        });
    }

    fn halt(&mut self, halt: Halt, fx: &mut Fx<P::Message>) {
        self.halted = true;
        fx.output(Action::Halt(halt));
    }
}

/// Most bytes and frames in one relay message.
const RELAY_BYTES: usize = 256 << 10;
const RELAY_FRAMES: usize = 256;

fn refusal(frame: &SharedFrame, reason: Refusal) -> Response {
    Response::Refused { session: frame.session(), first: frame.first(), reason }
}

/// What the protocol may read of the replica around it.
struct Desk<'a, S> {
    mempool: &'a Mempool,
    execution: &'a Execution<S>,
    settings: &'a Settings,
    /// The frames handed out for a block.
    batch: Vec<SharedFrame>,
}

impl<S: StateMachine> Ledger for Desk<'_, S> {
    fn has_pending(&self) -> bool {
        !self.mempool.is_empty()
    }

    fn payload(&mut self, ancestors: &[SharedBlock]) -> Vec<FrameId> {
        let taken: BTreeSet<FrameId> =
            ancestors.iter().flat_map(|block| block.frames.iter().copied()).collect();
        let Settings { batch_commands, batch_bytes, .. } = *self.settings;
        self.batch = self.mempool.batch(&|id| taken.contains(id), batch_commands, batch_bytes);
        self.batch.truncate(crate::block::MAX_FRAMES);
        self.batch.iter().map(|frame| frame.id()).collect()
    }

    fn executed(&self) -> Height {
        self.execution.height()
    }

    fn state_root(&self, height: Height) -> Option<Digest> {
        self.execution.root_at(height)
    }
}

impl<P: Protocol, S> Replica<P, S> {
    /// The highest view this replica has been in.
    fn view(&self) -> View {
        self.protocol.status().view
    }
}
