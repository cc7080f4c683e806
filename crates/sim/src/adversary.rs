//! Byzantine replicas in the cluster, and what tests forge in a liar's name.

use quorate_adversary::{Adversary, Deeds, Layer, Own, Sent, forge, pbft};
use quorate_core::client::message::Response;
use quorate_core::protocols::hotstuff::certificate::{Domain, Qc, TimeOut, Vote};
use quorate_core::{Digest, Duration, ReplicaId, Time, View};

use super::events::Event;
use super::keys::{Key, Mock};
use super::serve::Letter;
use super::{Cluster, Peer};
use crate::family::{Family, Pbfts};

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

/// What stands between a corrupt replica and its links, by its family.
#[derive(Debug)]
pub(crate) enum Around {
    HotStuff(Layer),
    Pbft(pbft::Layer),
}

impl Around {
    fn deeds(&self) -> Deeds {
        match self {
            Self::HotStuff(layer) => layer.deeds(),
            Self::Pbft(layer) => layer.deeds(),
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::HotStuff(layer) => layer.deadline(),
            Self::Pbft(layer) => layer.deadline(),
        }
    }
}

impl<F: Family> Cluster<F> {
    /// What the adversary at `slot` has done so far.
    pub fn deeds(&self, slot: usize) -> Deeds {
        self.slots[slot].corrupt.as_ref().map(Around::deeds).unwrap_or_default()
    }

    /// Puts a layer around the replica of a slot. The oracles do not look at it any more.
    fn surround(&mut self, slot: usize, layer: Around) {
        let ticks = |layer: &Around| layer.deadline().is_some();
        if ticks(&layer) && !self.slots[slot].corrupt.as_ref().is_some_and(ticks) {
            self.schedule(0, Event::Tick { slot });
        }
        self.slots[slot].corrupt = Some(layer);
        self.slots[slot].faulty = true;
    }

    /// Whether the replica of a slot can send anything just now.
    fn is_away(&self, slot: usize) -> bool {
        let place = &self.slots[slot];
        place.core.is_none() || place.paused_until > self.now
    }

    /// What the corrupt replica of a slot sent unasked has left; then its next time is set.
    fn ticked(&mut self, slot: usize, is_away: bool) {
        let Some(due) = self.slots[slot].corrupt.as_ref().and_then(Around::deadline) else {
            return;
        };
        let wait = if is_away { AWAY } else { due.since(self.now) };
        self.events.push(self.now.after(wait), Event::Tick { slot });
    }
}

impl Cluster<Pbfts> {
    /// From now on the replica of `slot` is Byzantine: `adversary` stands between it and its links,
    /// and the oracles do not look at it.
    pub fn make_liar(&mut self, slot: usize, adversary: Box<dyn pbft::Adversary>) {
        let id = ReplicaId(self.slots[slot].id as u16);
        let domain = super::family::pbft_domain(&self.config);
        self.surround(slot, Around::Pbft(pbft::Layer::new(adversary, id, domain)));
    }

    /// A corrupt replica sends.
    pub(super) fn post_bent(&mut self, from: usize, to: usize, message: &Peer<Pbfts>) {
        let id = ReplicaId(self.slots[to].id as u16);
        let key = Key::of_replica(self.slots[from].id);
        let Some(Around::Pbft(layer)) = &mut self.slots[from].corrupt else { return };
        for sent in layer.sends(self.now, &key, id, message.clone()) {
            if sent.to == id {
                self.convey(from, to, &mut Letter::new(sent.message), sent.delay);
            } else {
                self.convey_to_each(from, sent);
            }
        }
    }

    /// To every slot that runs the replica.
    fn convey_to_each(&mut self, from: usize, sent: pbft::Sent) {
        let mut letter = Letter::new(sent.message);
        for to in 0..self.slots.len() {
            if self.slots[to].id == sent.to.index() {
                self.convey(from, to, &mut letter, sent.delay);
            }
        }
    }

    /// A message arrives at a replica that may be corrupt.
    pub(super) fn overhear(&mut self, to: usize, message: &Peer<Pbfts>) {
        if let Some(Around::Pbft(layer)) = &mut self.slots[to].corrupt {
            layer.receives(message);
        }
    }

    /// The time of a corrupt replica has come; one that is down or stopped sends nothing.
    pub(super) fn tick(&mut self, slot: usize) {
        let is_away = self.is_away(slot);
        let key = Key::of_replica(self.slots[slot].id);
        if let Some(Around::Pbft(layer)) = &mut self.slots[slot].corrupt
            && !is_away
        {
            for sent in layer.tick(self.now, &key) {
                self.slots[slot].sent += 1;
                self.convey_to_each(slot, sent);
            }
        }
        self.ticked(slot, is_away);
    }
}

impl Cluster {
    /// From now on the replica of `slot` is Byzantine: `adversary` stands between it and its links,
    /// and the oracles do not look at it.
    pub fn make_liar(&mut self, slot: usize, adversary: Box<dyn Adversary>) {
        let id = ReplicaId(self.slots[slot].id as u16);
        let facts = self.config.rules.facts();
        let layer = Layer::new(adversary, id, self.config.domain(), facts);
        self.surround(slot, Around::HotStuff(layer));
    }

    /// `ask` of the layer of a slot, if it has one.
    fn with_layer<T>(
        &mut self,
        slot: usize,
        ask: impl FnOnce(&mut Layer, Time, Own<'_>) -> T,
    ) -> Option<T> {
        let place = &mut self.slots[slot];
        let key = self.config.keys(place.id);
        let own = Own { signer: &key, scheme: &Mock };
        match &mut place.corrupt {
            Some(Around::HotStuff(layer)) => Some(ask(layer, self.now, own)),
            _ => None,
        }
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
        let is_away = self.is_away(slot);
        if !is_away {
            let sent = self.with_layer(slot, Layer::tick).unwrap_or_default();
            for sent in sent {
                self.slots[slot].sent += 1;
                self.convey_to_all(slot, sent);
            }
        }
        self.ticked(slot, is_away);
    }
}
