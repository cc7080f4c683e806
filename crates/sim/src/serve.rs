//! What replicas want done, done.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::crypto::Scheme;
use quorate_core::hotstuff::Message;
use quorate_core::replica::message::{FullBlock, PeerMessage, within};
use quorate_core::replica::{Action, Input, SnapshotMeta};
use quorate_core::state_machine::Snapshot;
use quorate_core::wire::Encode as _;
use quorate_core::{Duration, Height, ReplicaId, protocol};

use super::adversary::Liar;
use super::events::{Event, Parcel};
use super::keys::Mock;
use super::network::Fate;
use super::{Cluster, Peer};

/// How long a snapshot takes to be written, in microseconds.
const SNAPSHOT_MICROS: u64 = 5_000;

impl Cluster {
    pub(super) fn perform(&mut self, slot: usize, action: Action<Message>) {
        match action {
            Action::Send { to, message } => self.send(slot, Some(to), message),
            Action::Broadcast(message) => self.send(slot, None, message),
            Action::Sign(_) => unreachable!("the loop signs"),
            Action::Verify { ask, checks } => {
                let delay = self.rng.between(self.config.verify_delay.unwrap_or((0, 0)));
                let (life, verdicts) = (self.slots[slot].life, (self.config.verify)(&checks));
                self.schedule(delay, Event::Verified { to: slot, life, ask, verdicts });
            }
            Action::Combine { ask, form, shares } => {
                let delay = self.rng.between(self.config.verify_delay.unwrap_or((0, 0)));
                let (life, signature) = (self.slots[slot].life, Mock.combine(form, &shares));
                self.schedule(delay, Event::Combined { to: slot, life, ask, signature });
            }
            Action::Respond { client, response } => self.answer(slot, client, response),
            Action::Committed(blocks) => {
                let executed = self.core(slot).execution().height();
                for block in blocks {
                    self.committed.push((self.now, slot, block.id()));
                    self.slots[slot].disk.committed(block.height, block.id());
                    if !self.slots[slot].faulty {
                        self.oracles.commits(self.slots[slot].id, executed, &block);
                    }
                }
            }
            Action::ServeChain { to, above, through, budget_bytes, tail } => {
                self.serve_chain(slot, to, (above, through), budget_bytes, tail);
            }
            Action::ServeChunk { to, height, chunk } => self.serve_chunk(slot, to, height, chunk),
            Action::WriteSnapshot(meta, handle) => self.write_snapshot(slot, *meta, &handle),
            Action::Offered(offer) => {
                let retire = self.config.retire;
                self.slots[slot].disk.offered(&offer, retire);
                self.schedule(0, Event::LogCut { to: slot });
            }
            Action::Executed { .. } => {}
            Action::Event(event) => {
                self.trace.event(self.now, slot, &event);
                if let protocol::Event::Entered(view) = event
                    && let Some(strict) = &mut self.oracles.strict
                {
                    strict.entered(self.slots[slot].id, view, self.now);
                }
                if let protocol::Event::Proposed { block, .. } = event {
                    self.proposed.push((self.now, slot, block));
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

    /// Sends to one replica (to all its twins), or to all others.
    fn send(&mut self, slot: usize, to: Option<ReplicaId>, message: Peer) {
        let own = self.slots[slot].id;
        if !self.slots[slot].faulty
            && let PeerMessage::Protocol { message, .. } = &message
        {
            self.oracles.sends(own, self.now, message);
        }
        assert_ne!(to.map(ReplicaId::index), Some(own), "r{own} sends to itself: {message:?}");
        let message = Arc::new(message);
        for peer in 0..self.slots.len() {
            let id = self.slots[peer].id;
            if id != own && to.is_none_or(|to| to.index() == id) && self.hears(slot, peer) {
                self.post(slot, peer, &message);
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

    fn post(&mut self, from: usize, to: usize, message: &Arc<Peer>) {
        self.slots[from].sent += 1;
        if self.liars && self.slots[from].faulty {
            let (id, domain) = (self.slots[from].id, self.config.domain());
            for (to, message) in (Liar { id, domain, to }).bend(&mut self.rng, message) {
                self.convey(from, to, &Arc::new(message));
            }
        } else {
            self.convey(from, to, message);
        }
    }

    /// What the network makes of a message.
    fn convey(&mut self, from: usize, to: usize, message: &Arc<Peer>) {
        if self.drops.is_some_and(|drops| drops(from, to, message)) {
            return;
        }
        let fate = self.meddler.as_ref().map_or(Fate::Goes, |fate| fate(from, to, message));
        let (message, late) = match fate {
            Fate::Goes => (Arc::clone(message), 0),
            Fate::Lost => return,
            Fate::Late(micros) => (Arc::clone(message), micros),
            Fate::Bent(message) => (Arc::from(message), 0),
        };
        let encoded = self.config.encodes || self.network.minds_size(from, to);
        let bytes = encoded.then(|| Bytes::from(message.to_bytes()));
        let size = bytes.as_ref().map_or(0, Bytes::len);
        let (now, ends) = (self.now, (from, to));
        let copies = self.network.copies(&mut self.rng, &mut self.faults, now, ends, size);
        for at in copies.into_iter().flatten() {
            let parcel = match &bytes {
                Some(bytes) if self.config.encodes => Parcel::Bytes(bytes.clone()),
                _ => Parcel::Message(Arc::clone(&message)),
            };
            let at = at.after(Duration::from_micros(late));
            self.events.push(at, Event::Deliver { to, from, sent: now, parcel });
        }
    }

    fn serve_chain(
        &mut self,
        slot: usize,
        to: ReplicaId,
        (above, through): (Height, Height),
        budget_bytes: u32,
        tail: Vec<FullBlock>,
    ) {
        let mut blocks = self.slots[slot].disk.chain(above, through);
        if blocks.last().is_some_and(|last| last.block.height == through) {
            blocks.extend(tail);
        }
        if !blocks.is_empty() {
            let message = PeerMessage::Chain(within(blocks, budget_bytes));
            self.send(slot, Some(to), message);
        }
    }

    fn serve_chunk(&mut self, slot: usize, to: ReplicaId, height: Height, chunk: u32) {
        let Some((_, chunks)) = self.slots[slot].disk.snapshots.get(&height) else { return };
        let Some(bytes) = chunks.get(chunk as usize).cloned() else { return };
        let last = chunk as usize + 1 == chunks.len();
        self.send(slot, Some(to), PeerMessage::Chunk { height, chunk, last, bytes });
    }

    fn write_snapshot(&mut self, slot: usize, meta: SnapshotMeta, handle: &dyn Snapshot) {
        let height = meta.block.height;
        let mut chunks = Vec::new();
        handle.chunks(&mut |chunk| {
            chunks.push(Bytes::copy_from_slice(chunk));
            true
        });
        self.slots[slot].writing = Some((meta, chunks));
        let life = self.slots[slot].life;
        self.schedule(SNAPSHOT_MICROS, Event::SnapshotWritten { to: slot, life, height });
    }

    pub(super) fn snapshot_written(&mut self, slot: usize, height: Height) {
        let place = &mut self.slots[slot];
        let written = place.writing.take_if(|(meta, _)| meta.block.height == height);
        let Some(snapshot) = written else { return };
        place.disk.snapshots.insert(height, snapshot);
        self.turn(slot, vec![Input::SnapshotWritten(height)]);
    }
}
