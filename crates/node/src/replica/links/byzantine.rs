//! An adversary around a replica's links, the same one as in the simulator.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_adversary::{Deeds, Layer, Own, Schedule, pbft};
use quorate_core::base::crypto::{Scheme, Signer};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::Response;
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::message::PeerMessage;
use quorate_core::{ReplicaId, Time};
use quorate_transport::Peers;

use super::super::{metrics, spawn};
use super::{Attacked, Between, Keys, Metrics};

/// Most messages that an adversary may hold back: beyond, the oldest leave.
const MAX_HELD: usize = 4096;

/// The adversary that a schedule describes, at work from now on, on a thread of its own.
///
/// # Errors
/// One is none of the protocol, or the system gave no thread.
pub(super) fn start(
    peers: &Arc<Peers>,
    schedule: &Schedule,
    keys: Keys,
    metrics: Arc<Metrics>,
) -> io::Result<Arc<dyn Between>> {
    let Keys { me, attacked, signer, scheme } = keys;
    let (peers, seed) = (Arc::clone(peers), u64::from(me.0));
    let foreign = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    let own = (signer, scheme);
    let between: Arc<dyn Between> = match attacked {
        Attacked::HotStuff(domain, facts) => {
            let adversary = schedule.build(seed).map_err(foreign)?;
            let others = domain.committee().replicas().filter(|id| *id != me).collect();
            Byzantine::start(peers, Layer::new(adversary, me, domain, facts), others, own, metrics)?
        }
        Attacked::Pbft(domain) => {
            let adversary = schedule.build_for_pbft(seed).map_err(foreign)?;
            let others = domain.committee().replicas().filter(|id| *id != me).collect();
            Byzantine::start(peers, pbft::Layer::new(adversary, me, domain), others, own, metrics)?
        }
    };
    Ok(between)
}

/// A message that leaves: to whom, how much later than now, and what.
type Leaving<T> = (ReplicaId, Duration, PeerMessage<T>);

/// An adversary around a replica, with what it has seen.
trait Around: Send + 'static {
    /// The words of the protocol that it attacks.
    type Types: Types;

    /// The replica sends: what leaves instead.
    fn sends(
        &mut self,
        now: Time,
        own: Own<'_>,
        to: ReplicaId,
        message: PeerMessage<Self::Types>,
    ) -> Vec<Leaving<Self::Types>>;

    /// A message arrives.
    fn receives(
        &mut self,
        now: Time,
        own: Own<'_>,
        from: ReplicaId,
        message: &PeerMessage<Self::Types>,
    );

    /// The replica answers a client: what it answers instead.
    fn responds(&mut self, now: Time, own: Own<'_>, response: Response) -> Vec<Response>;

    /// What leaves unasked, if that is due.
    fn tick(&mut self, now: Time, own: Own<'_>) -> Vec<Leaving<Self::Types>>;

    /// When the next [`tick`](Self::tick) is due; `None`: never.
    fn deadline(&self) -> Option<Time>;

    /// What it has done so far.
    fn deeds(&self) -> Deeds;
}

impl Around for Layer {
    type Types = quorate_core::protocols::hotstuff::Types;

    fn sends(
        &mut self,
        now: Time,
        own: Own<'_>,
        to: ReplicaId,
        message: PeerMessage<Self::Types>,
    ) -> Vec<Leaving<Self::Types>> {
        let sent = Self::sends(self, now, own, to, message);
        sent.into_iter().map(|sent| (sent.to, sent.delay, sent.message)).collect()
    }

    fn receives(
        &mut self,
        now: Time,
        own: Own<'_>,
        from: ReplicaId,
        message: &PeerMessage<Self::Types>,
    ) {
        Self::receives(self, now, own, from, message);
    }

    fn responds(&mut self, now: Time, own: Own<'_>, response: Response) -> Vec<Response> {
        Self::responds(self, now, own, response)
    }

    fn tick(&mut self, now: Time, own: Own<'_>) -> Vec<Leaving<Self::Types>> {
        let sent = Self::tick(self, now, own);
        sent.into_iter().map(|sent| (sent.to, sent.delay, sent.message)).collect()
    }

    fn deadline(&self) -> Option<Time> {
        Self::deadline(self)
    }

    fn deeds(&self) -> Deeds {
        Self::deeds(self)
    }
}

impl Around for pbft::Layer {
    type Types = quorate_core::protocols::pbft::Types;

    fn sends(
        &mut self,
        now: Time,
        own: Own<'_>,
        to: ReplicaId,
        message: PeerMessage<Self::Types>,
    ) -> Vec<Leaving<Self::Types>> {
        let sent = Self::sends(self, now, own.signer, to, message);
        sent.into_iter().map(|sent| (sent.to, sent.delay, sent.message)).collect()
    }

    fn receives(&mut self, _: Time, _: Own<'_>, _: ReplicaId, message: &PeerMessage<Self::Types>) {
        Self::receives(self, message);
    }

    fn responds(&mut self, _: Time, _: Own<'_>, response: Response) -> Vec<Response> {
        vec![response]
    }

    fn tick(&mut self, now: Time, own: Own<'_>) -> Vec<Leaving<Self::Types>> {
        let sent = Self::tick(self, now, own.signer);
        sent.into_iter().map(|sent| (sent.to, sent.delay, sent.message)).collect()
    }

    fn deadline(&self) -> Option<Time> {
        Self::deadline(self)
    }

    fn deeds(&self) -> Deeds {
        Self::deeds(self)
    }
}

/// An adversary at work.
struct Byzantine<A> {
    peers: Arc<Peers>,
    others: Vec<ReplicaId>,
    metrics: Arc<Metrics>,
    signer: Arc<dyn Signer>,
    scheme: Arc<dyn Scheme>,
    begin: Instant,
    state: Mutex<State<A>>,
    changed: Condvar,
}

struct State<A> {
    layer: A,
    /// What leaves later, by when.
    held: BTreeMap<(Time, u64), (ReplicaId, Bytes)>,
    numbered: u64,
    closed: bool,
}

impl<A: Around> Between for Byzantine<A> {
    fn send(&self, to: ReplicaId, message: &Bytes) {
        let Ok(message) = PeerMessage::<A::Types>::from_bytes(message.clone()) else {
            // Of a protocol it does not know.
            return self.peers.send(to, message.clone());
        };
        let mut state = self.state();
        let sent = state.layer.sends(self.now(), self.own(), to, message);
        self.release(&mut state, sent);
    }

    fn broadcast(&self, message: &Bytes) {
        let Ok(message) = PeerMessage::<A::Types>::from_bytes(message.clone()) else {
            return self.peers.broadcast(message);
        };
        let mut state = self.state();
        for to in self.others.iter().copied() {
            let sent = state.layer.sends(self.now(), self.own(), to, message.clone());
            self.release(&mut state, sent);
        }
    }

    fn received(&self, from: ReplicaId, message: &Bytes) {
        if let Ok(message) = PeerMessage::<A::Types>::from_bytes(message.clone()) {
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

impl<A: Around> Byzantine<A> {
    /// Its time begins now.
    fn start(
        peers: Arc<Peers>,
        layer: A,
        others: Vec<ReplicaId>,
        (signer, scheme): (Arc<dyn Signer>, Arc<dyn Scheme>),
        metrics: Arc<Metrics>,
    ) -> io::Result<Arc<Self>> {
        let state = State { layer, held: BTreeMap::new(), numbered: 0, closed: false };
        let byzantine = Arc::new(Self {
            peers,
            others,
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

    fn state(&self) -> MutexGuard<'_, State<A>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Time {
        Time(metrics::nanoseconds(self.begin.elapsed()))
    }

    fn own(&self) -> Own<'_> {
        Own { signer: self.signer.as_ref(), scheme: self.scheme.as_ref() }
    }

    /// Sends what leaves at once, and keeps what leaves later.
    fn release(&self, state: &mut State<A>, sent: Vec<Leaving<A::Types>>) {
        for (to, delay, message) in sent {
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

    fn count(&self, state: &State<A>) {
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
