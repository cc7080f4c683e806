use std::fmt;
use std::sync::Arc;

use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::block::{self, Content, Header, SharedBlock};

/// A word of a protocol: it can be sent, kept and compared.
pub trait Word:
    Clone + fmt::Debug + PartialEq + Eq + Encode + Decode + Send + Sync + 'static
{
}

impl<T: Clone + fmt::Debug + PartialEq + Eq + Encode + Decode + Send + Sync + 'static> Word for T {}

/// The words of a protocol.
pub trait Types: Clone + fmt::Debug + PartialEq + Eq + Send + Sync + 'static {
    /// What it writes into blocks.
    type Content: Content;
    /// What its replicas say to each other.
    type Message: Word;
    /// All that a replica must never forget, written as one before anything that rests on it
    /// leaves.
    type Memory: Word;
    /// What convinces somebody who was not there of a block, or of a state root.
    type Evidence: Word;
    /// What a replica says of itself to one that lost its memory.
    type Testimony: Word;
}

/// A block of a protocol's.
pub type BlockOf<T> = SharedBlock<<T as Types>::Content>;
/// A header of a protocol's.
pub type HeaderOf<T> = Header<<<T as Types>::Content as Content>::Summary>;
/// A block with its frames.
pub type FullBlockOf<T> = block::FullBlock<<T as Types>::Content>;

/// A block with what convinces others of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown<T: Types> {
    /// The block.
    pub block: BlockOf<T>,
    /// Its evidence.
    pub evidence: T::Evidence,
}

impl<T: Types> Encode for Shown<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.block.encode(out);
        self.evidence.encode(out);
    }
}

impl<T: Types> Decode for Shown<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            block: Arc::new(block::Block::decode(reader)?),
            evidence: T::Evidence::decode(reader)?,
        })
    }
}
