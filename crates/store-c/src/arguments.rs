//! Arguments as C has them.

use std::ptr::NonNull;

use quorate_store::lazy_trie::Hash;

use crate::outcome::Fault;

/// The bytes that a pointer and a length stand for.
///
/// # Safety
/// If `length` is not 0 and `start` not NULL, so many bytes must be readable there, and stay unchanged as long as `'a`.
pub(crate) unsafe fn bytes<'a>(start: *const u8, length: usize) -> Result<&'a [u8], Fault> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Fault::argument("a pointer to bytes is NULL, and their length is not 0"));
    }
    if isize::try_from(length).is_err() {
        return Err(Fault::argument("a length is more than memory can have"));
    }
    // SAFETY: not NULL, within the address space; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// The hash that a pointer stands for.
///
/// # Safety
/// If `start` is not NULL, 32 bytes must be readable there.
pub(crate) unsafe fn hash(start: *const u8) -> Result<Hash, Fault> {
    if start.is_null() {
        return Err(Fault::argument("a pointer to a hash is NULL"));
    }
    // SAFETY: not NULL; the rest is the caller's promise. Bytes need no alignment.
    Ok(Hash(unsafe { start.cast::<[u8; 32]>().read() }))
}

/// What a handle refers to.
///
/// # Safety
/// `handle` must be NULL or point to a `T` that lives, and is not written to, as long as `'a`.
pub(crate) unsafe fn handle<'a, T>(handle: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_ref() }.ok_or_else(|| Fault::argument("a handle is NULL"))
}

/// The same, to be changed.
///
/// # Safety
/// `handle` must be NULL or point to a `T` that lives, and that nobody else uses, as long as `'a`.
pub(crate) unsafe fn handle_mut<'a, T>(handle: *mut T) -> Result<&'a mut T, Fault> {
    // SAFETY: the caller's promise.
    unsafe { handle.as_mut() }.ok_or_else(|| Fault::argument("a handle is NULL"))
}

/// Where a result is to be written.
pub(crate) fn place<T>(place: *mut T) -> Result<NonNull<T>, Fault> {
    NonNull::new(place).ok_or_else(|| Fault::argument("the place for a result is NULL"))
}
