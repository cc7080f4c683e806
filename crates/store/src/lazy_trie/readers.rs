//! The versions in use by readers. Many readers run beside one writer, and neither waits for the
//! other.
//!
//! A reader first writes its version into a place of its own, then checks that it is still the
//! newest. If so, everything that the version refers to stays until the place is empty again. The
//! writer first publishes a version, then looks into the places. All four accesses are sequentially
//! consistent. So either the writer sees the reader's version, or the reader sees the writer's and
//! takes that one.

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
}

impl Readers {
    pub(super) fn new(version: u64, root: u64) -> Readers {
        Readers {
            places: (0..READERS).map(|_| Apart(AtomicU64::new(FREE))).collect(),
            used: AtomicUsize::new(0),
            newest: Apart(Newest { version: AtomicU64::new(version), root: AtomicU64::new(root) }),
        }
    }

    /// Publishes a newer version. Only the holder of the log lock may call it.
    pub(super) fn publish(&self, version: u64, root: u64) {
        // A reader that takes the new root with the old version only holds more than it needs.
        self.newest.root.store(root, Ordering::Release);
        self.newest.version.store(version, Ordering::SeqCst);
        in_one_order();
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
