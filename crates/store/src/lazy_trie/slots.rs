//! The slots with which a tree is changed: those of the [space](super::space), or those of one
//! [lane](super::lanes).

use super::entry::Address;
use super::error::Error;
use super::memory::View;
use super::slab::SlotUse;
use super::space::Space;

/// Takes, fills and frees slots for a change of the tree.
pub(super) trait Slots {
    /// A view for reading what is changed.
    fn view(&self) -> View<'_>;

    /// Takes a slot of at least `bytes`.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`] (a full disk), [`Error::Damaged`].
    fn take(&mut self, usage: SlotUse, bytes: u32) -> Result<Address, Error>;

    /// Releases a slot at the end of the batch.
    ///
    /// # Errors
    /// [`Error::Damaged`] if no such slot is in use.
    fn free(&mut self, address: Address, usage: SlotUse) -> Result<(), Error>;

    /// Fills a slot that was just taken, or changes one that this batch has taken, from `offset`
    /// on.
    fn fill(&mut self, address: Address, offset: usize, bytes: &[u8]);

    /// Fills a new slot with a copy of other data.
    ///
    /// # Errors
    /// [`Error::Damaged`] if that data is too short.
    fn fill_from(&mut self, address: Address, from: Address, bytes: usize) -> Result<(), Error>;

    /// Whether a slot may have been filled by the current batch.
    fn is_fresh(&self, address: Address, usage: SlotUse) -> bool;

    /// Prefetches the slab of a slot that may be freed soon; ...
    fn ask_for_slab(&self, address: Address);

    /// ... and the slab's state of the slot.
    fn ask_for_slot(&self, address: Address);
}

impl Slots for Space {
    fn view(&self) -> View<'_> {
        Space::view(self)
    }

    fn take(&mut self, usage: SlotUse, bytes: u32) -> Result<Address, Error> {
        Space::take(self, usage, bytes)
    }

    fn free(&mut self, address: Address, usage: SlotUse) -> Result<(), Error> {
        Space::free(self, address, usage)
    }

    fn fill(&mut self, address: Address, offset: usize, bytes: &[u8]) {
        Space::fill(self, address, offset, bytes);
    }

    fn fill_from(&mut self, address: Address, from: Address, bytes: usize) -> Result<(), Error> {
        Space::fill_from(self, address, from, bytes)
    }

    fn is_fresh(&self, address: Address, usage: SlotUse) -> bool {
        Space::is_fresh(self, address, usage)
    }

    fn ask_for_slab(&self, address: Address) {
        Space::ask_for_slab(self, address);
    }

    fn ask_for_slot(&self, address: Address) {
        Space::ask_for_slot(self, address);
    }
}
