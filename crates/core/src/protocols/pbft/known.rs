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
        latest_last.iter().for_each(|entry| known.pre_prepare(*entry));
        prepared.iter().for_each(|entry| known.prepare(*entry));
        known
    }

    /// A block was pre-prepared. The earliest ones of its height give way: then another block was
    /// ordered there in each of several later views, and the first can hardly be asked for.
    pub fn pre_prepare(&mut self, entry: Entry) {
        let at = self.pre_prepared.entry(entry.height).or_default();
        at.retain(|other| other.block != entry.block);
        at.push(entry);
        if at.len() > MAX_PRE_PREPARED {
            at.remove(0);
        }
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
