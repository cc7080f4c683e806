//! Opening and closing a store, and operations on single items.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use quorate_store::disk::explain_bus_errors;
use quorate_store::lazy_trie::{Durability, Name, Options, Recovery, Store};

use crate::arguments::{self, bytes, handle, place};
use crate::outcome::{Fault, QuorateStoreStatus, outcome};

/// A commit returns when it survives a power failure.
pub const QUORATE_STORE_DURABILITY_SYNC: u32 = 0;
/// A commit returns when it survives the end of the process. quorate_store_sync() makes all commits
/// survive a power failure.
pub const QUORATE_STORE_DURABILITY_OS: u32 = 1;
/// Refuses a log that is damaged below the point that a sync has confirmed.
pub const QUORATE_STORE_RECOVERY_STRICT: u32 = 0;
/// Recovers every commit of such a log up to the damage, and sets the rest aside in files that end
/// in .lost.
pub const QUORATE_STORE_RECOVERY_BEST_EFFORT: u32 = 1;

/// Options for opening a store. All zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QuorateStoreOptions {
    /// QUORATE_STORE_DURABILITY_SYNC or QUORATE_STORE_DURABILITY_OS.
    pub durability: u32,
    /// QUORATE_STORE_RECOVERY_STRICT or QUORATE_STORE_RECOVERY_BEST_EFFORT.
    pub recovery: u32,
    /// Memory for pages that are not written yet, in bytes; 0: 256 MiB.
    pub write_buffer_bytes: u64,
    /// The limit of the space, in bytes; 0: 1 TiB.
    pub limit_bytes: u64,
}

/// A store. Freed by quorate_store_close().
pub struct QuorateStore {
    pub(crate) shared: Arc<Shared>,
}

/// The state shared by a store's handle, its snapshots and its iterators.
pub(crate) struct Shared {
    store: Store,
    /// A call panicked. Its half-done changes must not be used.
    panicked: AtomicBool,
}

impl Shared {
    /// Uses the store, unless a call has panicked.
    pub(crate) fn with<'a, T>(
        &'a self,
        body: impl FnOnce(&'a Store) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        if self.panicked.load(Ordering::Acquire) {
            return Err(Fault::panicked_before());
        }
        match catch_unwind(AssertUnwindSafe(|| body(&self.store))) {
            Ok(result) => result,
            Err(panic) => {
                self.panicked.store(true, Ordering::Release);
                resume_unwind(panic)
            }
        }
    }
}

impl QuorateStoreOptions {
    fn options(&self) -> Result<Options, Fault> {
        let durability = match self.durability {
            QUORATE_STORE_DURABILITY_SYNC => Durability::Sync,
            QUORATE_STORE_DURABILITY_OS => Durability::Os,
            _ => return Err(Fault::argument("options: an unknown durability")),
        };
        let recovery = match self.recovery {
            QUORATE_STORE_RECOVERY_STRICT => Recovery::Strict,
            QUORATE_STORE_RECOVERY_BEST_EFFORT => Recovery::BestEffort,
            _ => return Err(Fault::argument("options: an unknown recovery")),
        };
        let mut options = Options { durability, recovery, ..Options::default() };
        if self.write_buffer_bytes != 0 {
            options.write_buffer_bytes = self.write_buffer_bytes;
        }
        if self.limit_bytes != 0 {
            options.limit_bytes = self.limit_bytes;
        }
        Ok(options)
    }
}

/// Opens the store in a folder, or creates one if the folder is empty or missing. `folder` is a
/// path in UTF-8 that ends with a zero byte. `options` may be NULL, for the defaults. Neither is
/// kept. The caller frees the handle in `store` by quorate_store_close().
///
/// # Safety
/// `folder` is NULL or such a text; `options` is NULL or points to options; `store` is NULL or may
/// be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_open(
    folder: *const c_char,
    options: *const QuorateStoreOptions,
    store: *mut *mut QuorateStore,
) -> QuorateStoreStatus {
    outcome(|| {
        let store = place(store)?;
        if folder.is_null() {
            return Err(Fault::argument("the folder is NULL"));
        }
        // SAFETY: not NULL, and by the contract above the text ends with a zero byte.
        let folder = unsafe { CStr::from_ptr(folder) }.to_str();
        let folder = folder.map_err(|_| Fault::argument("the folder's name is not UTF-8"))?;
        // SAFETY: by the contract above.
        let options = unsafe { options.as_ref() }.copied().unwrap_or_default().options()?;
        let (opened, _) = Store::open(Path::new(folder), options)?;
        let shared = Arc::new(Shared { store: opened, panicked: AtomicBool::new(false) });
        // SAFETY: by the contract above.
        unsafe { store.write(Box::into_raw(Box::new(QuorateStore { shared }))) };
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Installs a handler of SIGBUS. The kernel sends this signal if another program shortens a mapped
/// file of an open store, or if the disk cannot read a block of one. The handler prints a line with
/// the file, the offset and the remedy on standard error. Then the previous handler runs, or the
/// process ends as it would have. The handler is for the whole process, so the program has to ask
/// for it. A second call does nothing.
#[unsafe(no_mangle)]
pub extern "C" fn quorate_store_explain_bus_errors() -> QuorateStoreStatus {
    outcome(|| {
        explain_bus_errors()
            .map_err(|error| Fault::system(&format!("a handler of SIGBUS: {error}")))?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Closes a store. Commits are in its files. The folder is released when the last snapshot and
/// iterator are freed, too.
///
/// # Safety
/// `store` is NULL or came from quorate_store_open(), was not closed before, and no other call uses
/// it at the same time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_close(store: *mut QuorateStore) {
    // The function returns nothing, so the status is dropped.
    let _ = outcome(|| {
        if !store.is_null() {
            // SAFETY: by the contract above it came from `Box::into_raw`, and it is not used again.
            drop(unsafe { Box::from_raw(store) });
        }
        Ok(QuorateStoreStatus::Ok)
    });
}

/// Copies the value of a key. The caller frees it by quorate_store_free(), with both results.
/// QUORATE_STORE_STATUS_NOT_FOUND if there is none. Without a copy: quorate_store_snapshot_get().
///
/// # Safety
/// `store` is NULL or an open store; `key` has `key_bytes` bytes; `value` and `value_bytes` are
/// NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_get(
    store: *const QuorateStore,
    key: *const u8,
    key_bytes: usize,
    value: *mut *mut u8,
    value_bytes: *mut usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (store, key) = unsafe { (handle(store)?, bytes(key, key_bytes)?) };
        // SAFETY: by the contract above.
        unsafe { get(store, key.into(), value, value_bytes) }
    })
}

/// The same, with the hash of a key: 32 bytes. Finds the item whether it was put by its key or by
/// its hash.
///
/// # Safety
/// `store` is NULL or an open store; `hash` is NULL or has 32 bytes; `value` and `value_bytes` are
/// NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_get_by_hash(
    store: *const QuorateStore,
    hash: *const u8,
    value: *mut *mut u8,
    value_bytes: *mut usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (store, hash) = unsafe { (handle(store)?, arguments::hash(hash)?) };
        // SAFETY: by the contract above.
        unsafe { get(store, Name::Hash(hash), value, value_bytes) }
    })
}

/// Copies the value of a name.
///
/// # Safety
/// `value` and `value_bytes` are NULL or may be written to.
unsafe fn get(
    store: &QuorateStore,
    name: Name<'_>,
    value: *mut *mut u8,
    value_bytes: *mut usize,
) -> Result<QuorateStoreStatus, Fault> {
    let (value, value_bytes) = (place(value)?, place(value_bytes)?);
    let Some(found) = store.shared.with(|store| Ok(store.get(name)?))? else {
        return Ok(QuorateStoreStatus::NotFound);
    };
    let found = Box::leak(found.into_boxed_slice());
    // SAFETY: by the contract above.
    unsafe {
        value_bytes.write(found.len());
        value.write(found.as_mut_ptr());
    }
    Ok(QuorateStoreStatus::Ok)
}

/// Frees a value that quorate_store_get() or quorate_store_get_by_hash() has written.
///
/// # Safety
/// `value` is NULL, or `value` and `value_bytes` are the results of one such call, and were not
/// freed before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_free(value: *mut u8, value_bytes: usize) {
    if !value.is_null() {
        // SAFETY: by the contract above this is the boxed slice that was leaked.
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(value, value_bytes)) });
    }
}

/// Puts an item in a commit of its own, and replaces the item of the same key.
///
/// # Safety
/// `store` is NULL or an open store; `key` has `key_bytes` bytes, `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_put(
    store: *const QuorateStore,
    key: *const u8,
    key_bytes: usize,
    value: *const u8,
    value_bytes: usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let store = unsafe { handle(store)? };
        // SAFETY: by the contract above.
        let (key, value) = unsafe { (bytes(key, key_bytes)?, bytes(value, value_bytes)?) };
        store.shared.with(|store| Ok(store.put(key, value)?))?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// The same, with the hash of a key: 32 bytes. They are the BLAKE3 hash of the key, or other bytes
/// with the distribution of a hash. It replaces the item of that key, too. The store then knows the
/// hash alone, not the key.
///
/// # Safety
/// `store` is NULL or an open store; `hash` is NULL or has 32 bytes; `value` has `value_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_put_by_hash(
    store: *const QuorateStore,
    hash: *const u8,
    value: *const u8,
    value_bytes: usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (store, hash) = unsafe { (handle(store)?, arguments::hash(hash)?) };
        // SAFETY: by the contract above.
        let value = unsafe { bytes(value, value_bytes)? };
        store.shared.with(|store| Ok(store.put(&hash, value)?))?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Removes an item in a commit of its own. QUORATE_STORE_STATUS_NOT_FOUND if there was none.
///
/// # Safety
/// `store` is NULL or an open store; `key` has `key_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_delete(
    store: *const QuorateStore,
    key: *const u8,
    key_bytes: usize,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (store, key) = unsafe { (handle(store)?, bytes(key, key_bytes)?) };
        let there = store.shared.with(|store| Ok(store.delete(key)?))?;
        Ok(if there { QuorateStoreStatus::Ok } else { QuorateStoreStatus::NotFound })
    })
}

/// The same, with the hash of a key: 32 bytes. Removes the item whether it was put by its key or by
/// its hash.
///
/// # Safety
/// `store` is NULL or an open store; `hash` is NULL or has 32 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_delete_by_hash(
    store: *const QuorateStore,
    hash: *const u8,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let (store, hash) = unsafe { (handle(store)?, arguments::hash(hash)?) };
        let there = store.shared.with(|store| Ok(store.delete(&hash)?))?;
        Ok(if there { QuorateStoreStatus::Ok } else { QuorateStoreStatus::NotFound })
    })
}

/// Makes all commits survive a power failure, whatever the durability of commits.
///
/// # Safety
/// `store` is NULL or an open store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_sync(store: *const QuorateStore) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let store = unsafe { handle(store)? };
        store.shared.with(|store| Ok(store.sync()?))?;
        Ok(QuorateStoreStatus::Ok)
    })
}

/// Writes all changes to the space, so that the next start has nothing to replay.
///
/// # Safety
/// `store` is NULL or an open store.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_checkpoint(
    store: *const QuorateStore,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let store = unsafe { handle(store)? };
        store.shared.with(|store| Ok(store.checkpoint()?))?;
        Ok(QuorateStoreStatus::Ok)
    })
}
