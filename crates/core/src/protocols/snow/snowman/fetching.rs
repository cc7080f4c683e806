//! Taking in blocks: from their proposers, and fetched ones.

use std::sync::Arc;

use super::words::{Place, Types};
use super::{Fx, MAX_DEPTH, Snowman};
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{BlockOf, Event};

impl Snowman {
    /// A peer names the tip of the chain that it prefers or accepted.
    pub(super) fn hear(&mut self, now: Time, from: ReplicaId, place: Place) {
        let is_above = place.height > self.accepted.head().height();
        let is_here = self.tree.get(&place.block).is_some();
        self.fetching.names(now, from, Some(place).filter(|_| is_above), is_here);
    }

    /// Whether a block is in the tree, accepted, or fetched.
    pub(super) fn place_of(&self, id: &BlockId) -> Option<Height> {
        let found = self.tree.get(id).or_else(|| self.fetching.get(id));
        found.map(|block| block.height()).or_else(|| self.accepted.height_of(id))
    }

    /// Takes in a fetched block, if its parent was fetched or is in the tree.
    pub(super) fn on_fetched(&mut self, now: Time, from: ReplicaId, block: BlockOf<Types>) {
        let is_late = block.height() <= self.accepted.head().height();
        if is_late || self.place_of(&block.id()).is_some() {
            return;
        }
        self.fetching.progressed(now);
        let is_rooted = self.tree.reaches(&block.parent());
        self.fetching.grow(now, from, block, is_rooted);
    }

    /// Takes fetched blocks into the tree: the way to a tip that a peer names, as far as it is not
    /// too long. Accepts what a stable checkpoint is for, and what an epoch decided.
    pub(super) fn believe(&mut self, fx: &mut Fx) {
        loop {
            let stable = self.checkpoints.stable().map(|stable| stable.checkpoint.block);
            let decided = self.frosty.as_ref().and_then(|frosty| frosty.decided());
            let decided = decided.map(|place| place.block);
            let proven: Vec<_> = self.fetching.said().chain(stable).chain(decided).collect();
            let highest = self.accepted.head().height().plus(MAX_DEPTH);
            let blocks = self.fetching.believed(&proven, highest);
            for block in &blocks {
                // Those below a stable checkpoint are not many more than fit the tree.
                self.take(block, fx);
                self.fetching.arrived(&block.id());
            }
            let head = self.accepted.head().height();
            let paths = proven.iter().filter_map(|id| self.tree.path(id));
            let path = paths.max_by_key(Vec::len).filter(|path| !path.is_empty());
            let was_proven = path.is_some();
            self.accept(path.unwrap_or_default(), fx);
            if !was_proven || self.accepted.head().height() == head {
                return;
            }
        }
    }

    /// A block from its proposer.
    pub(super) fn on_push(
        &mut self,
        now: Time,
        from: ReplicaId,
        block: &BlockOf<Types>,
        fx: &mut Fx,
    ) {
        let (id, parent) = (block.id(), block.parent());
        if self.tree.get(&id).is_some() || block.height() <= self.accepted.head().height() {
            return;
        }
        if self.tree.child_by(&parent, from).is_some() {
            // Two children of one block: if others prefer the second, it is fetched.
            let view = block.view();
            return fx.event(Event::Equivocation { proposer: from, view });
        }
        let taken = self.tree.reaches(&parent) && self.take(block, fx);
        self.fetching.names(now, from, Some(Place::of(block)), taken);
        if taken {
            self.fetching.arrived(&id);
        }
    }

    /// The blocks above the accepted one on the way up to `tip`.
    pub(super) fn way_to(&self, tip: &BlockId) -> Vec<BlockOf<Types>> {
        self.tree.path(tip).map(|path| path.iter().map(Arc::clone).collect()).unwrap_or_default()
    }
}
