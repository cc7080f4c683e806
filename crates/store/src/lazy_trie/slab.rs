//! Slabs: what each piece of the space is used for, and which of its slots are taken.

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

    /// Asks for where a slot's is.
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

    /// The first slot below `slots` that is not set, from the word of `from` on.
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

/// What a slab is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Nothing.
    Free,
    /// The header of its region.
    Header,
    /// Slots for items, buckets, nodes or blocks of digests.
    Slots(SlotUse),
    /// The first slab of something that takes whole slabs: an item, or a ledger.
    Run,
    /// A further slab of such.
    Tail,
}

/// What stands in slots; each has slabs of its own, so that what is read together lies together.
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

    /// Whether its slots get their checksums only when they are written out, and are taken on trust once all of a slab were verified.
    pub(super) fn is_sealed_late(self) -> bool {
        matches!(self, SlotUse::Node | SlotUse::Digest)
    }
}

/// A slab.
pub(super) struct Slab {
    pub(super) usage: Use,
    pub(super) class: u8,
    /// Slabs of a run.
    pub(super) span: u32,
    pub(super) slots: u32,
    /// Slots not taken.
    pub(super) unused: u32,
    /// Slots taken, whether reachable, waiting to be given back, or at hand.
    pub(super) used: Bits,
    /// Of these, slots that are waiting or at hand: nothing leads there that made sense.
    pub(super) leaving: Bits,
    /// Slots filled since the last capture; there is a shadow then.
    pub(super) dirty: Option<Bits>,
    /// Slots that the running checkpoint writes out.
    pub(super) writing: Option<Arc<Bits>>,
    /// Slots that were freed before they were written out and may still be read: in the shadow alone.
    pub(super) waiting: u32,
    pub(super) shadow: Option<Buffer>,
    /// Its part of the file holds nothing.
    pub(super) blank: bool,
    /// Slots are taken from it.
    pub(super) open: bool,
    /// Below this slot none is free.
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

    /// A slab with one slot for all of it.
    pub(super) fn whole(usage: Use, span: u32) -> Slab {
        let mut used = Bits::new(1);
        used.set(0);
        Slab { usage, span, slots: 1, used, leaving: Bits::new(1), ..Slab::free() }
    }

    /// A slab of `slots` empty slots.
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

    /// Asks for what there is of a slot that is going to be given back.
    pub(super) fn ask_for(&self, slot: u32) {
        [Some(&self.used), Some(&self.leaving), self.dirty.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|bits| bits.ask_for(slot));
    }

    /// Marks a slot that is in use as one that is going to be given back; whether it was in use.
    pub(super) fn leave(&mut self, slot: u32) -> bool {
        let in_use = self.used.get(slot) && !self.leaving.get(slot);
        if in_use {
            self.leaving.set(slot);
        }
        in_use
    }

    /// Gives a slot back that has been taken.
    pub(super) fn give(&mut self, slot: u32) {
        debug_assert!(self.used.get(slot));
        self.used.clear(slot);
        self.leaving.clear(slot);
        self.cursor = self.cursor.min(slot);
        self.unused += 1;
    }

    /// Whether nothing in it is taken, or needs its shadow.
    pub(super) fn is_idle(&self) -> bool {
        self.unused == self.slots && !self.open && self.is_settled()
    }

    /// Whether its file has all that its shadow has and anybody may want.
    pub(super) fn is_settled(&self) -> bool {
        self.dirty.is_none() && self.writing.is_none() && self.waiting == 0
    }
}
