//! An adversary around a replica's links, the same one as in the simulator.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_adversary::{Layer, Own, Peer, Schedule, Sent};
use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::Response;
use quorate_core::{ReplicaId, Time};
use quorate_transport::Peers;

use super::super::{metrics, spawn};
use super::{Between, Keys, Metrics};

/// Most messages that an adversary may hold back: beyond, the oldest leave.
const MAX_HELD: usize = 4096;

/// An adversary at work.
pub(super) struct Byzantine {
    peers: Arc<Peers>,
    metrics: Arc<Metrics>,
    signer: Arc<dyn Signer>,
    scheme: Arc<dyn Scheme>,
    begin: Instant,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    layer: Layer,
    /// What leaves later, by when.
    held: BTreeMap<(Time, u64), (ReplicaId, Bytes)>,
    numbered: u64,
    closed: bool,
}

impl Between for Byzantine {
    fn send(&self, to: ReplicaId, message: &Bytes) {
        let Ok(message) = Peer::from_bytes(message.clone()) else {
            // Of a protocol it does not know.
            return self.peers.send(to, message.clone());
        };
        let mut state = self.state();
        let sent = state.layer.sends(self.now(), self.own(), to, message);
        self.release(&mut state, sent);
    }

    fn broadcast(&self, message: &Bytes) {
        let Ok(message) = Peer::from_bytes(message.clone()) else {
            return self.peers.broadcast(message);
        };
        let mut state = self.state();
        for to in state.layer.others() {
            let sent = state.layer.sends(self.now(), self.own(), to, message.clone());
            self.release(&mut state, sent);
        }
    }

    fn received(&self, from: ReplicaId, message: &Bytes) {
        if let Ok(message) = Peer::from_bytes(message.clone()) {
            self.state().layer.receives(self.now(), self.own(), from, &message);
        }
    }

    fn answers(&self, response: Response) -> Vec<Response> {
        let mut state = self.state();
        let answers = state.layer.responds(self.now(), self.own(), response);
        self.count(&state);
        answers
    }

    fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }
}

impl Byzantine {
    /// Its time begins now, on a thread of its own.
    pub(super) fn start(
        peers: Arc<Peers>,
        schedule: &Schedule,
        keys: Keys,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Arc<Self>> {
        let Keys { me, domain, facts, signer, scheme } = keys;
        let layer = Layer::new(schedule.build(u64::from(me.0)), me, domain, facts);
        let state = State { layer, held: BTreeMap::new(), numbered: 0, closed: false };
        let byzantine = Arc::new(Self {
            peers,
            metrics,
            signer,
            scheme,
            begin: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let works = Arc::clone(&byzantine);
        spawn("adversary", move || works.work())?;
        Ok(byzantine)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time(metrics::nanoseconds(self.begin.elapsed()))
    }

    fn own(&self) -> Own<'_> {
        Own { signer: self.signer.as_ref(), scheme: self.scheme.as_ref() }
    }

    /// Sends what leaves at once, and keeps what leaves later.
    fn release(&self, state: &mut State, sent: Vec<Sent>) {
        for Sent { to, delay, message } in sent {
            let bytes = Bytes::from(message.to_bytes());
            if delay.is_zero() {
                self.peers.send(to, bytes);
                continue;
            }
            state.numbered += 1;
            state.held.insert((self.now().after(delay), state.numbered), (to, bytes));
            self.changed.notify_all();
        }
        while state.held.len() > MAX_HELD
            && let Some((_, (to, bytes))) = state.held.pop_first()
        {
            self.peers.send(to, bytes);
        }
        self.count(state);
    }

    fn count(&self, state: &State) {
        self.metrics.adversary_deeds_total.set(state.layer.deeds().total());
    }

    /// Sends what is due, until the replica ends.
    fn work(&self) {
        let mut state = self.state();
        while !state.closed {
            let now = self.now();
            while state.held.first_key_value().is_some_and(|((due, _), _)| *due <= now)
                && let Some((_, (to, bytes))) = state.held.pop_first()
            {
                self.peers.send(to, bytes);
            }
            let unasked = state.layer.tick(now, self.own());
            self.release(&mut state, unasked);
            let held = state.held.first_key_value().map(|((due, _), _)| *due);
            let due = held.into_iter().chain(state.layer.deadline()).min();
            let wait = due.map_or(Duration::from_secs(1), |due| due.since(self.now()));
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
