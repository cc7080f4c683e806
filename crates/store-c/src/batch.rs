//! Batches: changes that are committed together.

use quorate_store::lazy_trie::Batch;

use crate::arguments::{self, bytes, handle, handle_mut};
use crate::outcome::{QuorateStoreStatus, outcome};
use crate::store::QuorateStore;

/// A list of changes that are committed together, in order, or not at all. Freed by
/// quorate_store_batch_free(). It belongs to no store.
pub struct QuorateStoreBatch {
    batch: Batch,
}

/// Creates an empty batch. The caller frees it by quorate_store_batch_free().
#[unsafe(no_mangle)]
pub extern "C" fn quorate_store_batch_new() -> *mut QuorateStoreBatch {
    Box::into_raw(Box::new(QuorateStoreBatch { batch: Batch::new() }))
}

/// Frees a batch. Commits made from it are unaffected.
///
/// # Safety
/// `batch` is NULL or came from quorate_store_batch_new(), was not freed before, and no other call
/// uses it at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_batch_free(batch: *mut QuorateStoreBatch) {
    if !batch.is_null() {
        // SAFETY: by the contract above it came from `Box::into_raw`, and it is not used again.
        drop(unsafe { Box::from_raw(batch) });
    }
}

/// Appends: put an item, and replace the item of the same key.
///
/// # Safety
/// `batch` is NULL or a batch that no other call uses at the same time; `key` has `key_bytes`
/// bytes, `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_batch_put(
    batch: *mut QuorateStoreBatch,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let batch = unsafe { handle_mut(batch)? };
        // SAFETY: by the contract above.
        let (key, value) = unsafe { (bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        batch.batch.put(key, value)?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Appends the same, with the hash of a key: 32 bytes. See quorate_store_put_by_hash().
///
/// # Safety
/// `batch` is NULL or a batch that no other call uses at the same time; `hash` is NULL or has 32
/// bytes; `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_batch_put_by_hash(
    batch: *mut QuorateStoreBatch,
    hash: *const u8,
    value: *const u8,
    value_bytes: usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (batch, hash) = unsafe { (handle_mut(batch)?, arguments::hash(hash)?) };
        // SAFETY: by the contract above.
        let value = unsafe { bytes(value, value_bytes)? };
        batch.batch.put(&hash, value)?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Appends: remove the item of a key, if there is one.
///
/// # Safety
/// `batch` is NULL or a batch that no other call uses at the same time; `key` has `key_bytes`
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_batch_delete(
    batch: *mut QuorateStoreBatch,
    key: *const u8,
    key_bytes: usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (batch, key) = unsafe { (handle_mut(batch)?, bytes(key, key_bytes)?) };
        batch.batch.delete(key)?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Appends the same, with the hash of a key: 32 bytes.
///
/// # Safety
/// `batch` is NULL or a batch that no other call uses at the same time; `hash` is NULL or has 32
/// bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_batch_delete_by_hash(
    batch: *mut QuorateStoreBatch,
    hash: *const u8,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (batch, hash) = unsafe { (handle_mut(batch)?, arguments::hash(hash)?) };
        batch.batch.delete(&hash)?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Removes all changes from a batch, so that it can be filled again.
///
/// # Safety
/// `batch` is NULL or a batch that no other call uses at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_batch_clear(
    batch: *mut QuorateStoreBatch,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        unsafe { handle_mut(batch)? }.batch.clear();
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Commits the changes of a batch: all or none. The batch stays as it is.
///
/// # Safety
/// `store` is NULL or an open store; `batch` is NULL or a batch that no other call changes at the
/// same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_write(
    store: *const QuorateStore,
    batch: *const QuorateStoreBatch,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (store, batch) = unsafe { (handle(store)?, handle(batch)?) };
        store.shared.with(|store| Ok(store.write(&batch.batch)?))?;
        Ok(QuorateStoreStatus::Ok)
    })
}
