//! The statistics of a store.

use crate::arguments::{handle, place};
use crate::outcome::{QuorateStoreStatus, outcome};
use crate::store::QuorateStore;

/// The content of a store, and its work since it was opened.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct QuorateStoreStatistics {
    /// The number of items.
    pub items: u64,
    /// The length of all keys, in bytes.
    pub key_bytes: u64,
    /// The length of all values, in bytes.
    pub value_bytes: u64,
    /// The slots of items, in bytes.
    pub item_slot_bytes: u64,
    /// The slots of buckets and nodes, in bytes.
    pub tree_slot_bytes: u64,
    /// The files of the space, in bytes.
    pub space_bytes: u64,
    /// The files of the log, in bytes.
    pub log_bytes: u64,
    /// Memory for pages that are not written yet, in bytes.
    pub shadow_bytes: u64,
    /// The number of snapshots held.
    pub snapshots: u64,
    /// The number of batches committed.
    pub commits: u64,
    /// The number of checkpoints made.
    pub checkpoints: u64,
}

/// Collects the statistics of a store. It scans every slab, and writers wait meanwhile.
///
/// # Safety
/// `store` is NULL or an open store; `statistics` is NULL or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn quorate_store_statistics(
    store: *const QuorateStore,
    statistics: *mut QuorateStoreStatistics,
) -> QuorateStoreStatus {
    outcome(|| {
        // SAFETY: by the contract above.
        let store = unsafe { handle(store)? };
        let place = place(statistics)?;
        let found = store.shared.with(|store| Ok(store.statistics()))?;
        let statistics = QuorateStoreStatistics {
            items: found.items,
            key_bytes: found.key_bytes,
            value_bytes: found.value_bytes,
            item_slot_bytes: found.item_slot_bytes,
            tree_slot_bytes: found.bucket_slot_bytes + found.node_slot_bytes,
            space_bytes: found.space_bytes,
            log_bytes: found.log_bytes,
            shadow_bytes: found.shadow_bytes,
            snapshots: found.snapshots,
            commits: found.commits,
            checkpoints: found.checkpoints,
        };
        // SAFETY: by the contract above.
        unsafe { place.write(statistics) };
        Ok(QuorateStoreStatus::Ok)
    })
}
