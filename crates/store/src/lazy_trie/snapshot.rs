//! Snapshots: a version of the tree that stays.

use super::ahead;
use super::bucket::Bucket;
use super::digests;
use super::entry::{Address, Entry, Kind};
use super::error::Error;
use super::hash::Hash;
use super::head::Head;
use super::item::{self, Item, Name};
use super::memory::View;
use super::node::{self, Node};
use super::readers::READERS;
use super::store::{Shared, Store};
use super::tree;
use crate::merkle::{Digest, Proof};
use std::cell::Cell;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The last commit at some moment, unchanged until dropped. What has been replaced since is kept as long: hold it no longer than needed.
pub struct Snapshot<'s> {
    held: Held<'s>,
    place: usize,
    root: Entry,
    /// The root of the digest tree, of an authenticated store.
    digests: Option<Entry>,
}

/// What a snapshot is of, alive as long as it.
pub(super) enum Held<'s> {
    Here(&'s Shared),
    Shared(Arc<Store>),
}

impl Deref for Held<'_> {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        match self {
            Held::Here(shared) => shared,
            Held::Shared(store) => &store.shared,
        }
    }
}

/// Threads look for a free place where they found one before.
fn hint() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HINT: Cell<usize> = const { Cell::new(usize::MAX) });
    HINT.with(|hint| {
        if hint.get() == usize::MAX {
            hint.set(NEXT.fetch_add(1, Ordering::Relaxed) % READERS);
        }
        hint.get()
    })
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(held: Held<'s>) -> Result<Snapshot<'s>, Error> {
        let (place, root) =
            held.readers.enter(hint()).ok_or(Error::TooManySnapshots { limit: READERS })?;
        Snapshot::of(held, place, root)
    }

    /// Of a version that is kept.
    pub(super) fn at(shared: &'s Shared, version: u64) -> Result<Snapshot<'s>, Error> {
        let (place, root) = shared
            .versions
            .enter(version, || shared.readers.enter_at(hint(), version))
            .map_err(|(oldest, newest)| Error::NotKept { version, oldest, newest })?;
        Snapshot::of(
            Held::Here(shared),
            place.ok_or(Error::TooManySnapshots { limit: READERS })?,
            root,
        )
    }

    /// Of the checkpoint that counts; it cannot cease to before this returns.
    pub(super) fn checkpointed(held: Held<'s>, head: &Head) -> Result<Snapshot<'s>, Error> {
        let place = held.readers.enter_at(hint(), head.version);
        Snapshot::of(held, place.ok_or(Error::TooManySnapshots { limit: READERS })?, head.root)
    }

    fn of(held: Held<'s>, place: usize, shown: u64) -> Result<Snapshot<'s>, Error> {
        let mut snapshot = Snapshot { held, place, root: Entry(shown), digests: None };
        if snapshot.held.options.authenticated {
            snapshot.digests = Some(Entry(shown));
            snapshot.root = Entry(snapshot.top()?.crown.tree);
        }
        Ok(snapshot)
    }

    /// The topmost block of digests.
    fn top(&self) -> Result<digests::Block<'_>, Error> {
        digests::Block::read(self.view(), self.digests.ok_or(Error::NotAuthenticated)?)
    }

    /// The Merkle root of all it holds; see [`merkle`](crate::merkle).
    ///
    /// # Errors
    /// [`Error::NotAuthenticated`], [`Error::Damaged`].
    pub fn root(&self) -> Result<Digest, Error> {
        Ok(self.top()?.digest())
    }

    /// Whether it has proofs ([`Options::proofs`](super::Options::proofs)).
    #[must_use]
    pub fn is_provable(&self) -> bool {
        self.top().is_ok_and(|top| !top.alone)
    }

    /// Which version it is.
    ///
    /// # Errors
    /// As [`Snapshot::root`].
    pub fn version(&self) -> Result<u64, Error> {
        Ok(self.top()?.crown.version)
    }

    /// A proof of the item of a name, or that there is none.
    ///
    /// # Errors
    /// As [`Snapshot::root`]; [`Error::NoProofs`].
    pub fn prove<'a>(&self, name: impl Into<Name<'a>>) -> Result<Proof, Error> {
        Ok(self.get_proved(name)?.0)
    }

    /// The same, and the value, where it lies.
    ///
    /// # Errors
    /// As [`Snapshot::prove`].
    pub fn get_proved<'a>(
        &self,
        name: impl Into<Name<'a>>,
    ) -> Result<(Proof, Option<&[u8]>), Error> {
        let name = name.into();
        let digests = self.digests.ok_or(Error::NotAuthenticated)?;
        if !self.is_provable() {
            return Err(Error::NoProofs);
        }
        let hashing = self.held.options.digest_of_values();
        digests::prove::prove(self.view(), digests, &name, &name.hash(), hashing)
    }

    #[allow(unsafe_code)]
    fn view(&self) -> View<'_> {
        // SAFETY: the place among the readers is held until `self` is dropped, which the view does not outlive.
        unsafe { self.held.memory.view() }
    }

    pub(super) fn find(&self, name: &Name<'_>, hash: &Hash) -> Result<Option<Item<'_>>, Error> {
        tree::find(self.view(), self.root, name, hash)
    }

    /// The value of an item, where it lies: checked, not copied.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn get_ref<'a>(&self, name: impl Into<Name<'a>>) -> Result<Option<&[u8]>, Error> {
        let name = name.into();
        Ok(self.find(&name, &name.hash())?.map(|item| item.value))
    }

    /// Asks the processor for what finding the items of these hashes is going to read, for all of them at once: who then looks them up does not wait for
    /// memory each time. Changes nothing.
    pub fn look_ahead(&self, hashes: impl Iterator<Item = Hash>) {
        ahead::look_ahead(self.view(), self.root, hashes, ahead::ITEM_BYTES);
    }

    /// The value of an item, copied.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn get<'a>(&self, name: impl Into<Name<'a>>) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get_ref(name)?.map(<[u8]>::to_vec))
    }

    /// All items in the order of their hashes.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(&Hash([0; 32]))
    }

    /// The items whose hashes are not below `from`, in order.
    #[must_use]
    pub fn iter_from(&self, from: &Hash) -> Iter<'_> {
        let view = self.view();
        Iter {
            view,
            root: Some(self.root),
            levels: Vec::new(),
            items: Vec::new(),
            errors: Vec::new(),
            from: *from,
            seeking: true,
            last: None,
            nodes_left: view.memory().space_bytes() / node::LEAST_BYTES,
        }
    }

    /// The root of the tree.
    pub(super) fn tree(&self) -> Entry {
        self.root
    }

    /// The root of the digest tree, of an authenticated store.
    pub(super) fn digests(&self) -> Option<Entry> {
        self.digests
    }

    pub(super) fn reading(&self) -> View<'_> {
        self.view()
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        self.held.readers.leave(self.place);
    }
}

/// Where an iteration is in a node.
struct Level<'a> {
    node: Node<'a>,
    address: Address,
    /// Digits on the path to its slots.
    depth: usize,
    /// The next slot.
    next: u8,
}

/// Items in the order of their hashes. After an error it goes on behind what could not be read.
pub struct Iter<'a> {
    view: View<'a>,
    /// Until it is entered.
    root: Option<Entry>,
    levels: Vec<Level<'a>>,
    /// Items of a slot, the next one last.
    items: Vec<(Hash, Address, Item<'a>)>,
    /// Items of a bucket that could not be read.
    errors: Vec<Error>,
    from: Hash,
    /// Still on the path of `from`: slots before its digits are passed over.
    seeking: bool,
    /// The last one given out: what is not behind it is not where it belongs.
    last: Option<Hash>,
    /// No space has more nodes: where more are met, some were met again and again.
    nodes_left: u64,
}

impl<'a> Iter<'a> {
    /// Looks into an entry: its items, or its node as a level.
    fn enter(&mut self, entry: Entry, depth: usize) -> Result<(), Error> {
        match entry.kind() {
            Kind::Empty => Ok(()),
            Kind::Item => {
                let item = item::read(self.view, entry.address())?;
                self.items.push((item.hash(), entry.address(), item));
                Ok(())
            }
            Kind::Bucket => {
                for entry in Bucket::read(self.view, entry.address())?.entries() {
                    match item::read(self.view, entry.address()) {
                        Ok(item) => self.items.push((item.hash(), entry.address(), item)),
                        // The others are none the worse for it.
                        Err(error) => self.errors.push(error),
                    }
                }
                self.items.sort_unstable_by_key(|(hash, ..)| std::cmp::Reverse(*hash));
                Ok(())
            }
            Kind::Node => {
                let address = entry.address();
                let node = Node::read(self.view, address)?;
                let damaged = |what| Err(self.view.memory().damaged(address, what));
                if self.levels.iter().any(|level| level.address == address) {
                    return damaged("a node that is below itself");
                }
                let Some(left) = self.nodes_left.checked_sub(1) else {
                    self.levels.clear();
                    return damaged("more nodes than the space can have");
                };
                self.nodes_left = left;
                let mut next = 0;
                if self.seeking {
                    let matching = node.matching(&self.from, depth);
                    match node.prefix.get(matching) {
                        None => next = self.from.digit(depth + matching),
                        Some(digit) if *digit < self.from.digit(depth + matching) => return Ok(()),
                        Some(_) => self.seeking = false,
                    }
                }
                let depth = depth + node.prefix.len();
                tree::check_depth(self.view, entry, depth)?;
                self.levels.push(Level { node, address, depth, next });
                Ok(())
            }
        }
    }

    /// The next child of the innermost node; `None` if there is no node any more.
    fn step(&mut self) -> Option<Result<(), Error>> {
        let level = self.levels.last_mut()?;
        let rest = level.node.slots().checked_shr(u32::from(level.next)).unwrap_or(0);
        if rest == 0 {
            self.levels.pop();
            self.seeking = false;
            return Some(Ok(()));
        }
        let digit = level.next + rest.trailing_zeros() as u8;
        level.next = digit + 1;
        let (entry, depth) = (level.node.child(digit), level.depth);
        self.seeking &= digit == self.from.digit(depth);
        Some(self.enter(entry, depth + 1))
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = Result<(Hash, Item<'a>), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(root) = self.root.take()
            && let Err(error) = self.enter(root, 0)
        {
            return Some(Err(error));
        }
        loop {
            if let Some(error) = self.errors.pop() {
                return Some(Err(error));
            }
            while let Some((hash, address, item)) = self.items.pop() {
                if hash < self.from {
                    continue;
                }
                if self.last.is_some_and(|last| hash <= last) {
                    let memory = self.view.memory();
                    return Some(Err(memory.damaged(address, "an item is not where it belongs")));
                }
                self.last = Some(hash);
                return Some(Ok((hash, item)));
            }
            match self.step()? {
                Ok(()) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
