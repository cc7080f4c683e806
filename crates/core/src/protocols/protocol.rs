//! What every protocol is to the replica around it.
//!
//! A protocol is a state machine of inputs to [`Effects`]. It asks for what it cannot do itself:
//! signatures are made and checked by whoever drives it, payload comes from the replica's
//! [`Ledger`], missing blocks are fetched by the replica's catch-up. It owns its timers and says
//! when the next one is due.

use std::sync::Arc;

use crate::base::crypto::{Check, Claim, Form, Share, Signature, Statement, Verified};
use crate::base::types::{Digest, Height, ReplicaId, Time, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::block::{BlockId, Header, SharedBlock};
use crate::ledger::frame::FrameId;
use crate::protocols::hotstuff::certificate::{Ballot, Malformed, Qc, Tc};

/// A protocol of one replica.
pub trait Protocol {
    /// What replicas say to each other in it.
    type Message: Clone + std::fmt::Debug + Encode + Decode;

    /// Looks a message over before anything costly is done for it: well formed, from somebody who
    /// may send it, and not too old. What remains are the signatures it rests on.
    ///
    /// # Errors
    /// [`Malformed`] if the message is to be refused unread.
    fn claim(
        &self,
        from: ReplicaId,
        message: Self::Message,
    ) -> Result<Claim<Self::Message>, Malformed>;

    /// A fetched block, resting on its justify.
    ///
    /// # Errors
    /// [`Malformed`] if it can be no block of this chain.
    fn claim_block(&self, block: SharedBlock) -> Result<Claim<SharedBlock>, Malformed>;

    /// The block a message carries, whose payload must be at hand before the message is stepped.
    fn carried_block(message: &Self::Message) -> Option<&SharedBlock>;

    /// The block that the sender of a message must hold to say it, if there is one.
    fn held_block(message: &Self::Message) -> Option<&BlockId>;

    /// Takes one input.
    fn step(
        &mut self,
        now: Time,
        input: Input<Self::Message>,
        ledger: &mut dyn Ledger,
    ) -> Effects<Output<Self::Message>>;

    /// The earliest timer, if one is running.
    fn deadline(&self) -> Option<Time>;

    /// Whether the protocol keeps this block, in its tree or until its parent comes.
    fn holds(&self, block: &BlockId) -> bool;

    /// The highest quorum certificate known.
    fn high_qc(&self) -> &Qc;

    /// The highest time-out certificate known, if it is above the highest quorum certificate: the
    /// higher of the two is the one by which the current view was entered.
    fn high_tc(&self) -> Option<&Tc>;

    /// The certificate of a block that this replica lacks and needs, if there is one: the block is
    /// to be fetched, from its voters.
    fn missing(&self) -> Option<&Qc>;

    /// How many committed blocks below a snapshot's are to be kept beside it: what rules and
    /// elections look back on.
    fn look_back(&self) -> usize;

    /// Where the protocol stands.
    fn status(&self) -> Status;

    /// The current view.
    fn view(&self) -> View {
        self.status().view
    }

    /// The committed head and what is known above it, for peers that lack blocks.
    fn tree(&self) -> &crate::protocols::hotstuff::tree::BlockTree;
}

/// What a protocol reads of the replica around it.
pub trait Ledger {
    /// Whether frames wait that no executed block holds.
    fn has_pending(&self) -> bool;

    /// The frames to propose, oldest first, without those that `ancestors` (the blocks below the
    /// new one that are not [executed](Self::executed) yet, committed or not) hold.
    fn payload(&mut self, ancestors: &[SharedBlock]) -> Vec<FrameId>;

    /// Up to which height blocks were executed: their frames are pending no more.
    fn executed(&self) -> Height;

    /// The state root after the block at `height`, if it was executed and is not too old.
    fn state_root(&self, height: Height) -> Option<Digest>;

    /// Up to which height somebody waits for a state root to be certified: worth a few blocks without
    /// commands.
    fn root_wanted(&self) -> Option<Height> {
        None
    }
}

/// What a protocol is told.
#[derive(Clone, Debug)]
pub enum Input<M> {
    /// The first input: what survived the last run.
    Start(Box<Recovered>),
    /// The deadline has passed.
    Timeout,
    /// A message whose signatures hold and whose block's payload is here.
    Message {
        /// Its sender, known by its channel.
        from: ReplicaId,
        /// The message.
        message: Verified<M>,
    },
    /// A block that was fetched, with its justify checked and its payload at hand.
    Fetched(Verified<SharedBlock>),
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
        root: SharedBlock,
        /// The headers of the committed blocks right below it, oldest first.
        recent: Vec<Header>,
        /// The certificate of a block above it, by which the state was believed.
        certificate: Qc,
    },
    /// Work may have arrived, or blocks been executed.
    Wake,
    /// A channel to this peer has just opened: it may have missed what was said before.
    Connected(ReplicaId),
}

/// What survived the last run.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// The safety record; `None` only for a replica that never ran.
    pub safety: Option<Safety>,
    /// The committed block everything else grows from: genesis, or a snapshot's.
    pub root: SharedBlock,
    /// What the chain up to `root` commits by itself (see `BlockTree::committed_by`).
    pub root_committed: Height,
    /// The headers of the committed blocks right below it, oldest first.
    pub recent: Vec<Header>,
    /// Blocks above it in the order they were recorded, with their certificates checked when they
    /// were.
    pub blocks: Vec<SharedBlock>,
}

/// The safety record: all that a replica must never forget. Written as one, before anything that
/// rests on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Safety {
    /// The last vote.
    pub voted: Option<Ballot>,
    /// The lock.
    pub lock: Qc,
    /// The highest QC.
    pub high_qc: Qc,
    /// The highest time-out certificate, if it is above the high QC.
    pub high_tc: Option<Tc>,
    /// The highest view given up: no vote in it or below.
    pub timed_out: View,
    /// The highest view in which this replica may have proposed. Written with the vote of the view
    /// before, so that the proposal itself need not wait for the disk: after a restart nothing is
    /// proposed in this view or below, whatever was.
    pub reserved: View,
    /// After data was lost: no vote, time-out or proposal up to this view, for what was said in
    /// them is not known (protocols.md section 10).
    pub abstain_until: View,
}

impl Safety {
    /// The record of a replica that never said anything.
    #[must_use]
    pub fn new(genesis: BlockId) -> Self {
        Self {
            voted: None,
            lock: Qc::genesis(genesis),
            high_qc: Qc::genesis(genesis),
            high_tc: None,
            timed_out: View(0),
            reserved: View(0),
            abstain_until: View(0),
        }
    }
}

/// Something that must be durable before what rests on it leaves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A block; its frames are written with it.
    Block(SharedBlock),
    /// The safety record as it is now.
    Safety(Arc<Safety>),
}

/// What a protocol wants done, once its records are durable.
#[derive(Clone, Debug)]
pub enum Output<M> {
    /// Send to one replica.
    Send {
        /// To whom.
        to: ReplicaId,
        /// What.
        message: M,
    },
    /// Send to every other replica.
    Broadcast(M),
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
    /// These blocks are committed, in this order, after all that were before.
    Commit(Vec<SharedBlock>),
    /// Something happened that people and checkers may want to know.
    Event(Event),
}

/// What happened. One typed event feeds logs, metrics and transcripts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A view was entered.
    Entered(View),
    /// This replica proposed a block.
    Proposed {
        /// Its view.
        view: View,
        /// It.
        block: BlockId,
        /// How many frames it carries.
        frames: usize,
    },
    /// This replica voted.
    Voted(Ballot),
    /// A proposal was not voted for.
    Declined {
        /// Its view.
        view: View,
        /// The reason.
        reason: Declined,
    },
    /// A proposal carries another state root than this replica computed: one of the two states is
    /// wrong.
    RootDiffers {
        /// The proposal's view.
        view: View,
        /// Who proposed it.
        proposer: ReplicaId,
        /// The height of the state.
        height: Height,
        /// The root computed here.
        ours: Digest,
        /// The proposal's.
        theirs: Digest,
    },
    /// q votes made a certificate here.
    Certified(Ballot),
    /// This replica gave up on a view.
    TimedOut(View),
    /// q time-outs made a certificate here, or one arrived.
    GaveUp(View),
    /// Blocks up to here are committed.
    Committed {
        /// The height.
        height: Height,
        /// The view of the head.
        view: View,
        /// The head.
        block: BlockId,
    },
    /// Blocks of abandoned forks were pruned.
    Pruned(usize),
    /// Two different blocks of one view by one proposer were seen.
    Equivocation {
        /// By whom.
        proposer: ReplicaId,
        /// In which view.
        view: View,
    },
    /// Votes for two blocks in one view and phase came from one replica.
    DoubleVote {
        /// Whose.
        voter: ReplicaId,
        /// Of which view.
        view: View,
    },
    /// A vote's signature did not hold.
    BadVote {
        /// Whose.
        voter: ReplicaId,
        /// Of which view.
        view: View,
    },
}

/// Why a proposal got no vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Declined {
    /// It is not of the current view.
    NotCurrent,
    /// Its view has a certificate, of the phase that the vote would be for or a later one.
    Certified,
    /// This replica voted in its view or a later one.
    AlreadyVoted,
    /// This replica gave up on its view.
    TimedOut,
    /// The vote rule says no: it conflicts with the lock.
    Unsafe,
    /// Its state root is not this replica's.
    StateRoot,
    /// Its proposer does not lead its view in the chain that it extends.
    NotLeader,
    /// This replica lost its data and abstains still.
    Abstaining,
}

/// Where a protocol stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The current view.
    pub view: View,
    /// Its leader.
    pub leader: ReplicaId,
    /// The view of the high QC.
    pub high_qc: View,
    /// The view of the lock.
    pub lock: View,
    /// The committed height.
    pub committed: Height,
    /// Blocks above it.
    pub uncommitted: usize,
    /// The view up to which this replica abstains, if it does.
    pub abstain_until: View,
}

/// The effects of a step: records, and what may only happen once these are durable.
///
/// **Durability is a type**: the outputs can be had in no other way than by
/// [`persist`](Effects::persist)ing the records. What rests on records of *earlier* effects alone
/// may go [before](Effects::take_early), as long as those are durable: merged behind records that
/// are not, it waits with everything else.
#[derive(Clone, Debug)]
#[must_use = "effects do nothing unless they are persisted"]
pub struct Effects<O, R = Record> {
    early: Vec<O>,
    records: Vec<R>,
    outputs: Vec<O>,
}

impl<O, R> Default for Effects<O, R> {
    fn default() -> Self {
        Self { early: Vec::new(), records: Vec::new(), outputs: Vec::new() }
    }
}

impl<O, R> Effects<O, R> {
    pub(crate) fn record(&mut self, record: R) {
        self.records.push(record);
    }

    pub(crate) fn output(&mut self, output: O) {
        self.outputs.push(output);
    }

    /// An output that rests on records of earlier effects alone.
    pub(crate) fn early(&mut self, output: O) {
        if self.records.is_empty() {
            self.early.push(output);
        } else {
            self.outputs.push(output);
        }
    }

    /// The parts, for the replica that carries a protocol's effects into its own: what may go
    /// early, the records, the rest.
    pub(crate) fn into_parts(self) -> (Vec<O>, Vec<R>, Vec<O>) {
        (self.early, self.records, self.outputs)
    }

    /// What need not wait for these records.
    #[must_use]
    pub fn take_early(&mut self) -> Vec<O> {
        std::mem::take(&mut self.early)
    }

    /// Appends what a later step wants.
    pub fn merge(&mut self, later: Self) {
        // The usual case: nothing is to be moved.
        if self.is_empty() {
            *self = later;
            return;
        }
        for output in later.early {
            self.early(output);
        }
        self.records.extend(later.records);
        self.outputs.extend(later.outputs);
    }

    /// Whether there is nothing to write and nothing to do.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.early.is_empty() && self.records.is_empty() && self.outputs.is_empty()
    }

    /// Whether there is something to write.
    #[must_use]
    pub fn has_records(&self) -> bool {
        !self.records.is_empty()
    }

    /// Hands the records to `write`, which returns only when they are durable, and then the
    /// outputs to the caller.
    ///
    /// # Errors
    /// What `write` says. The outputs are gone then: a replica that cannot remember must not
    /// speak.
    pub fn persist<E>(self, write: impl FnOnce(Vec<R>) -> Result<(), E>) -> Result<Vec<O>, E> {
        if !self.records.is_empty() {
            mutant!("write-error-ignored", drop(write(self.records)), write(self.records)?);
        }
        if self.early.is_empty() {
            return Ok(self.outputs);
        }
        let mut outputs = self.early;
        outputs.extend(self.outputs);
        Ok(outputs)
    }
}

impl<M> Effects<Output<M>, Record> {
    pub(crate) fn event(&mut self, event: Event) {
        self.outputs.push(Output::Event(event));
    }
}

/// Of the safety record. Blocks have had their identity from their headers since version 3.
const SAFETY_VERSION: u8 = 3;

impl Encode for Safety {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(SAFETY_VERSION);
        self.voted.encode(out);
        self.lock.encode(out);
        self.high_qc.encode(out);
        self.high_tc.encode(out);
        self.timed_out.encode(out);
        self.reserved.encode(out);
        self.abstain_until.encode(out);
    }
}

impl Decode for Safety {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        if reader.u8()? != SAFETY_VERSION {
            return Err(DecodeError::Invalid { field: "version of the safety record" });
        }
        Ok(Self {
            voted: reader.option("last vote")?,
            lock: Qc::decode(reader)?,
            high_qc: Qc::decode(reader)?,
            high_tc: reader.option("high TC")?,
            timed_out: View::decode(reader)?,
            reserved: View::decode(reader)?,
            abstain_until: View::decode(reader)?,
        })
    }
}
