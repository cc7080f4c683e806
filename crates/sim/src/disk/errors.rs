//! What the disk refuses: syncs that fail, and writes where there is no room. Production stops
//! then, and so does a replica here.

use quorate_core::protocols::protocol::Types;
use std::io::ErrorKind;

use super::Disk;
use crate::cluster::Cluster;
use crate::family::Family;

impl<T: Types> Disk<T> {
    /// Whether there is no room for anything.
    pub fn is_full(&self) -> bool {
        self.machine.is_full()
    }
}

impl<F: Family> Cluster<F> {
    /// The next sync of a slot's disk fails with `EIO`, and what it was to confirm is on the disk
    /// or not.
    pub fn fail_sync(&mut self, slot: usize) {
        self.slots[slot].disk.machine.fail_sync_in(1);
    }

    /// A slot's disk is full behind so many more operations.
    pub fn fill_disk(&mut self, slot: usize, after_ops: u64) {
        self.slots[slot].disk.machine.fill_in(after_ops);
    }

    /// There is room on a slot's disk again; the replica is down until it is booted.
    pub fn free_disk(&mut self, slot: usize) {
        self.slots[slot].disk.machine.free();
    }

    /// The storage of a slot has refused something, to the running replica or to one that was to
    /// start: it is down. `cause` is what the system said.
    pub(crate) fn storage_failed(&mut self, slot: usize, cause: Option<ErrorKind>, error: &str) {
        self.count_disk_faults(slot);
        if self.slots[slot].disk.is_off() {
            return self.lose_power(slot);
        }
        let kind = match cause {
            Some(ErrorKind::StorageFull) => "full disk",
            Some(_) => "sync error",
            // Damage that a running replica meets is in no file it depends on.
            None => panic!("storage: r{}: {error}", self.slots[slot].id),
        };
        self.faults.fired(kind);
        self.note(slot, || format!("stops: {error}"));
        self.crash(slot);
    }

    /// Counts writes that went astray since this was last asked.
    pub(crate) fn count_disk_faults(&mut self, slot: usize) {
        let disk = &mut self.slots[slot].disk;
        let fired = disk.machine.fired();
        for _ in disk.counted.writes_lost..fired.writes_lost {
            self.faults.fired("write lost");
        }
        for _ in disk.counted.writes_misdirected..fired.writes_misdirected {
            self.faults.fired("write misdirected");
        }
        disk.counted = fired;
    }
}
