//! What a replica keeps across a crash, in the bytes it would have on a real disk.

use std::collections::BTreeMap;

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::block::BlockId;
use quorate_core::protocol::Safety;
use quorate_core::replica::drive::Journal;
use quorate_core::replica::message::{FullBlock, Offer};
use quorate_core::replica::{Record, Recovery, SnapshotMeta};
use quorate_core::wire::{Decode, Encode};

#[derive(Clone, Debug, Default)]
pub struct Disk {
    safety: Option<Vec<u8>>,
    /// The recorded blocks, in the order they were recorded.
    blocks: Vec<(BlockId, Height, Bytes)>,
    by_id: BTreeMap<BlockId, usize>,
    /// The committed blocks by height.
    chain: BTreeMap<Height, BlockId>,
    pub snapshots: BTreeMap<Height, (SnapshotMeta, Vec<Bytes>)>,
    offer: Option<Bytes>,
    /// The power fails in this write (counted down), after this many of its records.
    pub fails: Option<(usize, usize)>,
    pub writes: usize,
}

/// The power failed.
#[derive(Debug)]
pub struct PowerFailure;

impl Journal for Disk {
    type Error = PowerFailure;

    fn write(&mut self, records: Vec<Record>) -> Result<(), PowerFailure> {
        self.writes += 1;
        let mut kept = records.len();
        let mut result = Ok(());
        match &mut self.fails {
            Some((0, prefix)) => {
                kept = kept.min(*prefix);
                self.fails = None;
                result = Err(PowerFailure);
            }
            Some((writes, _)) => *writes -= 1,
            None => {}
        }
        for record in records.into_iter().take(kept) {
            match record {
                Record::Safety(safety) => self.safety = Some(safety.to_bytes()),
                Record::Block(full) => {
                    let (id, height) = (full.block.id(), full.block.height);
                    self.by_id.insert(id, self.blocks.len());
                    self.blocks.push((id, height, full.to_bytes().into()));
                }
            }
        }
        result
    }
}

impl Disk {
    pub fn committed(&mut self, height: Height, id: BlockId) {
        self.chain.insert(height, id);
    }

    fn block(&self, id: &BlockId) -> Option<FullBlock> {
        let (_, _, bytes) = self.blocks.get(*self.by_id.get(id)?)?;
        Some(FullBlock::from_bytes(bytes.clone()).expect("what was written can be read"))
    }

    /// The committed blocks above a height, as long as there is no gap.
    pub fn chain(&self, above: Height, through: Height) -> Vec<FullBlock> {
        (above.0 + 1..=through.0)
            .map_while(|height| self.block(self.chain.get(&Height(height))?))
            .collect()
    }

    /// From which height on the committed chain is here without a gap up to `root`.
    pub fn begins(&self, root: Height) -> Height {
        let held = |height: &u64| {
            self.chain.get(&Height(*height)).is_some_and(|id| self.by_id.contains_key(id))
        };
        Height((1..=root.0).rev().take_while(held).last().unwrap_or(root.0 + 1))
    }

    /// Keeps an offer; older snapshots go, and with `retire` the blocks that it covers.
    pub fn offered(&mut self, offer: &Offer, retire: bool) {
        let floor = offer.block.height;
        self.offer = Some(offer.to_bytes().into());
        self.snapshots.retain(|height, _| *height >= floor);
        if retire {
            self.blocks.retain(|(_, height, _)| *height > floor);
            self.by_id = self.blocks.iter().enumerate().map(|(at, (id, ..))| (*id, at)).collect();
            self.chain.retain(|height, _| *height > floor);
        }
    }

    pub fn recovery(&self) -> Recovery {
        let safety = self
            .safety
            .clone()
            .map(|bytes| Safety::from_bytes(bytes.into()).expect("what was written can be read"));
        let blocks = self.blocks.iter().map(|(_, _, bytes)| {
            FullBlock::from_bytes(bytes.clone()).expect("what was written can be read")
        });
        let snapshot = self.snapshots.last_key_value().map(|(_, (meta, _))| meta.clone());
        let offer = self
            .offer
            .clone()
            .map(|bytes| Offer::from_bytes(bytes).expect("what was written can be read"));
        Recovery { safety, snapshot, offer, blocks: blocks.collect() }
    }

    pub fn has_safety(&self) -> bool {
        self.safety.is_some()
    }
}
