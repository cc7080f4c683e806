//! How far the order has come in the current view.

use std::collections::{BTreeMap, VecDeque};

use super::words::{Entry, Types};
use crate::base::types::Height;
use crate::ledger::block::BlockId;
use crate::protocols::protocol::BlockOf;

/// How far the order has come in the current view.
#[derive(Clone, Debug)]
pub(super) struct Order {
    /// The last block that was accepted here: the next one extends it.
    pub tip: (Height, BlockId),
    /// Up to here blocks are prepared, or known to be committed.
    pub prepared: Height,
    /// Up to here the view, or the last one that this replica entered, began with chosen blocks.
    pub began_with: Height,
    /// What the view began with and was not accepted yet.
    pub chosen: VecDeque<Entry>,
    /// Pre-prepared blocks whose parents were not accepted yet.
    pub held: BTreeMap<Height, BlockOf<Types>>,
}

impl Order {
    /// Begins above a block.
    pub fn new(height: Height, block: BlockId) -> Self {
        let (chosen, held) = (VecDeque::new(), BTreeMap::new());
        Self { tip: (height, block), prepared: height, began_with: height, chosen, held }
    }

    /// Nothing up to this block, which is committed, is to be accepted any more. The next one
    /// extends it, also where another one was accepted at its height.
    pub fn skip_to(&mut self, height: Height, block: BlockId) {
        if height >= self.tip.0 {
            self.tip = (height, block);
        }
        self.prepared = self.prepared.max(height);
        while self.chosen.front().is_some_and(|entry| entry.height <= height) {
            self.chosen.pop_front();
        }
        self.held = self.held.split_off(&height.next());
    }
}
