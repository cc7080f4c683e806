//! What replicas of this protocol say and keep.

use std::sync::Arc;

use crate::base::membership::Committee;
use crate::base::types::{Digest, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::{self, Block, BlockId, MAX_FRAMES, payload_of};
use crate::ledger::frame::FrameId;
use crate::protocols::protocol::{self, BlockOf};

/// Who orders.
pub const LEADER: ReplicaId = ReplicaId(0);

/// The words of this protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {}

impl protocol::Types for Types {
    type Content = Content;
    type Message = Message;
    type Memory = Nothing;
    type Evidence = Nothing;
    type Testimony = Nothing;
}

/// What a block says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The block it extends.
    pub parent: BlockId,
    /// Its parent's height plus one.
    pub height: Height,
    /// The root of the state behind its parent.
    pub state_root: Digest,
    /// The request frames, in the order of execution.
    pub frames: Vec<FrameId>,
}

/// What a block's identity covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    parent: BlockId,
    height: Height,
    state_root: Digest,
    payload: Digest,
}

impl Content {
    /// The block before a committee's first one.
    #[must_use]
    pub fn genesis(committee: &Committee) -> Self {
        Self {
            parent: committee.chain(),
            height: Height(0),
            state_root: Digest::default(),
            frames: Vec::new(),
        }
    }
}

impl block::Content for Content {
    type Summary = Summary;

    fn summary(&self) -> Summary {
        let Self { parent, height, state_root, .. } = *self;
        Summary { parent, height, state_root, payload: payload_of(&self.frames) }
    }

    fn frames(&self) -> &[FrameId] {
        &self.frames
    }

    fn size_bytes(&self) -> usize {
        128 + 32 * self.frames.len()
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
        View(0)
    }

    fn payload(&self) -> Digest {
        self.payload
    }
}

/// There is nothing to remember but the blocks, nothing to show and nothing to testify.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

/// What replicas say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From the leader: this block is the next one.
    Order(BlockOf<Types>),
    /// From the leader: this block is the last one.
    Head(BlockId, Height),
    /// To the leader: the sender has everything up to this height.
    Have(Height),
}

impl Encode for Nothing {
    fn encode(&self, out: &mut Vec<u8>) {
        out.push(0);
    }
}

impl Decode for Nothing {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            0 => Ok(Self),
            _ => Err(DecodeError::Invalid { field: "nothing" }),
        }
    }
}

impl Encode for Content {
    fn encode(&self, out: &mut Vec<u8>) {
        self.parent.encode(out);
        self.height.encode(out);
        self.state_root.encode(out);
        put_list(out, &self.frames);
    }
}

impl Decode for Content {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            parent: Digest::decode(reader)?,
            height: Height::decode(reader)?,
            state_root: Digest::decode(reader)?,
            frames: reader.list("frames in a block", MAX_FRAMES)?,
        })
    }
}

impl Encode for Summary {
    fn encode(&self, out: &mut Vec<u8>) {
        self.parent.encode(out);
        self.height.encode(out);
        self.state_root.encode(out);
        self.payload.encode(out);
    }
}

impl Decode for Summary {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            parent: Digest::decode(reader)?,
            height: Height::decode(reader)?,
            state_root: Digest::decode(reader)?,
            payload: Digest::decode(reader)?,
        })
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Order(block) => {
                out.push(1);
                block.encode(out);
            }
            Self::Head(id, height) => {
                out.push(2);
                id.encode(out);
                height.encode(out);
            }
            Self::Have(height) => {
                out.push(3);
                height.encode(out);
            }
        }
    }
}

impl Decode for Message {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Order(Arc::new(Block::decode(reader)?))),
            2 => Ok(Self::Head(Digest::decode(reader)?, Height::decode(reader)?)),
            3 => Ok(Self::Have(Height::decode(reader)?)),
            _ => Err(DecodeError::Invalid { field: "message kind" }),
        }
    }
}
