//! The accepted chain, as far down as it is remembered.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::words::Types;
use crate::base::types::Height;
use crate::ledger::block::{BlockId, Summary as _};
use crate::protocols::protocol::{BlockOf, HeaderOf};

/// So many accepted blocks are kept at most ...
const BLOCKS: usize = 256;
/// ... and the names of so many: replicas that are behind ask for them.
const NAMES: usize = 4096;

/// The accepted chain.
#[derive(Clone, Debug)]
pub(super) struct Accepted {
    head: BlockOf<Types>,
    blocks: BTreeMap<Height, BlockOf<Types>>,
    names: BTreeMap<Height, BlockId>,
    heights: BTreeMap<BlockId, Height>,
}

impl Accepted {
    /// Up to `root`, and of those below it their headers.
    pub fn new(root: BlockOf<Types>, recent: &[HeaderOf<Types>]) -> Self {
        let (blocks, names, heights) = Default::default();
        let mut new = Self { head: Arc::clone(&root), blocks, names, heights };
        for header in recent {
            new.name(header.height(), header.id());
        }
        new.push(root);
        new
    }

    fn name(&mut self, height: Height, id: BlockId) {
        self.names.insert(height, id);
        self.heights.insert(id, height);
        while self.names.len() > NAMES {
            if let Some((_, id)) = self.names.pop_first() {
                self.heights.remove(&id);
            }
        }
    }

    /// The next block is accepted.
    pub fn push(&mut self, block: BlockOf<Types>) {
        self.name(block.height(), block.id());
        self.blocks.insert(block.height(), Arc::clone(&block));
        while self.blocks.len() > BLOCKS {
            self.blocks.pop_first();
        }
        self.head = block;
    }

    /// The last block.
    pub fn head(&self) -> &BlockOf<Types> {
        &self.head
    }

    /// The block at a height.
    pub fn at(&self, height: Height) -> Option<&BlockOf<Types>> {
        self.blocks.get(&height)
    }

    /// The block of this name.
    pub fn get(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        self.at(self.height_of(id)?)
    }

    /// The name of the block at a height.
    pub fn name_at(&self, height: Height) -> Option<BlockId> {
        self.names.get(&height).copied()
    }

    /// The height of the block of this name.
    pub fn height_of(&self, id: &BlockId) -> Option<Height> {
        self.heights.get(id).copied()
    }

    /// The headers of up to `most` blocks right below one, oldest first, without gaps.
    pub fn below(&self, height: Height, most: usize) -> Vec<HeaderOf<Types>> {
        let blocks = self.blocks.range(..height).rev().take(most);
        let mut expected = height.0;
        let mut headers = Vec::new();
        for (height, block) in blocks {
            expected -= 1;
            if height.0 != expected {
                break;
            }
            headers.push(block.header().clone());
        }
        headers.reverse();
        headers
    }
}
