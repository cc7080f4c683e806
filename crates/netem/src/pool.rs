//! Room for packets that are under way, taken once: nothing is allocated a packet.

/// A place in the pool.
pub(crate) type Slot = u32;

/// Fixed places of equal size, the last to be given back first to be taken, so that few of them are touched while
/// little is under way.
pub(crate) struct Pool {
    bytes: Vec<u8>,
    lengths: Vec<u32>,
    free: Vec<Slot>,
    slot_bytes: usize,
}

impl Pool {
    /// `slots` places of `slot_bytes`. The memory is zeroed by the system as it is first touched.
    pub(crate) fn new(slots: u32, slot_bytes: usize) -> Self {
        Self {
            bytes: vec![0; slots as usize * slot_bytes],
            lengths: vec![0; slots as usize],
            free: (0..slots).rev().collect(),
            slot_bytes,
        }
    }

    /// A place, if one is left.
    pub(crate) fn take(&mut self) -> Option<Slot> {
        self.free.pop()
    }

    /// Gives one back.
    pub(crate) fn give(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// All of a place, to be read into.
    pub(crate) fn room(&mut self, slot: Slot) -> &mut [u8] {
        let start = slot as usize * self.slot_bytes;
        &mut self.bytes[start..start + self.slot_bytes]
    }

    /// How much of it is a packet.
    pub(crate) fn set_length(&mut self, slot: Slot, bytes: usize) {
        self.lengths[slot as usize] = bytes.min(self.slot_bytes) as u32;
    }

    /// The packet in it.
    pub(crate) fn packet(&self, slot: Slot) -> &[u8] {
        let start = slot as usize * self.slot_bytes;
        &self.bytes[start..start + self.lengths[slot as usize] as usize]
    }

    /// A second place with the same packet, if one is left.
    pub(crate) fn copy(&mut self, slot: Slot) -> Option<Slot> {
        let second = self.take()?;
        let length = self.lengths[slot as usize] as usize;
        let from = slot as usize * self.slot_bytes;
        self.bytes.copy_within(from..from + length, second as usize * self.slot_bytes);
        self.lengths[second as usize] = length as u32;
        Some(second)
    }

    /// How many are left.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.free.len()
    }
}
