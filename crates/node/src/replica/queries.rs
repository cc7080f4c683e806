//! Questions to the application, answered beside the deciding thread.
//!
//! Anybody may ask, unsigned, and an answer may take hundredths of a second. So a thread of its own
//! answers from a *reader*: the state as it was frozen between two turns, which copies nothing. The
//! deciding thread freezes one when a question waits and the state has changed since the last; the
//! thread lets it go when no question waits, since it holds on to what later blocks replace.
//!
//! Who is served next say the [lines](super::lines). An application without readers is asked by the
//! deciding thread; it has to bound its work itself.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::Height;
use quorate_core::base::wire::Encode as _;
use quorate_core::client::message::{Response, Unproven};
use quorate_core::ledger::execution::{Execution, panic_message};
use quorate_core::ledger::state_machine::{MAX_COMMAND_REPLY_BYTES, Reader, StateMachine};
use quorate_core::planted;
use quorate_transport::{ClientListener, ConnectionId};

use super::inbox::{Outside, Question};
use super::lines::Lines;
use super::metrics::{Metrics, nanoseconds};

/// The questions that wait, and the thread that answers them.
pub struct Queries {
    shared: Arc<Shared>,
    /// Asked since the last turn: they are for a state that is frozen after that.
    asked: Vec<Question>,
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
        self.metrics.refuse("query");
        self.say(question.connection, &Response::Unproven { id: question.id, reason });
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
        Ok(Self { shared, asked: Vec::new(), thread, voice })
    }

    /// Takes a question in.
    pub fn ask(&mut self, question: Question) {
        self.asked.push(question);
    }

    /// The connection is gone.
    pub fn forget(&mut self, connection: ConnectionId) {
        self.asked.retain(|question| question.connection != connection);
        self.shared.desk().lines.forget(connection);
    }

    /// Gives the thread what was asked, and the state to answer from.
    pub fn go_on<S: StateMachine>(&mut self, state: &Execution<S>) {
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
            match catch_unwind(AssertUnwindSafe(|| state.query(&question.bytes))) {
                Ok(answer) => self.voice.answer(&question, answer),
                Err(said) => self.voice.panicked(&question, &*said),
            }
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

/// The thread.
fn answer_all(shared: &Shared, voice: &Voice) {
    let mut reader: Option<Box<dyn Reader>> = None;
    while let Some(question) = next(shared, &mut reader) {
        let began = Instant::now();
        match &reader {
            None => voice.refuse(&question, Unproven::Unavailable),
            Some(state) => match catch_unwind(AssertUnwindSafe(|| state.answer(&question.bytes))) {
                Ok(Ok(answer)) => voice.answer(&question, answer),
                Ok(Err(error)) => {
                    tracing::warn!(
                        %error,
                        "a client's question could not be answered from the state: see to the disk"
                    );
                    voice.refuse(&question, Unproven::Unavailable);
                }
                Err(said) => voice.panicked(&question, &*said),
            },
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
