//! The sets P and Q: what this replica prepared and pre-prepared above its stable checkpoint.

use std::collections::BTreeMap;

use super::words::{Entry, MAX_PRE_PREPARED};
use crate::base::types::{Height, View};
use crate::ledger::block::BlockId;

/// The sets P and Q of *Practical Byzantine Fault Tolerance and Proactive Recovery*, section 4.5.1.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    /// P: for each height what was prepared last.
    prepared: BTreeMap<Height, Entry>,
    /// Q: for each height what was pre-prepared, the latest last, each block once.
    pre_prepared: BTreeMap<Height, Vec<Entry>>,
}

impl Known {
    /// As it was written down.
    pub fn recovered(prepared: &[Entry], pre_prepared: &[Entry]) -> Self {
        let mut known = Self::default();
        let mut latest_last = pre_prepared.to_vec();
        latest_last.sort_by_key(|entry| (entry.height, entry.view));
        for entry in latest_last {
            known.pre_prepare(entry);
        }
        prepared.iter().for_each(|entry| known.prepare(*entry));
        known
    }

    /// A block was pre-prepared. Says whether the earliest one of its height gave way: the
    /// replica needs a proof then ([`forgetting`](super::forgetting)).
    pub fn pre_prepare(&mut self, entry: Entry) -> bool {
        let at = self.pre_prepared.entry(entry.height).or_default();
        at.retain(|other| other.block != entry.block);
        at.push(entry);
        let gives_way = at.len() > MAX_PRE_PREPARED;
        if gives_way {
            at.remove(0);
        }
        gives_way
    }

    /// Whether a block, or any, can be pre-prepared at a height without another one giving way.
    pub fn has_room(&self, height: Height, block: Option<&BlockId>) -> bool {
        let Some(at) = self.pre_prepared.get(&height) else { return true };
        at.len() < MAX_PRE_PREPARED || at.iter().any(|entry| Some(&entry.block) == block)
    }

    /// Whether this block was pre-prepared in a view.
    pub fn has_pre_prepared(&self, view: View, block: &Entry) -> bool {
        let mut at = self.pre_prepared.get(&block.height).into_iter().flatten();
        at.any(|entry| entry.view == view && entry.block == block.block)
    }

    /// Whether P has such an entry.
    pub fn has_prepared(&self, is: impl Fn(&Entry) -> bool) -> bool {
        self.prepared.values().any(is)
    }

    /// Drops entries from P. Says whether there were any.
    pub fn drop_prepared(&mut self, is_out: impl Fn(&Entry) -> bool) -> bool {
        let before = self.prepared.len();
        self.prepared.retain(|_, entry| !is_out(entry));
        self.prepared.len() < before
    }

    /// A block is prepared.
    pub fn prepare(&mut self, entry: Entry) {
        self.prepared.insert(entry.height, entry);
    }

    /// The block prepared in a view at a height.
    pub fn prepared_in(&self, view: View, height: Height) -> Option<BlockId> {
        self.prepared.get(&height).filter(|entry| entry.view == view).map(|entry| entry.block)
    }

    /// The block pre-prepared in a view at a height.
    pub fn pre_prepared_in(&self, view: View, height: Height) -> Option<BlockId> {
        let mut at = self.pre_prepared.get(&height)?.iter().rev();
        at.find(|entry| entry.view == view).map(|entry| entry.block)
    }

    /// Keeps these entries alone.
    pub fn retain(&mut self, kept: impl Fn(&Entry) -> bool) {
        self.prepared.retain(|_, entry| kept(entry));
        self.pre_prepared.values_mut().for_each(|at| at.retain(|entry| kept(entry)));
    }

    /// Whether a block is in one of the sets.
    pub fn contains(&self, block: &BlockId) -> bool {
        self.pre_prepared.values().flatten().any(|entry| entry.block == *block)
            || self.prepared.values().any(|entry| entry.block == *block)
    }

    /// The highest height in P.
    pub fn highest_prepared(&self) -> Option<Height> {
        self.prepared.last_key_value().map(|(height, _)| *height)
    }

    /// The highest height in either set.
    pub fn highest(&self) -> Option<Height> {
        let pre_prepared = self.pre_prepared.iter().rev().find(|(_, at)| !at.is_empty());
        let pre_prepared = pre_prepared.map(|(height, _)| *height);
        self.highest_prepared().max(pre_prepared)
    }

    /// Forgets the heights up to a stable checkpoint.
    pub fn forget(&mut self, stable: Height) {
        self.prepared = self.prepared.split_off(&stable.next());
        self.pre_prepared = self.pre_prepared.split_off(&stable.next());
    }

    /// P and Q, ascending, for a view change or the disk.
    pub fn sets(&self) -> (Vec<Entry>, Vec<Entry>) {
        let mut pre_prepared: Vec<_> = self.pre_prepared.values().flatten().copied().collect();
        pre_prepared.sort();
        (self.prepared.values().copied().collect(), pre_prepared)
    }
}
