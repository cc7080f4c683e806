//! What votes are for.

use crate::base::types::{Digest, View};
use crate::base::wire::{Decode, DecodeError, Encode, Reader};
use crate::ledger::block::BlockId;

/// What a vote is for: one place in the order of a replica's votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ballot {
    /// The block's view.
    pub view: View,
    /// The phase, from 1. Protocols with one phase a view use 1.
    pub phase: u8,
    /// The block.
    pub block: BlockId,
}

impl Ballot {
    /// What votes are ordered by: a replica casts one for each, in increasing order.
    #[must_use]
    pub fn rank(&self) -> (View, u8) {
        (self.view, self.phase)
    }
}

impl Encode for Ballot {
    fn encode(&self, out: &mut Vec<u8>) {
        self.view.encode(out);
        out.push(self.phase);
        self.block.encode(out);
    }
}

impl Decode for Ballot {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            view: View::decode(reader)?,
            phase: reader.u8()?,
            block: Digest::decode(reader)?,
        })
    }
}
