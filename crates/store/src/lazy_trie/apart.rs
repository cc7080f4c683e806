//! What several processors write to often, kept apart from what others read.

use std::ops::{Deref, DerefMut};

/// A value that shares no cache line with anything else: who writes to it does not take from other processors what they have of its neighbours. It begins a
/// pair of lines, as processors fetch them together.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Apart<T>(pub(super) T);

impl<T> Deref for Apart<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Apart<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
