//! The blocks at hand: the last committed one, and those above it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::words::Types;
use crate::base::types::Height;
use crate::ledger::block::BlockId;
use crate::protocols::protocol::BlockOf;

/// The blocks at hand. Each above the last committed one is justified by what it carries.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    head: BlockOf<Types>,
    above: BTreeMap<BlockId, BlockOf<Types>>,
}

impl Chain {
    /// Grows from a committed block.
    pub fn new(head: BlockOf<Types>) -> Self {
        Self { head, above: BTreeMap::new() }
    }

    /// The last committed block.
    pub fn head(&self) -> &BlockOf<Types> {
        &self.head
    }

    /// A block that is here.
    pub fn get(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        if self.head.id() == *id { Some(&self.head) } else { self.above.get(id) }
    }

    /// Whether a block above the head is here.
    pub fn holds(&self, id: &BlockId) -> bool {
        self.above.contains_key(id)
    }

    /// How many blocks above the head are here.
    pub fn uncommitted(&self) -> usize {
        self.above.len()
    }

    /// The blocks above the head that are here.
    pub fn above(&self) -> impl Iterator<Item = &BlockOf<Types>> {
        self.above.values()
    }

    /// Takes in a block. Says whether it is a new one above the head.
    pub fn insert(&mut self, block: &BlockOf<Types>) -> bool {
        let is_new = block.height() > self.head.height() && !self.holds(&block.id());
        if is_new {
            self.above.insert(block.id(), Arc::clone(block));
        }
        is_new
    }

    /// The blocks from above the head up to `tip`, or the first one on the way down that is not
    /// here. `None` for a chain that leaves the head out, and for one whose heights are wrong.
    pub fn path(&self, tip: &BlockId) -> Option<Result<Vec<BlockOf<Types>>, BlockId>> {
        let mut path: Vec<BlockOf<Types>> = Vec::new();
        let mut id = *tip;
        while id != self.head.id() {
            let Some(block) = self.above.get(&id) else { return Some(Err(id)) };
            if path.last().is_some_and(|child| child.height() != block.height().next()) {
                return None;
            }
            id = block.parent();
            path.push(Arc::clone(block));
        }
        if path.last().is_some_and(|child| child.height() != self.head.height().next()) {
            return None;
        }
        path.reverse();
        Some(Ok(path))
    }

    /// The blocks up to this one are committed: it is the new head. Blocks that are not above it
    /// are dropped; says how many of them are on no committed chain.
    pub fn commit(&mut self, head: &BlockOf<Types>) -> usize {
        let before = self.above.len();
        let steps = (head.height().0 - self.head.height().0) as usize;
        self.head = Arc::clone(head);
        self.above.retain(|_, block| block.height() > head.height());
        let mut lost: Vec<BlockId> = Vec::new();
        for block in self.above.values() {
            if block.height() == head.height().next() && block.parent() != head.id() {
                lost.push(block.id());
            }
        }
        while let Some(id) = lost.pop() {
            self.above.remove(&id);
            lost.extend(self.above.values().filter(|it| it.parent() == id).map(|it| it.id()));
        }
        before.saturating_sub(self.above.len() + steps)
    }

    /// The state at this block was taken over.
    pub fn install(&mut self, head: BlockOf<Types>) {
        self.commit(&head);
    }

    /// Whether commands stand above the head.
    pub fn has_commands(&self, tip: &BlockId) -> bool {
        match self.path(tip) {
            Some(Ok(path)) => path.iter().any(|block| !block.is_empty()),
            // What is not here may hold some.
            Some(Err(_)) => true,
            None => false,
        }
    }

    /// The height of a block that is here.
    pub fn height_of(&self, id: &BlockId) -> Option<Height> {
        self.get(id).map(|block| block.height())
    }
}
