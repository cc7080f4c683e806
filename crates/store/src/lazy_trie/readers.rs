//! Which versions are being read: many readers beside one writer, neither waiting for the other.
//!
//! A reader writes the version it is about to read into a place of its own, then looks whether that is still the newest; if so, everything
//! the version refers to stays until the place is empty again. The writer publishes a version first and looks into the places afterwards. All four
//! accesses are sequentially consistent: either the writer sees the reader's version, or the reader sees the writer's and takes that.

use super::apart::Apart;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Readers at once.
#[cfg(not(loom))]
pub(super) const READERS: usize = 1024;
#[cfg(loom)]
pub(super) const READERS: usize = 2;

/// Loom takes sequentially consistent accesses for acquiring and releasing ones; fences it knows.
#[cfg(loom)]
fn in_one_order() {
    loom::sync::atomic::fence(Ordering::SeqCst);
}
#[cfg(not(loom))]
fn in_one_order() {}

/// No version: versions start at 1.
const FREE: u64 = 0;

type Place = Apart<AtomicU64>;

/// The newest version and its root: every reader begins with both, every commit writes both.
struct Newest {
    version: AtomicU64,
    root: AtomicU64,
}

/// The places of the readers, and the newest version.
pub(super) struct Readers {
    places: Box<[Place]>,
    /// Places from here on have never been used.
    used: AtomicUsize,
    newest: Apart<Newest>,
}

impl Readers {
    pub(super) fn new(version: u64, root: u64) -> Readers {
        Readers {
            places: (0..READERS).map(|_| Apart(AtomicU64::new(FREE))).collect(),
            used: AtomicUsize::new(0),
            newest: Apart(Newest { version: AtomicU64::new(version), root: AtomicU64::new(root) }),
        }
    }

    /// Shows a newer version. By one thread at a time: who has the log.
    pub(super) fn publish(&self, version: u64, root: u64) {
        // A reader that takes the new root under the old version only keeps more than it needs.
        self.newest.root.store(root, Ordering::Release);
        self.newest.version.store(version, Ordering::SeqCst);
        in_one_order();
    }

    /// Begins to read the newest version: the place, for [`Readers::leave`], and the root. `hint` is where to look for a free place
    /// first. `None` if all are taken.
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

    /// Begins to read a version that is kept from going meanwhile; the place. `None` if all are taken.
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
        // It only grows: most readers need not touch the line that all share.
        if self.used.load(Ordering::SeqCst) <= index {
            self.used.fetch_max(index + 1, Ordering::SeqCst);
        }
        Some(index)
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

    /// The oldest version that is or may yet be read.
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

    /// How many read.
    pub(super) fn count(&self) -> usize {
        let used = self.used.load(Ordering::SeqCst);
        self.places.iter().take(used).filter(|place| place.load(Ordering::Relaxed) != FREE).count()
    }
}

#[cfg(all(test, loom))]
mod tests;
