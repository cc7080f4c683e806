//! Byzantine replicas in the cluster, and what tests forge in a liar's name.

use std::time::Duration;

use quorate_adversary::{Adversary, Deeds, Layer, Own, Sent, forge};
use quorate_core::certificate::{Domain, Qc, TimeOut, Vote};
use quorate_core::client::message::Response;
use quorate_core::{Digest, ReplicaId, View};

use super::keys::{Key, Mock};
use super::{Cluster, Event, Peer};

/// Who lies, and to whom it is sending.
#[derive(Clone, Debug)]
pub struct Liar {
    /// The liar.
    pub id: usize,
    /// What its signatures are bound to.
    pub domain: Domain,
    /// To whom it speaks.
    pub to: usize,
}

impl Liar {
    /// Its vote.
    pub fn vote(&self, view: View, phase: u8, block: Digest) -> Vote {
        let (me, key) = (ReplicaId(self.id as u16), Key::of_replica(self.id));
        forge::vote(&self.domain, me, &key, (view, phase, block))
    }

    /// Its time-out.
    pub fn time_out(&self, view: View, high_qc: &Qc) -> TimeOut {
        let (me, key) = (ReplicaId(self.id as u16), Key::of_replica(self.id));
        forge::time_out(&self.domain, me, &key, view, high_qc)
    }
}

impl Cluster {
    /// From now on the replica of `slot` is Byzantine: `adversary` stands between it and its links,
    /// and the oracles do not look at it.
    pub fn corrupt(&mut self, slot: usize, adversary: Box<dyn Adversary>) {
        let id = ReplicaId(self.slots[slot].id as u16);
        let facts = self.config.rules.facts();
        let layer = Layer::new(adversary, id, self.config.domain(), facts);
        if self.slots[slot].corrupt.is_none() && layer.deadline().is_some() {
            self.schedule(0, Event::Tick { slot });
        }
        self.slots[slot].corrupt = Some(layer);
        self.slots[slot].faulty = true;
    }

    /// What the adversary at `slot` has done so far.
    pub fn deeds(&self, slot: usize) -> Deeds {
        self.slots[slot].corrupt.as_ref().map(Layer::deeds).unwrap_or_default()
    }

    /// `ask` of the layer of a slot, if it has one.
    fn with_layer<T>(
        &mut self,
        slot: usize,
        ask: impl FnOnce(&mut Layer, quorate_core::Time, Own<'_>) -> T,
    ) -> Option<T> {
        let place = &mut self.slots[slot];
        let key = Key::of_replica(place.id);
        let own = Own { signer: &key, scheme: &Mock };
        place.corrupt.as_mut().map(|layer| ask(layer, self.now, own))
    }

    /// A corrupt replica sends.
    pub(super) fn post_bent(&mut self, from: usize, to: usize, message: &Peer) {
        let id = ReplicaId(self.slots[to].id as u16);
        let sends =
            |layer: &mut Layer, now, own: Own<'_>| layer.sends(now, own, id, message.clone());
        for Sent { to: other, delay, message } in self.with_layer(from, sends).unwrap_or_default() {
            if other == id {
                self.carry(from, to, &message, micros(delay));
            } else {
                self.carry_to_all(from, other, &message, delay);
            }
        }
    }

    /// To every slot that runs this replica.
    fn carry_to_all(&mut self, from: usize, id: ReplicaId, message: &Peer, delay: Duration) {
        for to in 0..self.slots.len() {
            if self.slots[to].id == id.index() {
                self.carry(from, to, message, micros(delay));
            }
        }
    }

    /// A message arrives at a replica that may be corrupt.
    pub(super) fn overhear(&mut self, to: usize, from: usize, message: &Peer) {
        if self.slots[to].corrupt.is_some() {
            let from = ReplicaId(self.slots[from].id as u16);
            self.with_layer(to, |layer, now, own| layer.receives(now, own, from, message));
        }
    }

    /// What a replica that may be corrupt answers a client instead. One that is faulty in another way
    /// answers nothing.
    pub(super) fn answered_instead(&mut self, from: usize, response: Response) -> Vec<Response> {
        if !self.slots[from].faulty {
            return vec![response];
        }
        self.with_layer(from, |layer, now, own| layer.responds(now, own, response))
            .unwrap_or_default()
    }

    /// The time of a corrupt replica has come; one that is down sends nothing.
    pub(super) fn tick(&mut self, slot: usize) {
        if self.slots[slot].core.is_some() {
            let sent = self.with_layer(slot, Layer::tick).unwrap_or_default();
            for Sent { to, delay, message } in sent {
                self.slots[slot].sent += 1;
                self.carry_to_all(slot, to, &message, delay);
            }
        }
        let Some(due) = self.slots[slot].corrupt.as_ref().and_then(Layer::deadline) else { return };
        // Whoever is down looks again a while later.
        let wait = due.since(self.now).max(Duration::from_millis(1));
        self.schedule(micros(wait), Event::Tick { slot });
    }
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}
