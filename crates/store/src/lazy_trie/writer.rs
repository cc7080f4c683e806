//! The state of the one writer: the tree at work, and what is not in the log yet.

use super::batch::{Change, NoChange};
use super::edit::Edit;
use super::entry::Entry;
use super::error::Error;
use super::hash::Hash;
use super::item::Name;
use super::space::Space;
use super::tree;

/// What a tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) items: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
}

/// A batch ready for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pending {
    pub(super) version: u64,
    /// Where its record ends among the pending bytes.
    pub(super) end: usize,
}

/// The tree at work.
pub(super) struct Writer {
    pub(super) space: Space,
    pub(super) root: Entry,
    /// Of the last batch.
    pub(super) version: u64,
    pub(super) totals: Totals,
    pub(super) bucket_items: usize,
    /// Batches that are not in the log yet: their changes one behind the other, ...
    pub(super) pending_bytes: Vec<u8>,
    /// ... and where each ends.
    pub(super) pending: Vec<Pending>,
    /// Why nothing is written any more.
    pub(super) stopped: Option<String>,
    pub(super) scratch: Vec<u8>,
}

impl Writer {
    pub(super) fn new(
        space: Space,
        root: Entry,
        version: u64,
        totals: Totals,
        bucket_items: usize,
    ) -> Writer {
        Writer {
            space,
            root,
            version,
            totals,
            bucket_items,
            pending_bytes: Vec::new(),
            pending: Vec::new(),
            stopped: None,
            scratch: Vec::new(),
        }
    }

    /// Makes changes as one batch of `version`, all or none.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`]: the tree is then as before.
    pub(super) fn apply<'a>(
        &mut self,
        version: u64,
        changes: impl Iterator<Item = (Hash, Change<'a>)>,
    ) -> Result<(), Error> {
        match self.try_apply(version, changes) {
            Ok((root, totals)) => {
                self.space.keep_batch(version);
                (self.root, self.totals, self.version) = (root, totals, version);
                Ok(())
            }
            Err(error) => {
                self.space.drop_batch();
                Err(error)
            }
        }
    }

    fn try_apply<'a>(
        &mut self,
        version: u64,
        changes: impl Iterator<Item = (Hash, Change<'a>)>,
    ) -> Result<(Entry, Totals), Error> {
        let (mut root, mut totals) = (self.root, self.totals);
        let mut edit = Edit {
            space: &mut self.space,
            version,
            bucket_items: self.bucket_items,
            scratch: &mut self.scratch,
        };
        for (hash, change) in changes {
            let name = change.name;
            let (changed, met) = match change.value {
                Some(value) => edit.put(root, &name, &hash, value)?,
                None => edit.remove(root, &name, &hash)?,
            };
            root = changed;
            if let Some((name_bytes, value_bytes)) = met.old {
                totals.items -= 1;
                totals.key_bytes -= name_bytes as u64;
                totals.value_bytes -= value_bytes as u64;
            }
            if let Some(value) = change.value {
                totals.items += 1;
                totals.key_bytes += name.bytes().len() as u64;
                totals.value_bytes += value.len() as u64;
            }
        }
        Ok((root, totals))
    }

    /// Queues the changes of the batch just applied for the log; `put` appends them.
    pub(super) fn queue(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.pending_bytes);
        self.pending.push(Pending { version: self.version, end: self.pending_bytes.len() });
    }

    /// The value of an item in the tree at work.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(super) fn value(&self, name: &Name<'_>, hash: &Hash) -> Result<Option<&[u8]>, Error> {
        Ok(tree::find(self.space.view(), self.root, name, hash)?.map(|item| item.value))
    }
}

/// Changes as they stand in the log, with the hashes of their keys.
///
/// # Errors
/// [`NoChange`] if the bytes are not a batch's.
pub(super) fn hashed(bytes: &[u8]) -> Result<Vec<(Hash, Change<'_>)>, NoChange> {
    super::batch::Changes::of(bytes)
        .map(|change| change.map(|change| (change.name.hash(), change)))
        .collect()
}
