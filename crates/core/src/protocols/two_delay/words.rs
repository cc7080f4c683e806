//! What replicas of this protocol say and keep.

mod encoding;

use std::sync::Arc;

use super::certificate::{Commit, Phase, Qc, Tc};
use crate::base::crypto::Signature;
use crate::base::membership::{Committee, Opening};
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::ledger::block::{self, Block, BlockId, payload_of};
use crate::ledger::frame::FrameId;
use crate::protocols::protocol::{self, BlockOf};

/// Most fallback votes of a replica in one view. A block is worth one if max(1, f) first votes are
/// for it, and each replica has one: that is true of four blocks, and of no more than six.
pub const MAX_FALLBACKS: usize = 6;

/// The words of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {}

impl protocol::Types for Types {
    type Content = Content;
    type Message = Message;
    type Memory = Memory;
    type Evidence = Commit;
    type Testimony = Nothing;
}

/// What a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The committee it belongs to.
    pub epoch: Epoch,
    /// The view it was proposed in.
    pub view: View,
    /// Its parent's height plus one.
    pub height: Height,
    /// The certificate of its parent.
    pub justify: Qc,
    /// The certificate of the view before, if the justify is of an earlier one.
    pub tc: Option<Tc>,
    /// The height of a state that the proposer has executed ...
    pub root_of: Height,
    /// ... and the root of that state.
    pub state_root: Digest,
    /// The request frames, in the order of execution.
    pub frames: Vec<FrameId>,
}

impl Content {
    /// The block before a committee's first one.
    #[must_use]
    pub fn genesis(committee: &Committee) -> BlockOf<Types> {
        let Opening { after, height } = committee.opening();
        Arc::new(Block::new(Self {
            epoch: committee.epoch(),
            view: View(0),
            height,
            justify: Qc::genesis(after),
            tc: None,
            root_of: Height(0),
            state_root: Digest::default(),
            frames: Vec::new(),
        }))
    }
}

/// What a block's identity covers: of its certificates what they are for, not who signed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    epoch: Epoch,
    view: View,
    height: Height,
    parent: BlockId,
    parent_view: View,
    root_of: Height,
    state_root: Digest,
    payload: Digest,
}

impl block::Content for Content {
    type Summary = Summary;

    fn summary(&self) -> Summary {
        let Self { epoch, view, height, root_of, state_root, .. } = *self;
        Summary {
            epoch,
            view,
            height,
            parent: self.justify.block,
            parent_view: self.justify.view,
            root_of,
            state_root,
            payload: payload_of(&self.frames),
        }
    }

    fn frames(&self) -> &[FrameId] {
        &self.frames
    }

    fn size_bytes(&self) -> usize {
        let given_up = self.tc.as_ref().map_or(0, |tc| 76 * tc.entries.len());
        160 + 68 * self.justify.signers().count() + given_up + 32 * self.frames.len()
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

/// A vote of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vote {
    /// Its kind.
    pub phase: Phase,
    /// Its view.
    pub view: View,
    /// The block, with the leader's signature under its own first vote for it; `None` is a blank
    /// first vote. Of a second vote the leader's signature is [`Signature::NONE`].
    pub block: Option<(BlockId, Signature)>,
    /// The sender's signature.
    pub signature: Signature,
}

/// Where a replica stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its highest QC.
    pub high_qc: Qc,
    /// The TC by which it entered its view, if that was one.
    pub tc: Option<Tc>,
    /// Its latest commit.
    pub decided: Option<Commit>,
    /// Whether it wants to hear of later ones.
    pub asks: bool,
}

impl Standing {
    /// The view that its certificates lead to.
    #[must_use]
    pub fn view(&self) -> View {
        self.high_qc.view.max(self.tc.as_ref().map_or(View(0), |tc| tc.view)).next()
    }
}

/// What replicas say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From its leader: the block of a view.
    Proposal {
        /// The block.
        block: BlockOf<Types>,
        /// Under the leader's first vote.
        signature: Signature,
        /// The leader's latest commit.
        decided: Option<Commit>,
    },
    /// A vote.
    Vote(Vote),
    /// The sender gave the view up.
    TimeOut {
        /// The view.
        view: View,
        /// The sender's highest QC.
        high_qc: Qc,
        /// Under both views.
        signature: Signature,
    },
    /// Where the sender stands.
    Standing(Box<Standing>),
}

/// What this replica said in one view.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The view.
    pub view: View,
    /// Its first vote: the block with the leader's signature (its own: [`Signature::NONE`]), or
    /// blank.
    pub first: Option<Option<(BlockId, Signature)>>,
    /// Its fallback votes.
    pub fallbacks: Vec<(BlockId, Signature)>,
    /// Its second vote.
    pub second: Option<BlockId>,
    /// The highest QC that its time-out names.
    pub gave_up: Option<Qc>,
}

impl Said {
    /// Whether it voted for a block, first or as a fallback.
    #[must_use]
    pub fn voted(&self, block: &BlockId) -> bool {
        self.votes().any(|voted| voted == *block)
    }

    /// The blocks that it voted for, first or as a fallback.
    pub fn votes(&self) -> impl Iterator<Item = BlockId> {
        let first = self.first.flatten().into_iter();
        first.chain(self.fallbacks.iter().copied()).map(|(block, _)| block)
    }
}

/// All that a replica must never forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// What it said last.
    pub said: Said,
    /// The highest QC that it knows.
    pub high_qc: Qc,
    /// The TC by which it entered its view, if that was one.
    pub tc: Option<Tc>,
    /// The latest commit that it knows.
    pub decided: Option<Commit>,
}

/// There is nothing to testify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

const DIGEST_BYTES: usize = 32;
const NUMBER_BYTES: usize = 8;
const COUNT_BYTES: usize = 4;
const SIGNATURE_BYTES: usize = 1 + Signature::MAX_BYTES;
const ID_BYTES: usize = size_of::<ReplicaId>();

/// The most bytes of the memory of a replica in a committee of this size.
#[must_use]
pub const fn memory_bytes(replicas: usize) -> usize {
    let signed = replicas * (ID_BYTES + SIGNATURE_BYTES);
    let qc = NUMBER_BYTES + DIGEST_BYTES + 2 * COUNT_BYTES + signed;
    let commit = 1 + NUMBER_BYTES + DIGEST_BYTES + COUNT_BYTES + signed;
    let tc = NUMBER_BYTES + COUNT_BYTES + signed + replicas * NUMBER_BYTES;
    let block = DIGEST_BYTES + SIGNATURE_BYTES;
    let votes = 2 + block + COUNT_BYTES + MAX_FALLBACKS * block + 1 + DIGEST_BYTES;
    1 + NUMBER_BYTES + votes + 1 + qc + qc + 1 + tc + 1 + commit
}
