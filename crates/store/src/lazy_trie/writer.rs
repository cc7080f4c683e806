//! The state of the one writer: the tree at work.

use super::ahead::{ITEM_HEAD_BYTES, TOGETHER, look_ahead};
use super::batch::{Change, NoChange};
use super::digests::{self, Block, Crown, Forest, LeafChange};
use super::edit::{Edit, Lengths};
use super::entry::Entry;
use super::error::Error;
use super::hash::Hash;
use super::head::{HEAD_NAME, Head};
use super::item::Name;
use super::options::Options;
use super::slab::SlotUse;
use super::space::Space;
use super::tree;
use crate::merkle::{Digest, ValueDigest, leaf, leaves};

/// So many changes of the log are brought into the digest tree together.
const REPLAYED_TOGETHER: usize = 8192;

/// What a tree holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) items: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
}

impl Totals {
    /// Those with an item more and another less, by the lengths of their names and values; `None` if that cannot be.
    fn changed(self, old: Option<Lengths>, new: Option<Lengths>) -> Option<Totals> {
        let count = |lengths: Option<Lengths>| u64::from(lengths.is_some());
        let (old_name, old_value) = old.unwrap_or_default();
        let (new_name, new_value) = new.unwrap_or_default();
        let change = |from: u64, less: u64, more: u64| {
            from.checked_sub(less).and_then(|n| n.checked_add(more))
        };
        Some(Totals {
            items: change(self.items, count(old), count(new))?,
            key_bytes: change(self.key_bytes, old_name as u64, new_name as u64)?,
            value_bytes: change(self.value_bytes, old_value as u64, new_value as u64)?,
        })
    }
}

/// A change with what is hashed of it, which needs no lock.
pub(super) struct Hashed<'a> {
    hash: Hash,
    change: Change<'a>,
    /// The digest of the leaf, if the store is authenticated and the change is a put.
    leaf: Digest,
}

impl<'a> Hashed<'a> {
    pub(super) fn new(hash: Hash, change: Change<'a>, hashing: Option<ValueDigest>) -> Hashed<'a> {
        let hashing = hashing.filter(|_| !hash.is_aside());
        let leaf = hashing.zip(change.value).map(|(hashing, value)| leaf(hashing, &hash.0, value));
        Hashed { hash, change, leaf: leaf.unwrap_or_default() }
    }

    /// Whether it has a leaf in an authenticated store.
    fn has_leaf(&self) -> bool {
        !self.hash.is_aside() && self.change.value.is_some()
    }
}

/// The tree at work.
pub(super) struct Writer {
    pub(super) space: Space,
    pub(super) root: Entry,
    /// Of the last batch.
    pub(super) version: u64,
    pub(super) totals: Totals,
    pub(super) bucket_items: usize,
    pub(super) hashing: Option<ValueDigest>,
    /// The root of the digest tree, of an authenticated store.
    digests: Entry,
    /// Changes that the digest tree does not have yet.
    stale: Vec<LeafChange>,
    forest: Forest,
    /// Changed blocks of digests wait among the thawed ones, ...
    defers: bool,
    /// ... and there are some.
    unwritten: bool,
    /// Why nothing is written any more.
    pub(super) stopped: Option<String>,
    pub(super) scratch: Vec<u8>,
}

impl Writer {
    /// What a checkpoint has.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(super) fn new(
        space: Space,
        head: &Head,
        totals: Totals,
        options: &Options,
    ) -> Result<Writer, Error> {
        let (mut root, mut digests) = (Entry(head.root), Entry::EMPTY);
        if options.authenticated {
            digests = root;
            let crown = Block::read(space.view(), digests)?.crown;
            if digests != Entry::EMPTY && crown.version != head.version {
                let what = "the version of the topmost block of digests";
                return Err(space.memory.damaged(digests.address(), what));
            }
            root = Entry(crown.tree);
        }
        Ok(Writer {
            space,
            root,
            version: head.version,
            totals,
            bucket_items: options.bucket_items,
            hashing: options.hashing(),
            digests,
            stale: Vec::new(),
            forest: Forest::new(options.hashing_threads, options.digest_memory_bytes),
            defers: options.defers_digests(),
            unwritten: false,
            stopped: None,
            scratch: Vec::new(),
        })
    }

    /// What stands for the last version: the root that readers begin with.
    pub(super) fn shown(&self) -> u64 {
        if self.hashing.is_some() { self.digests.0 } else { self.root.0 }
    }

    /// Makes changes as one batch of `version`, all or none.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`]: the tree is then as before.
    pub(super) fn apply(&mut self, version: u64, changes: &[Hashed<'_>]) -> Result<(), Error> {
        if self.defers {
            return self.apply_deferred(version, changes);
        }
        let applied = self.try_apply(version, changes).and_then(|(root, totals)| {
            Ok((root, totals, self.refreshed(Crown { tree: root.0, version })?))
        });
        match applied {
            Ok((root, totals, digests)) => {
                self.space.keep_batch(version);
                (self.root, self.totals, self.digests) = (root, totals, digests);
                self.version = version;
                Ok(())
            }
            Err(error) => {
                self.space.drop_batch();
                self.stale.clear();
                Err(error)
            }
        }
    }

    /// The same where changed blocks of digests wait in memory.
    fn apply_deferred(&mut self, version: u64, changes: &[Hashed<'_>]) -> Result<(), Error> {
        if self.forest.is_full() {
            self.write_digests()?;
            self.forest.forget();
        }
        // What there may be no room for comes first: what was changed among the thawed is not changed back.
        let taken = self.space.take(SlotUse::Digest, digests::ROOT_BYTES);
        let applied = taken.and_then(|slot| Ok((slot, self.try_apply(version, changes)?)));
        let (slot, (root, totals)) = match applied {
            Ok(applied) => applied,
            Err(error) => {
                self.space.drop_batch();
                self.stale.clear();
                return Err(error);
            }
        };
        let crown = Crown { tree: root.0, version };
        let at = (self.digests, slot);
        match self.forest.update_thawed(&mut self.space, at, crown, &mut self.stale) {
            Ok(digests) => {
                self.space.keep_batch(version);
                (self.root, self.totals, self.digests) = (root, totals, digests);
                (self.version, self.unwritten) = (version, true);
                Ok(())
            }
            Err(error) => {
                self.space.drop_batch();
                self.stopped = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Writes the blocks of digests that wait: what is [shown](Self::shown) for the last version has proofs then, and shall be published before
    /// the next version is.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`]: then it is as before.
    pub(super) fn write_digests(&mut self) -> Result<(), Error> {
        if !self.unwritten {
            return Ok(());
        }
        let crown = Crown { tree: self.root.0, version: self.version };
        match self.forest.write(&mut self.space, crown) {
            Ok(root) => {
                // Readers of this version may have the root that was alone.
                self.space.keep_batch(self.version + 1);
                (self.digests, self.unwritten) = (root, false);
                Ok(())
            }
            Err(error) => {
                self.space.drop_batch();
                Err(error)
            }
        }
    }

    /// The digest tree with all that is stale.
    fn refreshed(&mut self, crown: Crown) -> Result<Entry, Error> {
        if self.hashing.is_none() {
            return Ok(Entry::EMPTY);
        }
        self.forest.update(&mut self.space, self.digests, crown, &mut self.stale)
    }

    /// Makes the changes of a batch that the log has, before anybody reads. Nodes of all such batches are of `node_version`, so that they are
    /// changed in place; digests of many batches are computed together, for which what they freed must wait.
    ///
    /// # Errors
    /// As [`Writer::apply`]; then it is of no more use.
    pub(super) fn replay(
        &mut self,
        node_version: u64,
        version: u64,
        changes: &[Hashed<'_>],
    ) -> Result<(), Error> {
        (self.root, self.totals) = self.try_apply(node_version, changes)?;
        self.space.keep_batch(node_version);
        self.version = version;
        if self.hashing.is_none() {
            self.space.release(u64::MAX);
        } else if self.stale.len() >= REPLAYED_TOGETHER {
            self.end_replay()?;
        }
        Ok(())
    }

    /// Computes the digests of what was replayed.
    ///
    /// # Errors
    /// As [`Writer::apply`]; then it is of no more use.
    pub(super) fn end_replay(&mut self) -> Result<(), Error> {
        if self.hashing.is_some() && self.digests_are_behind()? {
            let version = self.version;
            self.digests = self.refreshed(Crown { tree: self.root.0, version })?;
            self.space.keep_batch(version);
            self.space.release(u64::MAX);
        }
        Ok(())
    }

    fn digests_are_behind(&self) -> Result<bool, Error> {
        Ok(Block::read(self.space.view(), self.digests)?.crown.version != self.version)
    }

    fn try_apply(
        &mut self,
        version: u64,
        changes: &[Hashed<'_>],
    ) -> Result<(Entry, Totals), Error> {
        let (mut root, mut totals) = (self.root, self.totals);
        let mut edit = Edit {
            space: &mut self.space,
            version,
            bucket_items: self.bucket_items,
            scratch: &mut self.scratch,
        };
        for (at, Hashed { hash, change, leaf }) in changes.iter().enumerate() {
            if at % TOGETHER == 0 && changes.len() > 1 {
                let ahead = changes.iter().skip(at).take(TOGETHER).map(|change| change.hash);
                look_ahead(edit.space.view(), root, ahead, ITEM_HEAD_BYTES);
            }
            let name = change.name;
            let (changed, met) = match change.value {
                Some(value) => edit.put(root, &name, hash, value)?,
                None => edit.remove(root, &name, hash)?,
            };
            root = changed;
            if self.hashing.is_some() && !hash.is_aside() {
                let leaf = met.new.map(|item| (item, *leaf));
                self.stale.push(LeafChange { hash: *hash, existed: met.old.is_some(), leaf });
            }
            let new = change.value.map(|value| (name.bytes().len(), value.len()));
            totals = totals.changed(met.old, new).ok_or_else(|| Error::Damaged {
                file: HEAD_NAME.to_string(),
                offset: 0,
                what: "fewer items, or bytes of them, are counted than there are, or more than can be",
            })?;
        }
        Ok((root, totals))
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
pub(super) fn hashed(
    bytes: &[u8],
    hashing: Option<ValueDigest>,
) -> Result<Vec<Hashed<'_>>, NoChange> {
    let mut changes = super::batch::Changes::of(bytes)
        .map(|change| change.map(|change| Hashed::new(change.name.hash(), change, None)))
        .collect::<Result<Vec<_>, _>>()?;
    if let Some(hashing) = hashing {
        let put = || changes.iter().filter(|change| change.has_leaf());
        let keys: Vec<&Digest> = put().map(|change| &change.hash.0).collect();
        let values: Vec<&[u8]> = put().filter_map(|change| change.change.value).collect();
        let digests = leaves(hashing, &keys, &values);
        let put = changes.iter_mut().filter(|change| change.has_leaf());
        put.zip(digests).for_each(|(change, digest)| change.leaf = digest);
    }
    Ok(changes)
}
