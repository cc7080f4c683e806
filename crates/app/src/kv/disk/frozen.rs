//! A frozen state: readers do not keep the writer from going on.

use std::sync::OnceLock;

use quorate_core::ledger::state_machine::{KeepError, Snapshot};
use quorate_merkle::{EMPTY_ROOT, Hash};
use quorate_store::lazy_trie::{self, Hash as TrieHash};

use super::super::feed::Head;
use super::super::snapshot::Cutter;

/// A commit that has proofs.
pub(super) struct Frozen {
    /// Nothing: the state is empty.
    view: Option<lazy_trie::Snapshot<'static>>,
    /// The head of the change feed.
    head: Head,
    failed: OnceLock<KeepError>,
}

impl Frozen {
    pub(super) fn new(
        view: Result<Option<lazy_trie::Snapshot<'static>>, KeepError>,
        head: Head,
    ) -> Self {
        let failed = OnceLock::new();
        let view = view.unwrap_or_else(|error| {
            let _ = failed.set(error);
            None
        });
        Self { view, head, failed }
    }

    fn cut(&self, sink: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), lazy_trie::Error> {
        let Some(view) = &self.view else {
            Cutter::new((&EMPTY_ROOT, self.head), &mut |_| None, sink).finish();
            return Ok(());
        };
        let mut unproven = None;
        let mut prove = |place: &Hash| match view.prove(&TrieHash(*place)) {
            Ok(proof) => Some(proof.encode()),
            Err(error) => {
                unproven = Some(error);
                None
            }
        };
        let mut cutter = Cutter::new((&view.root()?, self.head), &mut prove, sink);
        // Aside are notes.
        for item in view.iter_from(&TrieHash::FIRST_UNDER_ROOT) {
            let (hash, item) = item?;
            if !cutter.entry(&hash.0, item.value) {
                return unproven.map_or(Ok(()), Err);
            }
        }
        cutter.finish();
        unproven.map_or(Ok(()), Err)
    }
}

impl Snapshot for Frozen {
    fn chunks(&self, sink: &mut dyn FnMut(&[u8]) -> bool) {
        if self.failed.get().is_none()
            && let Err(error) = self.cut(sink)
        {
            let _ = self.failed.set(KeepError(error.to_string()));
        }
    }

    fn failure(&self) -> Option<KeepError> {
        self.failed.get().cloned()
    }
}
