//! The state of the one writer: the current tree.

use super::ahead::{ITEM_HEAD_BYTES, TOGETHER, look_ahead};
use super::batch::{Change, NoChange};
use super::digests::{self, Block, Broken, Crown, Forest, LeafChange};
use super::edit::{Edit, Lengths};
use super::entry::{Address, Entry};
use super::error::Error;
use super::hash::Hash;
use super::head::{HEAD_NAME, Head};
use super::item::Name;
use super::lanes::Moved;
use super::options::Options;
use super::slab::SlotUse;
use super::space::Space;
use super::tree;
use crate::merkle::{Digest, ValueDigest, leaf, leaves};

/// The number of replayed changes that go into the digest tree together.
const REPLAYED_TOGETHER: usize = 8192;

/// The totals of a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    pub(super) items: u64,
    pub(super) key_bytes: u64,
    pub(super) value_bytes: u64,
}

impl Totals {
    /// The totals after an item was added and another removed, by the lengths of names and values.
    /// `None` if that is impossible.
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

impl Totals {
    /// The totals after many changes. `None` if that is impossible.
    pub(super) fn moved(self, moved: &Moved) -> Option<Totals> {
        let [more_items, more_keys, more_values] = moved.added;
        let [less_items, less_keys, less_values] = moved.removed;
        let change = |from: u64, more: u64, less: u64| from.checked_add(more)?.checked_sub(less);
        Some(Totals {
            items: change(self.items, more_items, less_items)?,
            key_bytes: change(self.key_bytes, more_keys, less_keys)?,
            value_bytes: change(self.value_bytes, more_values, less_values)?,
        })
    }

    /// The error if they are impossible.
    pub(super) fn wrong() -> Error {
        Error::Damaged {
            file: HEAD_NAME.to_string(),
            offset: 0,
            what: "fewer items, or bytes of them, are counted than there are, or more than can be",
        }
    }
}

/// A change with its hashes, which are computed without a lock.
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

/// A change, and the first bytes of its hash, which are enough for most comparisons.
struct Placed<'c> {
    begins: u64,
    change: &'c Hashed<'c>,
}

impl Placed<'_> {
    fn hash(&self) -> &Hash {
        &self.change.hash
    }
}

/// Changes in the order of their hashes. Changes of one item keep their order.
fn in_order<'c>(changes: &'c [Hashed<'_>]) -> Vec<Placed<'c>> {
    let mut order: Vec<_> =
        changes.iter().map(|change| Placed { begins: change.hash.begins(), change }).collect();
    order.sort_by(|a, b| a.begins.cmp(&b.begins).then_with(|| a.hash().cmp(b.hash())));
    order
}

/// The lazy-trie while a batch changes it.
struct Trie {
    root: Entry,
    totals: Totals,
    /// The version of new nodes.
    version: u64,
    bucket_items: usize,
}

impl Trie {
    /// Applies at most [`TOGETHER`] changes. Returns them as changes of leaves.
    fn change<'c, 'h: 'c>(
        &mut self,
        space: &mut Space,
        scratch: &mut Vec<u8>,
        changes: impl ExactSizeIterator<Item = &'c Hashed<'h>> + Clone,
        mut leaves: impl FnMut(LeafChange),
    ) -> Result<(), Error> {
        if changes.len() > 1 {
            let ahead = changes.clone().map(|change| change.hash);
            let root = self.root;
            look_ahead(space.view(), |_| (root, 0), ahead, ITEM_HEAD_BYTES);
        }
        let mut edit =
            Edit { space, version: self.version, bucket_items: self.bucket_items, scratch };
        for Hashed { hash, change, leaf } in changes {
            let name = change.name;
            let (root, met) = match change.value {
                Some(value) => edit.put((self.root, 0), &name, hash, value)?,
                None => edit.remove((self.root, 0), &name, hash)?,
            };
            self.root = root;
            if !hash.is_aside() {
                let leaf = met.new.map(|item| (item, *leaf));
                leaves(LeafChange { hash: *hash, existed: met.old.is_some(), leaf });
            }
            let new = change.value.map(|value| (name.bytes().len(), value.len()));
            self.totals = self.totals.changed(met.old, new).ok_or_else(Totals::wrong)?;
        }
        Ok(())
    }

    /// The same for any number of changes, if the caller needs the leaves.
    fn change_placed(
        &mut self,
        space: &mut Space,
        scratch: &mut Vec<u8>,
        changes: &[Placed<'_>],
        leaves: &mut Vec<LeafChange>,
    ) -> Result<(), Error> {
        for together in changes.chunks(TOGETHER) {
            let changes = together.iter().map(|placed| placed.change);
            self.change(space, scratch, changes, |leaf| leaves.push(leaf))?;
        }
        Ok(())
    }
}

/// The current tree.
pub(super) struct Writer {
    pub(super) space: Space,
    pub(super) root: Entry,
    /// The version of the last batch.
    pub(super) version: u64,
    pub(super) totals: Totals,
    pub(super) bucket_items: usize,
    pub(super) hashing: Option<ValueDigest>,
    /// The root of the digest tree, for an authenticated store.
    digests: Entry,
    /// Replayed changes that the digest tree does not have yet.
    stale: Vec<LeafChange>,
    forest: Forest,
    /// Whether changed digest blocks wait among the thawed ones, ...
    defers: bool,
    /// ... and whether there are any.
    unwritten: bool,
    /// The reason why nothing is written any more.
    pub(super) stopped: Option<String>,
    pub(super) scratch: Vec<u8>,
    /// Commits of one item since the last batch.
    pub(super) singles: u32,
    /// The slot for the root's node when a divided tree is united.
    pub(super) next_root: Option<Address>,
}

impl Writer {
    /// The state of a checkpoint.
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
            singles: 0,
            next_root: None,
        })
    }

    /// The root with which readers of the last version begin.
    pub(super) fn shown(&self) -> u64 {
        if self.hashing.is_some() { self.digests.0 } else { self.root.0 }
    }

    /// Applies changes as one batch of `version`, all or none.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`], [`Error::Damaged`]; the tree is then as before.
    pub(super) fn apply(&mut self, version: u64, changes: &[Hashed<'_>]) -> Result<(), Error> {
        let applied = match self.hashing {
            None => self.apply_plain(version, changes),
            Some(_) if self.defers => self.apply_deferred(version, changes),
            Some(_) => self.apply_with_digests(version, changes),
        };
        match applied {
            Ok((trie, digests)) => {
                self.space.keep_batch(version);
                (self.root, self.totals, self.digests) = (trie.root, trie.totals, digests);
                self.version = version;
                Ok(())
            }
            Err(error) => {
                self.space.drop_batch();
                Err(error)
            }
        }
    }

    /// The lazy-trie for changes.
    fn trie(&self, version: u64) -> Trie {
        Trie { root: self.root, totals: self.totals, version, bucket_items: self.bucket_items }
    }

    fn apply_plain(
        &mut self,
        version: u64,
        changes: &[Hashed<'_>],
    ) -> Result<(Trie, Entry), Error> {
        let mut trie = self.trie(version);
        for together in changes.chunks(TOGETHER) {
            trie.change(&mut self.space, &mut self.scratch, together.iter(), |_| {})?;
        }
        Ok((trie, Entry::EMPTY))
    }

    /// Applies a batch, with the digest blocks.
    fn apply_with_digests(
        &mut self,
        version: u64,
        changes: &[Hashed<'_>],
    ) -> Result<(Trie, Entry), Error> {
        let order = in_order(changes);
        let mut trie = self.trie(version);
        let Writer { space, forest, scratch, .. } = self;
        forest.update(space, self.digests, (&order, Placed::hash), |space, some, leaves| {
            trie.change_placed(space, scratch, some, leaves)
        })?;
        let digests = forest.end_update(space, Crown { tree: trie.root.0, version })?;
        Ok((trie, digests))
    }

    /// The same, if changed digest blocks wait in memory.
    fn apply_deferred(
        &mut self,
        version: u64,
        changes: &[Hashed<'_>],
    ) -> Result<(Trie, Entry), Error> {
        if self.forest.is_full() {
            self.write_digests()?;
            self.forest.forget();
        }
        let order = in_order(changes);
        let mut trie = self.trie(version);
        let Writer { space, forest, scratch, unwritten, .. } = self;
        let slot = space.take(SlotUse::Digest, digests::ROOT_BYTES)?;
        let edit = |space: &mut Space, some: &[Placed<'_>], leaves: &mut Vec<LeafChange>| {
            trie.change_placed(space, scratch, some, leaves)
        };
        let updated = forest.update_thawed(space, self.digests, (&order, Placed::hash), edit);
        let updated = match updated {
            // The cause may be a lack of room: the store goes on as before.
            Err(Broken::Edit(error)) => match forest.undo(space.view(), *unwritten) {
                Ok(()) => return Err(error),
                Err(error) => Err(error),
            },
            Err(Broken::Subtrees(error)) => Err(error),
            Ok(()) => forest.end_update_thawed(space, slot, Crown { tree: trie.root.0, version }),
        };
        match updated {
            Ok(digests) => {
                *unwritten = true;
                Ok((trie, digests))
            }
            Err(error) => {
                self.stopped = Some(error.to_string());
                Err(error)
            }
        }
    }

    /// Writes the waiting digest blocks. Then the [shown](Self::shown) root of the last version has
    /// proofs. It must be published before the next version is.
    ///
    /// # Errors
    /// [`Error::LimitReached`], [`Error::Io`]; the state is then as before.
    pub(super) fn write_digests(&mut self) -> Result<(), Error> {
        if !self.unwritten {
            return Ok(());
        }
        let crown = Crown { tree: self.root.0, version: self.version };
        match self.forest.write(&mut self.space, crown) {
            Ok(root) => {
                // Readers of this version may have the root without proofs.
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

    /// Applies a batch of the log, before there are readers. Nodes of all such batches have
    /// `node_version`, so that they are changed in place. Digests of many batches are computed
    /// together, so slots that these batches freed must wait.
    ///
    /// # Errors
    /// As [`Writer::apply`]; then the writer is unusable.
    pub(super) fn replay(
        &mut self,
        node_version: u64,
        version: u64,
        changes: &[Hashed<'_>],
    ) -> Result<(), Error> {
        let mut trie = self.trie(node_version);
        let authenticated = self.hashing.is_some();
        for together in changes.chunks(TOGETHER) {
            trie.change(&mut self.space, &mut self.scratch, together.iter(), |leaf| {
                if authenticated {
                    self.stale.push(leaf);
                }
            })?;
        }
        self.space.keep_batch(node_version);
        (self.root, self.totals) = (trie.root, trie.totals);
        self.version = version;
        if self.hashing.is_none() {
            self.space.release(u64::MAX, 0);
        } else if self.stale.len() >= REPLAYED_TOGETHER {
            self.end_replay()?;
        }
        Ok(())
    }

    /// Computes the digests of the replayed batches.
    ///
    /// # Errors
    /// As [`Writer::apply`]; then the writer is unusable.
    pub(super) fn end_replay(&mut self) -> Result<(), Error> {
        if self.hashing.is_some() && self.digests_are_behind()? {
            // The sort is stable, because all changes of an item count.
            self.stale.sort_by_key(|change| change.hash);
            let Writer { space, forest, stale, version, .. } = self;
            let changes = (&**stale, LeafChange::hash);
            forest.update(space, self.digests, changes, |_, some, leaves| {
                leaves.extend_from_slice(some);
                Ok(())
            })?;
            self.digests =
                forest.end_update(space, Crown { tree: self.root.0, version: *version })?;
            space.keep_batch(*version);
            stale.clear();
            self.space.release(u64::MAX, 0);
        }
        Ok(())
    }

    fn digests_are_behind(&self) -> Result<bool, Error> {
        Ok(Block::read(self.space.view(), self.digests)?.crown.version != self.version)
    }

    /// The value of an item in the current tree.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub(super) fn value(&self, name: &Name<'_>, hash: &Hash) -> Result<Option<&[u8]>, Error> {
        Ok(tree::find(self.space.view(), (self.root, 0), name, hash)?.map(|item| item.value))
    }
}

/// Changes in the log's encoding, with the hashes of their keys.
///
/// # Errors
/// [`NoChange`] if the bytes are not a valid batch.
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
