//! One client session: what is sent, when, and to whom.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use super::error::{ClientError, Fatal, NotExecuted, Unknown};
use super::pace::Pace;
use super::votes::Votes;
use crate::base::crypto::ClientSigner;
use crate::base::membership;
use crate::base::types::{Digest, Duration, ReplicaId, Sequence, SessionId, Time};
use crate::ledger::frame::{Frame, MAX_BODY_BYTES, MAX_COMMANDS, SharedFrame};
use crate::ledger::message::{Refusal, Response};
use crate::ledger::packed::Packed;

/// The caller's name for a batch it submits. Must be different for batches under way.
pub type BatchId = u64;

/// Whom frames are sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// Every replica: nobody has to pass frames on, and no leader can ignore the client.
    All,
    /// One replica, which passes frames on: less traffic for the client. Another one takes its
    /// place when it is silent.
    One {
        /// The first to be asked.
        first: ReplicaId,
    },
}

/// What a session is to know.
#[derive(Clone, Copy, Debug)]
pub struct SessionConfig {
    /// The chain frames are signed for.
    pub chain: Digest,
    /// n: how many replicas there are. Each counts once, until the members
    /// [change](Session::change_members).
    pub replicas: usize,
    /// f: how much of them may lie.
    pub faults: usize,
    /// Whether n - f equal tentative outcomes of one view count: an option of PBFT's.
    pub tentative: bool,
    /// Whom frames are sent to.
    pub route: Route,
    /// Most frames in flight. No more than the cluster's session window, or replicas turn down
    /// what is beyond it.
    pub window: usize,
    /// Most commands grouped in a frame (a larger batch still goes, alone).
    pub frame_commands: usize,
    /// Most bytes of commands grouped in a frame (a larger batch still goes, alone).
    pub frame_bytes: usize,
    /// Most bytes waiting for room in the window.
    pub waiting_bytes: usize,
    /// Least time before a frame is sent again.
    pub retry_least: Duration,
    /// Most time before a frame is sent again.
    pub retry_most: Duration,
    /// Where a session of a higher incarnation is open when this one is first asked for, ask under
    /// one above it: for incarnations drawn from a clock, which may have been set back.
    pub takes_over: bool,
}

impl SessionConfig {
    /// The usual limits for a cluster of `replicas`, of which [f](membership::faults) may lie.
    #[must_use]
    pub fn new(chain: Digest, replicas: usize) -> Self {
        Self {
            chain,
            replicas,
            faults: membership::faults(replicas),
            tentative: false,
            route: Route::All,
            window: 16,
            frame_commands: MAX_COMMANDS,
            frame_bytes: 1 << 20,
            waiting_bytes: 64 << 20,
            retry_least: Duration::from_millis(500),
            retry_most: Duration::from_secs(8),
            takes_over: false,
        }
    }
}

/// What happens to a session.
#[derive(Clone, Debug)]
pub enum Input {
    /// Execute these commands, after all submitted before.
    Submit {
        /// Repeated in [`Output::Done`].
        id: BatchId,
        /// The commands: executed in order, never split over two frames.
        batch: Packed,
        /// When the caller wants an error rather than to wait on.
        give_up: Option<Time>,
    },
    /// A connection to a replica stands.
    Connected(ReplicaId),
    /// A connection is lost.
    Disconnected(ReplicaId),
    /// A replica said something.
    Response {
        /// Who, as the connection proves.
        from: ReplicaId,
        /// What.
        response: Response,
    },
    /// A deadline may have passed. (Any other input looks at the time as well.)
    Timeout,
}

/// What a session wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a frame, as [`Request::Submit`](super::message::Request::Submit).
    Send {
        /// To whom; `None`: to every replica that is connected.
        to: Option<ReplicaId>,
        /// The request's flag.
        relay: bool,
        /// The frame.
        frame: SharedFrame,
    },
    /// The session is open (again).
    Opened(SessionId),
    /// A batch is done with: exactly once for each submitted.
    Done {
        /// Which.
        id: BatchId,
        /// One reply a command, or why there is none.
        result: Result<Packed, ClientError>,
    },
    /// Nothing submitted from now on will be sent.
    Ended(Fatal),
}

/// A client session. See the [module](super) for a driver's duties.
pub struct Session {
    pub(super) config: SessionConfig,
    pub(super) signer: Arc<dyn ClientSigner>,
    pub(super) phase: Phase,
    pub(super) incarnation: u64,
    /// It was open once.
    pub(super) was_open: bool,
    /// The request that opened the session. A replica that did not see it, or lost the
    /// connection since, does not know where this client is.
    pub(super) opening: SharedFrame,
    connected: Vec<bool>,
    /// How much each replica counts.
    pub(super) weights: Arc<[usize]>,
    target: ReplicaId,
    pub(super) waiting: VecDeque<Waiting>,
    waiting_bytes: usize,
    /// In the order of their numbers.
    pub(super) in_flight: VecDeque<InFlight>,
    give_ups: BTreeSet<(Time, BatchId)>,
    pub(super) pace: Pace,
}

pub(super) enum Phase {
    Opening(InFlight),
    Open { session: SessionId, next: Sequence },
    Dead(Fatal),
}

pub(super) struct Waiting {
    pub(super) id: BatchId,
    batch: Packed,
    pub(super) give_up: Option<Time>,
}

/// A frame without an outcome yet.
pub(super) struct InFlight {
    pub(super) frame: SharedFrame,
    pub(super) parts: Vec<Part>,
    pub(super) votes: Votes,
    pub(super) refusals: Vec<(ReplicaId, Refusal)>,
    pub(super) sent_at: Time,
    pub(super) retry_at: Time,
    pub(super) attempts: u32,
    /// Whom alone it was sent to, if so.
    pub(super) target: Option<ReplicaId>,
}

/// A batch within a frame.
pub(super) struct Part {
    /// `None` once the caller has given it up. The frame is still needed: what comes after it in
    /// the session executes only after it.
    pub(super) id: Option<BatchId>,
    pub(super) count: usize,
    pub(super) give_up: Option<Time>,
}

impl Session {
    /// A session of `signer`'s key, to be opened as `incarnation`: larger than any this key used
    /// before, for example the time since 1970 in nanoseconds. The session's later incarnations
    /// count up from it.
    #[must_use]
    pub fn new(
        config: SessionConfig,
        signer: Arc<dyn ClientSigner>,
        incarnation: u64,
        now: Time,
    ) -> Self {
        let incarnation = incarnation.max(1);
        let pace = Pace::new(config.window, config.retry_least, config.retry_most);
        let opening = opening(&config, signer.as_ref(), incarnation);
        let retry_at = now.after(pace.patience(1, incarnation));
        Self {
            phase: Phase::Opening(InFlight::new(opening.clone(), Vec::new(), now, retry_at)),
            target: match config.route {
                Route::All => ReplicaId(0),
                Route::One { first } => first,
            },
            connected: vec![false; config.replicas],
            weights: vec![1; config.replicas].into(),
            config,
            signer,
            incarnation,
            was_open: false,
            opening,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            in_flight: VecDeque::new(),
            give_ups: BTreeSet::new(),
            pace,
        }
    }

    /// Takes `inputs` in, and appends to `outputs` what is to be done. All that is waiting when
    /// the last input is in goes out together: a driver that has several inputs hands them over
    /// in one call.
    pub fn step(
        &mut self,
        now: Time,
        inputs: impl IntoIterator<Item = Input>,
        outputs: &mut Vec<Output>,
    ) {
        for input in inputs {
            match input {
                Input::Submit { id, batch, give_up } => self.submit(id, batch, give_up, outputs),
                Input::Connected(replica) => self.connect(replica, outputs),
                Input::Disconnected(replica) => self.disconnect(now, replica),
                Input::Response { from, response } => {
                    if from.index() < self.config.replicas {
                        self.respond(now, from, response, outputs);
                    }
                }
                Input::Timeout => {}
            }
        }
        self.expire(now, outputs);
        self.retry(now, outputs);
        self.send_waiting(now, outputs);
    }

    /// From now on replicas count by these weights: 0 for who only learns, or is no member. Those
    /// who `left`, or are others under the same id, are disconnected, and what they said counts no
    /// more.
    pub fn change_members(&mut self, now: Time, weights: Vec<usize>, left: &[ReplicaId]) {
        left.iter().for_each(|replica| self.disconnect(now, *replica));
        self.config.replicas = weights.len();
        self.config.faults = membership::faults(weights.iter().sum());
        self.connected.resize(weights.len(), false);
        let counts = |id: ReplicaId| weights.get(id.index()).is_some_and(|weight| *weight > 0);
        let stays = |id: ReplicaId| counts(id) && !left.contains(&id);
        let opening = match &mut self.phase {
            Phase::Opening(opening) => Some(opening),
            _ => None,
        };
        for sent in opening.into_iter().chain(&mut self.in_flight) {
            sent.votes.keep(stays);
            sent.refusals.retain(|(from, _)| stays(*from));
        }
        self.weights = weights.into();
    }

    /// When to call [`Session::step`] even if nothing happens.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let opening = match &self.phase {
            Phase::Opening(opening) => Some(opening.retry_at),
            _ => None,
        };
        let retries = self.in_flight.iter().map(|frame| frame.retry_at);
        let give_up = self.give_ups.first().map(|(time, _)| *time);
        retries.chain(opening).chain(give_up).min()
    }

    /// The session's number, while it is open.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self.phase {
            Phase::Open { session, .. } => Some(session),
            _ => None,
        }
    }

    /// Frames sent and not answered, and batches waiting to be sent.
    #[must_use]
    pub fn load(&self) -> (usize, usize) {
        (self.in_flight.len(), self.waiting.len())
    }

    /// Ends everything: what is waiting was not executed, of what is in flight nothing is known.
    pub fn close(&mut self, outputs: &mut Vec<Output>) {
        for frame in std::mem::take(&mut self.in_flight) {
            self.fail(frame, Unknown::Closed.into(), outputs);
        }
        self.fail_waiting(NotExecuted::Closed.into(), outputs);
    }

    fn submit(
        &mut self,
        id: BatchId,
        batch: Packed,
        give_up: Option<Time>,
        outputs: &mut Vec<Output>,
    ) {
        let bytes = batch.body().len();
        let error: ClientError = if let Phase::Dead(fatal) = self.phase {
            fatal.into()
        } else if batch.is_empty() || batch.len() > MAX_COMMANDS || bytes > MAX_BODY_BYTES {
            NotExecuted::DoesNotFit.into()
        } else if self.waiting_bytes + bytes > self.config.waiting_bytes {
            NotExecuted::Backlog.into()
        } else {
            self.give_ups.extend(give_up.map(|time| (time, id)));
            self.waiting_bytes += bytes;
            self.waiting.push_back(Waiting { id, batch, give_up });
            return;
        };
        outputs.push(Output::Done { id, result: Err(error) });
    }

    /// A new connection knows nothing: it is told of the session and of all it may answer.
    fn connect(&mut self, replica: ReplicaId, outputs: &mut Vec<Output>) {
        let Some(connected) = self.connected.get_mut(replica.index()) else { return };
        *connected = true;
        let relay = self.relay();
        let mut send = |frame: &SharedFrame| {
            outputs.push(Output::Send { to: Some(replica), relay, frame: frame.clone() });
        };
        send(&self.opening);
        for frame in self.in_flight.iter().filter(|frame| frame.target.is_none()) {
            send(&frame.frame);
        }
    }

    fn disconnect(&mut self, now: Time, replica: ReplicaId) {
        let Some(connected) = self.connected.get_mut(replica.index()) else { return };
        *connected = false;
        self.leave_target(now, replica);
    }

    /// What was sent to `replica` alone is to be sent to all at once.
    pub(super) fn leave_target(&mut self, now: Time, replica: ReplicaId) {
        for frame in self.in_flight.iter_mut().filter(|frame| frame.target == Some(replica)) {
            frame.target = None;
            frame.retry_at = now;
        }
        if self.target == replica {
            self.rotate();
        }
    }

    /// The next connected replica becomes the one that frames are sent to.
    fn rotate(&mut self) {
        let n = self.config.replicas.max(1);
        let after = self.target.index();
        let next = (1..=n).map(|step| (after + step) % n).find(|next| self.connected[*next]);
        self.target = ReplicaId(next.unwrap_or((after + 1) % n) as u16);
    }

    /// Whether replicas have to pass frames on that are sent to all: some are out of reach.
    fn relay(&self) -> bool {
        self.connected
            .iter()
            .zip(&*self.weights)
            .any(|(connected, weight)| !connected && *weight > 0)
    }

    fn reachable(&self) -> bool {
        self.connected.contains(&true)
    }

    fn expire(&mut self, now: Time, outputs: &mut Vec<Output>) {
        while let Some((time, id)) = self.give_ups.first().copied() {
            if time > now {
                return;
            }
            self.give_ups.pop_first();
            let place = self.waiting.iter().position(|waiting| waiting.id == id);
            let error = if let Some(waiting) = place.and_then(|at| self.waiting.remove(at)) {
                self.waiting_bytes -= waiting.batch.body().len();
                NotExecuted::TimeUp.into()
            } else {
                let mut parts = self.in_flight.iter_mut().flat_map(|frame| &mut frame.parts);
                let Some(part) = parts.find(|part| part.id == Some(id)) else { continue };
                part.id = None;
                part.give_up = None;
                Unknown::TimeUp.into()
            };
            outputs.push(Output::Done { id, result: Err(error) });
        }
    }

    /// Sends again, to all, what has been without an answer for too long. The same bytes: a
    /// session executes each number once.
    fn retry(&mut self, now: Time, outputs: &mut Vec<Output>) {
        let (relay, reachable) = (self.relay(), self.reachable());
        let mut silent = false;
        let opening = match &mut self.phase {
            Phase::Opening(opening) => Some(opening),
            _ => None,
        };
        for frame in opening.into_iter().chain(&mut self.in_flight) {
            if frame.retry_at > now {
                continue;
            }
            if reachable {
                frame.attempts = frame.attempts.saturating_add(1);
                silent |= frame.target.take() == Some(self.target);
                outputs.push(Output::Send { to: None, relay, frame: frame.frame.clone() });
            }
            let salt = self.incarnation ^ frame.frame.first().0;
            frame.retry_at = now.after(self.pace.patience(frame.attempts, salt));
        }
        if silent {
            self.rotate();
        }
    }

    fn send_waiting(&mut self, now: Time, outputs: &mut Vec<Output>) {
        while let Phase::Open { session, next } = self.phase {
            let full = self.in_flight.len() >= self.pace.window();
            if full || self.waiting.is_empty() || !self.reachable() {
                return;
            }
            let group = self.group();
            let frame = Frame::of_packed(
                self.signer.public_key(),
                session,
                next,
                self.waiting.iter().take(group).map(|waiting| &waiting.batch),
                &self.config.chain,
                |statement| self.signer.sign(statement),
            );
            let Some(frame) = frame.map(Arc::new) else {
                unreachable!("every batch fits, and a group is within the limits");
            };
            self.phase = Phase::Open { session, next: frame.end() };
            let parts = self.waiting.drain(..group).map(|waiting| {
                self.waiting_bytes -= waiting.batch.body().len();
                let (id, count) = (Some(waiting.id), waiting.batch.len());
                Part { id, count, give_up: waiting.give_up }
            });
            let salt = self.incarnation ^ next.0;
            let retry_at = now.after(self.pace.patience(1, salt));
            let mut sent = InFlight::new(frame.clone(), parts.collect(), now, retry_at);
            let mut relay = self.relay();
            if let Route::One { .. } = self.config.route {
                if !self.connected[self.target.index()] {
                    self.rotate();
                }
                sent.target = Some(self.target);
                relay = true;
            }
            outputs.push(Output::Send { to: sent.target, relay, frame });
            self.in_flight.push_back(sent);
        }
    }

    /// How many of the waiting batches go in the next frame: at least one.
    fn group(&self) -> usize {
        let most_commands = self.config.frame_commands.min(MAX_COMMANDS);
        let most_bytes = self.config.frame_bytes.min(MAX_BODY_BYTES);
        let (mut commands, mut bytes) = (0, 0);
        let fits = |waiting: &&Waiting| {
            commands += waiting.batch.len();
            bytes += waiting.batch.body().len();
            commands <= most_commands && bytes <= most_bytes
        };
        self.waiting.iter().take_while(fits).count().max(1)
    }

    /// Asks for a session under the next incarnation, now or after `wait`.
    pub(super) fn reopen(&mut self, now: Time, wait: Duration) {
        self.incarnation = self.incarnation.saturating_add(1);
        self.opening = opening(&self.config, self.signer.as_ref(), self.incarnation);
        let opening = InFlight::new(self.opening.clone(), Vec::new(), now, now.after(wait));
        self.phase = Phase::Opening(opening);
    }

    /// Hands every part of a frame that will not be answered the reason.
    pub(super) fn fail(&mut self, frame: InFlight, error: ClientError, outputs: &mut Vec<Output>) {
        for part in frame.parts {
            self.finish(&part, Err(error), outputs);
        }
    }

    /// Reports a part of a frame, unless its caller has given up.
    pub(super) fn finish(
        &mut self,
        part: &Part,
        result: Result<Packed, ClientError>,
        outputs: &mut Vec<Output>,
    ) {
        let Some(id) = part.id else { return };
        if let Some(time) = part.give_up {
            self.give_ups.remove(&(time, id));
        }
        outputs.push(Output::Done { id, result });
    }

    pub(super) fn fail_waiting(&mut self, error: ClientError, outputs: &mut Vec<Output>) {
        self.waiting_bytes = 0;
        for waiting in std::mem::take(&mut self.waiting) {
            if let Some(time) = waiting.give_up {
                self.give_ups.remove(&(time, waiting.id));
            }
            outputs.push(Output::Done { id: waiting.id, result: Err(error) });
        }
    }
}

impl InFlight {
    fn new(frame: SharedFrame, parts: Vec<Part>, sent_at: Time, retry_at: Time) -> Self {
        Self {
            frame,
            parts,
            votes: Votes::default(),
            refusals: Vec::new(),
            sent_at,
            retry_at,
            attempts: 1,
            target: None,
        }
    }
}

fn opening(config: &SessionConfig, signer: &dyn ClientSigner, incarnation: u64) -> SharedFrame {
    let sign = |statement: &_| signer.sign(statement);
    Arc::new(Frame::open(signer.public_key(), incarnation, &config.chain, sign))
}
