//! The linear space: allocation and filling of slots. [`reuse`] handles their release.
//!
//! # The place of new slots
//! New slots come from slabs with many holes, in the order of their addresses, round and round. A
//! pool with [too few holes](pool_one_in) gets new slabs instead. So data that is written together
//! lies together, and one written page carries several new slots.

mod reuse;

use super::classes::Classes;
use super::digests;
use super::entry::Address;
use super::error::Error;
use super::memory::{Buffer, Memory, SPAN_LIMIT, View};
use super::node;
use super::regions::{Geometry, Region};
use super::slab::{Bits, Slab, SlotUse, Use};
use crate::disk::Disk;
use crate::prefetch;
pub(super) use reuse::Gone;
use reuse::{Freed, IdleShadows};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

/// A closed slab is used again when one in this many slots is free.
const HOLES_ONE_IN: u32 = 16;
/// A pool grows while less than one in this many slots is a hole. A slab that is filled again is
/// copied whole, and most of its pages are written. So the cost of a slot depends on the slab's
/// share of free slots, which is about twice that of the pool when its turn comes. Items are most
/// of the data, and their holes most of the space. Nodes are a very small part, and are copied most
/// often.
const fn pool_one_in(usage: SlotUse) -> u64 {
    match usage {
        SlotUse::Item => 8,
        SlotUse::Bucket | SlotUse::Digest => 3,
        SlotUse::Node => 2,
    }
}

/// The same, if space is short.
const POOL_ONE_IN_NEED: u64 = 8;

/// The slabs of one use and class.
#[derive(Default)]
pub(super) struct Pool {
    open: Option<u32>,
    /// Closed slabs with enough holes.
    available: BTreeSet<u32>,
    /// The number of their holes.
    holes: u64,
    /// The number of all slots.
    capacity: u64,
    /// The slab that the round has reached.
    last: u32,
    /// Slots at hand: filled and freed since the last capture, and not being read.
    hot: Vec<Address>,
}

/// The space, which one writer at a time changes.
pub(super) struct Space {
    pub(super) memory: Arc<Memory>,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) geometry: Geometry,
    pub(super) classes: Classes,
    limit_bytes: u64,
    pub(super) regions: Vec<Region>,
    /// Whether the last attempt to add a region failed.
    grow_failed: bool,
    pub(super) mapped: bool,
    pub(super) slabs: Vec<Slab>,
    pools: Vec<Pool>,
    free: BTreeSet<u32>,
    /// Slabs with a set of dirty slots.
    pub(super) dirty: Vec<u32>,
    /// Slabs that kept their shadow after they were written out.
    pub(super) lingering: Vec<u32>,
    pub(super) shadow_bytes: u64,
    /// Slots taken, and slots freed, by the current batch.
    born: Vec<Address>,
    freed: Vec<Freed>,
    /// The version of the last batch.
    pub(super) newest: u64,
    /// Slots freed since the last capture that a checkpoint knows.
    pub(super) limbo: Vec<Address>,
    /// Waiting for readers below the version: slots that no checkpoint knows, ...
    pub(super) fresh_waiting: VecDeque<(u64, Address)>,
    /// ... slots that a checkpoint knew, ...
    pub(super) old_waiting: VecDeque<(u64, Vec<Address>)>,
    /// ... and shadows.
    pub(super) shadows_waiting: VecDeque<(u64, Buffer)>,
    /// Slots that a lane has freed, and that may have been filled by another one.
    unsure: Vec<Gone>,
    /// Shadows whose readers are not known yet.
    dropped: Vec<Buffer>,
    /// Memory of former shadows, for reuse.
    idle_shadows: IdleShadows,
}

impl Space {
    pub(super) fn new(
        memory: Arc<Memory>,
        disk: Arc<dyn Disk>,
        geometry: Geometry,
        limit_bytes: u64,
        write_buffer_bytes: u64,
    ) -> Space {
        let classes = Classes::new(geometry.slab_bytes);
        let pools = (0..SlotUse::ALL.len() * classes.count()).map(|_| Pool::default()).collect();
        Space {
            memory,
            disk,
            geometry,
            classes,
            limit_bytes,
            regions: Vec::new(),
            grow_failed: false,
            mapped: true,
            slabs: Vec::new(),
            pools,
            free: BTreeSet::new(),
            dirty: Vec::new(),
            lingering: Vec::new(),
            shadow_bytes: 0,
            born: Vec::new(),
            freed: Vec::new(),
            newest: 0,
            limbo: Vec::new(),
            fresh_waiting: VecDeque::new(),
            old_waiting: VecDeque::new(),
            shadows_waiting: VecDeque::new(),
            unsure: Vec::new(),
            dropped: Vec::new(),
            // A checkpoint begins when half of the write buffer is used.
            idle_shadows: IdleShadows::new(write_buffer_bytes / 2),
        }
    }

    /// A view for the writer. No slot that its tree leads to is reused while the view exists. Lanes
    /// may fill slots that they have at hand.
    #[allow(unsafe_code)]
    pub(super) fn view(&self) -> View<'_> {
        // SAFETY: slots come to hand again only through `&mut self`, which the view's borrow
        // excludes. A lane fills only slots at hand. No sound tree leads there, and whoever reads
        // without the locks of all lanes reads only slabs that are not trusted yet. A slab with
        // slots of a lane has a shadow, so it is trusted.
        unsafe { self.memory.view() }
    }

    /// Lets other threads read while a batch runs: `work` gets the space, and a view for them.
    ///
    /// # Safety
    /// Through the view, threads may read only data of earlier batches, and slots that `work`
    /// filled before it told of them and does not change any more. `work` may take, fill and free
    /// slots; it must not end the batch or release slots.
    #[allow(unsafe_code)]
    pub(super) unsafe fn beside<T>(&mut self, work: impl FnOnce(&mut Space, View<'_>) -> T) -> T {
        let memory = Arc::clone(&self.memory);
        // SAFETY: slots that a batch frees are not reused before its end, and shadows are dropped
        // even later.
        work(self, unsafe { memory.view() })
    }

    fn pool(&mut self, usage: SlotUse, class: u8) -> &mut Pool {
        let index = usage as usize * self.classes.count() + usize::from(class);
        &mut self.pools[index]
    }

    /// The slab and slot at an untrusted address, if the slot exists and has this use.
    fn slot_at(&self, address: Address, usage: SlotUse) -> Option<(u32, u32)> {
        let index = self.memory.slab_of(address);
        let slab = self.slabs.get(index as usize)?;
        let offset = self.memory.offset_of(address);
        match slab.usage {
            Use::Slots(own) if own == usage => {
                let bytes = self.classes.size(slab.class);
                let slot = offset / bytes;
                (slot * bytes == offset && slot < slab.slots).then_some((index, slot))
            }
            Use::Run if usage == SlotUse::Item && offset == 0 => Some((index, 0)),
            _ => None,
        }
    }

    /// Prefetches the slab of a slot that may be freed soon, because memory is slow and this is
    /// known early; ...
    pub(super) fn ask_for_slab(&self, address: Address) {
        if let Some(slab) = self.slabs.get(self.memory.slab_of(address) as usize) {
            prefetch::ask_for(slab);
        }
    }

    /// ... and the slab's state of the slot.
    pub(super) fn ask_for_slot(&self, address: Address) {
        if let Some(slab) = self.slabs.get(self.memory.slab_of(address) as usize)
            && matches!(slab.usage, Use::Slots(_))
        {
            slab.ask_for(self.memory.offset_of(address) / self.classes.size(slab.class));
        }
    }

    /// Whether the slot at an address was filled since the last capture. Then it is in a shadow,
    /// with the content that this process has written.
    pub(super) fn is_fresh(&self, address: Address, usage: SlotUse) -> bool {
        self.slot_at(address, usage).is_some_and(|(index, slot)| {
            self.slabs[index as usize].dirty.as_ref().is_some_and(|dirty| dirty.get(slot))
        })
    }

    /// The slab and slot at the address of a used slot.
    pub(super) fn place(&self, address: Address) -> (u32, u32) {
        let index = self.memory.slab_of(address);
        let slab = &self.slabs[index as usize];
        match slab.usage {
            Use::Slots(_) => {
                (index, self.memory.offset_of(address) / self.classes.size(slab.class))
            }
            _ => (index, 0),
        }
    }

    /// Takes a slot of at least `bytes`.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`] (a full disk), [`Error::Damaged`] (nodes in a slab
    /// that gets a shadow).
    pub(super) fn take(&mut self, usage: SlotUse, bytes: u32) -> Result<Address, Error> {
        let address = match self.classes.of(bytes) {
            Some(class) => self.take_slot(usage, class)?,
            None => self.take_run(bytes)?,
        };
        self.born.push(address);
        Ok(address)
    }

    fn take_slot(&mut self, usage: SlotUse, class: u8) -> Result<Address, Error> {
        if let Some(address) = self.pool(usage, class).hot.last().copied() {
            let (index, slot) = self.place(address);
            self.mark_dirty(index, slot)?;
            self.pool(usage, class).hot.pop();
            self.slabs[index as usize].leaving.clear(slot);
            return Ok(address);
        }
        loop {
            if let Some(index) = self.pool(usage, class).open {
                if self.slabs[index as usize].unused > 0 {
                    self.ensure_shadow(index)?;
                    if let Some(slot) = self.slabs[index as usize].take() {
                        self.mark_dirty(index, slot)?;
                        return Ok(self.memory.address(index, slot * self.classes.size(class)));
                    }
                }
                self.slabs[index as usize].open = false;
                self.pool(usage, class).open = None;
                self.lingering.push(index);
            }
            self.open_slab(usage, class)?;
        }
    }

    /// Chooses the slab for the next slots.
    fn open_slab(&mut self, usage: SlotUse, class: u8) -> Result<(), Error> {
        let one_in = if self.is_short() { POOL_ONE_IN_NEED } else { pool_one_in(usage) };
        let pool = self.pool(usage, class);
        let enough = !pool.available.is_empty() && pool.holes * one_in >= pool.capacity;
        let index = if enough { None } else { self.new_slab() };
        let index = match index {
            Some(Ok(index)) => {
                let slots = self.geometry.slab_bytes / self.classes.size(class);
                self.begin(index, Slab::cut(usage, class, slots));
                self.pool(usage, class).capacity += u64::from(slots);
                index
            }
            Some(Err(error)) if self.pool(usage, class).available.is_empty() => return Err(error),
            _ => {
                let pool = self.pool(usage, class);
                let next = pool.available.range(pool.last + 1..).next();
                let index = next.or_else(|| pool.available.first()).copied().unwrap_or(0);
                pool.available.remove(&index);
                let unused = u64::from(self.slabs[index as usize].unused);
                self.pool(usage, class).holes -= unused;
                index
            }
        };
        self.slabs[index as usize].open = true;
        let pool = self.pool(usage, class);
        pool.open = Some(index);
        pool.last = index;
        Ok(())
    }

    /// Puts a free slab to use. Its part of the file has no content.
    fn begin(&mut self, index: u32, slab: Slab) {
        let old = std::mem::replace(&mut self.slabs[index as usize], slab);
        // If files are not mapped, a free slab keeps its memory.
        self.slabs[index as usize].shadow = old.shadow;
    }

    fn new_slab(&mut self) -> Option<Result<u32, Error>> {
        if self.free.is_empty()
            && let Err(error) = self.grow()
        {
            return Some(Err(error));
        }
        self.free.pop_first().map(Ok)
    }

    /// Whether no further region may be possible. The remaining slabs are then for data that cannot
    /// use holes, such as the ledger of the next checkpoint.
    pub(super) fn is_short(&self) -> bool {
        let bytes = (self.regions.len() as u64 + 1) * self.geometry.region_bytes;
        self.grow_failed || bytes > self.limit_bytes
    }

    /// Adds a region.
    fn grow(&mut self) -> Result<(), Error> {
        let bytes = self.regions.len() as u64 * self.geometry.region_bytes;
        if bytes + self.geometry.region_bytes > self.limit_bytes {
            return Err(Error::LimitReached { bytes, limit: self.limit_bytes });
        }
        let index = self.regions.len();
        self.grow_failed = true;
        let region = Region::create(&*self.disk, &self.geometry, index)?;
        self.map_region(&region, index)?;
        self.grow_failed = false;
        self.regions.push(region);
        self.slabs.push(Slab::whole(Use::Header, 1));
        for _ in 1..self.geometry.region_slabs() {
            self.free.insert(self.slabs.len() as u32);
            self.slabs.push(Slab::free());
        }
        Ok(())
    }

    pub(super) fn map_region(&mut self, region: &Region, index: usize) -> Result<(), Error> {
        let map =
            region.file.map(self.geometry.region_bytes).map_err(Error::io(&region.name, "map"))?;
        self.mapped = map.is_some();
        self.memory.add_region(index, map);
        Ok(())
    }

    /// Takes a run of whole slabs for an item.
    fn take_run(&mut self, bytes: u32) -> Result<Address, Error> {
        let first = self.find_run(bytes)?;
        let span = self.slabs[first as usize].span;
        let buffer = self.new_run_shadow((span as usize) * self.memory.slab_bytes(), bytes)?;
        self.memory.show_buffer(first, span, true, &buffer);
        self.count_shadow(buffer.len(), true);
        self.slabs[first as usize].shadow = Some(buffer);
        self.mark_dirty(first, 0)?;
        Ok(self.memory.address(first, 0))
    }

    /// Takes a run of whole slabs for `bytes`, without memory for them.
    pub(super) fn find_run(&mut self, bytes: u32) -> Result<u32, Error> {
        let span = bytes.div_ceil(self.geometry.slab_bytes).max(1);
        if span > SPAN_LIMIT.min(self.geometry.region_slabs() - 1) {
            let limit =
                u64::from(self.geometry.region_slabs() - 1) * u64::from(self.geometry.slab_bytes);
            return Err(Error::TooLarge { what: "an item", bytes: u64::from(bytes), limit });
        }
        let first = match self.free_stretch(span) {
            Some(first) => first,
            None => {
                let first = self.slabs.len() as u32 + 1;
                self.grow()?;
                first
            }
        };
        for index in first..first + span {
            self.free.remove(&index);
            let usage = if index == first { Use::Run } else { Use::Tail };
            let slab = Slab::whole(usage, if index == first { span } else { 1 });
            let old = std::mem::replace(&mut self.slabs[index as usize], slab);
            if let Some(shadow) = old.shadow {
                self.memory.show_map(index, 1, false);
                self.put_off(shadow);
            }
        }
        Ok(first)
    }

    /// The first of `span` free slabs in a row. The headers of regions separate runs.
    fn free_stretch(&self, span: u32) -> Option<u32> {
        let (mut first, mut length) = (0, 0);
        for index in &self.free {
            if length > 0 && *index == first + length {
                length += 1;
            } else {
                (first, length) = (*index, 1);
            }
            if length == span {
                return Some(first);
            }
        }
        None
    }

    fn mark_dirty(&mut self, index: u32, slot: u32) -> Result<(), Error> {
        if self.slabs[index as usize].dirty.is_none() {
            self.ensure_shadow(index)?;
            let slab = &mut self.slabs[index as usize];
            slab.dirty = Some(Bits::new(slab.slots));
            self.dirty.push(index);
        }
        if let Some(dirty) = &mut self.slabs[index as usize].dirty {
            dirty.set(slot);
        }
        Ok(())
    }

    /// Gives a slab of slots a shadow with the content of its file.
    fn ensure_shadow(&mut self, index: u32) -> Result<(), Error> {
        let slab = &self.slabs[index as usize];
        if slab.shadow.is_some() && self.memory.is_trusted(index) {
            return Ok(());
        }
        if let Use::Slots(usage) = slab.usage
            && !self.memory.is_trusted(index)
            && !slab.blank
        {
            check_sealed(self.view(), index, usage, &slab.used, self.classes.size(slab.class))?;
        }
        let buffer = match self.slabs[index as usize].shadow.take() {
            Some(buffer) => buffer,
            None => {
                let buffer = self.new_shadow(index, self.slabs[index as usize].blank)?;
                self.count_shadow(buffer.len(), true);
                buffer
            }
        };
        self.memory.show_buffer(index, 1, true, &buffer);
        self.slabs[index as usize].shadow = Some(buffer);
        Ok(())
    }

    /// Fills a slot that was just taken, from `offset` on.
    #[allow(unsafe_code)]
    pub(super) fn fill(&mut self, address: Address, offset: usize, bytes: &[u8]) {
        // SAFETY: the writer, which holds `&mut self`, took the slot with at least this length, and
        // it is not published.
        unsafe { self.memory.write(address, offset, bytes) };
    }

    /// Fills a new slot with a copy of other data.
    ///
    /// # Errors
    /// [`Error::Damaged`] if that data is too short.
    #[allow(unsafe_code)]
    pub(super) fn fill_from(
        &mut self,
        address: Address,
        from: Address,
        bytes: usize,
    ) -> Result<(), Error> {
        if self.view().room(from).and_then(|room| room.take(bytes)).is_none() {
            return Err(self.memory.damaged(from, "what is to be copied does not fit"));
        }
        // SAFETY: `bytes` bytes are readable there; the slot is as for `fill`.
        unsafe { self.memory.copy(address, from, bytes) };
        Ok(())
    }

    /// Changes a part of a slot that the current batch has taken.
    #[allow(unsafe_code)]
    pub(super) fn amend(&mut self, address: Address, offset: usize, bytes: &[u8]) {
        // SAFETY: the current batch made the content, so no reader knows it, nor does a thread that
        // reads `beside` it. `&mut self` excludes other slices of it.
        unsafe { self.memory.write(address, offset, bytes) };
    }

    /// If files are not mapped, all used slots are in memory, and writing them out frees none.
    fn count_shadow(&mut self, bytes: usize, more: bool) {
        match (self.mapped, more) {
            (false, _) => {}
            (true, true) => self.shadow_bytes += bytes as u64,
            (true, false) => self.shadow_bytes -= bytes as u64,
        }
    }

    /// Adds a slab from a ledger.
    pub(super) fn restore(&mut self, index: u32, slab: Slab) {
        match slab.usage {
            Use::Free => {
                self.free.insert(index);
            }
            Use::Slots(usage) => {
                let (class, slots, unused) = (slab.class, slab.slots, slab.unused);
                let pool = self.pool(usage, class);
                pool.capacity += u64::from(slots);
                if unused >= (slots / HOLES_ONE_IN).max(1) {
                    pool.available.insert(index);
                    pool.holes += u64::from(unused);
                }
            }
            Use::Header | Use::Run | Use::Tail => {}
        }
        self.slabs.push(slab);
    }

    /// Whether a used slot is at hand or belongs to a ledger.
    pub(super) fn is_idle_slot(&self, address: Address) -> bool {
        let (index, _) = self.place(address);
        match self.slabs[index as usize].usage {
            Use::Slots(usage) => {
                let class = usize::from(self.slabs[index as usize].class);
                self.pools[usage as usize * self.classes.count() + class].hot.contains(&address)
            }
            _ => self.slabs[index as usize].shadow.is_none(),
        }
    }

    /// The number of free slabs.
    pub(super) fn free_slabs(&self) -> usize {
        self.free.len()
    }
}

/// Checks the nodes, or the digest blocks, in the `used` slots of a slab.
pub(super) fn check_sealed(
    view: View<'_>,
    index: u32,
    usage: SlotUse,
    used: &Bits,
    slot_bytes: u32,
) -> Result<(), Error> {
    for slot in used.iter() {
        let address = view.memory().address(index, slot * slot_bytes);
        let damaged = |what| view.memory().damaged(address, what);
        let room = view.room(address).ok_or_else(|| damaged("nothing is there"))?;
        let length = match usage {
            SlotUse::Node => room.take(node::HEAD_BYTES).and_then(node::length),
            SlotUse::Digest => {
                room.take(digests::block::HEAD_BYTES).and_then(digests::block::length)
            }
            SlotUse::Item | SlotUse::Bucket => return Ok(()),
        };
        let bytes = length.and_then(|length| room.take(length));
        if !bytes.is_some_and(|bytes| node::is_sound(address, bytes)) {
            return Err(damaged(match usage {
                SlotUse::Node => "the checksum of a node",
                _ => "the checksum of a block of digests",
            }));
        }
    }
    Ok(())
}
