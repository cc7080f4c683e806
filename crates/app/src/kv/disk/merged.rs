//! Committed entries and changed ones, as one sequence.

use std::iter::Peekable;

use quorate_merkle::Hash;
use quorate_store::lazy_trie::{self, Hash as TrieHash};

use super::super::entry;
use super::super::storage::Listed;
use super::changes::{self, Changes};

/// The entries of a commit and of what changed since, in the order of their hashes. Ends at the
/// first that cannot be read, and says so.
pub(super) struct Merged<'a, F> {
    committed: Option<Peekable<lazy_trie::Iter<'a>>>,
    changes: &'a Changes,
    changed: Peekable<changes::Iter<'a>>,
    fail: F,
}

impl<'a, F: Fn(String)> Merged<'a, F> {
    pub(super) fn new(
        view: Option<&'a lazy_trie::Snapshot<'static>>,
        changes: &'a Changes,
        from: &Hash,
        fail: F,
    ) -> Self {
        // Aside are notes.
        let first = TrieHash(*from).max(TrieHash::FIRST_UNDER_ROOT);
        Self {
            committed: view.map(|view| view.iter_from(&first).peekable()),
            changes,
            changed: changes.iter_from(from).peekable(),
            fail,
        }
    }

    /// The next committed one, unless it was changed, and that it is there.
    fn next_committed(&mut self) -> Option<(Hash, Result<Listed<'a>, String>)> {
        let item = self.committed.as_mut()?.next()?;
        let read = |value: &'a [u8]| {
            let listed = entry::listed(value).map(|(key, kind)| Listed { key, kind });
            listed.ok_or_else(|| "an item is no entry".to_owned())
        };
        Some(match item {
            Ok((hash, item)) => (hash.0, read(item.value)),
            Err(error) => (Hash::default(), Err(error.to_string())),
        })
    }
}

impl<'a, F: Fn(String)> Iterator for Merged<'a, F> {
    type Item = (Hash, Listed<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let committed = match self.committed.as_mut().and_then(Peekable::peek) {
                // An error comes before all else.
                Some(Err(_)) => Some(Hash::default()),
                Some(Ok((hash, _))) => Some(hash.0),
                None => None,
            };
            let changed = self.changed.peek().map(|(hash, _)| **hash);
            if committed.is_some_and(|hash| changed.is_none_or(|changed| hash < changed)) {
                match self.next_committed()? {
                    (hash, Ok(listed)) => return Some((hash, listed)),
                    (_, Err(error)) => {
                        (self.fail)(error);
                        self.committed = None;
                        self.changed.by_ref().for_each(drop);
                        return None;
                    }
                }
            }
            let (hash, changed) = self.changed.next()?;
            if committed == Some(*hash) {
                self.committed.as_mut().map(Iterator::next);
            }
            if let Some(listed) = self.changes.listed(changed) {
                return Some((*hash, listed));
            }
        }
    }
}
