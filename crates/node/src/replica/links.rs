//! The way to the other replicas and to clients. In a laboratory an adversary may stand in it, the
//! same one as in the simulator.
//!
//! Outside of a laboratory there is none, and messages go straight to the transport.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_adversary::{Layer, Own, Peer, Schedule, Sent};
use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::Response;
use quorate_core::protocols::hotstuff::certificate::Domain;
use quorate_core::protocols::hotstuff::rules::Facts;
use quorate_core::{ReplicaId, Time};
use quorate_transport::Peers;

use super::metrics::Metrics;

/// Most messages that an adversary may hold back: beyond, the oldest leave.
const MAX_HELD: usize = 4096;

/// The way to the other replicas.
#[derive(Clone)]
pub struct Links {
    peers: Arc<Peers>,
    byzantine: Option<Arc<Byzantine>>,
}

/// What an adversary needs of the replica it stands around.
pub struct Keys {
    /// The replica.
    pub me: ReplicaId,
    /// What its signatures are bound to.
    pub domain: Domain,
    /// The variant it runs.
    pub facts: &'static Facts,
    /// Signs with its key.
    pub signer: Arc<dyn Signer>,
    /// Verifies and joins.
    pub scheme: Arc<dyn Scheme>,
}

/// An adversary at work.
struct Byzantine {
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

impl Links {
    /// The way straight to the transport.
    #[must_use]
    pub fn honest(peers: Arc<Peers>) -> Self {
        Self { peers, byzantine: None }
    }

    /// The way through the adversary that `schedule` describes, on a thread of its own. Its time
    /// begins now.
    ///
    /// # Errors
    /// The system gave no thread.
    pub fn byzantine(
        peers: Arc<Peers>,
        schedule: &Schedule,
        keys: Keys,
        metrics: Arc<Metrics>,
    ) -> std::io::Result<Self> {
        let Keys { me, domain, facts, signer, scheme } = keys;
        let layer = Layer::new(schedule.build(u64::from(me.0)), me, domain, facts);
        let state = State { layer, held: BTreeMap::new(), numbered: 0, closed: false };
        let byzantine = Arc::new(Byzantine {
            peers: Arc::clone(&peers),
            metrics,
            signer,
            scheme,
            begin: Instant::now(),
            state: Mutex::new(state),
            changed: Condvar::new(),
        });
        let works = Arc::clone(&byzantine);
        super::spawn("adversary", move || works.work())?;
        Ok(Self { peers, byzantine: Some(byzantine) })
    }

    /// Sends an encoded message to one replica.
    pub fn send(&self, to: ReplicaId, message: Bytes) {
        match &self.byzantine {
            None => self.peers.send(to, message),
            Some(byzantine) => byzantine.send(to, &message),
        }
    }

    /// Sends an encoded message to all other replicas.
    pub fn broadcast(&self, message: &Bytes) {
        match &self.byzantine {
            None => self.peers.broadcast(message),
            Some(byzantine) => byzantine.broadcast(message),
        }
    }

    /// An encoded message has arrived.
    pub fn received(&self, from: ReplicaId, message: &Bytes) {
        if let Some(byzantine) = &self.byzantine {
            byzantine.received(from, message);
        }
    }

    /// What a client is answered.
    pub fn answers(&self, response: Response) -> Vec<Response> {
        match &self.byzantine {
            None => vec![response],
            Some(byzantine) => byzantine.answers(response),
        }
    }

    /// See [`Peers::changes`].
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.peers.changes()
    }

    /// The others that are connected now, ascending.
    #[must_use]
    pub fn connected(&self) -> Vec<ReplicaId> {
        self.peers.connected()
    }

    /// The replica ends: so does the adversary.
    pub fn close(&self) {
        if let Some(byzantine) = &self.byzantine {
            byzantine.state().closed = true;
            byzantine.changed.notify_all();
        }
    }
}

impl Byzantine {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time(super::metrics::nanoseconds(self.begin.elapsed()))
    }

    fn own(&self) -> Own<'_> {
        Own { signer: self.signer.as_ref(), scheme: self.scheme.as_ref() }
    }

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
