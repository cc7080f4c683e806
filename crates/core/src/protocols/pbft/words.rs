//! What replicas of PBFT say, sign and keep.

mod encoding;

use crate::base::crypto::Signature;
use crate::base::membership::{Committee, Opening};
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::ledger::block::{self, BlockId, payload_of};
use crate::ledger::frame::FrameId;
use crate::protocols::checkpoint::{Checkpoint, Stable};
use crate::protocols::protocol::{self, BlockOf};

/// The most blocks between a stable checkpoint and the high water mark.
pub const MAX_WINDOW: u64 = 256;
/// For one height a replica remembers so many blocks that it pre-prepared, the latest ones; and, if
/// there were more, why these do not matter.
pub const MAX_PRE_PREPARED: usize = 4;

/// The words of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {}

impl protocol::Types for Types {
    type Content = Content;
    type Message = Message;
    type Memory = Memory;
    type Evidence = Stable;
    type Testimony = Testimony;
}

/// What a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The committee in force.
    pub epoch: Epoch,
    /// The view whose primary made it. A later view may order it again.
    pub view: View,
    /// Its sequence number: its parent's plus one.
    pub height: Height,
    /// The block it extends.
    pub parent: BlockId,
    /// A stable checkpoint below it that no block said before: who fetches blocks believes those
    /// below a checkpoint.
    pub stable: Option<Stable>,
    /// The request frames, in the order of execution.
    pub frames: Vec<FrameId>,
}

/// What a block's identity covers: of the checkpoint what it says, not who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    epoch: Epoch,
    view: View,
    height: Height,
    parent: BlockId,
    stable: Option<Checkpoint>,
    payload: Digest,
}

impl Content {
    /// The block before a committee's first one.
    #[must_use]
    pub fn genesis(committee: &Committee) -> Self {
        let Opening { after, height } = committee.opening();
        Self {
            epoch: committee.epoch(),
            view: View(0),
            height,
            parent: after,
            stable: None,
            frames: Vec::new(),
        }
    }
}

impl block::Content for Content {
    type Summary = Summary;

    fn summary(&self) -> Summary {
        let Self { epoch, view, height, parent, .. } = *self;
        let stable = self.stable.as_ref().map(|stable| stable.checkpoint);
        Summary { epoch, view, height, parent, stable, payload: payload_of(&self.frames) }
    }

    fn frames(&self) -> &[FrameId] {
        &self.frames
    }

    fn size_bytes(&self) -> usize {
        let signatures =
            self.stable.as_ref().map_or(0, |stable| 72 * (1 + stable.signatures.len()));
        80 + signatures + 32 * self.frames.len()
    }
}

impl block::Summary for Summary {
    fn parent(&self) -> BlockId {
        self.parent
    }

    fn height(&self) -> Height {
        self.height
    }

    fn view(&self) -> View {
        self.view
    }

    fn payload(&self) -> Digest {
        self.payload
    }
}

/// A block at a place in the order, as a replica pre-prepared or prepared it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The place.
    pub height: Height,
    /// The latest view in which it did so.
    pub view: View,
    /// The block.
    pub block: BlockId,
    /// The block's parent.
    pub parent: BlockId,
}

/// The two all-to-all phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// The sender accepted the primary's pre-prepare.
    Prepare = 1,
    /// The block is prepared at the sender.
    Commit = 2,
}

/// PREPARE and COMMIT of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Which of the two.
    pub phase: Phase,
    /// The view.
    pub view: View,
    /// The block's height.
    pub height: Height,
    /// The block.
    pub block: BlockId,
}

/// VIEW-CHANGE of the paper: what its sender knows of the views before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewChange {
    /// The view it wants.
    pub view: View,
    /// Its stable checkpoint; none where that is the genesis block.
    pub stable: Option<Stable>,
    /// The set P: for each height above the checkpoint the block it prepared last, ascending.
    pub prepared: Vec<Entry>,
    /// The set Q: what it pre-prepared above the checkpoint, ascending.
    pub pre_prepared: Vec<Entry>,
}

/// A view change with its sender and the sender's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedChange {
    /// Who.
    pub from: ReplicaId,
    /// What.
    pub change: ViewChange,
    /// Its signature.
    pub signature: Signature,
}

/// NEW-VIEW of the paper.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewView {
    /// The view that begins.
    pub view: View,
    /// The view changes it follows from, ascending by their senders.
    pub changes: Vec<SignedChange>,
    /// What the view begins with: the blocks right above the highest stable checkpoint of the view
    /// changes, each the parent of the next.
    pub chosen: Vec<BlockId>,
}

/// Why a replica need not remember some of the blocks that it pre-prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// They are at heights up to this one.
    pub up_to: Height,
    /// They were pre-prepared before this view, which did not begin with them.
    pub new_view: NewView,
    /// The signature of the view's primary.
    pub signature: Signature,
}

/// Where a replica stands: asks for what it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its view.
    pub view: View,
    /// It waits for that view to begin.
    pub is_changing: bool,
    /// The height of its stable checkpoint.
    pub stable: Height,
    /// Its committed height.
    pub committed: Height,
    /// It lost its memory, and does not speak before this view.
    pub awaits: Option<View>,
}

/// What replicas say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the primary: this block is next.
    PrePrepare {
        /// It.
        block: BlockOf<Types>,
        /// The primary's signature, where messages are signed.
        signature: Signature,
    },
    /// PREPARE or COMMIT.
    Vote {
        /// It.
        vote: Vote,
        /// The sender's signature, where messages are signed.
        signature: Signature,
    },
    /// The sender came to this state.
    Checkpoint {
        /// It.
        checkpoint: Checkpoint,
        /// The sender's signature.
        signature: Signature,
    },
    /// The sender gave up on a view.
    ViewChange(Box<SignedChange>),
    /// A view begins.
    NewView {
        /// It.
        new_view: Box<NewView>,
        /// The signature of the view's primary.
        signature: Signature,
    },
    /// A stable checkpoint, for who may not know it.
    Stable(Box<Stable>),
    /// Where the sender stands.
    Standing(Standing),
}

/// All that a replica must never forget.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Its view.
    pub view: View,
    /// It waits for that view to begin.
    pub is_changing: bool,
    /// Its stable checkpoint, if that is not the genesis block.
    pub stable: Option<Stable>,
    /// A block that it knows to be committed.
    pub committed: Option<(Height, BlockId)>,
    /// The set P.
    pub prepared: Vec<Entry>,
    /// The set Q.
    pub pre_prepared: Vec<Entry>,
    /// Why it need not remember more of Q.
    pub forgotten: Option<Forgotten>,
    /// It lost what it knew before: until it enters this view or a later one, it abstains.
    pub awaits: Option<View>,
}

/// What a replica says to one that lost its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// The view it is in, or waits for.
    pub view: View,
    /// Its stable checkpoint; none where that is the genesis block.
    pub stable: Option<Stable>,
}
