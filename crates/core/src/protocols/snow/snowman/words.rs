//! What replicas of Snowman say and keep.

use std::sync::Arc;

use super::frosty::words::{Remembered, Word};
pub use super::place::Place;
use crate::base::crypto::Signature;
use crate::base::membership::Committee;
use crate::base::types::{Digest, Epoch, Height, ReplicaId, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::{self, Block, BlockId, MAX_FRAMES, payload_of};
use crate::ledger::frame::FrameId;
use crate::protocols::checkpoint::{Checkpoint, Stable};
use crate::protocols::protocol::{self, BlockOf};

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
    /// Its parent's height plus one.
    pub height: Height,
    /// The block it extends.
    pub parent: BlockId,
    /// Who made it. Believed only of a block that comes from its proposer; nothing rests on it
    /// elsewhere.
    pub proposer: ReplicaId,
    /// A stable checkpoint below it that no block said before: who fetches blocks believes those
    /// below a checkpoint.
    pub stable: Option<Stable>,
    /// The request frames, in the order of execution.
    pub frames: Vec<FrameId>,
}

impl Content {
    /// The block before a committee's first one.
    #[must_use]
    pub fn genesis(committee: &Committee) -> BlockOf<Types> {
        Arc::new(Block::new(Self {
            epoch: committee.epoch(),
            height: Height(0),
            parent: committee.chain(),
            proposer: ReplicaId(0),
            stable: None,
            frames: Vec::new(),
        }))
    }
}

/// What a block's identity covers: of the checkpoint what it says, not who signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary {
    epoch: Epoch,
    height: Height,
    parent: BlockId,
    proposer: ReplicaId,
    stable: Option<Checkpoint>,
    payload: Digest,
}

impl block::Content for Content {
    type Summary = Summary;

    fn summary(&self) -> Summary {
        let Self { epoch, height, parent, proposer, .. } = *self;
        let stable = self.stable.as_ref().map(|stable| stable.checkpoint);
        Summary { epoch, height, parent, proposer, stable, payload: payload_of(&self.frames) }
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
        View(0)
    }

    fn payload(&self) -> Digest {
        self.payload
    }
}

impl Place {
    /// That of a block.
    #[must_use]
    pub fn of(block: &BlockOf<Types>) -> Self {
        Self { height: block.height(), block: block.id() }
    }
}

/// What replicas say to each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// From its proposer: a new block.
    Push(BlockOf<Types>),
    /// Which chain do you prefer?
    Query {
        /// The asker's number of the poll.
        poll: u64,
        /// The tip of the chain that the asker prefers.
        tip: Place,
        /// How far the asker has accepted.
        accepted: Height,
    },
    /// The answer: a chit.
    Answer {
        /// The asker's number of the poll.
        poll: u64,
        /// The tip of the chain that the sender prefers.
        tip: Place,
        /// The block of that chain at the height of the asker's tip, as far as the sender knows:
        /// an asker that lacks the tip may have this one.
        at: Option<BlockId>,
        /// How far the sender has accepted.
        accepted: Height,
    },
    /// The state that the sender came to.
    Checkpoint {
        /// What it signs.
        checkpoint: Checkpoint,
        /// Its signature.
        signature: Signature,
    },
    /// A checkpoint that f + 1 replicas signed.
    Stable(Box<Stable>),
    /// Where the sender stands: said when it has nothing more to decide, and when a channel opens.
    Accepted {
        /// The last block that it accepted.
        tip: Place,
        /// The height of its stable checkpoint.
        stable: Height,
    },
    /// About epochs, where the cluster falls back on a quorum ([`frosty`](super::frosty)).
    Frosty(Box<Word>),
}

/// All that a replica must never forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The last block that it accepted.
    pub accepted: Place,
    /// The tip of the chain that it prefers: it answered so, and others decided by it.
    pub preferred: BlockId,
    /// Its stable checkpoint; none where that is the genesis block.
    pub stable: Option<Stable>,
    /// Where it is with epochs; none without the fallback.
    pub frosty: Option<Arc<Remembered>>,
}

/// What a replica says to one that lost its memory: nothing that would help it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Testimony {
    /// How far it has accepted.
    pub accepted: Height,
}

impl Encode for Content {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.height.encode(out);
        self.parent.encode(out);
        self.proposer.encode(out);
        self.stable.encode(out);
        put_list(out, &self.frames);
    }
}

impl Decode for Content {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            height: Height::decode(reader)?,
            parent: Digest::decode(reader)?,
            proposer: ReplicaId::decode(reader)?,
            stable: reader.option("stable checkpoint of a block")?,
            frames: reader.list("frames in a block", MAX_FRAMES)?,
        })
    }
}

impl Encode for Summary {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.height.encode(out);
        self.parent.encode(out);
        self.proposer.encode(out);
        self.stable.encode(out);
        self.payload.encode(out);
    }
}

impl Decode for Summary {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            height: Height::decode(reader)?,
            parent: Digest::decode(reader)?,
            proposer: ReplicaId::decode(reader)?,
            stable: reader.option("stable checkpoint of a header")?,
            payload: Digest::decode(reader)?,
        })
    }
}

impl Encode for Message {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Push(block) => {
                out.push(1);
                block.encode(out);
            }
            Self::Query { poll, tip, accepted } => {
                out.push(2);
                poll.encode(out);
                tip.encode(out);
                accepted.encode(out);
            }
            Self::Answer { poll, tip, at, accepted } => {
                out.push(3);
                poll.encode(out);
                tip.encode(out);
                at.encode(out);
                accepted.encode(out);
            }
            Self::Checkpoint { checkpoint, signature } => {
                out.push(4);
                checkpoint.encode(out);
                signature.encode(out);
            }
            Self::Stable(stable) => {
                out.push(5);
                stable.encode(out);
            }
            Self::Accepted { tip, stable } => {
                out.push(6);
                tip.encode(out);
                stable.encode(out);
            }
            Self::Frosty(word) => {
                out.push(7);
                word.encode(out);
            }
        }
    }
}

impl Decode for Message {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(match reader.u8()? {
            1 => Self::Push(Arc::new(Block::decode(reader)?)),
            2 => Self::Query {
                poll: reader.u64()?,
                tip: Place::decode(reader)?,
                accepted: Height::decode(reader)?,
            },
            3 => Self::Answer {
                poll: reader.u64()?,
                tip: Place::decode(reader)?,
                at: reader.option("block at a height")?,
                accepted: Height::decode(reader)?,
            },
            4 => Self::Checkpoint {
                checkpoint: Checkpoint::decode(reader)?,
                signature: Signature::decode(reader)?,
            },
            5 => Self::Stable(Box::new(Stable::decode(reader)?)),
            6 => Self::Accepted { tip: Place::decode(reader)?, stable: Height::decode(reader)? },
            7 => Self::Frosty(Box::new(Word::decode(reader)?)),
            _ => return Err(DecodeError::Invalid { field: "message kind" }),
        })
    }
}

impl Encode for Memory {
    /// Without the fallback nothing is written of it: records are as they were before there was
    /// one.
    fn encode(&self, out: &mut Vec<u8>) {
        self.accepted.encode(out);
        self.preferred.encode(out);
        self.stable.encode(out);
        if let Some(frosty) = &self.frosty {
            Remembered::encode(frosty, out);
        }
    }
}

impl Decode for Memory {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            accepted: Place::decode(reader)?,
            preferred: Digest::decode(reader)?,
            stable: reader.option("stable checkpoint of a memory")?,
            frosty: match reader.remaining() {
                0 => None,
                _ => Some(Arc::new(Remembered::decode(reader)?)),
            },
        })
    }
}

impl Encode for Testimony {
    fn encode(&self, out: &mut Vec<u8>) {
        self.accepted.encode(out);
    }
}

impl Decode for Testimony {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { accepted: Height::decode(reader)? })
    }
}
