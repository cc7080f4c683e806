//! Lanes: what each of several writers side by side has to itself.
//!
//! A lane has a *magazine* of slots for each size (Bonwick and Adams, Magazines and Vmem, USENIX
//! 2001), and a list of the slots that its commits have freed. So a commit takes no lock of the
//! space, except once for many slots.

use super::apart::Apart;
use super::classes::Classes;
use super::edit::{Lengths, Met};
use super::entry::Address;
use super::error::Error;
use super::memory::View;
use super::options::Options;
use super::readers::PARTS;
use super::slab::SlotUse;
use super::slots::Slots;
use super::space::{Gone, Space};
use super::store::{Shared, lock_soon};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// The number of lanes. More threads share them.
const LANES: usize = 16;
/// The most slots that a magazine takes from the space together, ...
const MAGAZINE_SLOTS: usize = 32;
/// ... and the most bytes, except of a single slot, ...
const MAGAZINE_BYTES: u64 = 64 << 10;
/// ... which are also at most this share of the write buffer, because slots at hand are in memory.
const MAGAZINE_ONE_IN: u64 = 256;
/// A lane gives slots that its commits have freed to the space when there are this many.
const GONE_SLOTS: usize = 64;
/// The same for slots that its commits have filled.
const FILLED_SLOTS: usize = 128;

/// A lane keeps no more memory than this for each part of a record.
const RECORD_KEPT_BYTES: usize = 256 << 10;

/// The lanes and the locks of the parts.
pub(super) struct Lanes {
    lanes: [Apart<Mutex<Apart<Lane>>>; LANES],
    parts: Box<[Apart<Mutex<()>>]>,
    /// Whether the tree is [divided](super::readers::DIVIDED). Changed by the holder of the locks
    /// of all lanes and of the writer.
    divided: AtomicBool,
    classes: Classes,
    /// The most bytes of a magazine.
    magazine_bytes: u64,
}

/// The locks of all lanes: no commit side by side is under way.
pub(super) type Alone<'a> = [MutexGuard<'a, Apart<Lane>>; LANES];

impl Lanes {
    pub(super) fn new(options: &Options) -> Lanes {
        Lanes {
            lanes: std::array::from_fn(|_| Apart::default()),
            parts: (0..PARTS).map(|_| Apart::default()).collect(),
            divided: AtomicBool::new(false),
            classes: Classes::new(options.slab_bytes),
            magazine_bytes: MAGAZINE_BYTES.min(options.write_buffer_bytes / MAGAZINE_ONE_IN),
        }
    }

    /// The most slots of a class in a magazine.
    fn magazine_slots(&self, class: u8) -> usize {
        let slots = self.magazine_bytes / u64::from(self.classes.size(class)).max(1);
        (slots as usize).clamp(1, MAGAZINE_SLOTS)
    }

    /// Gives the space what other lanes have at hand and have freed, and adds their sums to
    /// `moved`. The caller holds a lane, so it waits for none. A lane in use keeps its slots.
    fn gather(&self, space: &mut Space, moved: &mut Moved) -> Result<(), Error> {
        self.lanes.iter().try_for_each(|lane| match lane.try_lock() {
            Ok(mut lane) => lane.collect(space, moved),
            Err(TryLockError::Poisoned(lane)) => lane.into_inner().collect(space, moved),
            Err(TryLockError::WouldBlock) => Ok(()),
        })
    }

    pub(super) fn are_divided(&self) -> bool {
        self.divided.load(Ordering::Acquire)
    }

    pub(super) fn set_divided(&self, divided: bool, _: &Alone<'_>) {
        self.divided.store(divided, Ordering::Release);
    }

    /// Locks the lane of a thread.
    pub(super) fn lane(&self, hint: usize) -> MutexGuard<'_, Apart<Lane>> {
        lock_soon(&self.lanes[hint % LANES])
    }

    /// Locks a part of the tree.
    pub(super) fn part(&self, part: usize) -> MutexGuard<'_, ()> {
        lock_soon(&self.parts[part % PARTS])
    }

    /// Locks all lanes.
    pub(super) fn alone(&self) -> Alone<'_> {
        std::array::from_fn(|lane| lock_soon(&self.lanes[lane]))
    }
}

/// Slots of one size at hand. They count as filled since the last capture, so their slabs have
/// shadows. They also count as leaving, so that a forged entry that leads there frees nothing.
struct Magazine {
    usage: SlotUse,
    class: u8,
    /// The most slots in it.
    limit: usize,
    slots: Vec<Address>,
}

/// The sums that changes have added to the totals, and taken from them: items, bytes of keys, bytes
/// of values. Another lane may have added what one has taken.
#[derive(Default)]
pub(super) struct Moved {
    pub(super) added: [u64; 3],
    pub(super) removed: [u64; 3],
}

impl Moved {
    fn add(&mut self, other: &Moved) {
        add(&mut self.added, other.added);
        add(&mut self.removed, other.removed);
    }
}

fn add(sums: &mut [u64; 3], more: [u64; 3]) {
    sums.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
}

fn sums_of((name, value): Lengths) -> [u64; 3] {
    [1, name as u64, value as u64]
}

/// A lane.
#[derive(Default)]
pub(super) struct Lane {
    /// By use and class, as far as they were needed.
    magazines: Vec<Option<Magazine>>,
    /// The slots taken by the change under way. `None`: a run of slabs.
    taken: Vec<(Address, Option<usize>)>,
    /// The slots freed by the change under way.
    freed: Vec<(Address, SlotUse)>,
    /// The slots filled by commits that the space does not know, ...
    filled: Vec<Address>,
    /// ... and those freed by them.
    gone: Vec<Gone>,
    /// Runs of slabs that were taken and not used.
    unused: Vec<Address>,
    moved: Moved,
    /// Memory for nodes and buckets, ...
    pub(super) scratch: Vec<u8>,
    /// ... and for the record of the log.
    pub(super) record: Record,
}

/// Memory for a record of the log.
#[derive(Default)]
pub(super) struct Record {
    /// The encoded change.
    pub(super) change: Vec<u8>,
    /// What the log uses to collect the record.
    pub(super) memory: Vec<u8>,
}

impl Record {
    /// After a commit: long memory is freed. Most records are short, and each lane has one.
    pub(super) fn shrink(&mut self) {
        for memory in [&mut self.change, &mut self.memory] {
            if memory.capacity() > RECORD_KEPT_BYTES {
                *memory = Vec::new();
            }
        }
    }
}

impl Lane {
    /// Whether so many slots were filled or freed that the space should know them.
    pub(super) fn is_full(&self) -> bool {
        self.gone.len() >= GONE_SLOTS || self.filled.len() >= FILLED_SLOTS
    }

    /// Abandons the change under way.
    pub(super) fn undo(&mut self) {
        self.freed.clear();
        for (address, magazine) in self.taken.drain(..) {
            let magazine = magazine.and_then(|index| self.magazines.get_mut(index)?.as_mut());
            match magazine {
                Some(magazine) => magazine.slots.push(address),
                None => self.unused.push(address),
            }
        }
    }

    /// The change under way was committed as `version`. It replaced an item with these lengths.
    pub(super) fn keep(&mut self, version: u64, met: &Met, new: Option<Lengths>) {
        self.filled.extend(self.taken.drain(..).map(|(address, _)| address));
        let gone = self.freed.drain(..).map(|(address, usage)| Gone { version, address, usage });
        self.gone.extend(gone);
        new.into_iter().for_each(|new| add(&mut self.moved.added, sums_of(new)));
        met.old.into_iter().for_each(|old| add(&mut self.moved.removed, sums_of(old)));
    }

    /// Tells the space which slots commits have filled and freed.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub(super) fn give(&mut self, space: &mut Space) -> Result<(), Error> {
        let given = space.take_over(&self.filled, &self.gone);
        self.filled.clear();
        self.gone.clear();
        self.unused.drain(..).for_each(|address| space.take_back(address));
        given
    }

    /// Fills the magazines in use that are less than half full. It leaves them as they are if there
    /// is no room.
    pub(super) fn top_up(&mut self, space: &mut Space) {
        for magazine in self.magazines.iter_mut().flatten() {
            if magazine.slots.len() < magazine.limit.div_ceil(2) {
                let _ = magazine.fill(space);
            }
        }
    }

    /// Fills a magazine and takes a slot from it.
    fn fill(&mut self, index: usize, space: &mut Space) -> Result<Address, Error> {
        let magazine = self.magazines.get_mut(index).and_then(Option::as_mut);
        let full = Error::LimitReached { bytes: 0, limit: 0 };
        let Some(magazine) = magazine else { return Err(full) };
        magazine.fill(space)?;
        magazine.slots.pop().ok_or(full)
    }

    /// Gives everything to the space, and adds its sums to `moved`.
    ///
    /// # Errors
    /// As [`Space::free`].
    pub(super) fn collect(&mut self, space: &mut Space, moved: &mut Moved) -> Result<(), Error> {
        self.undo();
        let given = self.give(space);
        for magazine in self.magazines.iter_mut().filter_map(Option::take) {
            magazine.slots.iter().for_each(|address| space.take_back(*address));
        }
        moved.add(&std::mem::take(&mut self.moved));
        given
    }
}

impl Magazine {
    /// Takes slots from the space, at least one.
    fn fill(&mut self, space: &mut Space) -> Result<(), Error> {
        let before = self.slots.len();
        let mut result = Ok(());
        while self.slots.len() < self.limit {
            match space.take_ahead(self.usage, self.class) {
                Ok(address) => self.slots.push(address),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        // The last one is taken first, and neighbours are written together.
        self.slots.get_mut(before..).into_iter().for_each(<[Address]>::reverse);
        if self.slots.is_empty() { result } else { Ok(()) }
    }
}

/// The slots for a change of one part, by the holder of its lock, of a lane, and of a place among
/// the readers.
pub(super) struct LaneSlots<'a> {
    lane: &'a mut Lane,
    shared: &'a Shared,
    lanes: &'a Lanes,
}

impl<'a> LaneSlots<'a> {
    /// # Safety
    /// The caller has a place among the readers, and holds the lock of the part whose tree is read
    /// and changed through it.
    #[allow(unsafe_code)]
    pub(super) unsafe fn new(
        lane: &'a mut Lane,
        shared: &'a Shared,
        lanes: &'a Lanes,
    ) -> LaneSlots<'a> {
        LaneSlots { lane, shared, lanes }
    }

    /// Fills an empty magazine and takes a slot.
    fn take_after_filling(&mut self, index: usize) -> Result<Address, Error> {
        self.take_from_space(|lane, space| lane.fill(index, space))
    }

    fn take_run(&mut self, bytes: u32) -> Result<Address, Error> {
        let address = self.take_from_space(|_, space| space.take_run_ahead(bytes))?;
        self.lane.taken.push((address, None));
        Ok(address)
    }

    /// If there is no room, slots that this lane has freed may make some, and then those of other
    /// lanes.
    fn take_from_space(
        &mut self,
        mut take: impl FnMut(&mut Lane, &mut Space) -> Result<Address, Error>,
    ) -> Result<Address, Error> {
        let mut writer = self.shared.writer()?;
        let mut taken = take(self.lane, &mut writer.space);
        if taken.is_err() {
            self.shared.give_and_release(self.lane, &mut writer)?;
            taken = take(self.lane, &mut writer.space);
        }
        if matches!(taken, Err(Error::LimitReached { .. } | Error::Io { .. })) {
            let gathered = self.lanes.gather(&mut writer.space, &mut self.lane.moved);
            gathered.inspect_err(|error| self.shared.stop_writer(&mut writer, error))?;
            self.shared.give_and_release(self.lane, &mut writer)?;
            taken = take(self.lane, &mut writer.space);
        }
        self.shared.tell_shadows(&writer);
        taken
    }
}

#[allow(unsafe_code)]
impl Slots for LaneSlots<'_> {
    fn view(&self) -> View<'_> {
        // SAFETY: only commits of this part free what is in it, and shadows stay as long as the
        // place among the readers.
        unsafe { self.shared.memory.view() }
    }

    fn take(&mut self, usage: SlotUse, bytes: u32) -> Result<Address, Error> {
        let Some(class) = self.lanes.classes.of(bytes) else { return self.take_run(bytes) };
        let index = usage as usize * self.lanes.classes.count() + usize::from(class);
        let magazines = &mut self.lane.magazines;
        if magazines.len() <= index {
            magazines.resize_with(index + 1, || None);
        }
        let magazine = magazines[index].get_or_insert_with(|| {
            let limit = self.lanes.magazine_slots(class);
            Magazine { usage, class, limit, slots: Vec::with_capacity(limit) }
        });
        let address = match magazine.slots.pop() {
            Some(address) => address,
            None => self.take_after_filling(index)?,
        };
        self.lane.taken.push((address, Some(index)));
        Ok(address)
    }

    /// The space finds out whether the slot is in use when the lane gives it.
    fn free(&mut self, address: Address, usage: SlotUse) -> Result<(), Error> {
        self.lane.freed.push((address, usage));
        Ok(())
    }

    fn fill(&mut self, address: Address, offset: usize, bytes: &[u8]) {
        // SAFETY: the change under way took the slot from a magazine, with at least this length.
        // The slot counts as filled since the last capture, so its slab has a shadow. No other
        // thread knows it.
        unsafe { self.shared.memory.write(address, offset, bytes) };
    }

    fn fill_from(&mut self, address: Address, from: Address, bytes: usize) -> Result<(), Error> {
        if self.view().room(from).and_then(|room| room.take(bytes)).is_none() {
            return Err(self.shared.memory.damaged(from, "what is to be copied does not fit"));
        }
        // SAFETY: `bytes` bytes are readable there; the slot is as for `fill`.
        unsafe { self.shared.memory.copy(address, from, bytes) };
        Ok(())
    }

    /// A change of one item meets no node twice.
    fn is_fresh(&self, _: Address, _: SlotUse) -> bool {
        false
    }

    fn ask_for_slab(&self, _: Address) {}

    fn ask_for_slot(&self, _: Address) {}
}
