//! What travels with a snapshot of the state: on its way to a peer, and beside it on the disk.

use std::sync::Arc;

use crate::base::types::{Digest, Epoch, Height};
use crate::base::wire::{Decode, DecodeError, Encode, Reader, put_list};
use crate::ledger::block::Block;
use crate::protocols::protocol::{BlockOf, HeaderOf, MAX_LOOK_BACK, Shown, Types};

/// Most committed blocks below a snapshot's that are sent with it.
const MAX_RECENT: usize = MAX_LOOK_BACK;
/// Roots kept beside a snapshot: blocks right above it name states this far below.
pub const MAX_ROOTS: usize = 64;

/// What a replica needs to take over a snapshot that a peer holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer<T: Types> {
    /// The epoch whose committee attests it.
    pub epoch: Epoch,
    /// The block whose state it is.
    pub block: BlockOf<T>,
    /// The headers of the committed blocks right below it, oldest first.
    pub recent: Vec<HeaderOf<T>>,
    /// A block that attests the root of this state, with its evidence: a quorum had computed the
    /// same root.
    pub shown: Shown<T>,
}

/// What is kept beside a snapshot's chunks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotMeta<T: Types> {
    /// The block whose state it is.
    pub block: BlockOf<T>,
    /// What the chain up to that block commits by itself.
    pub committed: Height,
    /// The headers of the committed blocks right below it, oldest first.
    pub recent: Vec<HeaderOf<T>>,
    /// The roots of the states up to and including this one, the latest last.
    pub roots: Vec<Digest>,
}

impl<T: Types> Encode for Offer<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.epoch.encode(out);
        self.block.encode(out);
        put_list(out, &self.recent);
        self.shown.encode(out);
    }
}

impl<T: Types> Decode for Offer<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            epoch: Epoch::decode(reader)?,
            block: Arc::new(Block::decode(reader)?),
            recent: reader.list("headers", MAX_RECENT)?,
            shown: Shown::decode(reader)?,
        })
    }
}

impl<T: Types> Encode for SnapshotMeta<T> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.block.encode(out);
        self.committed.encode(out);
        put_list(out, &self.recent);
        put_list(out, &self.roots);
    }
}

impl<T: Types> Decode for SnapshotMeta<T> {
    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        Ok(Self {
            block: Arc::new(Block::decode(reader)?),
            committed: Height::decode(reader)?,
            recent: reader.list("headers", MAX_RECENT)?,
            roots: reader.list("roots", MAX_ROOTS)?,
        })
    }
}
