//! Where a block is: its height and its name.

use crate::base::types::{Digest, Height};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::block::BlockId;

/// A block and its height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The height.
    pub height: Height,
    /// The block.
    pub block: BlockId,
}

impl Encode for Place {
    fn encode(&self, out: &mut Vec<u8>) {
        self.height.encode(out);
        self.block.encode(out);
    }
}

impl Decode for Place {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self { height: Height::decode(reader)?, block: Digest::decode(reader)? })
    }
}
