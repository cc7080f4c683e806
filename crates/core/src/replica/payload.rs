//! The frames that this replica holds: they wait to be ordered, or they are of proposals that came
//! in, or of blocks.
//!
//! A block's frames (its *bodies*) are here from the moment the protocol is told of the block, and
//! for as long as it may still be executed here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::arrivals::Arrivals;
use crate::base::types::Time;
use crate::ledger::block::BlockId;
use crate::ledger::frame::{Frame, FrameId, SharedFrame};
use crate::ledger::mempool::{Admission, Mempool, Origin};
use crate::ledger::sessions::Sessions;
use crate::protocols::protocol::{BlockOf, Types};

/// The frames at hand.
#[derive(Debug)]
pub(super) struct Payload<T: Types> {
    /// The frames that wait to be ordered.
    pub mempool: Mempool,
    /// The proposals that wait for frames.
    pub arrivals: Arrivals<T>,
    bodies: BTreeMap<BlockId, Vec<SharedFrame>>,
}

impl<T: Types> Payload<T> {
    pub fn new(mempool: Mempool, arrivals: Arrivals<T>) -> Self {
        Self { mempool, arrivals, bodies: BTreeMap::new() }
    }

    /// Takes a verified frame into the mempool, and to the proposals that wait for it.
    pub fn admit(
        &mut self,
        now: Time,
        frame: &SharedFrame,
        origin: Origin,
        sessions: &Sessions,
    ) -> Admission {
        self.arrivals.supply(frame);
        self.mempool.insert(Arc::clone(frame), origin, now, sessions)
    }

    /// The frames of a block, in its order.
    pub fn bodies(&self, block: &BlockId) -> Option<&Vec<SharedFrame>> {
        self.bodies.get(block)
    }

    /// Of how many blocks the frames are here.
    pub fn blocks(&self) -> usize {
        self.bodies.len()
    }

    /// Keeps the frames of a block that survived a restart.
    pub fn recover(&mut self, block: BlockId, bodies: Vec<SharedFrame>) {
        self.bodies.insert(block, bodies);
    }

    /// Keeps the frames of a block.
    pub fn keep(&mut self, block: BlockId, frames: Vec<SharedFrame>) {
        let frames = mutant!("filtering-loses-commands", self.mempool.take_out(frames), frames);
        self.bodies.entry(block).or_insert(frames);
    }

    /// Keeps `batch` as the frames of a block, if the block was made of them.
    pub fn keep_own(&mut self, block: &BlockOf<T>, batch: &[SharedFrame]) {
        let ours = block.frames().iter().copied().eq(batch.iter().map(|frame| frame.id()));
        if ours && !self.bodies.contains_key(&block.id()) {
            self.keep(block.id(), batch.to_vec());
        }
    }

    /// Takes out the frames of a block that is executed, or will never be.
    pub fn take(&mut self, block: &BlockId) -> Option<Vec<SharedFrame>> {
        self.bodies.remove(block)
    }

    /// Lets go of the frames of all blocks but those that `may_be_executed` names.
    pub fn retain(&mut self, may_be_executed: impl Fn(&BlockId) -> bool) {
        self.bodies.retain(|id, _| may_be_executed(id));
    }

    /// Those of `ids` that are here, until they come to more than `budget_bytes`.
    pub fn find(&self, ids: &[FrameId], budget_bytes: usize) -> Vec<SharedFrame> {
        let in_blocks: BTreeMap<FrameId, &SharedFrame> =
            self.bodies.values().flatten().map(|frame| (frame.id(), frame)).collect();
        let held = |id: &FrameId| {
            self.mempool.get(id).or_else(|| in_blocks.get(id).copied()).map(Arc::clone)
        };
        let mut bytes = 0;
        let mut found = Vec::new();
        for frame in ids.iter().filter_map(held) {
            bytes += frame.encoded_bytes().len();
            found.push(frame);
            if bytes > budget_bytes {
                break;
            }
        }
        found
    }

    /// The frames that came from clients before `time`, were not passed on, and are in no block
    /// here. They count as passed on from now.
    pub fn unrelayed_before(&mut self, time: Time, now: Time) -> Vec<SharedFrame> {
        let in_blocks: BTreeSet<FrameId> = self.bodies.values().flatten().map(|f| f.id()).collect();
        let mut frames = self.mempool.unrelayed_before(time, now);
        frames.retain(|frame| !in_blocks.contains(&frame.id()));
        frames
    }

    /// The oldest frames that wait and are in no block here, as far as they come to so many
    /// commands and bytes; at least one, if there is any.
    pub fn unordered(&self, most_commands: usize, most_bytes: usize) -> Vec<SharedFrame> {
        let in_blocks: BTreeSet<FrameId> = self.bodies.values().flatten().map(|f| f.id()).collect();
        self.mempool.batch(&|id| in_blocks.contains(id), most_commands, most_bytes)
    }

    /// The first of those frames of a block that travel with it, as far as they come to
    /// `most_bytes` together.
    pub fn small_bodies(
        &self,
        block: &BlockId,
        most_bytes: usize,
        travels: impl Fn(&Frame) -> bool,
    ) -> Vec<SharedFrame> {
        let mut bytes = 0;
        let fits = |frame: &&SharedFrame| {
            bytes += frame.encoded_bytes().len();
            bytes <= most_bytes
        };
        let frames = self.bodies.get(block).into_iter().flatten();
        frames.filter(|frame| travels(frame)).take_while(fits).cloned().collect()
    }
}
