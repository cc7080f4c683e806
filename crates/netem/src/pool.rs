//! The pool of memory for packets under way. It is allocated once, so packets cause no allocation.

/// The number of a slot in the pool.
pub(crate) type Slot = u32;

/// Slots of equal size. The last one released is reused first, so that few of them are touched
/// while few packets are under way.
pub(crate) struct Pool {
    bytes: Vec<u8>,
    lengths: Vec<u32>,
    free: Vec<Slot>,
    slot_bytes: usize,
}

impl Pool {
    /// A pool of `slots` slots of `slot_bytes`. The system zeroes the memory when it is first
    /// touched.
    pub(crate) fn new(slots: u32, slot_bytes: usize) -> Self {
        Self {
            bytes: vec![0; slots as usize * slot_bytes],
            lengths: vec![0; slots as usize],
            free: (0..slots).rev().collect(),
            slot_bytes,
        }
    }

    /// Takes a slot, if one is free.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Releases a slot.
    pub(crate) fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// The whole slot, for reading into it.
    pub(crate) fn room(&mut self, slot: Slot) -> &mut [u8] {
        let start = slot as usize * self.slot_bytes;
        &mut self.bytes[start..start + self.slot_bytes]
    }

    /// Sets the length of the packet in a slot.
    pub(crate) fn set_length(&mut self, slot: Slot, bytes: usize) {
        self.lengths[slot as usize] = bytes.min(self.slot_bytes) as u32;
    }

    /// The packet in a slot.
    pub(crate) fn packet(&self, slot: Slot) -> &[u8] {
        let start = slot as usize * self.slot_bytes;
        &self.bytes[start..start + self.lengths[slot as usize] as usize]
    }

    /// Copies the packet to another slot, if one is free.
    pub(crate) fn copy(&mut self, slot: Slot) -> Option<Slot> {
        let second = self.take()?;
        let length = self.lengths[slot as usize] as usize;
        let from = slot as usize * self.slot_bytes;
        self.bytes.copy_within(from..from + length, second as usize * self.slot_bytes);
        self.lengths[second as usize] = length as u32;
        Some(second)
    }

    /// The number of free slots.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.free.len()
    }
}
