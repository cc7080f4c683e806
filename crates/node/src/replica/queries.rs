//! Questions to the application, answered beside the deciding thread.
//!
//! Anybody may ask, unsigned, and an answer may take hundredths of a second. So a thread of its own
//! answers from a *reader*: the state as it was frozen between two turns, which copies nothing. The
//! deciding thread freezes one when a question waits and the state has changed since the last; the
//! thread lets it go when no question waits, since it holds on to what later blocks replace.
//!
//! Questions at a [read index](quorate_core::client::read_index) wait until the state has come to
//! it ([`Reads`]). Then they go the same way, all of one message to one state.
//!
//! Who is served next say the [lines](super::lines). An application without readers is asked by the
//! deciding thread; it has to bound its work itself.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::types::Epoch;
use quorate_core::base::wire::{Encode as _, put_bytes};
use quorate_core::client::Packed;
use quorate_core::client::message::{MAX_READ_ANSWERS_BYTES, Response, Unproven};
use quorate_core::ledger::execution::{Execution, panic_message};
use quorate_core::ledger::state_machine::{
    KeepError, MAX_COMMAND_REPLY_BYTES, Reader, StateMachine,
};
use quorate_core::protocols::protocol::Protocol;
use quorate_core::replica::Replica;
use quorate_core::replica::reads::{Read, Reads};
use quorate_core::{Height, Time, planted};
use quorate_transport::{ClientListener, ConnectionId};

use super::inbox::{Asked, Outside, Question};
use super::lines::Lines;
use super::metrics::{Metrics, nanoseconds};

/// How long packed questions may take: those that are left are not answered.
const PACKED_WITHIN: Duration = Duration::from_millis(20);

/// The questions that wait, and the thread that answers them.
pub struct Queries {
    shared: Arc<Shared>,
    /// Asked since the last turn: they are for a state that is frozen after that.
    asked: Vec<Question>,
    /// Who asked since the last turn for this replica's part of a read index.
    indices: Vec<(ConnectionId, u64, Epoch)>,
    /// Questions at an index, asked since the last turn.
    fresh: Vec<Read<ConnectionId>>,
    /// Those that wait for the state.
    reads: Reads<ConnectionId>,
    thread: Option<JoinHandle<()>>,
    voice: Voice,
}

struct Shared {
    desk: Mutex<Desk>,
    /// Rung when there is something on the desk.
    rings: Condvar,
}

#[derive(Default)]
struct Desk {
    lines: Lines,
    /// A newer state than the thread has.
    newer: Option<Box<dyn Reader>>,
    /// The height of the newest state given to the thread, if it has not let go of it.
    given: Option<Height>,
    over: bool,
}

/// The way to clients, and what is counted.
#[derive(Clone)]
struct Voice {
    application: Arc<str>,
    listener: Arc<ClientListener>,
    metrics: Arc<Metrics>,
}

impl Voice {
    fn say(&self, connection: ConnectionId, response: &Response) {
        // The client may be gone.
        let _ = self.listener.send(connection, response.to_bytes().into());
    }

    fn answer(&self, question: &Question, answer: Bytes) {
        if planted!("answers-without-bound", false, answer.len() > MAX_COMMAND_REPLY_BYTES) {
            return self.too_long(question, answer.len());
        }
        self.metrics.queries_total.add(1);
        self.say(question.connection, &Response::Answer { id: question.id, answer });
    }

    fn refuse(&self, question: &Question, reason: Unproven) {
        self.refuse_id(question.connection, question.id, reason);
    }

    fn refuse_id(&self, connection: ConnectionId, id: u64, reason: Unproven) {
        self.metrics.refuse("query");
        self.say(connection, &Response::Unproven { id, reason });
    }

    /// Answers a question, or the packed ones.
    fn serve(&self, question: &Question, ask: impl Fn(&[u8]) -> Result<Bytes, KeepError>) {
        let answered = catch_unwind(AssertUnwindSafe(|| match question.packed {
            None => ask(&question.bytes).map(|answer| self.answer(question, answer)),
            Some(count) => {
                answers(question, count, ask).map(|answers| self.answer_packed(question, answers))
            }
        }));
        match answered {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(
                    %error,
                    "a client's question could not be answered from the state: see to the disk"
                );
                self.refuse(question, Unproven::Unavailable);
            }
            Err(said) => self.panicked(question, &*said),
        }
    }

    fn answer_packed(&self, question: &Question, answers: Packed) {
        if answers.is_empty() {
            return self.refuse(question, Unproven::Unavailable);
        }
        self.metrics.queries_total.add(answers.len() as u64);
        self.say(question.connection, &Response::Reads { id: question.id, answers });
    }

    fn too_long(&self, question: &Question, bytes: usize) {
        if self.metrics.query_answers_too_long_total.note() {
            tracing::error!(
                application = &*self.application,
                bytes,
                most = MAX_COMMAND_REPLY_BYTES,
                "the application's answer to a client's question was too long, and the client was \
                 refused: report it to the application's author"
            );
        }
        self.refuse(question, Unproven::Unavailable);
    }

    /// An application that panics on a question has changed nothing: the client alone is turned
    /// down.
    fn panicked(&self, question: &Question, said: &(dyn Any + Send)) {
        if self.metrics.query_panics_total.note() {
            tracing::error!(
                application = &*self.application,
                panic = panic_message(said),
                "the application panicked on a client's question, which was refused: report it to \
                 the application's author"
            );
        }
        self.refuse(question, Unproven::Unavailable);
    }
}

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queries {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system gave none.
    pub fn start(
        application: &str,
        listener: &Arc<ClientListener>,
        metrics: &Arc<Metrics>,
        outside: &Outside,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared { desk: Mutex::new(Desk::default()), rings: Condvar::new() });
        let application = Arc::from(application);
        let voice =
            Voice { application, listener: Arc::clone(listener), metrics: Arc::clone(metrics) };
        let (desk, speaks) = (Arc::clone(&shared), voice.clone());
        let run = outside.guard("queries", move || answer_all(&desk, &speaks));
        let thread = Some(super::giving_way::spawn_low("queries", run)?);
        let (asked, indices, fresh) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { shared, asked, indices, fresh, reads: Reads::default(), thread, voice })
    }

    /// When a question is to be refused that waits for the state.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.reads.deadline()
    }

    /// Takes a question in, unless too many wait.
    pub fn ask(&mut self, asked: Asked) {
        match asked {
            Asked::Now(question) => self.asked.push(question),
            Asked::At(read) => self.fresh.push(read),
            Asked::Index { connection, id, epoch } => self.indices.push((connection, id, epoch)),
        }
    }

    /// The connection is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.asked.retain(|question| question.connection != connection);
        self.indices.retain(|(of, ..)| *of != connection);
        self.fresh.retain(|read| read.client != connection);
        self.reads.forget(connection);
        self.shared.desk().lines.forget(connection);
    }

    /// Says what is asked of the read index, and gives the thread the other questions and the state
    /// to answer them from.
    pub fn go_on<P: Protocol, S: StateMachine>(&mut self, replica: &Replica<P, S>, now: Time) {
        // Nothing changes meanwhile: it is looked up once.
        let mut known = None;
        for (connection, id, epoch) in std::mem::take(&mut self.indices) {
            if known.is_none_or(|(of, _)| of != epoch) {
                known = Some((epoch, replica.read_index(epoch)));
            }
            match known.map_or(Err(Unproven::Epoch), |(_, index)| index) {
                Ok(index) => self.voice.say(connection, &Response::ReadIndex { id, index }),
                Err(reason) => self.voice.refuse_id(connection, id, reason),
            }
        }
        if !(self.reads.is_empty() && self.fresh.is_empty()) {
            let fresh = std::mem::take(&mut self.fresh);
            let covers = |epoch, index| replica.covers(epoch, index);
            for (Read { client: connection, id, questions, .. }, due) in
                self.reads.take_in(now, fresh, covers)
            {
                let (bytes, packed) = (questions.body().clone(), Some(questions.len()));
                match due {
                    Ok(()) => self.asked.push(Question { connection, id, bytes, packed }),
                    Err(reason) => self.voice.refuse_id(connection, id, reason),
                }
            }
        }
        self.hand_over(replica.execution());
    }

    /// Gives the thread what was asked, and the state to answer from.
    fn hand_over<S: StateMachine>(&mut self, state: &Execution<S>) {
        let mut desk = self.shared.desk();
        if self.asked.is_empty() && desk.lines.is_empty() {
            return;
        }
        if desk.given != Some(state.height()) {
            let reader = planted!("questions-on-the-deciding-thread", None, state.reader());
            let Some(reader) = reader else {
                drop(desk);
                return self.answer_here(state);
            };
            desk.newer = Some(reader);
            desk.given = Some(state.height());
        }
        for question in self.asked.drain(..) {
            for left_out in desk.lines.push(question) {
                self.voice.refuse(&left_out, Unproven::Busy);
            }
        }
        drop(desk);
        self.shared.rings.notify_one();
    }

    fn answer_here<S: StateMachine>(&mut self, state: &Execution<S>) {
        for question in self.asked.drain(..) {
            self.voice.serve(&question, |bytes| Ok(state.query(bytes)));
        }
    }
}

impl Drop for Queries {
    /// The reader may have the application's files open, which the next process needs.
    fn drop(&mut self) {
        self.shared.desk().over = true;
        self.shared.rings.notify_one();
        if let Some(thread) = self.thread.take() {
            // Its panic was told to the replica.
            let _ = thread.join();
        }
    }
}

/// The answers to packed questions, as many as fit a message and the time.
fn answers(
    question: &Question,
    count: usize,
    ask: impl Fn(&[u8]) -> Result<Bytes, KeepError>,
) -> Result<Packed, KeepError> {
    let questions = Packed::parse(question.bytes.clone(), count).unwrap_or_default();
    let (began, mut body, mut answered) = (Instant::now(), Vec::new(), 0);
    for one in questions.iter() {
        let answer = ask(&one)?;
        if body.len() + answer.len() > MAX_READ_ANSWERS_BYTES {
            break;
        }
        put_bytes(&mut body, &answer);
        answered += 1;
        if began.elapsed() > PACKED_WITHIN {
            break;
        }
    }
    Ok(Packed::parse(body.into(), answered).unwrap_or_default())
}

/// The thread.
fn answer_all(shared: &Shared, voice: &Voice) {
    let mut reader: Option<Box<dyn Reader>> = None;
    while let Some(question) = next(shared, &mut reader) {
        let began = Instant::now();
        match &reader {
            None => voice.refuse(&question, Unproven::Unavailable),
            Some(state) => voice.serve(&question, |bytes| state.answer(bytes)),
        }
        let cost = nanoseconds(began.elapsed());
        voice.metrics.query_nanoseconds_total.add(cost);
        shared.desk().lines.charge(question.connection, cost);
    }
}

/// The next question, and the newest state. Waits for one; `None`: there will be none.
fn next(shared: &Shared, reader: &mut Option<Box<dyn Reader>>) -> Option<Question> {
    let mut desk = shared.desk();
    loop {
        if desk.over {
            return None;
        }
        if let Some(question) = desk.lines.pop() {
            let newer = desk.newer.take();
            drop(desk);
            // What it alone held on to is let go of here.
            *reader = newer.or(reader.take());
            return Some(question);
        }
        desk.given = None;
        let let_go = (desk.newer.take(), reader.take());
        drop(desk);
        drop(let_go);
        desk = shared.desk();
        if desk.lines.is_empty() && !desk.over {
            desk = shared.rings.wait(desk).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
