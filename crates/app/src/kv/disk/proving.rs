//! What a commit proves, and what it says beside its items.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::ledger::state_machine::{KeepError, ProveError, Prover};
use quorate_store::lazy_trie::{self, Hash as TrieHash};

use super::super::entry;
use super::super::feed::Head;
use super::super::proof::Content;
use super::super::value::place;
use super::keeping::FEED;
use super::shelf::Shelf;

/// The head of the change feed that a checkpoint says.
pub(super) fn head_of(
    view: &lazy_trie::Snapshot<'static>,
    placed: impl Fn(&dyn std::fmt::Display) -> KeepError,
) -> Result<Head, KeepError> {
    let noted = view.get_ref(&FEED).map_err(|error| placed(&error))?;
    let noted = noted.and_then(|noted| noted.try_into().ok());
    noted.map(Head::from_array).ok_or_else(|| {
        placed(&"the checkpoint is of a release without the change feed: make the cluster anew")
    })
}

/// A commit that proves what it holds.
pub(super) struct Proving {
    pub(super) view: lazy_trie::Snapshot<'static>,
    pub(super) head: Head,
    pub(super) shelf: Arc<Shelf>,
    pub(super) number: u64,
}

impl Prover for Proving {
    fn prove(&mut self, key: &[u8]) -> Result<Bytes, ProveError> {
        let failed = |error: lazy_trie::Error| self.shelf.place(self.number, &error);
        let (proof, item) = self.view.get_proved(&TrieHash(place(key))).map_err(failed)?;
        let root = self.view.root().map_err(failed)?;
        let value = item.and_then(entry::written_value);
        let head = self.head;
        Ok(Content { root, head, value, proof: &proof.encode() }.encode())
    }
}
