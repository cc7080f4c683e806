//! Snapshots: versions that stay readable.

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
use super::readers::{DIVIDED, Parts, READERS, Tree};
use super::store::{Shared, Store};
use super::tree;
use crate::merkle::{Digest, Proof};
use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, TryLockError};

/// The last commit at some moment, unchanged until it is dropped. The store keeps replaced data for
/// that time, so do not hold a snapshot longer than needed.
pub struct Snapshot<'s> {
    held: Held<'s>,
    place: usize,
    root: Entry,
    /// The number of digits above the root.
    depth: usize,
    /// The roots of the parts instead, if the tree is divided.
    parts: Option<Box<Parts>>,
    /// The root of the digest tree, for an authenticated store.
    digests: Option<Entry>,
}

/// The store of a snapshot, which lives as long as the snapshot.
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

/// A thread first tries the place where it found a free one before.
pub(super) fn hint() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HINT: Cell<usize> = const { Cell::new(usize::MAX) });
    HINT.with(|hint| {
        if hint.get() == usize::MAX {
            hint.set(NEXT.fetch_add(1, Ordering::Relaxed) % READERS);
        }
        hint.get()
    })
}

impl Shared {
    /// The tree of the newest version, for a reader that has a place.
    fn tree(&self) -> Tree {
        loop {
            if let Some(tree) = self.readers.tree() {
                return tree;
            }
            // Commits come too fast. Without the log's lock there are none. Whoever holds it long,
            // like a check, prevents them as well, and then the next copy succeeds.
            let _log = match self.log.try_lock() {
                Ok(log) => log,
                Err(TryLockError::Poisoned(log)) => log.into_inner(),
                Err(TryLockError::WouldBlock) => {
                    std::hint::spin_loop();
                    continue;
                }
            };
            return match self.readers.root() {
                DIVIDED => Tree::Divided(self.readers.parts()),
                root => Tree::Whole(root),
            };
        }
    }
}

impl<'s> Snapshot<'s> {
    pub(super) fn new(held: Held<'s>) -> Result<Snapshot<'s>, Error> {
        let (place, root) =
            held.readers.enter(hint()).ok_or(Error::TooManySnapshots { limit: READERS })?;
        let mut snapshot = Snapshot::of(held, place, root)?;
        if root == DIVIDED {
            match snapshot.held.tree() {
                Tree::Whole(root) => snapshot.root = Entry(root),
                Tree::Divided(parts) => snapshot.parts = Some(parts),
            }
        }
        Ok(snapshot)
    }

    /// A snapshot for reading the item of one hash. If the tree is divided, it has only that part.
    pub(super) fn for_one(shared: &'s Shared, hash: &Hash) -> Result<Snapshot<'s>, Error> {
        let (place, root) =
            shared.readers.enter(hint()).ok_or(Error::TooManySnapshots { limit: READERS })?;
        let mut snapshot = Snapshot::of(Held::Here(shared), place, root)?;
        if root == DIVIDED {
            snapshot.root = Entry(shared.readers.part(hash.part()));
            snapshot.depth = 1;
        }
        Ok(snapshot)
    }

    /// A snapshot of a kept version.
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

    /// A snapshot of the checkpoint that counts. The caller ensures that it still counts on return.
    pub(super) fn checkpointed(held: Held<'s>, head: &Head) -> Result<Snapshot<'s>, Error> {
        let place = held.readers.enter_at(hint(), head.version);
        Snapshot::of(held, place.ok_or(Error::TooManySnapshots { limit: READERS })?, head.root)
    }

    fn of(held: Held<'s>, place: usize, shown: u64) -> Result<Snapshot<'s>, Error> {
        let mut snapshot =
            Snapshot { held, place, root: Entry(shown), depth: 0, parts: None, digests: None };
        if snapshot.held.options.authenticated {
            snapshot.digests = Some(Entry(shown));
            snapshot.root = Entry(snapshot.top()?.crown.tree);
        }
        Ok(snapshot)
    }

    /// The root block of digests.
    fn top(&self) -> Result<digests::Block<'_>, Error> {
        digests::Block::read(self.view(), self.digests.ok_or(Error::NotAuthenticated)?)
    }

    /// The Merkle root of the whole content; see [`merkle`](crate::merkle).
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

    /// The number of its version.
    ///
    /// # Errors
    /// As [`Snapshot::root`].
    pub fn version(&self) -> Result<u64, Error> {
        Ok(self.top()?.crown.version)
    }

    /// Proves the item of a name, or its absence.
    ///
    /// # Errors
    /// As [`Snapshot::root`]; [`Error::NoProofs`].
    pub fn prove<'a>(&self, name: impl Into<Name<'a>>) -> Result<Proof, Error> {
        Ok(self.get_proved(name)?.0)
    }

    /// The same, with the value, which is not copied.
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
        // SAFETY: the place among the readers is held until `self` is dropped, and the view does
        // not outlive `self`.
        unsafe { self.held.memory.view() }
    }

    pub(super) fn find(&self, name: &Name<'_>, hash: &Hash) -> Result<Option<Item<'_>>, Error> {
        tree::find(self.view(), self.begin(hash), name, hash)
    }

    /// The begin of the path to a hash, and the number of digits above.
    fn begin(&self, hash: &Hash) -> (Entry, usize) {
        match &self.parts {
            None => (self.root, self.depth),
            Some(parts) => (parts.get(hash.part()).map_or(Entry::EMPTY, Entry::decode), 1),
        }
    }

    /// The value of an item, checked and not copied.
    ///
    /// # Errors
    /// [`Error::Damaged`].
    pub fn get_ref<'a>(&self, name: impl Into<Name<'a>>) -> Result<Option<&[u8]>, Error> {
        let name = name.into();
        Ok(self.find(&name, &name.hash())?.map(|item| item.value))
    }

    /// Prefetches the memory for lookups of these hashes, all in parallel, so that the lookups do
    /// not wait for memory each time. Changes nothing.
    pub fn look_ahead(&self, hashes: impl Iterator<Item = Hash>) {
        ahead::look_ahead(self.view(), |hash| self.begin(hash), hashes, ahead::ITEM_BYTES);
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
        let above = self.parts.as_ref().map(|parts| Level {
            node: Node::above(parts),
            address: Entry(DIVIDED).address(),
            depth: 0,
            next: from.digit(0),
        });
        Iter {
            view,
            root: Some(self.root).filter(|_| above.is_none()),
            levels: above.into_iter().collect(),
            items: Vec::new(),
            errors: Vec::new(),
            from: *from,
            seeking: true,
            last: None,
            nodes_left: view.memory().space_bytes() / node::LEAST_BYTES,
        }
    }

    /// The root of the tree, or the roots of its parts with their digits.
    pub(super) fn roots(&self) -> Vec<(Option<u8>, Entry)> {
        match &self.parts {
            None => vec![(None, self.root)],
            Some(parts) => (0..)
                .zip(parts.iter())
                .map(|(digit, root)| (Some(digit), Entry::decode(root)))
                .collect(),
        }
    }

    /// The root of the digest tree, for an authenticated store.
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

/// The position of an iteration in a node.
struct Level<'a> {
    node: Node<'a>,
    address: Address,
    /// Digits on the path to its slots.
    depth: usize,
    /// The next slot.
    next: u8,
}

/// Items in the order of their hashes. After an error it continues behind the unreadable part.
pub struct Iter<'a> {
    view: View<'a>,
    /// The root, until it is entered.
    root: Option<Entry>,
    levels: Vec<Level<'a>>,
    /// Items of a slot, the next one last.
    items: Vec<(Hash, Address, Item<'a>)>,
    /// Items of a bucket that could not be read.
    errors: Vec<Error>,
    from: Hash,
    /// Whether it is still on the path of `from`: slots before its digits are skipped.
    seeking: bool,
    /// The last item returned. An item that does not follow it is misplaced.
    last: Option<Hash>,
    /// The most nodes that the space can have. If more are visited, nodes form a circle.
    nodes_left: u64,
}

impl<'a> Iter<'a> {
    /// Enters an entry: adds its items, or its node as a level.
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
                        // The other items are unaffected.
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

    /// Enters the next child of the innermost node; `None` if no node is left.
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
