//! The ledger: the list of used slots of the space at a checkpoint.
//!
//! It takes whole slabs of the space. For each slab, in order:
//! ```text
//! 0 free | 1 header of a region | 2 run, u32 number of slabs (the others of the run have no row)
//! | 3 the same, free again
//! | 4, 5, 6, 7 slots for items, buckets, nodes, blocks of digests: class u8, a bit for each slot
//! ```

use super::classes::Classes;
use super::entry::Address;
use super::memory::{Memory, SPAN_LIMIT};
use super::slab::{Bits, Slab, SlotUse, Use};

const RUN: u8 = 2;
const RUN_GONE: u8 = 3;
const SLOTS: u8 = 4;

/// A ledger that is being built.
pub(super) struct Ledger {
    pub(super) bytes: Vec<u8>,
    /// The offset of each slab's row.
    rows: Vec<u32>,
}

/// No ledger of these slabs is longer.
pub(super) fn size_limit(slabs: &[Slab]) -> usize {
    slabs.iter().map(|slab| 5 + slab.slots.div_ceil(8) as usize).sum()
}

impl Ledger {
    pub(super) fn new(slabs: &[Slab]) -> Ledger {
        let mut bytes = Vec::with_capacity(size_limit(slabs));
        let mut rows = Vec::with_capacity(slabs.len());
        for slab in slabs {
            rows.push(bytes.len() as u32);
            match slab.usage {
                Use::Free => bytes.push(0),
                Use::Header => bytes.push(1),
                Use::Run => {
                    bytes.push(RUN);
                    bytes.extend_from_slice(&slab.span.to_le_bytes());
                }
                Use::Tail => {}
                Use::Slots(usage) => {
                    bytes.extend_from_slice(&[SLOTS + usage as u8, slab.class]);
                    let from = bytes.len();
                    slab.used
                        .words()
                        .iter()
                        .for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
                    bytes.truncate(from + slab.slots.div_ceil(8) as usize);
                }
            }
        }
        Ledger { bytes, rows }
    }

    /// Removes a slot that the checkpoint does not know.
    pub(super) fn strike(&mut self, memory: &Memory, classes: &Classes, address: Address) {
        let Some(row) = self.rows.get(memory.slab_of(address) as usize) else { return };
        let Some(row) = self.bytes.get_mut(*row as usize..) else { return };
        match row {
            [kind @ RUN, ..] => *kind = RUN_GONE,
            [kind, class, bits @ ..] if *kind >= SLOTS => {
                let slot = memory.offset_of(address) / classes.size(*class);
                if let Some(byte) = bits.get_mut(slot as usize / 8) {
                    *byte &= !(1 << (slot % 8));
                }
            }
            _ => {}
        }
    }
}

/// Reads the slabs of a ledger one by one; `None` if it is malformed.
pub(super) fn decode(
    bytes: &[u8],
    classes: &Classes,
    slab_bytes: u32,
    slab_count: usize,
) -> Option<Vec<Slab>> {
    let mut slabs: Vec<Slab> = Vec::with_capacity(slab_count);
    let mut rest = bytes;
    while slabs.len() < slab_count {
        let (kind, behind) = rest.split_first()?;
        rest = behind;
        match *kind {
            0 => slabs.push(Slab::free()),
            1 => slabs.push(Slab::whole(Use::Header, 1)),
            RUN | RUN_GONE => {
                let (span, behind) = rest.split_first_chunk::<4>()?;
                rest = behind;
                let span = u32::from_le_bytes(*span);
                if !(1..=SPAN_LIMIT).contains(&span) || span as usize > slab_count - slabs.len() {
                    return None;
                }
                for index in 0..span {
                    slabs.push(match (*kind, index) {
                        (RUN_GONE, _) => Slab::free(),
                        (_, 0) => Slab { blank: false, ..Slab::whole(Use::Run, span) },
                        _ => Slab { blank: false, ..Slab::whole(Use::Tail, 1) },
                    });
                }
            }
            kind => {
                let usage = *SlotUse::ALL.get(usize::from(kind.checked_sub(SLOTS)?))?;
                let (class, behind) = rest.split_first()?;
                if usize::from(*class) >= classes.count() {
                    return None;
                }
                let slots = slab_bytes / classes.size(*class);
                let (bits, behind) = behind.split_at_checked(slots.div_ceil(8) as usize)?;
                rest = behind;
                slabs.push(slab_of(usage, *class, slots, bits)?);
            }
        }
    }
    rest.is_empty().then_some(slabs)
}

fn slab_of(usage: SlotUse, class: u8, slots: u32, bits: &[u8]) -> Option<Slab> {
    let mut used = Bits::new(slots);
    for (word, bytes) in used.words_mut().iter_mut().zip(bits.chunks(8)) {
        let mut whole = [0; 8];
        whole.get_mut(..bytes.len())?.copy_from_slice(bytes);
        *word = u64::from_le_bytes(whole);
    }
    if used.iter().any(|slot| slot >= slots) {
        return None;
    }
    let unused = slots - used.count();
    if unused == slots {
        return Some(Slab::free());
    }
    Some(Slab { used, unused, blank: false, ..Slab::cut(usage, class, slots) })
}
