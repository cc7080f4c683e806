//! A short list in place.

use super::MOST;
use std::ops::{Deref, DerefMut};

/// A block may have one child too many for a moment.
const ROOM: usize = MOST + 1;

/// At most [`MOST`] things and one more, without memory of their own.
#[derive(Clone, Copy, Default)]
pub(super) struct Row<T> {
    length: usize,
    items: [T; ROOM],
}

impl<T: Copy + Default> Row<T> {
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Becomes these.
    pub(super) fn set(&mut self, items: &[T]) {
        self.length = items.len();
        self.copy_from_slice(items);
    }

    /// Becomes so many, all of them `item`.
    pub(super) fn repeat(&mut self, item: T, length: usize) {
        self.length = length;
        self.fill(item);
    }

    pub(super) fn push(&mut self, item: T) {
        self.insert(self.length, item);
    }

    pub(super) fn pop(&mut self) {
        self.length -= 1;
    }

    pub(super) fn insert(&mut self, at: usize, item: T) {
        self.items.copy_within(at..self.length, at + 1);
        self.items[at] = item;
        self.length += 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.items.copy_within(at + 1..self.length, at);
        self.length -= 1;
    }

    /// Those from `at` on, which it has no longer.
    pub(super) fn split_off(&mut self, at: usize) -> Row<T> {
        let mut behind = Row::default();
        behind.set(&self[at..]);
        self.length = at;
        behind
    }

    pub(super) fn append(&mut self, more: &Row<T>) {
        let from = self.length;
        self.length += more.len();
        self[from..].copy_from_slice(more);
    }
}

impl<T> Deref for Row<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.length]
    }
}

impl<T> DerefMut for Row<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..self.length]
    }
}
