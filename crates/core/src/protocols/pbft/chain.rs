//! The blocks at hand: committed ones down to the stable checkpoint, those above that may still be
//! committed, and those that were fetched and are not believed yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::words::Types;
use crate::base::types::Height;
use crate::ledger::block::BlockId;
use crate::protocols::protocol::BlockOf;

/// The blocks at hand.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    head: BlockOf<Types>,
    /// Committed ones, from the stable checkpoint on.
    committed: BTreeMap<Height, BlockOf<Types>>,
    /// Ordered by a primary or vouched for, recorded, and not committed.
    above: BTreeMap<BlockId, BlockOf<Types>>,
    /// Fetched: each the parent of the next, the first on the head or a block above it.
    fetched: Vec<BlockOf<Types>>,
}

impl Chain {
    /// Grows from a committed block.
    pub fn new(root: BlockOf<Types>) -> Self {
        let committed = BTreeMap::from([(root.height(), Arc::clone(&root))]);
        Self { head: root, committed, above: BTreeMap::new(), fetched: Vec::new() }
    }

    /// The last committed block.
    pub fn head(&self) -> &BlockOf<Types> {
        &self.head
    }

    /// The committed block at a height, if it is not below the stable checkpoint.
    pub fn at(&self, height: Height) -> Option<&BlockOf<Types>> {
        self.committed.get(&height)
    }

    /// A block that is committed or may be.
    pub fn get(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        self.above.get(id).or_else(|| self.committed.values().find(|block| block.id() == *id))
    }

    /// A block that was fetched and is not believed yet.
    pub fn unbelieved(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        self.fetched.iter().find(|block| block.id() == *id)
    }

    /// How many blocks above the head are here.
    pub fn uncommitted(&self) -> usize {
        self.above.len() + self.fetched.len()
    }

    /// Whether a block above the head is here.
    pub fn holds(&self, id: &BlockId) -> bool {
        self.above.contains_key(id) || self.unbelieved(id).is_some()
    }

    /// Takes in a block that a primary ordered.
    pub fn insert(&mut self, block: BlockOf<Types>) {
        if block.height() > self.head.height() {
            self.above.insert(block.id(), block);
        }
    }

    /// The blocks from the head up to `tip`; `None` if one is not here.
    pub fn path(&self, tip: &BlockId) -> Option<Vec<BlockOf<Types>>> {
        let mut path = Vec::new();
        let mut id = *tip;
        while id != self.head.id() {
            let block = self.above.get(&id)?;
            path.push(Arc::clone(block));
            id = block.parent();
        }
        path.reverse();
        Some(path)
    }

    /// The next block is committed. What it leaves behind is dropped.
    pub fn commit(&mut self, block: &BlockOf<Types>) {
        self.head = Arc::clone(block);
        self.committed.insert(block.height(), Arc::clone(block));
        self.above.retain(|_, other| other.height() > block.height());
        match self.fetched.iter().position(|fetched| fetched.id() == block.id()) {
            Some(at) => drop(self.fetched.drain(..=at)),
            None if self.fetched.first().is_some_and(|first| first.height() <= block.height()) => {
                self.fetched.clear();
            }
            None => {}
        }
    }

    /// The state at this block was taken over.
    pub fn install(&mut self, root: BlockOf<Types>) {
        let above = std::mem::take(&mut self.above);
        *self = Self::new(root);
        above.into_values().for_each(|block| self.insert(block));
    }

    /// Forgets committed blocks below a stable checkpoint.
    pub fn forget_below(&mut self, stable: Height) {
        let kept = stable.min(self.head.height());
        self.committed.retain(|height, _| *height >= kept);
    }

    /// Forgets blocks above the head that are none of these.
    pub fn keep_above(&mut self, kept: impl Fn(&BlockId) -> bool) {
        self.above.retain(|id, _| kept(id));
    }

    /// Takes in a block that was fetched, if it follows those that were. Another chain from the
    /// head on takes their place.
    pub fn fetch(&mut self, block: BlockOf<Types>, most: usize) {
        let parent = block.parent();
        if self.holds(&block.id()) {
            return;
        }
        if self.fetched.last().is_some_and(|last| last.id() == parent) {
            self.fetched.push(block);
        } else if parent == self.head.id() || self.above.contains_key(&parent) {
            self.fetched = vec![block];
        }
        if self.fetched.len() > most {
            self.fetched.clear();
        }
    }

    /// Believes the fetched blocks up to the last one that is `vouched` for, or has a child above
    /// the head, which names it; and its ancestors. Returns them: they are to be recorded.
    pub fn believe(&mut self, vouched: impl Fn(&BlockId) -> bool) -> Vec<BlockOf<Types>> {
        let has_child = |id: &BlockId| self.above.values().any(|block| block.parent() == *id);
        let is_good = |block: &BlockOf<Types>| vouched(&block.id()) || has_child(&block.id());
        let Some(last) = self.fetched.iter().rposition(is_good) else {
            return Vec::new();
        };
        let believed: Vec<_> = self.fetched.drain(..=last).collect();
        believed.iter().for_each(|block| self.insert(Arc::clone(block)));
        believed
    }

    /// The last fetched block that a stable checkpoint in another one proves.
    pub fn proven(&self) -> Option<BlockId> {
        let said = self.fetched.iter().rev().filter_map(|block| block.stable.as_ref());
        let mut said = said.map(|stable| stable.checkpoint.block);
        said.find(|id| self.unbelieved(id).is_some())
    }
}
