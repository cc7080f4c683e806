//! Cache-line padding for values that several processors write often.

use std::ops::{Deref, DerefMut};

/// A value that shares no cache line with other data, so a write to it does not invalidate other
/// processors' copies of its neighbours. It begins a pair of lines, because processors fetch pairs.
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
