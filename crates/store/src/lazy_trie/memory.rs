//! The memory of the space: a word for each slab, which points into the mapped file or to a shadow.
//!
//! Only this module dereferences pointers. It is sound for these reasons:
//! - Only one thread writes a slot, between its allocation and the publication of a version that
//!   refers to it (a node of an unpublished version may be written again). It holds the writer's
//!   lock, or that of the [lane](super::lanes) whose change under way took the slot. No other
//!   thread knows the address then, except threads that the writer told of filled items
//!   ([`Space::beside`](super::space::Space::beside)).
//! - A slot that a lane has at hand or has filled keeps its dirty bit until the lane gives it to
//!   the space. A capture first collects from all lanes. So the slab shows the same shadow while
//!   the lane writes.
//! - A slot is allocated again, and a shadow is freed, only after every reader that could know its
//!   address is gone ([`Readers`](super::readers::Readers)).
//! - Slices cover used slots, never a whole slab. So writes to other slots do not alias them.
//! - A length read from a slot is checked against the end of its slab or run before a slice is
//!   made.
#![allow(unsafe_code)]

use super::entry::{Address, UNIT_BYTES};
use super::error::Error;
use super::regions::region_name;
use crate::disk::Map;
use crate::prefetch;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::io;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The alignment of shadows and maps, which leaves room for flags in a word.
const ALIGN_BYTES: usize = 4096;
/// The nodes of the slab were checked, or made by this process.
const TRUSTED: usize = 1;
/// Bits 1 to 11: the number of slabs of a run (0 and 1 mean one).
const SPAN_SHIFT: u32 = 1;
const SPAN_MASK: usize = ALIGN_BYTES / 2 - 1;
/// The longest run, in slabs.
pub(super) const SPAN_LIMIT: u32 = SPAN_MASK as u32;

/// A block of memory, aligned to a page.
pub(super) struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory; the module's rules govern access to it.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(super) fn zeroed(bytes: usize) -> io::Result<Buffer> {
        let layout = Layout::from_size_align(bytes.max(ALIGN_BYTES), ALIGN_BYTES)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Ok(Buffer { start, layout }),
            None => handle_alloc_error(layout),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.layout.size()
    }

    /// The whole block, before another thread can see it.
    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the block is initialised, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

/// The words.
pub(super) struct Memory {
    /// Anonymous memory: untouched words take none.
    words: memmap2::MmapMut,
    slabs: usize,
    slab_bits: u32,
    region_slabs: u32,
    /// By region; kept until the end, because words point into them.
    maps: Mutex<Vec<Option<Map>>>,
}

impl Memory {
    /// The memory of a space of at most `limit_bytes`.
    pub(super) fn new(slab_bytes: u32, region_slabs: u32, limit_bytes: u64) -> io::Result<Memory> {
        let slabs = usize::try_from(limit_bytes / u64::from(slab_bytes)).unwrap_or(usize::MAX);
        let bytes =
            slabs.checked_mul(size_of::<AtomicUsize>()).ok_or(io::ErrorKind::OutOfMemory)?;
        let words =
            memmap2::MmapOptions::new().len(bytes.max(ALIGN_BYTES)).no_reserve_swap().map_anon()?;
        let slab_bits = slab_bytes.trailing_zeros();
        Ok(Memory { words, slabs, slab_bits, region_slabs, maps: Mutex::default() })
    }

    pub(super) fn slab_bytes(&self) -> usize {
        1 << self.slab_bits
    }

    pub(super) fn region_slabs(&self) -> u32 {
        self.region_slabs
    }

    /// The slab that contains an address.
    pub(super) fn slab_of(&self, address: Address) -> u32 {
        (address.bytes() >> self.slab_bits) as u32
    }

    /// The offset of an address in its slab, in bytes.
    pub(super) fn offset_of(&self, address: Address) -> u32 {
        (address.bytes() & ((1 << self.slab_bits) - 1)) as u32
    }

    /// The address `offset` bytes into a slab.
    pub(super) fn address(&self, slab: u32, offset: u32) -> Address {
        Address(((u64::from(slab) << self.slab_bits) + u64::from(offset)) / UNIT_BYTES)
    }

    /// The error of damage at an address, with file and offset.
    pub(super) fn damaged(&self, address: Address, what: &'static str) -> Error {
        let slab = self.slab_of(address);
        let offset = u64::from(slab % self.region_slabs) << self.slab_bits;
        Error::Damaged {
            file: region_name((slab / self.region_slabs) as usize),
            offset: offset + u64::from(self.offset_of(address)),
            what,
        }
    }

    fn word(&self, slab: u32) -> Option<&AtomicUsize> {
        let slab = slab as usize;
        if slab >= self.slabs {
            return None;
        }
        // SAFETY: within the map, which is zeroed, lives as long as `self`, is aligned to a page,
        // and is not accessed elsewhere.
        Some(unsafe { &*self.words.as_ptr().cast::<AtomicUsize>().add(slab) })
    }

    /// Adds the map of region `region`. Its slabs show the map, untrusted.
    pub(super) fn add_region(&self, region: usize, map: Option<Map>) {
        let mut maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        if maps.len() <= region {
            maps.resize_with(region + 1, || None);
        }
        if let Some(place) = maps.get_mut(region) {
            *place = map;
        }
        drop(maps);
        let first = region as u32 * self.region_slabs;
        for slab in first..first + self.region_slabs {
            self.show_map(slab, 1, false);
        }
    }

    /// The size of the space's files.
    pub(super) fn space_bytes(&self) -> u64 {
        let regions = self.maps.lock().unwrap_or_else(PoisonError::into_inner).len() as u64;
        (regions * u64::from(self.region_slabs)) << self.slab_bits
    }

    /// Lets a slab, or a run of `span`, show its file. Without maps it does nothing.
    pub(super) fn show_map(&self, slab: u32, span: u32, trusted: bool) {
        let maps = self.maps.lock().unwrap_or_else(PoisonError::into_inner);
        let (region, within) = (slab / self.region_slabs, slab % self.region_slabs);
        let offset = (within as usize) << self.slab_bits;
        let end = offset + ((span.max(1) as usize) << self.slab_bits);
        let start = match maps.get(region as usize) {
            Some(Some(map)) if end <= map.len() => map.start().expose_provenance() + offset,
            _ => 0,
        };
        self.set(slab, start, span, trusted);
    }

    /// Lets a slab, or a run of `span`, show `buffer`, which must live until no reader can know it.
    pub(super) fn show_buffer(&self, slab: u32, span: u32, trusted: bool, buffer: &Buffer) {
        debug_assert!(buffer.len() >= (span.max(1) as usize) << self.slab_bits);
        self.set(slab, buffer.start.as_ptr().expose_provenance(), span, trusted);
    }

    fn set(&self, slab: u32, start: usize, span: u32, trusted: bool) {
        let flags = if start == 0 {
            0
        } else {
            ((span as usize & SPAN_MASK) << SPAN_SHIFT) | usize::from(trusted)
        };
        if let Some(word) = self.word(slab) {
            // The data behind the pointer was written before.
            word.store(start | flags, Ordering::Release);
        }
    }

    /// Marks the nodes of a slab as checked, if the slab still shows `seen`.
    pub(super) fn trust(&self, slab: u32, seen: usize) {
        if let Some(word) = self.word(slab) {
            let _ =
                word.compare_exchange(seen, seen | TRUSTED, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// The value that [`Memory::trust`] compares.
    pub(super) fn seen(&self, slab: u32) -> usize {
        self.word(slab).map_or(0, |word| word.load(Ordering::Acquire))
    }

    pub(super) fn is_trusted(&self, slab: u32) -> bool {
        self.seen(slab) & TRUSTED != 0
    }

    /// Copies the content of a slab; `false` if there is none.
    pub(super) fn copy_slab(&self, slab: u32, into: &mut Buffer) -> bool {
        let start = ptr::with_exposed_provenance::<u8>(self.seen(slab) & !(ALIGN_BYTES - 1));
        let bytes = self.slab_bytes();
        if start.is_null() || into.len() < bytes {
            return false;
        }
        // SAFETY: a slab is mapped there, and its file is not written: only slabs with shadows are
        // written out.
        unsafe { ptr::copy_nonoverlapping(start, into.start.as_ptr(), bytes) };
        true
    }

    /// A view for reading.
    ///
    /// # Safety
    /// As long as the view is used, no slot reached through it may be allocated again. So its
    /// holder must have a place among the readers, be the writer or work for it, or read slots that
    /// a checkpoint protects.
    pub(super) unsafe fn view(&self) -> View<'_> {
        View { memory: self }
    }

    /// Writes `bytes` at `offset` bytes behind `address`.
    ///
    /// # Safety
    /// The slot there must belong to the writer, or to the change under way of a lane that the
    /// caller has locked, and have at least `offset + bytes.len()` bytes. Its slab must show a
    /// shadow, and no slice of the slot may be alive.
    pub(super) unsafe fn write(&self, address: Address, offset: usize, bytes: &[u8]) {
        let word = self.seen(self.slab_of(address));
        let start = ptr::with_exposed_provenance_mut::<u8>(word & !(ALIGN_BYTES - 1));
        debug_assert!(!start.is_null());
        let at = self.offset_of(address) as usize + offset;
        // SAFETY: by the contract above the target lies within a live shadow that is not accessed
        // elsewhere.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), start.add(at), bytes.len()) }
    }

    /// Copies `bytes` from one address to another.
    ///
    /// # Safety
    /// `bytes` bytes must be readable at `from`; `to` as for [`Memory::write`].
    pub(super) unsafe fn copy(&self, to: Address, from: Address, bytes: usize) {
        let place = |address: Address| {
            let start = self.seen(self.slab_of(address)) & !(ALIGN_BYTES - 1);
            debug_assert!(start > 0);
            ptr::with_exposed_provenance_mut::<u8>(start)
                .wrapping_add(self.offset_of(address) as usize)
        };
        // SAFETY: by the contract above; a damaged length may let them overlap.
        unsafe { ptr::copy(place(from), place(to), bytes) }
    }
}

/// Permission to read slots; see [`Memory::view`].
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    memory: &'a Memory,
}

/// The bytes from an address to the end of its slab or run.
#[derive(Clone, Copy)]
pub(super) struct Room<'a> {
    start: *const u8,
    bytes: usize,
    /// Whether its nodes need no check.
    pub(super) trusted: bool,
    lifetime: PhantomData<&'a [u8]>,
}

impl<'a> View<'a> {
    /// The memory from `address` on; `None` if nothing is there.
    #[inline]
    pub(super) fn room(self, address: Address) -> Option<Room<'a>> {
        let memory = self.memory;
        let word = memory.seen(memory.slab_of(address));
        let base = ptr::with_exposed_provenance::<u8>(word & !(ALIGN_BYTES - 1));
        if base.is_null() {
            return None;
        }
        let span = ((word >> SPAN_SHIFT) & SPAN_MASK).max(1);
        let offset = memory.offset_of(address) as usize;
        // SAFETY: the offset is less than a slab, and at least one slab is mapped or allocated at
        // `base`.
        let start = unsafe { base.add(offset) };
        let bytes = (span << memory.slab_bits) - offset;
        Some(Room { start, bytes, trusted: word & TRUSTED != 0, lifetime: PhantomData })
    }

    pub(super) fn memory(self) -> &'a Memory {
        self.memory
    }

    /// Prefetches `bytes` from `address` on.
    pub(super) fn ask_for(self, address: Address, bytes: usize) {
        if let Some(room) = self.room(address) {
            room.ask_for(0, bytes);
        }
    }
}

impl<'a> Room<'a> {
    /// Prefetches `bytes` from `offset` on.
    #[inline]
    pub(super) fn ask_for(self, offset: usize, bytes: usize) {
        let offset = offset.min(self.bytes);
        prefetch::ask_for_bytes(self.start.wrapping_add(offset), bytes.min(self.bytes - offset));
    }

    /// Its first `bytes`; `None` if it has fewer.
    #[inline]
    pub(super) fn take(self, bytes: usize) -> Option<&'a [u8]> {
        if bytes > self.bytes {
            return None;
        }
        // SAFETY: within a map or buffer that lives as long as the view's holder protects it, and
        // that is not written meanwhile.
        Some(unsafe { std::slice::from_raw_parts(self.start, bytes) })
    }
}
