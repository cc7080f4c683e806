//! What every protocol is to the replica around it.
//!
//! A protocol is a state machine of inputs to [`Effects`]. It asks for what it cannot do itself:
//! signatures are made and checked by whoever drives it, payload comes from the replica's
//! [`Ledger`], missing blocks are fetched by the replica's catch-up. It owns its timers and says
//! when the next one is due.
//!
//! Its words are its own ([`Types`]): what it writes into blocks, what replicas say to each other,
//! what it must remember, what convinces somebody who was not there. The replica carries them,
//! keeps them and asks the protocol what to believe; it looks into none of them.

mod ballot;
mod effects;
mod event;
mod handover;
mod malformed;
mod verifier;
mod words;

use std::fmt;
use std::sync::Arc;

use crate::base::crypto::{Check, Claim, Form, Share, Signature, Statement, Verified};
use crate::base::membership::Committee;
use crate::base::types::{Digest, Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::ledger::frame::FrameId;
pub use ballot::Ballot;
pub use effects::Effects;
pub use event::{Declined, Event};
pub use handover::{Handover, MAX_VOID_BLOCKS, SharedHandover};
pub use malformed::Malformed;
pub use verifier::Verifier;
pub use words::{BlockOf, FullBlockOf, HeaderOf, Shown, Types, Word};

/// The most that [`Protocol::look_back`] may ask for, blocks.
pub const MAX_LOOK_BACK: usize = 128;

/// What a replica's data begins with.
#[derive(Clone, Debug)]
pub struct Origin<T: Types> {
    /// Who takes part.
    pub committee: Committee,
    /// The block before the first one.
    pub genesis: BlockOf<T>,
    /// The memory of a replica that never said anything.
    pub memory: T::Memory,
    /// The most bytes that a memory can come to.
    pub memory_bytes: usize,
}

/// A protocol of one replica.
pub trait Protocol {
    /// Its words.
    type Types: Types;
    /// What its evidence is checked by.
    type Verifier: Verifier<Types = Self::Types>;

    /// How many proposals of one proposer may be under way at once.
    const PIPELINE: usize = 1;

    /// Whether a proposal is of use after its view is over: the protocol takes its block in if a
    /// certificate names it.
    const TAKES_LATE_PROPOSALS: bool = false;

    /// Whether a block proves that its parent may be believed. Where it does not, the protocol
    /// takes in fetched blocks as they come, and believes them when it has a reason.
    const VOUCHES_FOR_PARENTS: bool = true;

    /// What it can do of what not every protocol can.
    const CAPABILITIES: &'static [Capability];

    /// Looks a message over before anything costly is done for it: well formed, from somebody who
    /// may send it, and not too old. What remains are the signatures it rests on.
    ///
    /// # Errors
    /// [`Malformed`] if the message is to be refused unread.
    fn claim(
        &self,
        from: ReplicaId,
        message: MessageOf<Self>,
    ) -> Result<Claim<MessageOf<Self>>, Malformed>;

    /// The block a message carries, whose payload must be at hand before the message is stepped.
    fn carried_block(message: &MessageOf<Self>) -> Option<&BlockOf<Self::Types>>;

    /// Takes one input.
    fn step(
        &mut self,
        now: Time,
        input: Input<Self::Types>,
        ledger: &mut dyn Ledger,
    ) -> Effects<Output<Self::Types>, Record<Self::Types>>;

    /// The earliest timer, if one is running.
    fn deadline(&self) -> Option<Time>;

    /// Where the protocol stands.
    fn status(&self) -> Status;

    /// The current view; 0 in protocols without views.
    fn view(&self) -> View {
        self.status().view
    }

    // Blocks, for the replica's mempool and catch-up.

    /// The last committed block; genesis before the first input.
    fn committed(&self) -> &BlockOf<Self::Types>;

    /// How many blocks are held above it.
    fn uncommitted(&self) -> usize;

    /// Whether the block may still be committed here: its frames are to be kept. It is one of those
    /// above the committed one, or waits for its parent.
    fn holds(&self, block: &BlockId) -> bool;

    /// Whether the block is here, or was committed here lately.
    fn knows(&self, block: &BlockId) -> bool {
        self.height_of(block).is_some()
    }

    /// The blocks above the committed one on the way up to `tip`, oldest first; none if `tip` is
    /// not here.
    fn path(&self, tip: &BlockId) -> Vec<BlockOf<Self::Types>>;

    /// The block that this replica lacks and needs, if there is one: it is to be fetched.
    fn missing(&self) -> Option<Missing>;

    /// A fetched block, resting on what it says of its parent.
    ///
    /// # Errors
    /// [`Malformed`] if it can be no block of this chain.
    fn claim_block(
        &self,
        block: BlockOf<Self::Types>,
    ) -> Result<Claim<BlockOf<Self::Types>>, Malformed>;

    // Snapshots.

    /// How many committed blocks below a snapshot's are to be kept beside it: what rules and
    /// elections look back on. At most [`MAX_LOOK_BACK`].
    fn look_back(&self) -> usize;

    /// State roots are attested at heights that are multiples of this, and between them only where
    /// nothing goes on: snapshots are of such states.
    fn roots_every(&self) -> u64 {
        1
    }

    /// What is to be kept beside a snapshot of the state after `block`. `None` if that is not the
    /// committed head.
    fn snapshot_base(&self, block: &BlockId) -> Option<SnapshotBase<Self::Types>>;

    /// What its evidence is checked by, here and by clients.
    fn verifier(&self) -> Self::Verifier;

    // Coming back without memory.

    /// What this replica says to one that lost its memory.
    fn testimony(&self) -> TestimonyOf<Self>;

    /// What a testimony signs; `content` binds it to the question.
    fn testimony_statement(&self, testimony: &TestimonyOf<Self>, content: &Digest) -> Statement;

    /// What a testimony rests on besides its sender's signature.
    ///
    /// # Errors
    /// [`Malformed`] if it is to be refused unread.
    fn claim_testimony(&self, testimony: &TestimonyOf<Self>) -> Result<Vec<Check>, Malformed>;

    /// What a replica that lost its memory is to remember from now on, by the testimonies of a
    /// quorum: that it may have said whatever the cluster can have heard from it. `None` if the
    /// protocol has no way back for it.
    fn recollect(&self, testimonies: &[TestimonyOf<Self>]) -> Option<MemoryOf<Self>>;

    // What a protocol may lack.

    /// A certified block that attests `root`, the root of the state at `height`, with what
    /// convinces a client of it. `None` as long as there is none, and for ever in a protocol
    /// without [verified reads](Capability::VerifiedReads).
    fn certified(&self, root: &Digest, height: Height) -> Option<Shown<Self::Types>> {
        let _ = (root, height);
        None
    }

    /// The newest certified block, if the protocol has verified reads.
    fn newest_certified(&self) -> Option<Shown<Self::Types>> {
        None
    }

    /// The height of the latest state whose root the newest certified block attests.
    fn certified_state(&self) -> Option<Height> {
        None
    }

    /// This replica's part of a [read index](crate::client::read_index): the height of the highest
    /// block with commands, of those above the committed one, that it knows may be committed, or 0.
    /// Whatever is committed by the protocol's rule, f + 1 correct replicas say its height or more
    /// from then on, in this and in later runs, or say `None`.
    ///
    /// `None` if it cannot say: it lost its memory and abstains, or blocks are missing here; and
    /// for ever in a protocol without [read indices](Capability::ReadIndex).
    fn read_index(&self) -> Option<Height> {
        None
    }

    /// A message that says no more than this evidence: how a replica that lacks the end of an epoch
    /// learns of it. `None` in a protocol whose members are fixed.
    fn showing(evidence: EvidenceOf<Self>) -> Option<MessageOf<Self>> {
        let _ = evidence;
        None
    }

    /// The block that the sender of a message must hold to say it, if there is one.
    fn held_block(message: &MessageOf<Self>) -> Option<&BlockId> {
        let _ = message;
        None
    }

    /// The height of a block that is here, or was committed here lately.
    fn height_of(&self, block: &BlockId) -> Option<Height>;

    /// The blocks of the chain below a proposal that are above `floor`: for sending ancestors
    /// along.
    fn ancestors(
        &self,
        proposal: &BlockOf<Self::Types>,
        floor: Height,
    ) -> Option<Ancestry<Self::Types>> {
        let _ = (proposal, floor);
        None
    }
}

/// A protocol's message.
pub type MessageOf<P> = <<P as Protocol>::Types as Types>::Message;
/// A protocol's memory.
pub type MemoryOf<P> = <<P as Protocol>::Types as Types>::Memory;
/// A protocol's evidence.
pub type EvidenceOf<P> = <<P as Protocol>::Types as Types>::Evidence;
/// A protocol's testimony.
pub type TestimonyOf<P> = <<P as Protocol>::Types as Types>::Testimony;

/// What not every protocol can do. A configuration or a client that asks for what the chosen one
/// lacks is refused with the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Capability {
    /// Reads of one replica that the client can check.
    VerifiedReads,
    /// Decided blocks that an executor can check without being a replica.
    Pull,
    /// Starting again after the data was lost.
    Rejoin,
    /// Linearizable reads that are not ordered.
    ReadIndex,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::VerifiedReads => "verified reads",
            Self::Pull => "blocks that prove that they are decided",
            Self::Rejoin => "way back for a replica that lost its data",
            Self::ReadIndex => "read index",
        })
    }
}

/// A block that this replica lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The block.
    pub block: BlockId,
    /// Who must have it; empty where that is not known, and all replicas are asked.
    pub holders: Vec<ReplicaId>,
}

/// Blocks that travel ahead of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ancestry<T: Types> {
    /// Each the parent of the next.
    pub blocks: Vec<BlockOf<T>>,
    /// What convinces of the last one.
    pub evidence: T::Evidence,
}

/// What is kept beside a snapshot of the state after a committed block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotBase<T: Types> {
    /// The block.
    pub block: BlockOf<T>,
    /// What the chain up to the block commits by itself.
    pub committed: Height,
    /// The headers of the committed blocks right below it, oldest first.
    pub recent: Vec<HeaderOf<T>>,
}

/// A state root that a quorum stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attested<T: Types> {
    /// The root.
    pub root: Digest,
    /// The height of the state. `None`: it is some block's below this one.
    pub state: Option<Height>,
    /// The committed block that attests it.
    pub block: BlockOf<T>,
    /// What convinces others of the block, once that is known.
    pub evidence: Option<T::Evidence>,
}

/// What a protocol has decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<T: Types> {
    /// Execute this block next.
    Block(BlockOf<T>),
    /// A quorum stands for this state root: it must be one that was computed here.
    Root(Attested<T>),
}

impl<T: Types> Decision<T> {
    /// The block, if it is one.
    #[must_use]
    pub fn block(&self) -> Option<&BlockOf<T>> {
        match self {
            Self::Block(block) => Some(block),
            Self::Root(_) => None,
        }
    }
}

/// What a protocol reads of the replica around it.
pub trait Ledger {
    /// Whether frames wait that no executed block holds.
    fn has_pending(&self) -> bool;

    /// The frames to propose, oldest first, without those of `ancestors` (the blocks below the new
    /// one that are not [executed](Self::executed) yet, committed or not).
    fn payload(&mut self, ancestors: &mut dyn Iterator<Item = FrameId>) -> Vec<FrameId>;

    /// Up to which height blocks were executed: their frames are pending no more.
    fn executed(&self) -> Height;

    /// The state root after the block at `height`, if it was executed and is not too old.
    fn state_root(&self, height: Height) -> Option<Digest>;

    /// Up to which height somebody waits for a state root to be certified: worth a few blocks
    /// without commands.
    fn root_wanted(&self) -> Option<Height> {
        None
    }
}

/// What a protocol is told.
#[derive(Clone, Debug)]
pub enum Input<T: Types> {
    /// The first input: what survived the last run.
    Start(Box<Recovered<T>>),
    /// The deadline has passed.
    Timeout,
    /// A message whose signatures hold and whose block's payload is here.
    Message {
        /// Its sender, known by its channel.
        from: ReplicaId,
        /// The message.
        message: Verified<T::Message>,
    },
    /// A message whose signatures hold, and whose block's payload is not here yet. What it tells
    /// beside the block need not wait; the message itself follows when the payload has come, if it
    /// does.
    Announced {
        /// Its sender, known by its channel.
        from: ReplicaId,
        /// The message.
        message: Verified<T::Message>,
    },
    /// A block that was fetched, with its justify checked and its payload at hand.
    Fetched {
        /// Its sender, known by the channel.
        from: ReplicaId,
        /// The block.
        block: Verified<BlockOf<T>>,
    },
    /// The verdicts on an [`Output::Verify`].
    Checked {
        /// Which one.
        ask: u64,
        /// One verdict a check, in order.
        verdicts: Vec<bool>,
    },
    /// The joint signature of an [`Output::Combine`]; `None` if the scheme could make none.
    Combined {
        /// Which one.
        ask: u64,
        /// The signature.
        signature: Option<Signature>,
    },
    /// The signature of an [`Output::Sign`].
    Signed {
        /// What was signed.
        statement: Statement,
        /// The signature.
        signature: Signature,
    },
    /// A snapshot of a later state was taken over: grow from its block from now on.
    Installed {
        /// The committed block whose state it is.
        root: BlockOf<T>,
        /// The headers of the committed blocks right below it, oldest first.
        recent: Vec<HeaderOf<T>>,
        /// The evidence by which the state was believed.
        evidence: T::Evidence,
    },
    /// Work may have arrived, or blocks been executed.
    Wake,
    /// A channel to this peer has just opened: it may have missed what was said before.
    Connected(ReplicaId),
}

/// What survived the last run.
#[derive(Clone, Debug)]
pub struct Recovered<T: Types> {
    /// The memory; `None` only for a replica that never ran.
    pub memory: Option<T::Memory>,
    /// The committed block everything else grows from: genesis, or a snapshot's.
    pub root: BlockOf<T>,
    /// What the chain up to `root` commits by itself (see [`SnapshotBase::committed`]).
    pub root_committed: Height,
    /// The headers of the committed blocks right below it, oldest first.
    pub recent: Vec<HeaderOf<T>>,
    /// Blocks above it in the order they were recorded, with what they rest on checked when they
    /// were.
    pub blocks: Vec<BlockOf<T>>,
}

/// Something that must be durable before what rests on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record<T: Types> {
    /// A block; its frames are written with it.
    Block(BlockOf<T>),
    /// The memory as it is now.
    Memory(Arc<T::Memory>),
}

/// What a protocol wants done, once its records are durable.
#[derive(Clone, Debug)]
pub enum Output<T: Types> {
    /// Send to one replica.
    Send {
        /// To whom.
        to: ReplicaId,
        /// What.
        message: T::Message,
    },
    /// Send to every other replica.
    Broadcast(T::Message),
    /// This block is prepared, and all below are decided: execute it tentatively, after what was
    /// decided before.
    Prepared {
        /// The block.
        block: BlockOf<T>,
        /// The view that it is prepared in.
        view: View,
    },
    /// What was executed tentatively, and is not decided, may never be: undo it.
    RollBack,
    /// Pass on to this replica the oldest frames that wait here and are in no block.
    PassOn {
        /// To whom.
        to: ReplicaId,
    },
    /// Sign this and answer with [`Input::Signed`].
    Sign(Statement),
    /// Verify these as one batch and answer with [`Input::Checked`].
    Verify {
        /// Names the request.
        ask: u64,
        /// The signatures.
        checks: Vec<Check>,
    },
    /// Join these signatures, which were verified, and answer with [`Input::Combined`].
    Combine {
        /// Names the request.
        ask: u64,
        /// As what.
        form: Form,
        /// The signatures.
        shares: Vec<Share>,
    },
    /// This is decided, in this order, after all that was before.
    Commit(Vec<Decision<T>>),
    /// Something happened that people and checkers may want to know.
    Event(Event),
}

/// Where a protocol stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The current view; 0 in protocols without views.
    pub view: View,
    /// Its leader, where there is one.
    pub leader: Option<ReplicaId>,
    /// The committed height.
    pub committed: Height,
    /// Blocks above it.
    pub uncommitted: usize,
    /// The view up to which this replica abstains, if it does.
    pub abstain_until: View,
    /// More numbers of this protocol, by name.
    pub details: Vec<(&'static str, u64)>,
}

impl<T: Types> Effects<Output<T>, Record<T>> {
    pub(crate) fn event(&mut self, event: Event) {
        self.output(Output::Event(event));
    }
}
