//! Taking in blocks: from their proposers, and fetched ones.

use std::sync::Arc;

use super::wanted::MOST;
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

    /// Takes in a fetched block, if its parent was fetched or is in the tree. Fetched blocks above
    /// its parent are of another chain: it replaces them once that chain has stopped growing.
    /// Answers may have blocks beside the chain, and a chain may lose before all of it has come.
    pub(super) fn on_fetched(&mut self, now: Time, block: BlockOf<Types>) {
        let (id, parent) = (block.id(), block.parent());
        if self.place_of(&id).is_some() || block.height() <= self.accepted.head().height() {
            return;
        }
        self.fetching.progressed(now);
        let fetched = &self.fetching.fetched;
        let kept = match fetched.iter().rposition(|below| below.id() == parent) {
            Some(at) => at + 1,
            None if self.tree.reaches(&parent) => 0,
            None => return,
        };
        let is_next = kept == fetched.len();
        if kept < MOST && (is_next || !self.fetching.is_growing(now)) {
            self.fetching.fetched.truncate(kept);
            self.fetching.grow(now, block);
        }
    }

    /// Takes fetched blocks into the tree: the way to a tip that a peer names, as far as it is not
    /// too long. Accepts what a stable checkpoint is for.
    pub(super) fn believe(&mut self, fx: &mut Fx) {
        loop {
            let stable = self.checkpoints.stable().map(|stable| stable.checkpoint.block);
            let said = self.fetching.fetched.iter().filter_map(|block| block.stable.as_ref());
            let proven: Vec<_> = said.map(|it| it.checkpoint.block).chain(stable).collect();
            let is_proven = |block: &BlockOf<Types>| proven.contains(&block.id());
            let fetched = &self.fetching.fetched;
            let last_proven = fetched.iter().rposition(is_proven);
            let highest = self.accepted.head().height().plus(MAX_DEPTH);
            let lacking = self.fetching.lacking();
            let is_led_to = fetched.iter().any(|block| lacking.contains_key(&block.id()));
            let candidates = match is_led_to || fetched.len() >= MOST {
                true => fetched.iter().take_while(|block| block.height() <= highest).count(),
                false => 0,
            };
            let believed = candidates.max(last_proven.map_or(0, |last| last + 1));
            let blocks: Vec<_> = self.fetching.fetched.drain(..believed).collect();
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
            let held = self.fetching.fetched.first().is_some_and(|first| first.id() == id);
            if held {
                self.fetching.fetched.remove(0);
            }
        }
    }

    /// The blocks above the accepted one on the way up to `tip`.
    pub(super) fn way_to(&self, tip: &BlockId) -> Vec<BlockOf<Types>> {
        self.tree.path(tip).map(|path| path.iter().map(Arc::clone).collect()).unwrap_or_default()
    }
}
