//! Proofs for clients: what this replica's state holds, believed for a certificate.
//!
//! A question waits for a *view*: the state as it was frozen between two turns, which costs nothing
//! while nobody asks. Once a certified block carries the view's root, a thread of its own makes the
//! proofs from it while blocks go on. The view serves later questions as long as no command has
//! changed the state, or the next view waits for its certificate; it is let go when blocks have
//! left it behind, since it holds on to what they replaced.
//!
//! The deciding thread only looks whether there is such a block: along the certificates it has, and
//! only while somebody waits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{Response, Unproven};
use quorate_core::client::proven::{Answer, Newest};
use quorate_core::ledger::execution::View;
use quorate_core::ledger::state_machine::{ProveError, StateMachine};
use quorate_core::protocols::protocol::{Capability, Protocol, Shown, Types};
use quorate_core::replica::Replica;
use quorate_core::{Digest, Height};
use quorate_transport::{ClientListener, ConnectionId};

use super::inbox::{Outside, Question};
use super::links::Links;

/// Most questions that wait, in all and of one connection, and their bytes.
const MAX_WAITING: usize = 512;
const MAX_WAITING_OF_ONE: usize = 32;
const MAX_WAITING_BYTES: usize = 4 << 20;
/// Batches of questions that may wait for the thread.
const MAX_BATCHES: usize = 4;
/// A wish is forgotten by replicas, and told again while somebody waits.
const WISH_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// A view is kept for so many blocks.
const KEPT_BLOCKS: u64 = 8;

/// Where a view stands.
#[derive(Clone, Copy, Debug)]
struct Mark {
    height: Height,
    /// How many commands had been executed by then.
    commands: u64,
}

impl Mark {
    /// Whether the state at `height` holds the same, but for blocks without commands.
    fn is_current(&self, height: Height, commands: u64) -> bool {
        self.commands == commands && height.0.saturating_sub(self.height.0) <= KEPT_BLOCKS
    }
}

/// What the thread is to do.
enum Job<T: Types> {
    /// Answer from this view, if there is one here, or the last one.
    Prove(Option<Box<(View, Shown<T>)>>, Vec<Question>),
    /// Let the view go.
    Drop,
}

/// Clients that wait for proofs.
pub struct Proofs<T: Types> {
    chain: Digest,
    waiting: Vec<Question>,
    waiting_of: BTreeMap<ConnectionId, usize>,
    waiting_bytes: usize,
    /// Who waits for the newest certified block, which is missing here.
    newest: Vec<(ConnectionId, u64)>,
    /// A view whose root no certified block carries yet.
    frozen: Option<(Mark, Box<View>)>,
    /// The view that the thread has.
    shown: Option<Mark>,
    /// When the root of the frozen view was wished for.
    wished: Option<Instant>,
    jobs: Option<SyncSender<Job<T>>>,
    thread: Option<JoinHandle<()>>,
    voice: Voice,
}

/// The way to clients.
#[derive(Clone)]
struct Voice {
    links: Links,
    listener: Arc<ClientListener>,
}

impl Voice {
    fn say(&self, connection: ConnectionId, response: Response) {
        for response in self.links.answers(response) {
            // The client may be gone.
            let _ = self.listener.send(connection, response.to_bytes().into());
        }
    }

    fn refuse(&self, question: &Question, reason: Unproven) {
        self.say(question.connection, Response::Unproven { id: question.id, reason });
    }
}

impl<T: Types> Proofs<T> {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gave none.
    pub fn start(
        chain: Digest,
        links: &Links,
        listener: &Arc<ClientListener>,
        outside: &Outside,
    ) -> std::io::Result<Self> {
        let voice = Voice { links: links.clone(), listener: Arc::clone(listener) };
        let (jobs, queue) = sync_channel(MAX_BATCHES);
        let speaks = voice.clone();
        let run = outside.guard("proofs", move || prove_all(chain, &speaks, &queue));
        Ok(Self {
            chain,
            waiting: Vec::new(),
            waiting_of: BTreeMap::new(),
            waiting_bytes: 0,
            newest: Vec::new(),
            frozen: None,
            shown: None,
            wished: None,
            jobs: Some(jobs),
            thread: Some(super::giving_way::spawn_low("proofs", run)?),
            voice,
        })
    }

    /// Takes a question in, unless too many wait.
    pub fn ask(&mut self, question: Question) {
        let of_one = self.waiting_of.entry(question.connection).or_default();
        let bytes = self.waiting_bytes + question.bytes.len();
        if *of_one >= MAX_WAITING_OF_ONE
            || self.waiting.len() >= MAX_WAITING
            || bytes > MAX_WAITING_BYTES
        {
            return self.voice.refuse(&question, Unproven::Busy);
        }
        *of_one += 1;
        self.waiting_bytes = bytes;
        self.waiting.push(question);
    }

    /// Takes a question for the newest certified block in, unless too many wait.
    pub fn ask_newest(&mut self, connection: ConnectionId, id: u64) {
        let of_one = self.newest.iter().filter(|(of, _)| *of == connection).count();
        if of_one >= MAX_WAITING_OF_ONE || self.newest.len() >= MAX_WAITING {
            let response = Response::Unproven { id, reason: Unproven::Busy };
            return self.voice.say(connection, response);
        }
        self.newest.push((connection, id));
    }

    /// The connection is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.newest.retain(|(of, _)| *of != connection);
        if self.waiting_of.remove(&connection).is_some_and(|count| count > 0) {
            self.waiting.retain(|question| question.connection != connection);
            self.waiting_bytes = self.waiting.iter().map(|question| question.bytes.len()).sum();
        }
    }

    /// Does what can be done for those who wait; `commands` have been executed so far. Returns
    /// whether the root of the latest state is to be [wished
    /// for](quorate_core::replica::Input::Show).
    pub fn go_on<P, S>(&mut self, replica: &Replica<P, S>, commands: u64) -> bool
    where
        P: Protocol<Types = T>,
        S: StateMachine,
    {
        if !P::CAPABILITIES.contains(&Capability::VerifiedReads) {
            self.refuse_all(Unproven::NoProofs);
            return false;
        }
        let height = replica.execution().height();
        // Where roots are certified at intervals, whoever asks for the newest one wants the latest
        // state's to be certified soon.
        let is_late = !self.newest.is_empty()
            && replica.protocol().roots_every() > 1
            && replica.protocol().certified_state() < Some(height)
            && self.wished.is_none_or(|since| since.elapsed() >= WISH_AGAIN_AFTER);
        self.tell_newest(replica.protocol());
        if is_late {
            self.wished = Some(Instant::now());
            return true;
        }
        if self.shown.is_some_and(|shown| !shown.is_current(height, commands))
            && self.jobs.as_ref().is_some_and(|jobs| jobs.try_send(Job::Drop).is_ok())
        {
            self.shown = None;
        }
        if self.waiting.is_empty() {
            self.frozen = None;
            return false;
        }
        if self.shown.is_some_and(|shown| shown.is_current(height, commands)) {
            self.hand_over(None);
            return false;
        }
        if self.certified(replica.protocol()).is_none() && self.is_passed_over(replica.protocol()) {
            let Some(view) = replica.execution().view() else {
                self.refuse_all(Unproven::NoProofs);
                return false;
            };
            self.frozen = Some((Mark { height, commands }, Box::new(view)));
            self.wished = None;
        }
        if let Some(found) = self.certified(replica.protocol()) {
            self.hand_over(Some(found));
        }
        let is_wished = self.wished.is_some_and(|since| since.elapsed() < WISH_AGAIN_AFTER);
        if self.waiting.is_empty() || is_wished {
            return false;
        }
        self.wished = Some(Instant::now());
        true
    }

    /// Whether certified blocks have come to later states than the frozen one, or none is frozen.
    fn is_passed_over<P: Protocol<Types = T>>(&self, protocol: &P) -> bool {
        let certified = protocol.certified_state();
        self.frozen.as_ref().is_none_or(|(mark, _)| certified > Some(mark.height))
    }

    /// A certified block that carries the root of the frozen view.
    fn certified<P: Protocol<Types = T>>(&self, protocol: &P) -> Option<(Mark, Shown<T>)> {
        let (mark, view) = self.frozen.as_ref()?;
        let shown = protocol.certified(&view.summary().root(), mark.height)?;
        Some((*mark, shown))
    }

    /// Gives the thread what waits; with the frozen view, if that is certified.
    fn hand_over(&mut self, found: Option<(Mark, Shown<T>)>) {
        let mark = found.as_ref().map(|(mark, _)| *mark);
        let view =
            found.zip(self.frozen.take()).map(|((_, certified), (_, view))| (view, certified));
        let view = view.map(|(view, certified)| Box::new((*view, certified)));
        let waiting = std::mem::take(&mut self.waiting);
        self.waiting_of.clear();
        self.waiting_bytes = 0;
        let Some(jobs) = &self.jobs else { return };
        match jobs.try_send(Job::Prove(view, waiting)) {
            Ok(()) => self.shown = mark.or(self.shown),
            Err(TrySendError::Full(Job::Prove(_, questions))) => {
                questions.iter().for_each(|question| self.voice.refuse(question, Unproven::Busy));
            }
            // The replica is about to stop.
            Err(_) => {}
        }
    }

    fn refuse_all(&mut self, reason: Unproven) {
        for question in self.waiting.drain(..) {
            self.voice.refuse(&question, reason);
        }
        for (connection, id) in std::mem::take(&mut self.newest) {
            self.voice.say(connection, Response::Unproven { id, reason });
        }
        self.waiting_of.clear();
        self.waiting_bytes = 0;
    }

    fn tell_newest<P: Protocol<Types = T>>(&mut self, protocol: &P) {
        if self.newest.is_empty() {
            return;
        }
        let Some(newest) = protocol.newest_certified() else { return };
        let newest = Newest { chain: self.chain, newest }.to_bytes();
        for (connection, id) in std::mem::take(&mut self.newest) {
            self.voice.say(connection, Response::Newest { id, newest: newest.clone().into() });
        }
    }
}

impl<T: Types> Drop for Proofs<T> {
    /// The view may have the application's files open, which the next process needs.
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take() {
            // Its panic was told to the replica.
            let _ = thread.join();
        }
    }
}

/// The thread: works until nobody can ask any more.
fn prove_all<T: Types>(chain: Digest, voice: &Voice, queue: &Receiver<Job<T>>) {
    let mut shown: Option<Box<(View, Shown<T>)>> = None;
    while let Ok(job) = queue.recv() {
        let (newer, questions) = match job {
            Job::Prove(newer, questions) => (newer, questions),
            Job::Drop => {
                shown = None;
                continue;
            }
        };
        shown = newer.or(shown);
        for question in questions {
            let Some(shown) = &mut shown else {
                voice.refuse(&question, Unproven::Unavailable);
                continue;
            };
            let (view, certified) = &mut **shown;
            match view.prove(&question.bytes) {
                Ok(content) => {
                    let (state, shown) = (*view.summary(), certified.clone());
                    let answer = Answer { chain, state, shown, content }.to_bytes().into();
                    voice.say(question.connection, Response::Proven { id: question.id, answer });
                }
                Err(ProveError::Question) => voice.refuse(&question, Unproven::Question),
                Err(ProveError::Kept(error)) => {
                    tracing::warn!(%error, "a client's question could not be answered from the state");
                    voice.refuse(&question, Unproven::Unavailable);
                }
            }
        }
    }
}
