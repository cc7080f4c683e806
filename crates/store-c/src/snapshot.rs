//! Snapshots: values without a copy, and iteration over all items in order.

use std::ptr;
use std::sync::Arc;

use quorate_store::lazy_trie::{Iter, Name, Snapshot};

use crate::arguments::{self, bytes, handle, handle_mut, place};
use crate::outcome::{Fault, QuorateStoreStatus, outcome};
use crate::store::{QuorateStore, Shared};

/// The last commit at some moment, unchanged until it is freed by quorate_store_snapshot_free().
/// The store keeps replaced items for that time, so do not hold a snapshot longer than needed.
pub struct QuorateStoreSnapshot {
    held: Arc<Held>,
}

/// A snapshot and the store that it refers to.
struct Held {
    /// Refers to `shared` and is dropped before it, because fields are dropped in this order.
    snapshot: Snapshot<'static>,
    shared: Arc<Shared>,
}

/// The position of an iteration. Freed by quorate_store_iterator_free().
pub struct QuorateStoreIterator {
    /// Refers to `held`, and is dropped before it.
    items: Iter<'static>,
    held: Arc<Held>,
}

/// An item of an iteration. The bytes belong to the snapshot: they are valid until the snapshot and
/// its iterators are freed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct QuorateStoreItem {
    /// The key; NULL if the item was put by the hash of its key.
    pub key: *const u8,
    /// The length of the key.
    pub key_bytes: usize,
    /// The value.
    pub value: *const u8,
    /// The length of the value.
    pub value_bytes: usize,
    /// The BLAKE3 hash of the key. Items are ordered by it.
    pub hash: [u8; 32],
}

/// Takes a snapshot. The caller frees it by quorate_store_snapshot_free(). There may be 1024 at
/// once.
///
/// # Safety
/// `store` is NULL or an open store; `snapshot` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_snapshot(
    store: *const QuorateStore,
    snapshot: *mut *mut QuorateStoreSnapshot,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let store = unsafe { handle(store)? };
        let snapshot = place(snapshot)?;
        let shared = Arc::clone(&store.shared);
        // SAFETY: the referenced value does not move, and lives as long as `shared`, which is kept
        // beside the snapshot and dropped after it.
        let lasting: &'static Shared = unsafe { &*Arc::as_ptr(&shared) };
        let taken = lasting.with(|store| Ok(store.snapshot()?))?;
        let held = Arc::new(Held { snapshot: taken, shared });
        // SAFETY: by the contract above.
        unsafe { snapshot.write(Box::into_raw(Box::new(QuorateStoreSnapshot { held }))) };
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Frees a snapshot. Its iterators remain valid until they are freed themselves.
///
/// # Safety
/// `snapshot` is NULL or came from quorate_store_snapshot(), was not freed before, and no other
/// call uses it at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_snapshot_free(snapshot: *mut QuorateStoreSnapshot) {
    // The function returns nothing, so the status is dropped.
    let _ = outcome(|| {
        if !snapshot.is_null() {
            // SAFETY: by the contract above it came from `Box::into_raw`, and it is not used again.
            drop(unsafe { Box::from_raw(snapshot) });
        }
        Ok(QuorateStoreStatus::Ok)
    });
}

/// Finds the value of a key without a copy. The bytes belong to the snapshot: they are valid until
/// it is freed. QUORATE_STORE_STATUS_NOT_FOUND if there is none.
///
/// # Safety
/// `snapshot` is NULL or a snapshot; `key` has `key_bytes` bytes; `value` and `value_bytes` are
/// NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_snapshot_get(
    snapshot: *const QuorateStoreSnapshot,
    key: *const u8,
    key_bytes: usize,
    value: *mut *const u8,
    value_bytes: *mut usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (snapshot, key) = unsafe { (handle(snapshot)?, bytes(key, key_bytes)?) };
        // SAFETY: by the contract above.
        unsafe { get(&snapshot.held, key.into(), value, value_bytes) }
    })
}

/// The same, with the hash of a key: 32 bytes. Finds the item whether it was put by its key or by
/// its hash.
///
/// # Safety
/// `snapshot` is NULL or a snapshot; `hash` is NULL or has 32 bytes; `value` and `value_bytes` are
/// NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_snapshot_get_by_hash(
    snapshot: *const QuorateStoreSnapshot,
    hash: *const u8,
    value: *mut *const u8,
    value_bytes: *mut usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (snapshot, hash) = unsafe { (handle(snapshot)?, arguments::hash(hash)?) };
        // SAFETY: by the contract above.
        unsafe { get(&snapshot.held, Name::Hash(hash), value, value_bytes) }
    })
}

/// Finds the value of a name.
///
/// # Safety
/// `value` and `value_bytes` are NULL or may be written to.
unsafe fn get(
    held: &Held,
    name: Name<'_>,
    value: *mut *const u8,
    value_bytes: *mut usize,
) -> Result<QuorateStoreStatus, Fault> {
    let (value, value_bytes) = (place(value)?, place(value_bytes)?);
    let Some(found) = held.shared.with(|_| Ok(held.snapshot.get_ref(name)?))? else {
        return Ok(QuorateStoreStatus::NotFound);
    };
    // SAFETY: by the contract above.
    unsafe {
        value_bytes.write(found.len());
        value.write(found.as_ptr());
    }
    Ok(QuorateStoreStatus::Ok)
}

/// Begins an iteration over all items of a snapshot, in the order of the hashes of their keys. The
/// caller frees the iterator by quorate_store_iterator_free().
///
/// # Safety
/// `snapshot` is NULL or a snapshot; `iterator` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_iterate(
    snapshot: *const QuorateStoreSnapshot,
    iterator: *mut *mut QuorateStoreIterator,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let snapshot = unsafe { handle(snapshot)? };
        let iterator = place(iterator)?;
        let held = Arc::clone(&snapshot.held);
        // SAFETY: the referenced value does not move, and lives as long as `held`, which is kept
        // beside the iterator and dropped after it.
        let lasting: &'static Held = unsafe { &*Arc::as_ptr(&held) };
        let items = lasting.snapshot.iter();
        // SAFETY: by the contract above.
        unsafe { iterator.write(Box::into_raw(Box::new(QuorateStoreIterator { items, held }))) };
        Ok(QuorateStoreStatus::Ok)
    })
}

/// The next item; QUORATE_STORE_STATUS_NOT_FOUND if there is none. After
/// QUORATE_STORE_STATUS_DAMAGED the iteration continues behind the unreadable part.
///
/// # Safety
/// `iterator` is NULL or an iterator that no other call uses at the same time; `item` is NULL or
/// may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_iterator_next(
    iterator: *mut QuorateStoreIterator,
    item: *mut QuorateStoreItem,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let iterator = unsafe { handle_mut(iterator)? };
        let place = place(item)?;
        let QuorateStoreIterator { items, held } = iterator;
        let Some((hash, found)) = held.shared.with(|_| Ok(items.next().transpose()?))? else {
            return Ok(QuorateStoreStatus::NotFound);
        };
        let key = found.key();
        let item = QuorateStoreItem {
            key: key.map_or(ptr::null(), <[u8]>::as_ptr),
            key_bytes: key.map_or(0, <[u8]>::len),
            value: found.value.as_ptr(),
            value_bytes: found.value.len(),
            hash: hash.0,
        };
        // SAFETY: by the contract above.
        unsafe { place.write(item) };
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Frees an iterator.
///
/// # Safety
/// `iterator` is NULL or came from quorate_store_iterate(), was not freed before, and no other call
/// uses it at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_iterator_free(iterator: *mut QuorateStoreIterator) {
    // The function returns nothing, so the status is dropped.
    let _ = outcome(|| {
        if !iterator.is_null() {
            // SAFETY: by the contract above it came from `Box::into_raw`, and it is not used again.
            drop(unsafe { Box::from_raw(iterator) });
        }
        Ok(QuorateStoreStatus::Ok)
    });
}
