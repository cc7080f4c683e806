//! Short lists of fixed capacity, without memory of their own.

use super::MOST;
use std::ops::{Deref, DerefMut};

/// A block may have one child too many for a moment.
pub(super) const ROOM: usize = MOST + 1;

/// A list of at most `N` items, stored in place.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Row<T, const N: usize = ROOM> {
    items: [T; N],
    length: u8,
}

impl<T: Copy + Default, const N: usize> Default for Row<T, N> {
    fn default() -> Self {
        Self { items: [T::default(); N], length: 0 }
    }
}

impl<T: Copy + Default, const N: usize> Row<T, N> {
    pub(super) fn clear(&mut self) {
        self.length = 0;
    }

    /// Sets the content to these items.
    pub(super) fn set(&mut self, items: &[T]) {
        self.length = items.len() as u8;
        self.copy_from_slice(items);
    }

    /// Sets the content to `length` copies of `item`.
    pub(super) fn repeat(&mut self, item: T, length: usize) {
        self.length = length as u8;
        self.fill(item);
    }

    pub(super) fn push(&mut self, item: T) {
        self.insert(self.len(), item);
    }

    pub(super) fn pop(&mut self) {
        self.length -= 1;
    }

    pub(super) fn insert(&mut self, at: usize, item: T) {
        self.items.copy_within(at..usize::from(self.length), at + 1);
        self.items[at] = item;
        self.length += 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        self.items.copy_within(at + 1..usize::from(self.length), at);
        self.length -= 1;
    }

    /// Removes and returns the items from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> Self {
        let mut behind = Self::default();
        behind.set(&self[at..]);
        self.length = at as u8;
        behind
    }

    pub(super) fn append(&mut self, more: &Self) {
        let from = self.len();
        self.length += more.length;
        self[from..].copy_from_slice(more);
    }
}

impl<T, const N: usize> Deref for Row<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..usize::from(self.length)]
    }
}

impl<T, const N: usize> DerefMut for Row<T, N> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items[..usize::from(self.length)]
    }
}

/// A set of marks on at most sixteen things.
#[derive(Clone, Copy, Default)]
pub(super) struct Marks(u16);

const _: () = assert!(MOST <= u16::BITS as usize);

impl Marks {
    /// Marks on the first `length` things.
    pub(super) fn all(length: usize) -> Marks {
        Marks(((1u32 << length) - 1) as u16)
    }

    pub(super) fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }

    pub(super) fn set(&mut self, at: usize) {
        self.0 |= 1 << at;
    }

    /// Splits the marks: the first `at`, and the others.
    fn cut(self, at: usize) -> (u16, u16) {
        let first = self.0 & Marks::all(at).0;
        (first, self.0 ^ first)
    }

    /// Inserts a marked thing at `at`; the later ones move by one.
    pub(super) fn insert(&mut self, at: usize) {
        let (first, behind) = self.cut(at);
        self.0 = first | 1 << at | behind << 1;
    }

    pub(super) fn remove(&mut self, at: usize) {
        let (first, behind) = self.cut(at);
        self.0 = first | behind >> 1 & !Marks::all(at).0;
    }

    /// Removes and returns the marks from `at` on.
    pub(super) fn split_off(&mut self, at: usize) -> Marks {
        let (first, behind) = self.cut(at);
        self.0 = first;
        Marks(behind.checked_shr(at as u32).unwrap_or(0))
    }

    /// Appends `more` behind `length` things.
    pub(super) fn append(&mut self, length: usize, more: Marks) {
        self.0 |= more.0 << length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The marks as a list of booleans.
    fn listed(marks: Marks, length: usize) -> Vec<bool> {
        (0..length).map(|at| marks.has(at)).collect()
    }

    #[test]
    fn marks_move_as_the_things_they_are_of() {
        for pattern in 0..1u32 << 9 {
            let of = |length: usize| Marks(pattern as u16 & Marks::all(length).0);
            for at in 0..=8 {
                let (mut marks, mut list) = (of(8), listed(of(8), 8));
                marks.insert(at);
                list.insert(at, true);
                assert_eq!(listed(marks, 9), list);
                marks.remove(at);
                list.remove(at);
                assert_eq!(listed(marks, 9), [list.as_slice(), &[false]].concat());
                let behind = marks.split_off(at);
                assert_eq!(listed(marks, 16)[at..], vec![false; 16 - at]);
                assert_eq!(listed(behind, 8 - at), list[at..]);
                marks.append(at, behind);
                assert_eq!(listed(marks, 8), list);
            }
        }
        assert_eq!((Marks::all(0).0, Marks::all(16).0), (0, u16::MAX));
    }
}
