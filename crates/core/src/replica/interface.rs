//! What a replica is told, and what it wants done.

use std::sync::Arc;

use super::message::PeerMessage;
use super::snapshot::{Offer, SnapshotMeta};
use crate::base::crypto::{
    Check, Form, PublicKey, Share, ShareKeys, Signature, Statement, Verified,
};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Duration, Height, ReplicaId};
use crate::ledger::block::BlockId;
use crate::ledger::execution::{ExecutionError, SnapshotError, SnapshotHandle};
use crate::ledger::frame::SharedFrame;
use crate::ledger::mempool;
use crate::ledger::message::Response;
use crate::protocols::protocol::{BlockOf, Event, FullBlockOf, Malformed, SharedHandover, Types};

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
    /// A snapshot of more bytes than this is not taken over from a peer.
    pub max_snapshot_bytes: u64,
    /// The bounds of the mempool.
    pub mempool: mempool::Limits,
    /// A proposal leaves out what its ancestors hold. Not so in the laboratory alone: then a
    /// command may be in several blocks, and is executed with the first.
    pub filtering: bool,
    /// Which uncommitted ancestors travel with a proposal.
    pub ancestors: Ancestors,
    /// How the payload reaches the other replicas.
    pub dissemination: Dissemination,
    /// Signatures that were verified are not verified again.
    pub certificate_cache: bool,
}

/// How the payload reaches the other replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dissemination {
    /// Small bodies travel with the proposal. A replica that lacks one asks the proposer for it.
    #[default]
    Direct,
    /// What a client sends to one replica travels ahead of the proposal, and is proposed once a
    /// quorum holds it.
    Ahead,
}

/// Which uncommitted ancestors travel with a proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ancestors {
    /// None.
    #[default]
    None,
    /// Those that some replica is not known to hold.
    Missing,
    /// All.
    All,
}

/// What a replica is told.
#[derive(Clone, Debug)]
pub enum Input<T: Types> {
    /// First of all: what survived the last run.
    Start(Box<Recovery<T>>),
    /// First of all, for a replica that lost its data, and for one that was stopped while it
    /// rejoined.
    Rejoin {
        /// Never used before.
        nonce: Digest,
        /// What it has by now, or what was restored from a backup, and never the protocol's memory;
        /// at first [nothing](Recovery::nothing) as a rule.
        restored: Box<Recovery<T>>,
    },
    /// A peer's message.
    Peer {
        /// The peer, known by its channel.
        from: ReplicaId,
        /// The message.
        message: PeerMessage<T>,
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
    /// The joint signature of an [`Action::Combine`]; `None` if the scheme could make none.
    Combined {
        /// Which one.
        ask: u64,
        /// The signature.
        signature: Option<Signature>,
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
    /// A client waits for a proof of the state as it is now: have its root certified, although the
    /// cluster may be idle.
    Show,
}

/// A client's frame on its way in.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// The frame.
    pub frame: Verified<SharedFrame>,
    /// The client sent it here alone.
    pub relay: bool,
}

/// What survived the last run. The state of `snapshot` is already in the replica's
/// [`Execution`](crate::ledger::execution::Execution).
#[derive(Clone, Debug)]
pub struct Recovery<T: Types> {
    /// The ends of epochs, from the first.
    pub handovers: Vec<SharedHandover<T>>,
    /// The protocol's memory of the epoch behind the last of these ends; `None` only for a replica
    /// that has said nothing in it.
    pub memory: Option<T::Memory>,
    /// The newest snapshot, if there is one.
    pub snapshot: Option<SnapshotMeta<T>>,
    /// The newest [offer](Action::Offered), whose snapshot may be an older one.
    pub offer: Option<Offer<T>>,
    /// The recorded blocks, in the order they were recorded.
    pub blocks: Vec<FullBlockOf<T>>,
}

impl<T: Types> Recovery<T> {
    /// Nothing survived.
    #[must_use]
    pub fn nothing() -> Self {
        let (handovers, blocks) = (Vec::new(), Vec::new());
        Self { handovers, memory: None, snapshot: None, offer: None, blocks }
    }
}

/// Something that must be durable before what rests on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<T: Types> {
    /// A block with its frames.
    Block(FullBlockOf<T>),
    /// The protocol's memory as it is now.
    Memory(Arc<T::Memory>),
    /// An epoch has ended: memories written from now on are of the next one. One that was written
    /// down before is not written again.
    Handover(SharedHandover<T>),
    /// The replica does not know what it said, in this epoch and in later ones: it rejoins, until
    /// there is a memory again.
    Amnesia,
}

/// What a replica wants done, once its records are durable.
#[derive(Debug)]
pub enum Action<T: Types> {
    /// Send to one replica.
    Send {
        /// To whom.
        to: ReplicaId,
        /// What.
        message: PeerMessage<T>,
    },
    /// Send to every other replica.
    Broadcast(PeerMessage<T>),
    /// Sign and answer with [`Input::Signed`].
    Sign(Statement),
    /// Verify as one batch and answer with [`Input::Checked`].
    Verify {
        /// Names the request.
        ask: u64,
        /// The signatures.
        checks: Vec<Check>,
    },
    /// Join signatures that hold and answer with [`Input::Combined`].
    Combine {
        /// Names the request.
        ask: u64,
        /// As what.
        form: Form,
        /// The signatures.
        shares: Vec<Share>,
        /// The shares of the threshold key of their epoch, where its members generated one.
        keys: Option<Arc<ShareKeys>>,
    },
    /// Tell a client.
    Respond {
        /// The client.
        client: PublicKey,
        /// What.
        response: Response,
    },
    /// These blocks are committed: from now on they can be asked for by height.
    Committed(Vec<BlockOf<T>>),
    /// A block was executed.
    Executed {
        /// How many commands, retries not counted.
        commands: u64,
        /// Its frames: each is settled now, or waits in its session for one before it.
        frames: Vec<SharedFrame>,
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
        tail: Vec<FullBlockOf<T>>,
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
    WriteSnapshot(Box<SnapshotMeta<T>>, Box<SnapshotHandle>),
    /// The snapshot of this offer is attested and on disk: replicas that are behind can be helped
    /// with it. Keep the offer beside it, for [`Recovery::offer`]. Only now may older snapshots go,
    /// and blocks at or below its height.
    Offered(Box<Offer<T>>),
    /// An epoch begins, with this committee: from now on its members are reached, and what is
    /// signed is signed with its keys.
    EpochBegan(Box<Committee>),
    /// For logs, metrics and transcripts.
    Event(Event),
    /// A peer's message was refused.
    Refused {
        /// The peer.
        from: ReplicaId,
        /// Why.
        reason: Refused,
    },
    /// The state that a peer sends was not taken over: the peer lies, or there is no room for it
    /// here. Beside the refusal, for who reads the log.
    NotTaken {
        /// Who sent it.
        from: ReplicaId,
        /// Why.
        reason: SnapshotError,
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
    /// It lost its data.
    #[error(
        "this protocol has no way back for a replica that lost its data; restore the data folder, or \
         begin the cluster anew"
    )]
    NoWayBack,
    /// What is kept of the ends of epochs is not of this chain.
    #[error(
        "what is kept of the end of an epoch is of another one or of another chain; rejoin with an \
         empty data folder"
    )]
    Epochs,
    /// A committed block's frames are not here.
    #[error("the frames of the committed block {0} are missing; this is a bug")]
    MissingFrames(BlockId),
}
