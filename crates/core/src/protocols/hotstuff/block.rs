//! HotStuff's blocks: the nodes of the tree that the protocol grows.
//!
//! A block's identity covers the signers of its justify (leaders may be elected from them) but
//! never a signature's bytes, so that a certificate whose signatures were exchanged for other valid
//! ones does not make another block.

use std::sync::Arc;

use crate::base::crypto::Signers;
use crate::base::membership::Opening;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::{self, BlockId, MAX_FRAMES, payload_of};
use crate::ledger::frame::FrameId;
use crate::protocols::hotstuff::certificate::Qc;
use crate::protocols::protocol::Ballot;

/// A block of HotStuff's.
pub type Block = block::Block<Content>;
/// A block, shared.
pub type SharedBlock = Arc<Block>;
/// A block without its frames and without signatures.
pub type Header = block::Header<Summary>;
/// A block with the bodies of its frames.
pub type FullBlock = block::FullBlock<Content>;

/// What a block says.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// The committee it belongs to.
    pub epoch: Epoch,
    /// The view it was proposed in.
    pub view: View,
    /// Its parent's height plus one.
    pub height: Height,
    /// Its proposer.
    pub proposer: ReplicaId,
    /// The certificate of its parent: **the parent is always the block of the justify**.
    pub justify: Qc,
    /// The state root after the block that the *parent* committed (see
    /// [`BlockTree::committed_by`](super::tree::BlockTree::committed_by)): old enough to be known
    /// to everyone who votes.
    pub state_root: Digest,
    /// The request frames, in the order of execution. Bodies travel apart.
    pub frames: Vec<FrameId>,
}

impl block::Content for Content {
    type Summary = Summary;

    fn summary(&self) -> Summary {
        Summary {
            epoch: self.epoch,
            view: self.view,
            height: self.height,
            proposer: self.proposer,
            justify: self.justify.ballot(),
            signers: self.justify.signers().collect(),
            state_root: self.state_root,
            payload: payload_of(&self.frames),
        }
    }

    fn frames(&self) -> &[FrameId] {
        &self.frames
    }

    fn size_bytes(&self) -> usize {
        128 + 66 * self.justify.signers().count() + 32 * self.frames.len()
    }
}

impl Block {
    /// The first block of `chain`: view 0, height 0, certified by definition.
    #[must_use]
    pub fn genesis(chain: Digest, epoch: Epoch) -> Self {
        Self::opening(epoch, Opening { after: chain, height: Height(0) })
    }

    /// The first block of an epoch: view 0, certified by definition. It stands on the block that
    /// sealed the epoch before.
    #[must_use]
    pub fn opening(epoch: Epoch, Opening { after, height }: Opening) -> Self {
        Self::new(Content {
            epoch,
            view: View(0),
            height,
            proposer: ReplicaId(0),
            justify: Qc::genesis(after),
            state_root: Digest::default(),
            frames: Vec::new(),
        })
    }
}

/// What a header says.
#[derive(Clone, PartialEq, Eq)]
pub struct Summary {
    /// The committee the block belongs to.
    pub epoch: Epoch,
    /// The view it was proposed in.
    pub view: View,
    /// Its parent's height plus one.
    pub height: Height,
    /// Its proposer.
    pub proposer: ReplicaId,
    /// What the certificate of its parent is for.
    pub justify: Ballot,
    /// The signers of that certificate; empty where its form does not tell.
    pub signers: Signers,
    /// The state root it carries.
    pub state_root: Digest,
    /// The digest of its list of frames.
    pub payload: Digest,
}

impl block::Summary for Summary {
    fn parent(&self) -> BlockId {
        self.justify.block
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

    fn proposer(&self) -> Option<ReplicaId> {
        Some(self.proposer)
    }

    fn voters_of_parent(&self) -> Signers {
        self.signers
    }
}

impl Encode for Content {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.view.encode(out);
        self.height.encode(out);
        self.proposer.encode(out);
        self.justify.encode(out);
        self.state_root.encode(out);
        put_list(out, &self.frames);
    }
}

impl Decode for Content {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            proposer: ReplicaId::decode(reader)?,
            justify: Qc::decode(reader)?,
            state_root: Digest::decode(reader)?,
            frames: reader.list("frames in a block", MAX_FRAMES)?,
        })
    }
}

impl Encode for Summary {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.view.encode(out);
        self.height.encode(out);
        self.proposer.encode(out);
        self.justify.encode(out);
        self.signers.encode(out);
        self.state_root.encode(out);
        self.payload.encode(out);
    }
}

impl Decode for Summary {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            proposer: ReplicaId::decode(reader)?,
            justify: Ballot::decode(reader)?,
            signers: Signers::decode(reader)?,
            state_root: Digest::decode(reader)?,
            payload: Digest::decode(reader)?,
        })
    }
}
