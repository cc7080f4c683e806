//! The capture of a checkpoint: the data to write out, fixed at one moment. It is written beside
//! readers and the writer. After that the checkpoint is made to count.

use super::classes::Classes;
use super::digests;
use super::entry::Address;
use super::error::Error;
use super::ledger::{self, Ledger};
use super::memory::Memory;
use super::node;
use super::regions::Region;
use super::slab::{Bits, SlotUse, Use};
use super::space::Space;
use crate::disk::SYNC_EVERY_BYTES;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Whole pages are written.
const PAGE_BYTES: usize = 4096;

/// A slab with data to write.
struct Piece {
    slab: u32,
    usage: Use,
    slot_bytes: u32,
    slots: Arc<Bits>,
    blank: bool,
}

/// The data that a checkpoint has to write.
pub(super) struct Capture {
    pieces: Vec<Piece>,
    ledger: Ledger,
    ledger_slab: u32,
    /// Slots that are taken, but unknown to the checkpoint.
    gone: Vec<Address>,
    /// Slots that this checkpoint no longer knows, but the previous one does.
    limbo: Vec<Address>,
    regions: Vec<Region>,
}

/// The work of a checkpoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Written {
    pub(super) ledger_address: Address,
    pub(super) ledger_bytes: u64,
    pub(super) ledger_checksum: u32,
    /// Bytes written to the space.
    pub(super) bytes: u64,
}

impl Space {
    /// Takes all slots filled since the last capture. `old_ledger` is the address of the last
    /// checkpoint's ledger.
    ///
    /// # Errors
    /// [`Error::LimitReached`] or [`Error::Io`] if there is no room for the ledger.
    pub(super) fn capture(&mut self, old_ledger: Option<Address>) -> Result<Capture, Error> {
        self.put_away();
        // A little more than needed, for slabs that the ledger itself adds.
        let room = ledger::size_limit(&self.slabs) + 64 + 5 * self.geometry.region_slabs() as usize;
        let room = u32::try_from(room).unwrap_or(u32::MAX);
        let ledger_slab = self.find_run(room)?;
        // The next checkpoint releases this slot when it counts; nothing else does.
        self.slabs[ledger_slab as usize].leaving.set(0);
        self.limbo.extend(old_ledger);
        let limbo = std::mem::take(&mut self.limbo);
        let mut gone = limbo.clone();
        gone.extend(self.fresh_waiting.iter().map(|(_, address)| *address));
        gone.extend(self.old_waiting.iter().flat_map(|(_, list)| list).copied());
        let mut pieces = Vec::new();
        for slab in std::mem::take(&mut self.dirty) {
            self.lingering.push(slab);
            let entry = &mut self.slabs[slab as usize];
            let Some(dirty) = entry.dirty.take().filter(|dirty| !dirty.is_empty()) else {
                continue;
            };
            let slots = Arc::new(dirty);
            entry.writing = Some(Arc::clone(&slots));
            let slot_bytes = match entry.usage {
                Use::Slots(_) => self.classes.size(entry.class),
                _ => entry.span << self.geometry.slab_bytes.trailing_zeros(),
            };
            pieces.push(Piece { slab, usage: entry.usage, slot_bytes, slots, blank: entry.blank });
        }
        pieces.sort_unstable_by_key(|piece| piece.slab);
        let ledger = Ledger::new(&self.slabs);
        Ok(Capture { pieces, ledger, ledger_slab, gone, limbo, regions: self.regions.clone() })
    }

    /// The checkpoint counts. Slots that only older checkpoints knew become free once the readers
    /// of versions up to `captured` are gone. Readers of versions below `next` may still use the
    /// dropped shadows.
    pub(super) fn settle(&mut self, capture: Capture, captured: u64, next: u64) {
        for piece in &capture.pieces {
            let slab = &mut self.slabs[piece.slab as usize];
            slab.writing = None;
            slab.blank = false;
        }
        self.slabs[capture.ledger_slab as usize].blank = false;
        self.old_waiting.push_back((captured, capture.limbo));
        self.drop_shadows(next);
    }
}

impl Capture {
    /// Writes everything and makes it durable, except the names of new regions. `old_regions` is
    /// the number of regions in the last checkpoint.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(super) fn write_out(
        &mut self,
        memory: &Memory,
        classes: &Classes,
        old_regions: usize,
    ) -> Result<Written, Error> {
        let mut written = Written::default();
        // A new region must exist with its whole length, even if nothing in it is written yet.
        let mut touched: BTreeSet<usize> = (old_regions..self.regions.len()).collect();
        let mut buffer = vec![0; memory.slab_bytes()];
        let mut synced_bytes = 0;
        for piece in &self.pieces {
            let region = touch(&self.regions, &mut touched, memory, piece.slab)?;
            let at = u64::from(piece.slab % memory.region_slabs()) * memory.slab_bytes() as u64;
            written.bytes += piece.write_out(memory, region, at, &mut buffer)?;
            if written.bytes - synced_bytes >= SYNC_EVERY_BYTES {
                synced_bytes = written.bytes;
                region.file.sync_data().map_err(Error::io(&region.name, "sync"))?;
            }
        }
        for address in &self.gone {
            self.ledger.strike(memory, classes, *address);
        }
        let region = touch(&self.regions, &mut touched, memory, self.ledger_slab)?;
        let at = u64::from(self.ledger_slab % memory.region_slabs()) * memory.slab_bytes() as u64;
        region.file.write_at(at, &self.ledger.bytes).map_err(Error::io(&region.name, "write"))?;
        written.ledger_address = memory.address(self.ledger_slab, 0);
        written.ledger_bytes = self.ledger.bytes.len() as u64;
        written.ledger_checksum = crc32c::crc32c(&self.ledger.bytes);
        written.bytes += written.ledger_bytes;
        for index in touched {
            if let Some(region) = self.regions.get(index) {
                region.file.sync_data().map_err(Error::io(&region.name, "sync"))?;
            }
        }
        Ok(written)
    }

    /// The number of regions at the capture.
    pub(super) fn region_count(&self) -> usize {
        self.regions.len()
    }
}

fn touch<'a>(
    regions: &'a [Region],
    touched: &mut BTreeSet<usize>,
    memory: &Memory,
    slab: u32,
) -> Result<&'a Region, Error> {
    let index = (slab / memory.region_slabs()) as usize;
    touched.insert(index);
    regions.get(index).ok_or_else(|| memory.damaged(memory.address(slab, 0), "no such region"))
}

impl Piece {
    /// Writes the pages of its slots. Other slots in these pages keep the file's content.
    #[allow(unsafe_code)]
    fn write_out(
        &self,
        memory: &Memory,
        region: &Region,
        at: u64,
        buffer: &mut Vec<u8>,
    ) -> Result<u64, Error> {
        // SAFETY: slots of a checkpoint are not reused before the next one is durable, and their
        // shadow stays until then.
        let view = unsafe { memory.view() };
        let gone = || memory.damaged(memory.address(self.slab, 0), "a shadow is gone");
        if !matches!(self.usage, Use::Slots(_)) {
            let room = view.room(memory.address(self.slab, 0)).ok_or_else(gone)?;
            let bytes = room.take(self.slot_bytes as usize).ok_or_else(gone)?;
            region.file.write_at(at, bytes).map_err(Error::io(&region.name, "write"))?;
            return Ok(bytes.len() as u64);
        }
        buffer.clear();
        buffer.resize(memory.slab_bytes(), 0);
        if !self.blank {
            region.file.read_at(at, buffer).map_err(Error::io(&region.name, "read"))?;
        }
        let mut pages = vec![false; memory.slab_bytes() / PAGE_BYTES];
        for slot in self.slots.iter() {
            let address = memory.address(self.slab, slot * self.slot_bytes);
            let from = (slot * self.slot_bytes) as usize;
            let to = from + self.slot_bytes as usize;
            let bytes =
                view.room(address).and_then(|room| room.take(to - from)).ok_or_else(gone)?;
            let place = buffer.get_mut(from..to).ok_or_else(gone)?;
            place.copy_from_slice(bytes);
            if self.usage == Use::Slots(SlotUse::Node) {
                node::seal(address, place);
            } else if self.usage == Use::Slots(SlotUse::Digest) {
                digests::block::seal(address, place);
            }
            for page in pages.iter_mut().take((to - 1) / PAGE_BYTES + 1).skip(from / PAGE_BYTES) {
                *page = true;
            }
        }
        let mut written = 0;
        let mut page = 0;
        for run in pages.chunk_by(|a, b| a == b) {
            let (from, to) = (page * PAGE_BYTES, (page + run.len()) * PAGE_BYTES);
            page += run.len();
            if run.first() == Some(&true)
                && let Some(bytes) = buffer.get(from..to)
            {
                region
                    .file
                    .write_at(at + from as u64, bytes)
                    .map_err(Error::io(&region.name, "write"))?;
                written += bytes.len() as u64;
            }
        }
        Ok(written)
    }
}
