//! Blocks: the nodes of the tree that the protocol grows.

use std::fmt;
use std::sync::Arc;

use crate::base::crypto::Signers;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::frame::FrameId;
use crate::protocols::hotstuff::certificate::{Ballot, Qc};

/// Identifies a block: the hash of its [`Header`], which has the digest of its frames. It covers
/// the signers of its justify (leaders may be elected from them) but never a signature's bytes, so
/// that a certificate whose signatures were exchanged for other valid ones does not make another
/// block.
pub type BlockId = Digest;

/// Most frames in one block.
pub const MAX_FRAMES: usize = 4096;

/// A block. Immutable; its identity was computed when it was made or decoded.
#[derive(Clone, PartialEq, Eq)]
pub struct Block {
    content: Content,
    header: Header,
}

/// A block, shared.
pub type SharedBlock = Arc<Block>;

/// What a block says.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    /// The committee it belongs to.
    pub epoch: Epoch,
    /// The view it was proposed in.
    pub view: View,
    /// Its parent's height plus one.
    pub height: Height,
    /// Who proposed it.
    pub proposer: ReplicaId,
    /// The certificate of its parent: **the parent is always the block of the justify**.
    pub justify: Qc,
    /// The state root after the block that the *parent* committed (see
    /// [`crate::protocols::hotstuff::tree::BlockTree::committed_by`]): old enough to be known to everyone who votes.
    pub state_root: Digest,
    /// The request frames, in the order of execution. Bodies travel apart.
    pub frames: Vec<FrameId>,
}

impl Block {
    /// Seals `content` under its identity.
    #[must_use]
    pub fn new(content: Content) -> Self {
        let header = Header::new(Summary {
            epoch: content.epoch,
            view: content.view,
            height: content.height,
            proposer: content.proposer,
            justify: content.justify.ballot(),
            signers: content.justify.signers().collect(),
            state_root: content.state_root,
            payload: payload_of(&content.frames),
        });
        Self { content, header }
    }

    /// The first block of `chain`: view 0, height 0, certified by definition.
    #[must_use]
    pub fn genesis(chain: Digest, epoch: Epoch) -> Self {
        Self::new(Content {
            epoch,
            view: View(0),
            height: Height(0),
            proposer: ReplicaId(0),
            justify: Qc::genesis(chain),
            state_root: Digest::default(),
            frames: Vec::new(),
        })
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.header.id
    }

    /// What counts of it once it is committed and executed.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The block it extends.
    #[must_use]
    pub fn parent(&self) -> BlockId {
        self.content.justify.block()
    }

    /// Whether it carries no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.content.frames.is_empty()
    }
}

/// A block without its frames and without signatures: what elections look back on, and what a
/// replica that was away is sent of its past.
///
/// It hashes to the block's identity, so a header is believed as far as the block above it is: the
/// parent that a certified block names has this header and no other.
#[derive(Clone, PartialEq, Eq)]
pub struct Header {
    summary: Summary,
    id: BlockId,
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
    /// Who proposed it.
    pub proposer: ReplicaId,
    /// What the certificate of its parent is for.
    pub justify: Ballot,
    /// Who signed that certificate; nobody where its form does not tell.
    pub signers: Signers,
    /// The state root it carries.
    pub state_root: Digest,
    /// The digest of its list of frames.
    pub payload: Digest,
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

fn payload_of(frames: &[FrameId]) -> Digest {
    let mut bytes = Vec::with_capacity(4 + 32 * frames.len());
    put_list(&mut bytes, frames);
    Digest::of("quorate block payload", &bytes)
}

impl Header {
    /// Seals `summary` under its identity.
    #[must_use]
    pub fn new(summary: Summary) -> Self {
        let id = Digest::of("quorate block header", &summary.to_bytes());
        Self { summary, id }
    }

    /// The block's identity.
    #[must_use]
    pub fn id(&self) -> BlockId {
        self.id
    }

    /// The block it extends.
    #[must_use]
    pub fn parent(&self) -> BlockId {
        self.summary.justify.block
    }

    /// Whether the block carries no command.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.summary.payload == payload_of(&[])
    }
}

impl std::ops::Deref for Header {
    type Target = Summary;
    fn deref(&self) -> &Summary {
        &self.summary
    }
}

impl fmt::Debug for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "header {:?} {:?} {:?} on {:?}", self.id, self.view, self.height, self.parent())
    }
}

impl std::ops::Deref for Block {
    type Target = Content;
    fn deref(&self) -> &Content {
        &self.content
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "block {:?} {:?} {:?} on {:?}", self.id(), self.view, self.height, self.parent())
    }
}

impl Encode for Block {
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

impl Encode for Header {
    fn encode(&self, out: &mut Vec<u8>) {
        self.summary.encode(out);
    }
}

impl Decode for Header {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::new(Summary {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            proposer: ReplicaId::decode(reader)?,
            justify: Ballot::decode(reader)?,
            signers: Signers::decode(reader)?,
            state_root: Digest::decode(reader)?,
            payload: Digest::decode(reader)?,
        }))
    }
}

impl Decode for Block {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self::new(Content {
            epoch: Epoch::decode(reader)?,
            view: View::decode(reader)?,
            height: Height::decode(reader)?,
            proposer: ReplicaId::decode(reader)?,
            justify: Qc::decode(reader)?,
            state_root: Digest::decode(reader)?,
            frames: reader.list("frames in a block", MAX_FRAMES)?,
        }))
    }
}
