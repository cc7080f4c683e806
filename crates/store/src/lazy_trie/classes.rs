//! The size classes of slots.

use super::entry::UNIT_BYTES;

/// Up to this size the slots grow by one unit. A full node without a prefix has exactly this size.
const FINE_BYTES: u32 = 1056;

/// The sizes of the slots that a slab may be divided into.
#[derive(Clone, Debug)]
pub(super) struct Classes {
    sizes: Vec<u32>,
}

impl Classes {
    /// Up to half a slab. Larger values take whole slabs.
    pub(super) fn new(slab_bytes: u32) -> Classes {
        let unit = UNIT_BYTES as u32;
        let mut sizes = Vec::new();
        let mut size = unit;
        while size <= slab_bytes / 2 {
            sizes.push(size);
            size = if size < FINE_BYTES {
                size + unit
            } else {
                (size + size / 8).next_multiple_of(unit)
            };
        }
        Classes { sizes }
    }

    pub(super) fn count(&self) -> usize {
        self.sizes.len()
    }

    /// The class whose slots hold `bytes`; `None` if that needs whole slabs.
    pub(super) fn of(&self, bytes: u32) -> Option<u8> {
        let fine = FINE_BYTES.min(self.sizes.last().copied().unwrap_or(0));
        let index = if bytes <= fine {
            bytes.max(1).div_ceil(UNIT_BYTES as u32) as usize - 1
        } else {
            self.sizes.partition_point(|size| *size < bytes)
        };
        (index < self.sizes.len()).then_some(index as u8)
    }

    /// The size of a class's slots, in bytes.
    pub(super) fn size(&self, class: u8) -> u32 {
        self.sizes.get(usize::from(class)).copied().unwrap_or(u32::MAX)
    }
}
