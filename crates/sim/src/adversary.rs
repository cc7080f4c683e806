//! Byzantine replicas in the cluster, and what tests forge in a liar's name.

use quorate_adversary::{Adversary, Deeds, Layer, Own, Sent, forge};
use quorate_core::client::message::Response;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, TimeOut, Vote};
use quorate_core::{Digest, Duration, ReplicaId, View};

use super::events::Event;
use super::keys::{Key, Mock};
use super::serve::Letter;
use super::{Cluster, Peer};
use crate::family::Family;

/// How long it is until a corrupt replica that was away is looked after again.
const AWAY: Duration = Duration::from_millis(50);

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

impl<F: Family> Cluster<F> {
    /// What the adversary at `slot` has done so far.
    pub fn deeds(&self, slot: usize) -> Deeds {
        self.slots[slot].corrupt.as_ref().map(Layer::deeds).unwrap_or_default()
    }
}

impl Cluster {
    /// From now on the replica of `slot` is Byzantine: `adversary` stands between it and its links,
    /// and the oracles do not look at it.
    pub fn make_liar(&mut self, slot: usize, adversary: Box<dyn Adversary>) {
        let id = ReplicaId(self.slots[slot].id as u16);
        let facts = self.config.rules.facts();
        let layer = Layer::new(adversary, id, self.config.domain(), facts);
        let ticks = |layer: &Layer| layer.deadline().is_some();
        if ticks(&layer) && !self.slots[slot].corrupt.as_ref().is_some_and(ticks) {
            self.schedule(0, Event::Tick { slot });
        }
        self.slots[slot].corrupt = Some(layer);
        self.slots[slot].faulty = true;
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
        for sent in self.with_layer(from, sends).unwrap_or_default() {
            if sent.to == id {
                self.convey(from, to, &mut Letter::new(sent.message), sent.delay);
            } else {
                self.convey_to_all(from, sent);
            }
        }
    }

    /// To every slot that runs the replica.
    fn convey_to_all(&mut self, from: usize, Sent { to: id, delay, message }: Sent) {
        let mut letter = Letter::new(message);
        for to in 0..self.slots.len() {
            if self.slots[to].id == id.index() {
                self.convey(from, to, &mut letter, delay);
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

    /// What a replica that may be corrupt answers a client instead.
    pub(super) fn answered_instead(&mut self, from: usize, response: Response) -> Vec<Response> {
        if self.slots[from].corrupt.is_none() {
            return vec![response];
        }
        self.with_layer(from, |layer, now, own| layer.responds(now, own, response))
            .unwrap_or_default()
    }

    /// The time of a corrupt replica has come; one that is down or stopped sends nothing.
    pub(super) fn tick(&mut self, slot: usize) {
        let place = &self.slots[slot];
        let is_away = place.core.is_none() || place.paused_until > self.now;
        if !is_away {
            let sent = self.with_layer(slot, Layer::tick).unwrap_or_default();
            for sent in sent {
                self.slots[slot].sent += 1;
                self.convey_to_all(slot, sent);
            }
        }
        let Some(due) = self.slots[slot].corrupt.as_ref().and_then(Layer::deadline) else { return };
        let wait = if is_away { AWAY } else { due.since(self.now) };
        self.events.push(self.now.after(wait), Event::Tick { slot });
    }
}
