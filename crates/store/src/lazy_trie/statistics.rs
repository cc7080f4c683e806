//! The statistics of a store.

use super::slab::{SlotUse, Use};
use super::store::{Store, lock};
use std::sync::atomic::Ordering;

/// The content of a store, and its work since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// The number of items.
    pub items: u64,
    /// The length of all keys, in bytes.
    pub key_bytes: u64,
    /// The length of all values, in bytes.
    pub value_bytes: u64,
    /// The slots of items, those that wait for release included, in bytes.
    pub item_slot_bytes: u64,
    /// The slots of buckets, in bytes.
    pub bucket_slot_bytes: u64,
    /// The slots of nodes, in bytes.
    pub node_slot_bytes: u64,
    /// The slots of digest blocks (authenticated stores), in bytes.
    pub digest_slot_bytes: u64,
    /// Of these four: slots that wait for their release, in bytes.
    pub waiting_slot_bytes: u64,
    /// The files of the space, in bytes.
    pub space_bytes: u64,
    /// Of these: free slabs, in bytes.
    pub free_slab_bytes: u64,
    /// The files of the log, in bytes.
    pub log_bytes: u64,
    /// Memory for pages that are not written out, in bytes.
    pub shadow_bytes: u64,
    /// The number of snapshots held.
    pub snapshots: u64,
    /// The number of batches committed.
    pub commits: u64,
    /// The number of checkpoints made.
    pub checkpoints: u64,
    /// Bytes written to the space by checkpoints.
    pub space_bytes_written: u64,
    /// Bytes written to the log.
    pub log_bytes_written: u64,
    /// Syncs of the log by writers.
    pub log_syncs: u64,
    /// The number of times that a writer waited for a checkpoint, ...
    pub stalls: u64,
    /// ... and the total time of that, in nanoseconds.
    pub stall_ns: u64,
}

impl Store {
    /// Collects the statistics. It scans every slab, and the writer waits meanwhile.
    pub fn statistics(&self) -> Statistics {
        let shared = &*self.shared;
        let mut alone = shared.alone();
        let log = lock(&shared.log);
        let mut writer = lock(&shared.writer);
        // An error stops the store, and the next writer reports it.
        let _ = shared.collect(&mut alone, &mut writer);
        let space = &writer.space;
        let mut taken = [0; SlotUse::ALL.len()];
        let slot_bytes = |slab: &super::slab::Slab| match slab.usage {
            Use::Slots(_) => u64::from(space.classes.size(slab.class)),
            _ => u64::from(slab.span) * u64::from(space.geometry.slab_bytes),
        };
        for slab in &space.slabs {
            let usage = match slab.usage {
                Use::Slots(usage) => usage,
                Use::Run => SlotUse::Item,
                _ => continue,
            };
            taken[usage as usize] += u64::from(slab.slots - slab.unused) * slot_bytes(slab);
        }
        let waiting = space.waiting().map(|address| {
            let (slab, _) = space.place(address);
            slot_bytes(&space.slabs[slab as usize])
        });
        let slab_bytes = u64::from(space.geometry.slab_bytes);
        let log_statistics = log.log.statistics();
        let counters = &shared.counters;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            items: writer.totals.items,
            key_bytes: writer.totals.key_bytes,
            value_bytes: writer.totals.value_bytes,
            item_slot_bytes: taken[SlotUse::Item as usize],
            bucket_slot_bytes: taken[SlotUse::Bucket as usize],
            node_slot_bytes: taken[SlotUse::Node as usize],
            digest_slot_bytes: taken[SlotUse::Digest as usize],
            waiting_slot_bytes: waiting.sum(),
            space_bytes: space.regions.len() as u64 * space.geometry.region_bytes,
            free_slab_bytes: space.free_slabs() as u64 * slab_bytes,
            log_bytes: log.log.bytes(),
            shadow_bytes: space.shadow_bytes,
            snapshots: shared.readers.count() as u64,
            commits: log.commits,
            checkpoints: count(&counters.checkpoints),
            space_bytes_written: count(&counters.space_bytes_written),
            log_bytes_written: log_statistics.bytes_written,
            log_syncs: log_statistics.syncs,
            stalls: count(&counters.stalls),
            stall_ns: count(&counters.stall_ns),
        }
    }
}
