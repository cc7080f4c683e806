//! What replicas say to each other: the protocol's messages, and what surrounds them.

use std::sync::Arc;

use bytes::Bytes;

pub use super::snapshot::Offer;
use crate::base::crypto::Signature;
use crate::base::types::{Digest, Epoch, Height};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_bytes, put_list};
use crate::ledger::block::{BlockId, Content, FullBlock, MAX_FRAMES, frames, put_frames};
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::ledger::state_machine::MAX_CHUNK_BYTES;
use crate::protocols::protocol::{FullBlockOf, Handover, SharedHandover, Types};

/// The longest message between two replicas.
pub const MAX_PEER_MESSAGE_BYTES: usize = 16 << 20;
/// Most frames in one message beside a proposal's.
pub const MAX_FRAMES_SENT: usize = MAX_FRAMES;
/// Most frames that one message tells of.
pub const MAX_HELD: usize = MAX_FRAMES;
/// Most blocks in one answer to a fetch.
pub const MAX_BLOCKS_SENT: usize = 1024;
/// The first eight bytes of a frame's identity, as compact blocks name transactions (BIP 152,
/// "Short transaction IDs"). Two frames may have the same. Then one is counted as held where the
/// other is, and is asked for like any that is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShortId(u64);

impl ShortId {
    /// That of a frame.
    #[must_use]
    pub fn of(id: &FrameId) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = id.0;
        Self(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
    }
}

impl Encode for ShortId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
}

impl Decode for ShortId {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.u64().map(Self)
    }
}

/// From one replica to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PeerMessage<T: Types> {
    /// A message of the protocol, with the bodies of some of its block's frames.
    Protocol {
        /// The epoch of its sender.
        epoch: Epoch,
        /// The message.
        message: T::Message,
        /// Bodies, in any order.
        frames: Vec<SharedFrame>,
    },
    /// Pending frames that the sender fears the receiver does not have.
    Relay(Vec<SharedFrame>),
    /// Send the bodies of these frames.
    NeedFrames(Vec<FrameId>),
    /// Bodies that were asked for.
    Frames(Vec<SharedFrame>),
    /// Send the blocks above a height, ascending, on the way to `tip`.
    FetchChain {
        /// The block wanted in the end.
        tip: BlockId,
        /// Up to this height the asker has them.
        above: Height,
        /// Send no more than about this many bytes.
        budget_bytes: u32,
    },
    /// Blocks that were asked for: each the parent of the next.
    Chain(Vec<FullBlockOf<T>>),
    /// Blocks that nobody asked for, ahead of a proposal that extends them: each the parent of the
    /// next, and the last one certified here.
    Ancestors {
        /// Oldest first.
        blocks: Vec<FullBlockOf<T>>,
        /// Of the last one.
        evidence: T::Evidence,
    },
    /// The blocks asked for are gone; this snapshot is offered instead.
    Behind(Box<Offer<T>>),
    /// Send a chunk of the snapshot at a height.
    FetchChunk {
        /// The snapshot.
        height: Height,
        /// The chunk, from 0.
        chunk: u32,
    },
    /// A chunk that was asked for.
    Chunk {
        /// The snapshot.
        height: Height,
        /// The chunk.
        chunk: u32,
        /// Whether it is the last.
        last: bool,
        /// Its bytes.
        bytes: Bytes,
    },
    /// The sender lost its data: which view are you in, so that it speaks in none before?
    AskTestimony {
        /// Chosen anew, repeated in the testimony, so that an old one cannot be passed off.
        nonce: Digest,
    },
    /// The answer, signed.
    Testimony {
        /// The nonce.
        nonce: Digest,
        /// Where its sender stands.
        testimony: T::Testimony,
        /// Over the nonce, the asker and what the testimony says of itself.
        signature: Signature,
    },
    /// A client of the sender waits for the root of the state at this height: propose until a
    /// certified block carries it. (A state's root is in a block some heights above, which an idle
    /// cluster would not come to.)
    Show(Height),
    /// The sender is in this epoch, and others are further: how did it end?
    AskHandover(Epoch),
    /// How an epoch ended.
    Handover(SharedHandover<T>),
    /// The sender holds these frames, whose signatures it verified: they may be proposed. Of the
    /// wire protocol's version 4.
    Held(Vec<ShortId>),
}

impl<T: Types> PeerMessage<T> {
    /// A protocol's message alone, of the first epoch.
    pub fn of(message: T::Message) -> Self {
        Self::Protocol { epoch: Epoch(0), message, frames: Vec::new() }
    }
}

/// The first blocks of `chain` that fit the budget; at least two, for the last block of an answer
/// is certified by no other one in it, and is of no use to the asker unless it is the one wanted.
#[must_use]
pub fn within<C: Content>(chain: Vec<FullBlock<C>>, budget_bytes: u32) -> Vec<FullBlock<C>> {
    let mut bytes = 0;
    let fits = |(at, full): &(usize, FullBlock<C>)| {
        bytes += full.size_bytes();
        *at < 2 || bytes <= budget_bytes as usize
    };
    let chain = chain.into_iter().take(MAX_BLOCKS_SENT).enumerate();
    chain.take_while(fits).map(|(_, full)| full).collect()
}

/// Writes a message of this kind that is one value.
fn put(out: &mut Vec<u8>, kind: u8, value: &impl Encode) {
    out.push(kind);
    value.encode(out);
}

impl<T: Types> Encode for PeerMessage<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Protocol { epoch, message, frames } => {
                out.push(1);
                epoch.encode(out);
                message.encode(out);
                put_frames(out, frames);
            }
            Self::Relay(frames) => {
                out.push(2);
                put_frames(out, frames);
            }
            Self::NeedFrames(ids) => {
                out.push(3);
                put_list(out, ids);
            }
            Self::Frames(frames) => {
                out.push(4);
                put_frames(out, frames);
            }
            Self::FetchChain { tip, above, budget_bytes } => {
                out.push(5);
                tip.encode(out);
                above.encode(out);
                budget_bytes.encode(out);
            }
            Self::Chain(blocks) => {
                out.push(6);
                put_list(out, blocks);
            }
            Self::Ancestors { blocks, evidence } => {
                out.push(12);
                put_list(out, blocks);
                evidence.encode(out);
            }
            Self::Behind(offer) => put(out, 7, offer),
            Self::FetchChunk { height, chunk } => {
                out.push(8);
                height.encode(out);
                chunk.encode(out);
            }
            Self::Chunk { height, chunk, last, bytes } => {
                out.push(9);
                height.encode(out);
                chunk.encode(out);
                out.push(u8::from(*last));
                put_bytes(out, bytes);
            }
            Self::AskTestimony { nonce } => put(out, 10, nonce),
            Self::Testimony { nonce, testimony, signature } => {
                out.push(11);
                nonce.encode(out);
                testimony.encode(out);
                signature.encode(out);
            }
            Self::Show(height) => put(out, 13, height),
            Self::AskHandover(epoch) => put(out, 14, epoch),
            Self::Handover(handover) => put(out, 15, &**handover),
            Self::Held(ids) => {
                out.push(16);
                put_list(out, ids);
            }
        }
    }
}

impl<T: Types> Decode for PeerMessage<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        match reader.u8()? {
            1 => Ok(Self::Protocol {
                epoch: Epoch::decode(reader)?,
                message: T::Message::decode(reader)?,
                frames: frames(reader)?,
            }),
            2 => Ok(Self::Relay(frames(reader)?)),
            3 => Ok(Self::NeedFrames(reader.list("frame ids", MAX_FRAMES_SENT)?)),
            4 => Ok(Self::Frames(frames(reader)?)),
            5 => Ok(Self::FetchChain {
                tip: Digest::decode(reader)?,
                above: Height::decode(reader)?,
                budget_bytes: reader.u32()?,
            }),
            6 => Ok(Self::Chain(reader.list("blocks", MAX_BLOCKS_SENT)?)),
            7 => Ok(Self::Behind(Box::new(Offer::decode(reader)?))),
            8 => Ok(Self::FetchChunk { height: Height::decode(reader)?, chunk: reader.u32()? }),
            9 => Ok(Self::Chunk {
                height: Height::decode(reader)?,
                chunk: reader.u32()?,
                last: match reader.u8()? {
                    0 => false,
                    1 => true,
                    _ => return Err(DecodeError::Invalid { field: "last chunk" }),
                },
                bytes: reader.byte_string("snapshot chunk", MAX_CHUNK_BYTES)?,
            }),
            10 => Ok(Self::AskTestimony { nonce: Digest::decode(reader)? }),
            11 => Ok(Self::Testimony {
                nonce: Digest::decode(reader)?,
                testimony: T::Testimony::decode(reader)?,
                signature: Signature::decode(reader)?,
            }),
            12 => Ok(Self::Ancestors {
                blocks: reader.list("blocks", MAX_BLOCKS_SENT)?,
                evidence: T::Evidence::decode(reader)?,
            }),
            13 => Ok(Self::Show(Height::decode(reader)?)),
            14 => Ok(Self::AskHandover(Epoch::decode(reader)?)),
            15 => Ok(Self::Handover(Arc::new(Handover::decode(reader)?))),
            16 => Ok(Self::Held(reader.list("frames held", MAX_HELD)?)),
            _ => Err(DecodeError::Invalid { field: "peer message kind" }),
        }
    }
}
