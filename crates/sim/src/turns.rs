//! What happens, and what it leads to: one turn of a replica's loop, and what the oracles see.

use std::sync::Arc;

use quorate_core::base::crypto::PublicKey;
use quorate_core::base::wire::Decode as _;
use quorate_core::client::message::Response;
use quorate_core::replica::message::PeerMessage;
use quorate_core::replica::{Action, Input, Submitted};
use quorate_core::{Height, ReplicaId, Time};

use super::Peer;
use super::client;
use super::cluster::Cluster;
use super::disk::cause_of;
use super::events::{Event, Parcel};
use super::family::Family;
use super::planted::turn;
use super::world::Outside;

/// What a turn needs room for, kept from one to the next; empty between them.
pub(crate) struct Desk<F: Family> {
    inputs: Vec<Input<F::Types>>,
    early: Vec<Action<F::Types>>,
    actions: Vec<Action<F::Types>>,
}

impl<F: Family> Default for Desk<F> {
    fn default() -> Self {
        Self { inputs: Vec::new(), early: Vec::new(), actions: Vec::new() }
    }
}

impl<F: Family> Cluster<F> {
    pub(crate) fn happen(&mut self, event: Event<F>) {
        if let Some(slot) = event.slot()
            && self.slots[slot].paused_until > self.now
        {
            // It waits at the door of a process that was stopped.
            self.waits += 1;
            self.events.push(self.slots[slot].paused_until, event);
            return;
        }
        match event {
            Event::Deliver { to, from, sent, parcel } => self.deliver(to, from, sent, parcel),
            Event::Connected { to, peer } => {
                let peer = ReplicaId(self.slots[peer].id as u16);
                self.turn(to, Input::Connected(peer));
            }
            Event::Frame { to, frame, relay } => {
                let (id, verify) = (self.slots[to].id, self.config.verify);
                let formats = self.slots[to].formats;
                match client::verified(&frame, formats, |checks| verify(id, checks)) {
                    Some(frame) => {
                        self.turn(to, Input::Frames(vec![Submitted { frame, relay }]));
                    }
                    None => self.unsigned += 1,
                }
            }
            Event::Verified { to, life, ask, verdicts } if self.slots[to].life == life => {
                self.turn(to, Input::Checked { ask, verdicts });
            }
            Event::Combined { to, life, ask, signature } if self.slots[to].life == life => {
                self.turn(to, Input::Combined { ask, signature });
            }
            Event::SnapshotWritten { to, life, height } if self.slots[to].life == life => {
                self.snapshot_written(to, height);
            }
            Event::Offered { to, life, offer } if self.slots[to].life == life => {
                self.offered(to, &offer);
            }
            Event::Released { from, life, mut actions } if self.slots[from].life == life => {
                self.release(from, &mut actions);
            }
            Event::Tick { slot } => F::tick(self, slot),
            Event::Answer { from, client, response } => self.answered(from, client, response),
            Event::Ask { to, request } => self.asked(to, request),
            Event::Told { from, response } => self.told_reader(from, response),
            Event::WakeReader => self.wake_reader(),
            Event::Wake { client } if self.clients[client].wakes == Some(self.now) => {
                self.clients[client].wakes = None;
                let sent = self.clients[client].wake(self.now);
                self.submit(client, sent);
            }
            _ => {}
        }
    }

    fn deliver(&mut self, to: usize, from: usize, sent: Time, parcel: Parcel<F>) {
        if self.slots[to].core.is_none() && !self.trace.on {
            return;
        }
        let message = match parcel {
            Parcel::Message(message) => Arc::unwrap_or_clone(message),
            Parcel::Bytes(bytes) => match Peer::<F>::from_bytes(bytes) {
                Ok(message) => message,
                Err(error) => {
                    let from = &self.slots[from];
                    assert!(
                        from.faulty,
                        "no panic: r{} sent what cannot be read: {error}",
                        from.id
                    );
                    self.malformed += 1;
                    return;
                }
            },
        };
        self.trace.delivered::<F>(self.now, sent, (from, to), &message);
        F::overhear(self, to, from, &message);
        if let PeerMessage::Protocol { message, .. } = &message {
            F::delivered(&mut self.oracles, self.slots[from].id, self.slots[to].id, message);
        }
        let from = ReplicaId(self.slots[from].id as u16);
        self.turn(to, Input::Peer { from, message });
    }

    fn answered(&mut self, from: usize, client: usize, response: Response) {
        let id = self.slots[from].id;
        let sent = self.clients[client].respond(self.now, id, response);
        let may_wait = self.config.pbft.tentative;
        for (number, place) in self.clients[client].replies.drain(..) {
            self.oracles.acknowledged(client, number, place, may_wait);
            self.oracles.answered = self.oracles.answered.max(place + 1);
        }
        self.submit(client, sent);
    }

    /// One turn of a replica's loop, then what it wants done, then the oracles.
    pub fn turn(&mut self, slot: usize, input: Input<F::Types>) {
        let (now, line) = (self.now, self.trace.length());
        let place = &mut self.slots[slot];
        let Some(mut core) = place.core.take() else { return };
        let Desk { mut inputs, early, actions } = std::mem::take(&mut self.desk);
        inputs.push(input);
        let mut outside = Outside::<F> {
            id: place.id,
            keys: self.config.keys(place.id),
            watched: (!place.faulty).then_some(&mut self.oracles),
            at_once: self.config.verify_delay.is_none(),
            verify: self.config.verify,
            early,
            is_early: false,
            actions,
        };
        let writes = place.disk.writes;
        let local = place.clock.shows(now);
        let result = turn(&mut *core, &mut place.disk, &mut outside, local, &mut inputs);
        let (mut early, mut actions) = (outside.early, outside.actions);
        let writes = place.disk.writes - writes;
        place.deadline = core.deadline().map(|deadline| place.clock.when(deadline));
        place.core = Some(core);
        self.release(slot, &mut early);
        match self.sync_micros(writes) {
            0 => self.release(slot, &mut actions),
            micros => self.release_later(slot, micros, std::mem::take(&mut actions)),
        }
        inputs.clear();
        self.desk = Desk { inputs, early, actions };
        F::turned(self, slot, line);
        self.examine(slot);
        self.serve_reads(slot, Vec::new());
        if let Err(error) = result {
            self.storage_failed(slot, cause_of(&error), &error.to_string());
        }
    }

    /// What the oracles see of a replica between two turns.
    fn examine(&mut self, slot: usize) {
        let place = &mut self.slots[slot];
        let Some(core) = place.core.as_ref().filter(|_| !place.faulty) else { return };
        F::holds(&mut self.oracles, place.id, core);
        let execution = core.execution();
        let commands = execution.application().committed();
        if execution.height().0 > place.checked.0
            && let Err(what) = execution.application().check()
        {
            panic!("invariant: r{} at height {}: {what}", place.id, execution.height());
        }
        for (index, command) in commands.iter().enumerate().skip(place.checked.1) {
            self.oracles.executed(place.id, index, command);
        }
        for height in place.checked.0..=execution.height().0 {
            if let Some(root) = execution.root_at(Height(height)) {
                self.oracles.has_state(place.id, Height(height), root);
            }
        }
        place.checked = (execution.height().0, commands.len());
    }

    pub(crate) fn answer(&mut self, from: usize, client: PublicKey, response: Response) {
        let Some(client) = self.by_key.get(&client).copied() else { return };
        if let Response::Outcome(outcome) = &response
            && !self.slots[from].faulty
        {
            self.oracles.answers(self.slots[from].id, self.clients[client].key(), outcome);
        }
        if let Response::Tentative { view, .. } = &response {
            self.note(from, || format!("answers c{client} tentatively (view {view})"));
        }
        for response in F::answers(self, from, response) {
            let delay = self.rng.between(self.config.link.delay);
            self.schedule(delay, Event::Answer { from, client, response });
        }
    }
}
