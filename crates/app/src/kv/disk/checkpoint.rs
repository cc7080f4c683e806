//! A checkpoint of the store, and what a peer can be given of it.

use std::sync::Arc;

use quorate_core::ledger::state_machine::{Checkpoint, KeepError, Snapshot};
use quorate_store::lazy_trie::{self, Store};

use super::frozen::Frozen;
use super::shelf::Shelf;

/// A checkpoint of one of the folders.
pub(super) struct Kept {
    pub(super) shelf: Arc<Shelf>,
    pub(super) number: u64,
    pub(super) store: Arc<Store>,
    /// Of the store.
    pub(super) version: u64,
    /// Until it is finished.
    pub(super) begun: Option<lazy_trie::Checkpoint>,
}

impl Kept {
    fn placed(&self) -> impl Fn(lazy_trie::Error) -> KeepError {
        |error| self.shelf.place(self.number, &error)
    }
}

impl Checkpoint for Kept {
    fn finish(&mut self) -> Result<(), KeepError> {
        let Some(begun) = self.begun.take() else { return Ok(()) };
        begun.finish().map_err(self.placed())?;
        // From now on this is the folder that counts, also after a loss of power.
        self.shelf.keep_only(self.number);
        Ok(())
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot>, KeepError> {
        let view = self.store.checkpointed().map_err(self.placed())?;
        if view.version().map_err(self.placed())? != self.version {
            let later = "its checkpoint is another by now";
            return Err(self.shelf.place(self.number, &later));
        }
        let head = super::proving::head_of(&view, |error| self.shelf.place(self.number, &error))?;
        Ok(Box::new(Frozen::new(Ok(Some(view)), head)))
    }
}
