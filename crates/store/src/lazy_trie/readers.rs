//! The versions in use by readers. Many readers run beside writers, and neither waits for the
//! other. One exception is a reader of all parts of a divided tree, see below.
//!
//! A reader first writes its version into a place of its own, then checks that it is still the
//! newest. If so, everything that the version refers to stays until the place is empty again. The
//! writer first publishes a version, then looks into the places. All four accesses are sequentially
//! consistent. So either the writer sees the reader's version, or the reader sees the writer's and
//! takes that one.
//!
//! The tree of a version has one root, or it is [divided](DIVIDED): then each part has a root of
//! its own. A reader of one item reads the root of its part. It may be newer than the reader's
//! version, which does no harm. A reader of all parts copies their roots, and then checks that the
//! version is still the one before the copy. A commit changes one part and then the version. So at
//! most the change of one commit falls into the copy, and the copy has it or not. After several
//! copies that commits have disturbed, the reader also tries to stop them for the time of one.

use super::apart::Apart;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The most readers at once.
#[cfg(not(loom))]
pub(super) const READERS: usize = 1024;
#[cfg(loom)]
pub(super) const READERS: usize = 2;

/// The parts of a divided tree: one for each first digit of a hash.
#[cfg(not(loom))]
pub(super) const PARTS: usize = 128;
#[cfg(loom)]
pub(super) const PARTS: usize = 2;

/// The root of a tree whose parts have their own roots. No node has this address.
pub(super) const DIVIDED: u64 = u64::MAX;
/// How often the roots of all parts are copied before the reader tries to stop the writers.
#[cfg(not(loom))]
const COPIES: usize = 8;
#[cfg(loom)]
const COPIES: usize = 1;

/// The roots of the parts of one version, as the entries of a node.
pub(super) type Parts = [[u8; 8]; PARTS];

/// The tree of one version.
pub(super) enum Tree {
    /// Its root.
    Whole(u64),
    /// The roots of its parts.
    Divided(Box<Parts>),
}

/// Loom treats sequentially consistent accesses as acquire and release, but it supports fences.
#[cfg(loom)]
fn in_one_order() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}
#[cfg(not(loom))]
fn in_one_order() {}

/// No version: versions start at 1.
const FREE: u64 = 0;

type Place = Apart<AtomicU64>;

/// The newest version and its root. Every reader begins with both, and every commit writes both.
struct Newest {
    version: AtomicU64,
    root: AtomicU64,
}

/// The places of the readers, and the newest version.
pub(super) struct Readers {
    places: Box<[Place]>,
    /// Places from this index on have never been used.
    used: AtomicUsize,
    newest: Apart<Newest>,
    /// The roots of the parts, if the tree is divided.
    parts: Box<[AtomicU64]>,
}

impl Readers {
    pub(super) fn new(version: u64, root: u64) -> Readers {
        Readers {
            places: (0..READERS).map(|_| Apart(AtomicU64::new(FREE))).collect(),
            used: AtomicUsize::new(0),
            newest: Apart(Newest { version: AtomicU64::new(version), root: AtomicU64::new(root) }),
            parts: (0..PARTS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Publishes a newer version. Only the holder of the log lock may call it.
    pub(super) fn publish(&self, version: u64, root: u64) {
        // A reader that takes the new root with the old version only holds more than it needs.
        self.newest.root.store(root, Ordering::Release);
        self.newest.version.store(version, Ordering::SeqCst);
        in_one_order();
    }

    /// Publishes a newer version of a divided tree, in which one part has another root. Only the
    /// holder of the log lock may call it.
    pub(super) fn publish_part(&self, version: u64, part: usize, root: u64) {
        if let Some(place) = self.parts.get(part) {
            place.store(root, Ordering::Release);
        }
        self.newest.version.store(version, Ordering::SeqCst);
        in_one_order();
    }

    /// Divides the tree of the newest version into these parts. Only the holder of the log lock may
    /// call it.
    pub(super) fn divide(&self, parts: &Parts) {
        for (place, root) in self.parts.iter().zip(parts) {
            place.store(u64::from_le_bytes(*root), Ordering::Release);
        }
        self.newest.root.store(DIVIDED, Ordering::Release);
    }

    /// The root of a part of a divided tree.
    pub(super) fn part(&self, part: usize) -> u64 {
        self.parts.get(part).map_or(0, |place| place.load(Ordering::Acquire))
    }

    /// The roots of all parts, for a caller that prevents commits.
    pub(super) fn parts(&self) -> Box<Parts> {
        let mut parts = Box::new([[0; 8]; PARTS]);
        for (root, place) in parts.iter_mut().zip(&self.parts) {
            *root = place.load(Ordering::Acquire).to_le_bytes();
        }
        parts
    }

    /// The tree of the newest version, for a reader that has a place. `None` if there were commits
    /// all the time.
    pub(super) fn tree(&self) -> Option<Tree> {
        (0..COPIES).find_map(|_| {
            let version = self.newest.version.load(Ordering::Acquire);
            let root = self.newest.root.load(Ordering::Acquire);
            if root != DIVIDED {
                return Some(Tree::Whole(root));
            }
            let parts = self.parts();
            // Not before the parts, which are acquired.
            let same = self.newest.version.load(Ordering::Acquire) == version;
            same.then_some(Tree::Divided(parts))
        })
    }

    /// Begins to read the newest version. Returns the place, for [`Readers::leave`], and the root.
    /// The search for a free place begins at `hint`. `None` if all are taken.
    pub(super) fn enter(&self, hint: usize) -> Option<(usize, u64)> {
        let mut version = self.newest.version.load(Ordering::Acquire);
        let index = self.take_place(hint, version)?;
        let place = self.places.get(index)?;
        loop {
            in_one_order();
            let newest = self.newest.version.load(Ordering::SeqCst);
            if newest == version {
                return Some((index, self.newest.root.load(Ordering::Acquire)));
            }
            place.store(newest, Ordering::SeqCst);
            version = newest;
        }
    }

    /// Begins to read a version that the caller keeps alive meanwhile. Returns the place, or `None`
    /// if all are taken.
    pub(super) fn enter_at(&self, hint: usize, version: u64) -> Option<usize> {
        let index = self.take_place(hint, version)?;
        in_one_order();
        Some(index)
    }

    /// Takes a free place for `version`.
    fn take_place(&self, hint: usize, version: u64) -> Option<usize> {
        let index = (0..READERS).map(|step| (hint + step) % READERS).find(|index| {
            self.places.get(*index).is_some_and(|place| {
                place.compare_exchange(FREE, version, Ordering::SeqCst, Ordering::Relaxed).is_ok()
            })
        })?;
        // It only grows, so most readers need not write the shared cache line.
        if self.used.load(Ordering::SeqCst) <= index {
            self.used.fetch_max(index + 1, Ordering::SeqCst);
        }
        Some(index)
    }

    /// The root of the newest version.
    pub(super) fn root(&self) -> u64 {
        self.newest.root.load(Ordering::Acquire)
    }

    /// The newest version.
    pub(super) fn newest(&self) -> u64 {
        self.newest.version.load(Ordering::Acquire)
    }

    /// Ends reading.
    pub(super) fn leave(&self, index: usize) {
        if let Some(place) = self.places.get(index) {
            place.store(FREE, Ordering::Release);
        }
    }

    /// The oldest version that is being read or may yet be.
    pub(super) fn oldest(&self) -> u64 {
        in_one_order();
        let newest = self.newest.version.load(Ordering::SeqCst);
        let used = self.used.load(Ordering::SeqCst);
        self.places
            .iter()
            .take(used)
            .map(|place| place.load(Ordering::SeqCst))
            .filter(|version| *version != FREE)
            .fold(newest, u64::min)
    }

    /// The number of readers.
    pub(super) fn count(&self) -> usize {
        let used = self.used.load(Ordering::SeqCst);
        self.places.iter().take(used).filter(|place| place.load(Ordering::Relaxed) != FREE).count()
    }
}

#[cfg(all(test, loom))]
mod tests;
