//! A disk that takes its time: what rests on a sync leaves later, and the replica waits for it.

use quorate_core::Duration;
use quorate_core::replica::Action;

use crate::cluster::Cluster;
use crate::events::Event;
use crate::family::Family;

impl<F: Family> Cluster<F> {
    /// How long so many syncs of one turn take, in microseconds.
    pub(crate) fn sync_micros(&mut self, syncs: u64) -> u64 {
        if self.config.sync_micros == (0, 0) {
            return 0;
        }
        (0..syncs).map(|_| self.rng.between(self.config.sync_micros)).sum()
    }

    /// What a turn wants done is done when its records are durable; until then the replica does
    /// nothing else.
    pub(crate) fn release_later(
        &mut self,
        slot: usize,
        micros: u64,
        actions: Vec<Action<F::Types>>,
    ) {
        self.faults.fired("slow sync");
        let place = &mut self.slots[slot];
        let until = self.now.after(Duration::from_micros(micros));
        // Whatever else comes at that instant comes after.
        place.syncs_until = until.after(Duration::from_nanos(1));
        place.paused_until = place.paused_until.max(place.syncs_until);
        let life = place.life;
        self.events.push(until, Event::Released { from: slot, life, actions });
    }

    /// The records of a turn are durable.
    pub(crate) fn release(&mut self, slot: usize, actions: &mut Vec<Action<F::Types>>) {
        for action in actions.drain(..) {
            self.perform(slot, action);
        }
    }
}
