//! An old copy of a disk is put back: what no replica can notice from inside.

use quorate_core::protocols::protocol::Types;
use quorate_store::disk::Machine;

use super::Disk;
use crate::cluster::Cluster;
use crate::family::Family;

impl<T: Types> Disk<T> {
    /// Copies what is there.
    fn keep(&mut self) {
        let apart = Machine::new();
        let copy = self.folders.as_ref();
        self.kept = copy.map(|(log, states)| (log.copy(&apart), states.copy(&apart)));
    }

    /// Puts the copy back, if there is one.
    fn restore(&mut self) -> bool {
        let Some((log, states)) = &self.kept else { return false };
        self.open = None;
        self.folders = Some((log.copy(&self.machine), states.copy(&self.machine)));
        self.promises.forget();
        self.damage = Some(super::Damage::SetBack);
        true
    }
}

impl<F: Family> Cluster<F> {
    /// Makes a copy of a slot's disk as it is, as a backup would.
    pub fn keep_state(&mut self, slot: usize) {
        self.slots[slot].disk.keep();
    }

    /// Puts the [copy](Self::keep_state) back and starts the replica with it: it has forgotten what
    /// it said since, and does not know. From now on it counts as faulty. Says whether there was a
    /// copy.
    pub fn restore_old_state(&mut self, slot: usize) -> bool {
        if self.slots[slot].disk.kept.is_none() {
            return false;
        }
        if self.slots[slot].core.is_some() {
            self.crash(slot);
        }
        self.slots[slot].faulty = true;
        self.slots[slot].disk.restore();
        self.faults.fired("old state restored");
        self.boot(slot);
        true
    }
}
