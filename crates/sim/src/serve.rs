//! What replicas want done, done.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::base::wire::Encode as _;
use quorate_core::protocols::protocol::FullBlockOf;
use quorate_core::replica::Action;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{Committee, Duration, Height, ReplicaId, protocols::protocol};

use super::events::{Event, Parcel};
use super::family::Family;
use super::keys::combined;
use super::network::Fate;
use super::{Cluster, Peer};

/// A message on its way to some: encoded once for all of them, if at all.
pub(super) struct Letter<F: Family> {
    message: Arc<Peer<F>>,
    bytes: Option<Bytes>,
}

impl<F: Family> Letter<F> {
    pub(super) fn new(message: Peer<F>) -> Self {
        Self { message: Arc::new(message), bytes: None }
    }

    fn bytes(&mut self) -> Bytes {
        let message = &self.message;
        self.bytes.get_or_insert_with(|| Bytes::from(message.to_bytes())).clone()
    }
}

impl<F: Family> Cluster<F> {
    fn epoch_began(&mut self, slot: usize, committee: &Committee) {
        let epoch = committee.epoch();
        self.note(slot, || format!("begins epoch {epoch}"));
        *self.noted.entry("epoch-began").or_default() += 1;
        self.oracles.opens(committee.opening().height);
        if !self.slots[slot].faulty {
            self.oracles.begins_epoch(self.slots[slot].id, committee);
            F::epoch_began(self, slot, epoch);
        }
    }

    pub(super) fn perform(&mut self, slot: usize, action: Action<F::Types>) {
        match action {
            Action::Send { to, message } => self.send(slot, Some(to), message),
            Action::Broadcast(message) => self.send(slot, None, message),
            Action::Sign(_) => unreachable!("the loop signs"),
            Action::Verify { ask, checks } => {
                let delay = self.rng.between(self.config.verify_delay.unwrap_or((0, 0)));
                let (life, id) = (self.slots[slot].life, self.slots[slot].id);
                let verdicts = (self.config.verify)(id, &checks);
                self.schedule(delay, Event::Verified { to: slot, life, ask, verdicts });
            }
            Action::Combine { ask, form, shares, keys } => {
                let delay = self.rng.between(self.config.verify_delay.unwrap_or((0, 0)));
                let (life, signature) =
                    (self.slots[slot].life, combined(form, &shares, keys.as_deref()));
                self.schedule(delay, Event::Combined { to: slot, life, ask, signature });
            }
            Action::Respond { client, response } => self.answer(slot, client, response),
            Action::Committed(blocks) => {
                let executed = self.core(slot).execution().height();
                self.slots[slot].disk.committed(&blocks);
                for block in blocks {
                    self.committed.push((self.now, slot, block.id()));
                    if !self.slots[slot].faulty {
                        self.oracles.commits(self.slots[slot].id, executed, &block);
                    }
                }
            }
            Action::ServeChain { to, above, through, budget_bytes, tail } => {
                self.serve_chain(slot, to, (above, through), budget_bytes, tail);
            }
            Action::ServeChunk { to, height, chunk } => self.serve_chunk(slot, to, height, chunk),
            Action::WriteSnapshot(meta, handle) => self.begin_snapshot(slot, meta, handle),
            Action::Offered(offer) => {
                let life = self.slots[slot].life;
                self.schedule(0, Event::Offered { to: slot, life, offer });
            }
            Action::Executed { .. } => {}
            Action::EpochBegan(committee) => self.epoch_began(slot, &committee),
            Action::Event(event) => self.happened(slot, event),
            Action::NotTaken { from, reason } => {
                if let Some(strict) =
                    self.oracles.strict.as_ref().filter(|_| !self.slots[slot].faulty)
                {
                    strict.not_taken(self.slots[slot].id, from.index(), &reason);
                }
            }
            Action::Refused { from, reason } => {
                *self.refused.entry(reason).or_default() += 1;
                self.trace.refused(self.now, slot, from.index(), reason);
                if let Some(strict) =
                    self.oracles.strict.as_ref().filter(|_| !self.slots[slot].faulty)
                {
                    strict.refuses(self.slots[slot].id, from.index(), reason);
                }
            }
            Action::Halt(halt) => {
                self.note(slot, || format!("halts: {halt}"));
                let place = &mut self.slots[slot];
                assert!(place.faulty, "state: r{} halted: {halt}", place.id);
                place.halted = Some(halt);
            }
        }
    }

    fn happened(&mut self, slot: usize, event: protocol::Event) {
        self.trace.event(self.now, slot, &event);
        if !self.slots[slot].faulty {
            *self.noted.entry(kind_of(&event)).or_default() += 1;
        }
        F::happened(&mut self.oracles, self.slots[slot].id, &event, self.now);
        if let protocol::Event::Proposed { block, .. } = event {
            self.proposed.push((self.now, slot, block));
        }
    }

    /// Sends to one replica (to all its twins), or to all others.
    pub(crate) fn send(&mut self, slot: usize, to: Option<ReplicaId>, message: Peer<F>) {
        let own = self.slots[slot].id;
        if !self.slots[slot].faulty
            && let PeerMessage::Protocol { epoch, message, .. } = &message
        {
            F::sends(&mut self.oracles, own, (*epoch, self.now), message);
        }
        assert_ne!(to.map(ReplicaId::index), Some(own), "r{own} sends to itself: {message:?}");
        let mut letter = Letter::new(message);
        for peer in 0..self.slots.len() {
            let id = self.slots[peer].id;
            if id != own && to.is_none_or(|to| to.index() == id) && self.hears(slot, peer) {
                self.post(slot, peer, &mut letter);
            }
        }
    }

    /// Of two copies of a liar, one hears what another liar says: were it both, each answer to an
    /// answer would be two.
    fn hears(&mut self, from: usize, to: usize) -> bool {
        let replicas = self.config.replicas;
        let twin = self.config.twins.iter().position(|twin| *twin == self.slots[to].id);
        match twin {
            Some(place) if self.slots[from].faulty => {
                let second = (self.steps + place as u64).is_multiple_of(2);
                second == (to >= replicas)
            }
            _ => true,
        }
    }

    fn post(&mut self, from: usize, to: usize, letter: &mut Letter<F>) {
        self.slots[from].sent += 1;
        if self.slots[from].corrupt.is_some() {
            F::post_bent(self, from, to, &letter.message);
        } else {
            self.convey(from, to, letter, Duration::ZERO);
        }
    }

    /// What the network makes of a message that leaves after having been held back for a while.
    pub(super) fn convey(
        &mut self,
        from: usize,
        to: usize,
        letter: &mut Letter<F>,
        held: Duration,
    ) {
        if self.drops.is_some_and(|drops| drops(from, to, &letter.message)) {
            return;
        }
        let fate = self.meddler.as_ref().map_or(Fate::Goes, |fate| fate(from, to, &letter.message));
        let mut bent;
        let (letter, late) = match fate {
            Fate::Goes => (letter, 0),
            Fate::Lost => return,
            Fate::Late(micros) => (letter, micros),
            Fate::Bent(message) => {
                bent = Letter::new(*message);
                (&mut bent, 0)
            }
        };
        // A liar may make what cannot be read.
        let encodes = self.config.encodes || self.slots[from].corrupt.is_some();
        let encoded = encodes || self.network.minds_size(from, to);
        let bytes = encoded.then(|| letter.bytes());
        let size = bytes.as_ref().map_or(0, Bytes::len);
        let (now, ends) = (self.now, (from, to));
        let copies = self.network.copies(&mut self.rng, &mut self.faults, now, ends, size);
        for at in copies.into_iter().flatten() {
            let parcel = match &bytes {
                Some(bytes) if encodes => Parcel::Bytes(bytes.clone()),
                _ => Parcel::Message(Arc::clone(&letter.message)),
            };
            let at = at.after(Duration::from_micros(late) + held);
            self.events.push(at, Event::Deliver { to, from, sent: now, parcel });
        }
    }

    fn serve_chain(
        &mut self,
        slot: usize,
        to: ReplicaId,
        (above, through): (Height, Height),
        budget_bytes: u32,
        tail: Vec<FullBlockOf<F::Types>>,
    ) {
        let blocks = self.slots[slot].disk.chain(above, through, budget_bytes, &tail);
        if !blocks.is_empty() {
            self.send(slot, Some(to), PeerMessage::Chain(blocks));
        }
    }
}

/// What an event is counted under.
fn kind_of(event: &protocol::Event) -> &'static str {
    use protocol::Event;
    match event {
        Event::Entered(_) => "entered",
        Event::Proposed { .. } => "proposed",
        Event::Voted(_) => "voted",
        Event::Declined { .. } => "declined",
        Event::RootDiffers { .. } => "root-differs",
        Event::Certified(_) => "certified",
        Event::TimedOut(_) => "timed-out",
        Event::TooSlow { .. } => "too-slow",
        Event::GaveUp(_) => "gave-up",
        Event::Committed { .. } => "committed",
        Event::Pruned(_) => "pruned",
        Event::Equivocation { .. } => "equivocation",
        Event::DoubleVote { .. } => "double-vote",
        Event::BadVote { .. } => "bad-vote",
    }
}
