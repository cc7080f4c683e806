//! Conversion and checks of C arguments.

use std::ptr::NonNull;

use quorate_store::lazy_trie::Hash;

use crate::outcome::Fault;

/// The bytes at `start`, as a slice.
///
/// # Safety
/// If `length` is not 0 and `start` not NULL, `length` bytes must be readable there, and must not
/// change during `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const u8, length: usize) -> Result<&'a [u8], Fault> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Fault::argument("a pointer to bytes is NULL, but their length is not 0"));
    }
    if isize::try_from(length).is_err() {
        return Err(Fault::argument("a length is greater than the address space"));
    }
    // SAFETY: not NULL, within the address space. The caller guarantees the rest.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// The hash at `start`.
///
/// # Safety
/// If `start` is not NULL, 32 bytes must be readable there.
pub(crate) unsafe fn hash(start: *const u8) -> Result<Hash, Fault> {
    if start.is_null() {
        return Err(Fault::argument("a pointer to a hash is NULL"));
    }
    // SAFETY: not NULL. The caller guarantees the rest. Bytes need no alignment.
    Ok(Hash(unsafe { start.cast::<[u8; 32]>().read() }))
}

/// The object behind a handle.
///
/// # Safety
/// `handle` must be NULL, or point to a `T` that lives and is not written to during `'a`.
pub(crate) unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller guarantees it.
    unsafe { handle.as_ref() }.ok_or_else(|| Fault::argument("a handle is NULL"))
}

/// The object behind a handle, for changes.
///
/// # Safety
/// `handle` must be NULL, or point to a `T` that lives and is not used elsewhere during `'a`.
pub(crate) unsafe fn handle_mut<'a, T>(handle: *mut T) -> Result<&'a mut T, Fault> {
    // SAFETY: the caller guarantees it.
    unsafe { handle.as_mut() }.ok_or_else(|| Fault::argument("a handle is NULL"))
}

/// Checks the pointer to a result.
pub(crate) fn place<T>(place: *mut T) -> Result<NonNull<T>, Fault> {
    NonNull::new(place).ok_or_else(|| Fault::argument("the place for a result is NULL"))
}
