//! Slabs: the pieces of the space, each with its use and its used slots.

use super::memory::Buffer;
use crate::prefetch;
use std::sync::Arc;

/// A set of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bits(Box<[u64]>);

impl Bits {
    pub(super) fn new(slots: u32) -> Bits {
        Bits(vec![0; slots.div_ceil(64) as usize].into_boxed_slice())
    }

    pub(super) fn get(&self, slot: u32) -> bool {
        self.0.get(slot as usize / 64).is_some_and(|word| word >> (slot % 64) & 1 == 1)
    }

    pub(super) fn set(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word |= 1 << (slot % 64);
        }
    }

    pub(super) fn clear(&mut self, slot: u32) {
        if let Some(word) = self.0.get_mut(slot as usize / 64) {
            *word &= !(1 << (slot % 64));
        }
    }

    /// Prefetches the bit of a slot.
    pub(super) fn ask_for(&self, slot: u32) {
        if let Some(word) = self.0.get(slot as usize / 64) {
            prefetch::ask_for(word);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    pub(super) fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    /// The first clear slot below `slots`, from the word of `from` on.
    pub(super) fn first_clear(&self, from: u32, slots: u32) -> Option<u32> {
        let first = from as usize / 64;
        self.0.iter().enumerate().skip(first).find(|(_, word)| **word != u64::MAX).and_then(
            |(index, word)| {
                let slot = index as u32 * 64 + word.trailing_ones();
                (slot < slots).then_some(slot)
            },
        )
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let slot = rest.trailing_zeros();
                rest &= rest.wrapping_sub(1);
                (slot < 64).then_some(index as u32 * 64 + slot)
            })
        })
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.0
    }

    pub(super) fn words_mut(&mut self) -> &mut [u64] {
        &mut self.0
    }
}

/// The use of a slab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing.
    Free,
    /// The header of its region.
    Header,
    /// Slots for items, buckets, nodes or blocks of digests.
    Slots(SlotUse),
    /// The first slab of a run: of an item or a ledger that takes whole slabs.
    Run,
    /// A further slab of a run.
    Tail,
}

/// The content of slots. Each kind has slabs of its own, so that data that is read together lies
/// together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotUse {
    /// Items.
    Item,
    /// Buckets.
    Bucket,
    /// Nodes.
    Node,
    /// Blocks of digests.
    Digest,
}

impl SlotUse {
    pub(super) const ALL: [SlotUse; 4] =
        [SlotUse::Item, SlotUse::Bucket, SlotUse::Node, SlotUse::Digest];

    /// Whether its slots get their checksums only when they are written out. Their checksums are
    /// not checked again once all slots of a slab were verified.
    pub(super) fn is_sealed_late(self) -> bool {
        matches!(self, SlotUse::Node | SlotUse::Digest)
    }
}

/// A slab.
pub(super) struct Slab {
    pub(super) usage: Use,
    pub(super) class: u8,
    /// The number of slabs of a run.
    pub(super) span: u32,
    pub(super) slots: u32,
    /// The number of free slots.
    pub(super) unused: u32,
    /// Slots that are not free: reachable, waiting to be released, or at hand.
    pub(super) used: Bits,
    /// Those of them that wait or are at hand: no valid entry leads there.
    pub(super) leaving: Bits,
    /// Slots filled since the last capture. If there are any, the slab has a shadow.
    pub(super) dirty: Option<Bits>,
    /// Slots that the running checkpoint writes out.
    pub(super) writing: Option<Arc<Bits>>,
    /// Slots that were freed before they were written out and may still be read. They are in the
    /// shadow only.
    pub(super) waiting: u32,
    pub(super) shadow: Option<Buffer>,
    /// Whether its part of the file has no content.
    pub(super) blank: bool,
    /// Whether slots are being taken from it.
    pub(super) open: bool,
    /// No slot below this one is free.
    pub(super) cursor: u32,
}

impl Slab {
    pub(super) fn free() -> Slab {
        Slab {
            usage: Use::Free,
            class: 0,
            span: 1,
            slots: 0,
            unused: 0,
            used: Bits::new(0),
            leaving: Bits::new(0),
            dirty: None,
            writing: None,
            waiting: 0,
            shadow: None,
            blank: true,
            open: false,
            cursor: 0,
        }
    }

    /// A slab that is one slot.
    pub(super) fn whole(usage: Use, span: u32) -> Slab {
        let mut used = Bits::new(1);
        used.set(0);
        Slab { usage, span, slots: 1, used, leaving: Bits::new(1), ..Slab::free() }
    }

    /// A slab of `slots` free slots.
    pub(super) fn cut(usage: SlotUse, class: u8, slots: u32) -> Slab {
        Slab {
            usage: Use::Slots(usage),
            class,
            slots,
            unused: slots,
            used: Bits::new(slots),
            leaving: Bits::new(slots),
            ..Slab::free()
        }
    }

    /// Takes a slot.
    pub(super) fn take(&mut self) -> Option<u32> {
        let slot = self.used.first_clear(self.cursor, self.slots)?;
        self.used.set(slot);
        self.cursor = slot;
        self.unused -= 1;
        Some(slot)
    }

    /// Prefetches the state of a slot that is about to be released.
    pub(super) fn ask_for(&self, slot: u32) {
        [Some(&self.used), Some(&self.leaving), self.dirty.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|bits| bits.ask_for(slot));
    }

    /// Marks a used slot as about to be released. Returns whether it was in use.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        let in_use = self.used.get(slot) && !self.leaving.get(slot);
        if in_use {
            self.leaving.set(slot);
        }
        in_use
    }

    /// Releases a used slot.
    pub(super) fn give(&mut self, slot: u32) {
        debug_assert!(self.used.get(slot));
        self.used.clear(slot);
        self.leaving.clear(slot);
        self.cursor = self.cursor.min(slot);
        self.unused += 1;
    }

    /// Whether no slot in it is used or needs its shadow.
    pub(super) fn is_idle(&self) -> bool {
        self.unused == self.slots && !self.open && self.is_settled()
    }

    /// Whether its file has all content of its shadow that is still needed.
    pub(super) fn is_settled(&self) -> bool {
        self.dirty.is_none() && self.writing.is_none() && self.waiting == 0
    }
}
