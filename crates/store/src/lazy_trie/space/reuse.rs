//! The release and reuse of slots.
//!
//! # When a slot may be reused
//! A slot freed by version v is reachable from versions below v, and perhaps from a checkpoint. If
//! it was filled since the last capture, no checkpoint knows it, and it waits for the readers of
//! versions below v. Otherwise it first waits until the next checkpoint, which no longer refers to
//! it, is durable.

use super::super::entry::Address;
use super::super::error::Error;
use super::super::memory::Buffer;
use super::super::slab::{Slab, SlotUse, Use};
use super::{HOLES_ONE_IN, Space};
use std::collections::BTreeMap;

const NOT_IN_USE: &str = "an entry leads to what is not in use";
/// The most freed slots that wait until the lane that filled them tells so.
const UNSURE_SLOTS: usize = 16 << 10;
/// The number of slots ahead that are prefetched during a release.
const AHEAD: usize = 8;

/// A slot that was freed.
#[derive(Clone, Copy)]
pub(super) struct Freed {
    address: Address,
    slab: u32,
    slot: u32,
}

/// A slot that a commit of a [lane](super::super::lanes) has freed.
#[derive(Clone, Copy)]
pub(in super::super) struct Gone {
    pub(in super::super) version: u64,
    pub(in super::super) address: Address,
    pub(in super::super) usage: SlotUse,
}

/// Larger shadows are rare, and reuse at the same size is rarer.
const LARGEST_IDLE_BYTES: usize = 1 << 20;

/// Memory of former shadows, for reuse. Memory returned to the system would be requested again a
/// moment later, which zeroes it and costs a page fault for each page.
pub(super) struct IdleShadows {
    by_bytes: BTreeMap<usize, Vec<Buffer>>,
    bytes: u64,
    limit_bytes: u64,
}

impl IdleShadows {
    pub(super) fn new(limit_bytes: u64) -> IdleShadows {
        IdleShadows { by_bytes: BTreeMap::new(), bytes: 0, limit_bytes }
    }

    fn keep(&mut self, shadow: Buffer) {
        let bytes = shadow.len() as u64;
        if shadow.len() > LARGEST_IDLE_BYTES {
            return;
        }
        if self.bytes + bytes > self.limit_bytes {
            // Sizes that are no longer requested make room.
            let mut others =
                self.by_bytes.iter_mut().rev().filter(|(size, _)| **size != shadow.len());
            let other = others.find_map(|(_, shadows)| shadows.pop());
            self.bytes -= other.map_or(0, |other| other.len() as u64);
        }
        if self.bytes + bytes <= self.limit_bytes {
            self.bytes += bytes;
            self.by_bytes.entry(shadow.len()).or_default().push(shadow);
        }
    }

    /// A shadow of `bytes` bytes, and whether they are zeros.
    fn take(&mut self, bytes: usize) -> Result<(Buffer, bool), Error> {
        if let Some(shadow) = self.by_bytes.get_mut(&bytes).and_then(Vec::pop) {
            self.bytes -= shadow.len() as u64;
            return Ok((shadow, false));
        }
        let shadow = Buffer::zeroed(bytes).map_err(Error::io("the write buffer", "grow"))?;
        Ok((shadow, true))
    }
}

impl Space {
    /// Releases a slot at the end of the batch.
    ///
    /// # Errors
    /// [`Error::Damaged`] if no such slot is in use. Then another program wrote the entry that
    /// leads there, or two entries lead there and the other one has released the slot.
    pub(in super::super) fn free(&mut self, address: Address, usage: SlotUse) -> Result<(), Error> {
        if let Some((slab, slot)) = self.slot_at(address, usage)
            && self.slabs[slab as usize].leave(slot)
        {
            self.freed.push(Freed { address, slab, slot });
            return Ok(());
        }
        Err(self.memory.damaged(address, NOT_IN_USE))
    }

    /// Ends the batch as `version`.
    pub(in super::super) fn keep_batch(&mut self, version: u64) {
        self.born.clear();
        self.newest = version;
        let mut freed = std::mem::take(&mut self.freed);
        freed.drain(..).for_each(|slot| self.let_go(version, slot));
        // Its memory is used again.
        self.freed = freed;
    }

    /// Lets a freed slot wait for its release.
    fn let_go(&mut self, version: u64, Freed { address, slab, slot }: Freed) {
        let slab = &mut self.slabs[slab as usize];
        match &mut slab.dirty {
            Some(dirty) if dirty.get(slot) => {
                // No checkpoint may know it.
                dirty.clear(slot);
                slab.waiting += 1;
                self.fresh_waiting.push_back((version, address));
            }
            _ => self.limbo.push(address),
        }
    }

    /// Takes over what commits of a [lane](super::super::lanes) have done: the slots that they have
    /// filled, and those that they have freed. The caller has ended its own batch.
    ///
    /// # Errors
    /// As [`Space::free`], for the first of the freed slots that are not in use.
    pub(in super::super) fn take_over(
        &mut self,
        filled: &[Address],
        gone: &[Gone],
    ) -> Result<(), Error> {
        for address in filled {
            let (index, slot) = self.place(*address);
            self.slabs[index as usize].leaving.clear(slot);
        }
        let mut result = Ok(());
        for gone in std::mem::take(&mut self.unsure) {
            result = result.and(self.take_gone(gone));
        }
        for (at, slot) in gone.iter().enumerate() {
            gone.get(at + 2 * AHEAD).into_iter().for_each(|next| self.ask_for_slab(next.address));
            gone.get(at + AHEAD).into_iter().for_each(|next| self.ask_for_slot(next.address));
            result = result.and(self.take_gone(*slot));
        }
        result
    }

    fn take_gone(&mut self, gone: Gone) -> Result<(), Error> {
        let Gone { version, address, usage } = gone;
        match self.slot_at(address, usage) {
            Some((slab, slot)) if self.slabs[slab as usize].leave(slot) => {
                self.let_go(version, Freed { address, slab, slot });
                Ok(())
            }
            // Another lane may have filled it, and not told yet. A slot that was let go, or is at
            // hand in the space, does not count as filled since the last capture.
            Some((slab, slot))
                if self.slabs[slab as usize].used.get(slot)
                    && self.is_fresh(address, usage)
                    && self.unsure.len() < UNSURE_SLOTS =>
            {
                self.unsure.push(gone);
                Ok(())
            }
            _ => Err(self.memory.damaged(address, NOT_IN_USE)),
        }
    }

    /// After all lanes have told everything.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub(in super::super) fn end_unsure(&mut self) -> Result<(), Error> {
        self.take_over(&[], &[])?;
        match self.unsure.pop() {
            None => Ok(()),
            Some(gone) => {
                self.unsure.clear();
                Err(self.memory.damaged(gone.address, NOT_IN_USE))
            }
        }
    }

    /// Takes a slot for a lane. It counts as filled, and until the lane tells so, as at hand.
    ///
    /// # Errors
    /// As [`Space::take`].
    pub(in super::super) fn take_ahead(
        &mut self,
        usage: SlotUse,
        class: u8,
    ) -> Result<Address, Error> {
        let address = self.take_slot(usage, class)?;
        self.set_at_hand(address);
        Ok(address)
    }

    /// The same for a run of slabs of `bytes`.
    ///
    /// # Errors
    /// As [`Space::take`].
    pub(in super::super) fn take_run_ahead(&mut self, bytes: u32) -> Result<Address, Error> {
        let address = self.take_run(bytes)?;
        self.set_at_hand(address);
        Ok(address)
    }

    fn set_at_hand(&mut self, address: Address) {
        let (index, slot) = self.place(address);
        self.slabs[index as usize].leaving.set(slot);
    }

    /// Takes back a slot that was taken and not used.
    pub(in super::super) fn take_back(&mut self, address: Address) {
        let (index, slot) = self.place(address);
        if let Some(dirty) = &mut self.slabs[index as usize].dirty {
            dirty.clear(slot);
        }
        self.put_at_hand(address);
    }

    /// Abandons the batch: its slots are at hand again, and slots that it freed stay in use.
    pub(in super::super) fn drop_batch(&mut self) {
        for Freed { slab, slot, .. } in std::mem::take(&mut self.freed) {
            self.slabs[slab as usize].leaving.clear(slot);
        }
        for address in std::mem::take(&mut self.born) {
            self.take_back(address);
        }
    }

    pub(super) fn put_at_hand(&mut self, address: Address) {
        let (index, slot) = self.place(address);
        let slab = &mut self.slabs[index as usize];
        match slab.usage {
            Use::Slots(usage) => {
                slab.leaving.set(slot);
                let class = slab.class;
                self.pool(usage, class).hot.push(address);
            }
            _ => self.give_back(address),
        }
    }

    /// Releases slots and shadows that no reader of `oldest` or later needs. `newest` is a version
    /// that was published before the call.
    pub(in super::super) fn release(&mut self, oldest: u64, newest: u64) {
        // Readers that saw one of these shadows began before an earlier call, so at most at this
        // version.
        let version = self.newest.max(newest) + 1;
        self.shadows_waiting.extend(self.dropped.drain(..).map(|shadow| (version, shadow)));
        while let Some((version, address)) = self.fresh_waiting.front().copied()
            && version <= oldest
        {
            self.fresh_waiting.pop_front();
            let index = self.memory.slab_of(address);
            self.slabs[index as usize].waiting -= 1;
            self.put_at_hand(address);
        }
        while self.old_waiting.front().is_some_and(|(version, _)| *version <= oldest) {
            let list = self.old_waiting.pop_front().map(|(_, list)| list).unwrap_or_default();
            for (at, address) in list.iter().enumerate() {
                // There are many, at scattered places, and writers wait.
                list.get(at + 2 * AHEAD).into_iter().for_each(|next| self.ask_for_slab(*next));
                list.get(at + AHEAD).into_iter().for_each(|next| self.ask_for_slot(*next));
                self.give_back(*address);
            }
        }
        while self.shadows_waiting.front().is_some_and(|(version, _)| *version <= oldest) {
            if let Some((_, shadow)) = self.shadows_waiting.pop_front() {
                self.idle_shadows.keep(shadow);
            }
        }
    }

    /// Memory for the shadow of a slab, with the slab's content or zeros.
    pub(super) fn new_shadow(&mut self, index: u32, blank: bool) -> Result<Buffer, Error> {
        let (mut shadow, zeroed) = self.idle_shadows.take(self.memory.slab_bytes())?;
        let copied = !blank && self.memory.copy_slab(index, &mut shadow);
        if !copied && !zeroed {
            shadow.bytes_mut().fill(0);
        }
        Ok(shadow)
    }

    /// Memory for the shadow of a run, whose first `filled` bytes the caller fills.
    pub(super) fn new_run_shadow(&mut self, bytes: usize, filled: u32) -> Result<Buffer, Error> {
        let (mut shadow, zeroed) = self.idle_shadows.take(bytes)?;
        if let Some(rest) = shadow.bytes_mut().get_mut(filled as usize..).filter(|_| !zeroed) {
            rest.fill(0);
        }
        Ok(shadow)
    }

    /// Empties the lists of slots at hand, so that only slabs know the free slots.
    pub(in super::super) fn put_away(&mut self) {
        for pool in 0..self.pools.len() {
            for address in std::mem::take(&mut self.pools[pool].hot) {
                self.give_back(address);
            }
        }
    }

    /// Marks a slot as free.
    pub(super) fn give_back(&mut self, address: Address) {
        let (index, slot) = self.place(address);
        let slab = &mut self.slabs[index as usize];
        slab.give(slot);
        let Use::Slots(usage) = slab.usage else {
            self.end_run(index);
            return;
        };
        let (class, unused, slots, open) = (slab.class, slab.unused, slab.slots, slab.open);
        if !open {
            let enough = unused >= (slots / HOLES_ONE_IN).max(1);
            let pool = self.pool(usage, class);
            if pool.available.contains(&index) {
                pool.holes += 1;
            } else if enough {
                pool.available.insert(index);
                pool.holes += u64::from(unused);
            }
        }
        if self.slabs[index as usize].is_idle() {
            self.end_slab(index, usage, class);
        }
    }

    /// Makes a slab without used slots free.
    pub(super) fn end_slab(&mut self, index: u32, usage: SlotUse, class: u8) {
        let slots = u64::from(self.slabs[index as usize].slots);
        let pool = self.pool(usage, class);
        if pool.available.remove(&index) {
            pool.holes -= slots;
        }
        pool.capacity -= slots;
        let old = std::mem::replace(&mut self.slabs[index as usize], Slab::free());
        if let Some(shadow) = old.shadow {
            if self.mapped {
                self.count_shadow(shadow.len(), false);
                self.memory.show_map(index, 1, false);
                self.put_off(shadow);
            } else {
                self.slabs[index as usize].shadow = Some(shadow);
            }
        }
        self.free.insert(index);
    }

    pub(super) fn end_run(&mut self, first: u32) {
        let span = self.slabs[first as usize].span;
        for index in first..first + span {
            let old = std::mem::replace(&mut self.slabs[index as usize], Slab::free());
            if let Some(shadow) = old.shadow {
                self.count_shadow(shadow.len(), false);
                self.put_off(shadow);
            }
            if old.dirty.is_some() {
                self.dirty.retain(|dirty| *dirty != index);
            }
            self.memory.show_map(index, 1, false);
            self.free.insert(index);
        }
    }

    /// Drops a shadow that no entry leads to. In a forged store an entry may lead there, so readers
    /// may still use it.
    pub(super) fn put_off(&mut self, shadow: Buffer) {
        self.dropped.push(shadow);
    }

    /// Drops shadows whose content is in the files. Readers of versions below `version` may still
    /// use them.
    pub(in super::super) fn drop_shadows(&mut self, version: u64) {
        for index in std::mem::take(&mut self.lingering) {
            let slab = &mut self.slabs[index as usize];
            if slab.is_idle()
                && let Use::Slots(usage) = slab.usage
            {
                let class = slab.class;
                self.end_slab(index, usage, class);
                continue;
            }
            if slab.open || slab.dirty.is_some() || slab.shadow.is_none() || !self.mapped {
                continue;
            }
            if !slab.is_settled() {
                self.lingering.push(index);
                continue;
            }
            let span = slab.span;
            if let Some(shadow) = slab.shadow.take() {
                self.memory.show_map(index, span, true);
                self.count_shadow(shadow.len(), false);
                self.shadows_waiting.push_back((version, shadow));
            }
        }
    }

    /// Slots that wait for their release.
    pub(in super::super) fn waiting(&self) -> impl Iterator<Item = Address> + '_ {
        let fresh = self.fresh_waiting.iter().map(|(_, address)| *address);
        let old = self.old_waiting.iter().flat_map(|(_, list)| list).copied();
        fresh.chain(old).chain(self.limbo.iter().copied())
    }
}
