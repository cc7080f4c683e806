//! The power of a machine fails: what no sync had confirmed meets its fate.

use quorate_core::protocols::protocol::Types;
use quorate_store::disk::{Fate, Lost};

use super::Disk;
use crate::cluster::Cluster;
use crate::family::Family;

impl<T: Types> Disk<T> {
    /// Whether the power is off.
    pub(crate) fn is_off(&self) -> bool {
        self.machine.is_off()
    }

    /// Ends a power failure: what was not durable meets its fate, and the power is back.
    fn settle(&mut self, fate: Fate) -> Lost {
        self.open = None;
        self.machine.cut_power();
        let lost = match &self.folders {
            Some((log, states)) => log.lose(fate).and(states.lose(fate)),
            None => Lost::default(),
        };
        self.machine.power_on();
        lost
    }
}

impl<F: Family> Cluster<F> {
    /// The power of a slot's machine fails now. The replica is down until it is booted.
    pub fn power_failure(&mut self, slot: usize, fate: Fate) {
        self.slots[slot].disk.fate = Some(fate);
        self.slots[slot].disk.machine.cut_power();
        self.lose_power(slot);
    }

    /// The power of a slot's machine will fail right behind the `n`-th operation of its disk from
    /// now (1: the next one), whatever that belongs to: a record, a snapshot, a recovery.
    pub fn power_failure_in(&mut self, slot: usize, n: u64, fate: Fate) {
        let disk = &mut self.slots[slot].disk;
        disk.fate = Some(fate);
        disk.machine.cut_power_in(n);
    }

    /// If the power failed in an operation whose failure nobody is told of, such as retiring a
    /// segment of the log, the replica is down now, and not only at the next operation.
    pub(crate) fn notice_power_failure(&mut self, slot: usize) {
        if self.slots[slot].disk.is_off() {
            self.lose_power(slot);
        }
    }

    /// The power has failed.
    pub(super) fn lose_power(&mut self, slot: usize) {
        self.crash(slot);
        let disk = &mut self.slots[slot].disk;
        let fate = disk.fate.take().unwrap_or(Fate::Kept);
        let lost = disk.settle(fate);
        self.faults.fired("power failure");
        if lost.sectors_lost + lost.names_lost > 0 {
            self.faults.fired(match fate {
                Fate::Kept => "power failure: nothing lost",
                Fate::Lost => "power failure: all in flight lost",
                Fate::ContentLost => "power failure: contents lost",
                Fate::NamesLost => "power failure: names lost",
                Fate::Torn { .. } => "power failure: torn write",
                Fate::Hole { .. } => "power failure: write with a hole",
                Fate::Mixed { .. } => "power failure: reordered writes",
            });
        }
        self.note(slot, || format!("has lost its power: {fate:?}, {lost:?}"));
    }
}
