//! A client over the network: one session, connected to all replicas, shared by many tasks.
//!
//! [`Client::connect`] starts one task that owns the [session](quorate_core::client::Session) and
//! all its connections: what a replica answers goes from the socket to the caller without passing
//! through another task. Calls of [`Client::submit`] are executed in the order they are made in,
//! and grouped: what is waiting when the connections have room goes out in one frame.
//!
//! # Errors
//! [`ClientError`] says whether commands may be submitted again; see there.

mod authenticity;
mod blocking;
pub mod change;
mod driver;
pub mod generation;
mod link;
mod members;
pub mod pull;
mod query;
pub mod rights;
pub mod states;
pub mod succession;
pub mod verified;
pub mod watch;

use std::future::Future;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use quorate_core::base::crypto::{ClientSigner, PublicKey};
use quorate_core::client::reads::ReadError;
use quorate_core::client::{
    ClientError, Fatal, NotExecuted, Packed, Session, SessionConfig, Unknown,
};
use quorate_core::{SessionId, Time};
use tokio::sync::{mpsc, oneshot, watch as latest};

pub use authenticity::Authenticity;
pub use blocking::BlockingClient;
pub use query::QueryError;

use driver::{Driver, Submission};
use link::Contact;
use members::{Contacts, Members};
use query::Questions;

/// Where a replica is, and how it is recognized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaAddress {
    /// `host:port` of its client listener.
    pub address: String,
    /// Its transport key.
    pub key: PublicKey,
}

/// What a client is to know.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The replicas, in the order of their ids: as many as `session.replicas`.
    pub replicas: Vec<ReplicaAddress>,
    /// The chain, the number of replicas, whom frames are sent to, and the limits.
    pub session: SessionConfig,
    /// By what outcomes are known to be the replicas'.
    pub authenticity: Authenticity,
    /// When [`Client::submit`] gives up. `None`: never.
    pub give_up_after: Option<Duration>,
    /// The incarnation to open the session under. `None`: the time since 1970 in nanoseconds, or
    /// one above that of the session that is open under the same key.
    pub incarnation: Option<u64>,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Replicas have been asked for a session, and not enough have answered.
    Opening,
    /// The session is open.
    Open(SessionId),
    /// Nothing more will be executed.
    Ended(Fatal),
}

/// How a client stands with one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplicaContact {
    /// How many outcomes and parts of read indices the replica has sent, right or wrong.
    pub heard: u64,
    /// How many of its messages were dropped because they were not authentic.
    pub refused: u64,
    /// Why there is no connection; `None` if there is one, or the first is being made.
    pub trouble: Option<String>,
}

/// A handle on a client session. Cheap to clone; the session ends when the last handle and the
/// last future of [`Client::submit`] are gone.
#[derive(Clone, Debug)]
pub struct Client {
    submissions: mpsc::UnboundedSender<Submission>,
    state: latest::Receiver<State>,
    contacts: Contacts,
    give_up_after: Option<Duration>,
    questions: Arc<Questions>,
}

impl Client {
    /// Starts to open a session for `signer`'s key. What is submitted meanwhile waits.
    ///
    /// # Panics
    /// Outside of a tokio runtime, or if the configuration has more or fewer addresses than
    /// replicas.
    #[must_use]
    pub fn start(config: ClientConfig, signer: Arc<dyn ClientSigner>) -> Self {
        assert_eq!(config.replicas.len(), config.session.replicas, "one address a replica");
        let (submissions, receiver) = mpsc::unbounded_channel();
        let (sender, state) = latest::channel(State::Opening);
        let questions = Arc::new(Questions::new(&config.replicas, config.session.chain));
        let contacts = Contacts::default();
        let mut members = Members::new(&config, Arc::clone(&contacts), Arc::clone(&questions));
        let takes_over = config.incarnation.is_none();
        let incarnation = config.incarnation.unwrap_or_else(nanoseconds_since_1970);
        let authenticity = (config.authenticity, signer.public_key());
        let session = SessionConfig { takes_over, ..config.session };
        let mut session = Session::new(session, signer, incarnation, Time(0));
        members.begin(&mut session);
        tokio::spawn(Driver::new(session, authenticity, members, receiver, sender));
        let give_up_after = config.give_up_after;
        Self { submissions, state, contacts, give_up_after, questions }
    }

    /// Waits until f + 1 replicas say that the session is open: as long as it takes. Bound it with
    /// a time-out of your own; [`Client::contacts`] then tells what is in the way.
    ///
    /// # Errors
    /// [`Fatal`] if the cluster turns this client down.
    pub async fn opened(&self) -> Result<(), Fatal> {
        let mut state = self.state.clone();
        let settled = state.wait_for(|state| *state != State::Opening).await;
        match settled.map(|state| *state) {
            Ok(State::Ended(fatal)) => Err(fatal),
            _ => Ok(()),
        }
    }

    /// Waits until nothing more of this client will be executed: for ever, if all goes well.
    pub async fn ended(&self) -> Fatal {
        let mut state = self.state.clone();
        loop {
            if let State::Ended(fatal) = *state.borrow_and_update() {
                return fatal;
            }
            if state.changed().await.is_err() {
                // The task is gone with its runtime, and so will this one be.
                std::future::pending::<()>().await;
            }
        }
    }

    /// [`Client::start`], then [`Client::opened`].
    ///
    /// # Errors
    /// As [`Client::opened`].
    ///
    /// # Panics
    /// As [`Client::start`].
    pub async fn connect(
        config: ClientConfig,
        signer: Arc<dyn ClientSigner>,
    ) -> Result<Self, Fatal> {
        let client = Self::start(config, signer);
        client.opened().await?;
        Ok(client)
    }

    /// Submits commands: they are executed in order, each exactly once, after all that was
    /// submitted before this call (not: before the future is first polled). The future may be
    /// dropped; the commands are executed all the same.
    ///
    /// # Errors
    /// [`ClientError`]; [`NotExecuted::DoesNotFit`] if they are more than fit in one frame.
    pub fn submit(
        &self,
        commands: Vec<Bytes>,
    ) -> impl Future<Output = Result<Vec<Bytes>, ClientError>> + Send + use<> {
        let answer = Packed::commands(commands).map(|batch| self.submit_packed(batch));
        async move {
            let replies = answer.map_err(|_| NotExecuted::DoesNotFit)?.await?;
            Ok(replies.iter().collect())
        }
    }

    /// As [`Client::submit`], of commands that are packed already; the replies are packed too.
    pub fn submit_packed(
        &self,
        batch: Packed,
    ) -> impl Future<Output = Result<Packed, ClientError>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        self.submit_then(batch, self.give_up_after, move |result| {
            // The caller may have lost interest.
            let _ = sender.send(result);
        });
        let keep_alive = self.submissions.clone();
        async move {
            let result = receiver.await.unwrap_or_else(|_| Err(Unknown::Closed.into()));
            drop(keep_alive);
            result
        }
    }

    /// As [`Client::submit_packed`], but `done` is called with the result: by the task that owns
    /// the connections, which it must not hold up. Keeping a handle until then is up to the
    /// caller.
    pub fn submit_then(
        &self,
        batch: Packed,
        give_up_after: Option<Duration>,
        done: impl FnOnce(Result<Packed, ClientError>) + Send + 'static,
    ) {
        let done = Box::new(done);
        let submission = Submission::Commands { batch, give_up_after, done };
        if let Err(refused) = self.submissions.send(submission) {
            refused.0.refuse();
        }
    }

    /// Asks the application without ordering the questions. The answers are **linearizable**: they
    /// hold every write that anybody was answered for before this call, as ordered reads do. f + 1
    /// replicas answer from a state that a [read index](quorate_core::client::read_index) covers.
    /// All questions are answered from one state. What is asked while a round of messages is under
    /// way shares the next one.
    ///
    /// # Errors
    /// [`ReadError`]. Nothing was changed; the questions may be [submitted](Self::submit) instead,
    /// where the application takes them as commands.
    pub fn read(
        &self,
        questions: Vec<Bytes>,
    ) -> impl Future<Output = Result<Vec<Bytes>, ReadError>> + Send + use<> {
        let (sender, receiver) = oneshot::channel();
        match Packed::commands(questions) {
            Ok(questions) => self.read_then(questions, self.give_up_after, move |result| {
                // The caller may have lost interest.
                let _ = sender.send(result);
            }),
            Err(_) => drop(sender.send(Err(ReadError::DoesNotFit))),
        }
        let keep_alive = self.submissions.clone();
        async move {
            let answers = receiver.await.unwrap_or(Err(ReadError::Closed));
            drop(keep_alive);
            Ok(answers?.iter().collect())
        }
    }

    /// As [`Client::read`], but `done` is called with the result, as by
    /// [`submit_then`](Self::submit_then).
    pub fn read_then(
        &self,
        questions: Packed,
        give_up_after: Option<Duration>,
        done: impl FnOnce(Result<Packed, ReadError>) + Send + 'static,
    ) {
        let done = Box::new(done);
        let submission = Submission::Questions { questions, give_up_after, done };
        if let Err(refused) = self.submissions.send(submission) {
            refused.0.refuse();
        }
    }

    /// Asks the application without ordering the question: the answer that f + 1 replicas give.
    /// It is one that the service really gave, and it may be old. To read the newest state, submit
    /// the question as a command. Takes a connection of its own to each replica, which is kept.
    ///
    /// # Errors
    /// [`QueryError`]; it may be asked again.
    pub async fn query(&self, question: Bytes) -> Result<Bytes, QueryError> {
        self.questions.ask(question).await
    }

    /// How the client stands with each replica, by id. Who is no member says nothing.
    #[must_use]
    pub fn contacts(&self) -> Vec<ReplicaContact> {
        let contact = |contact: &Arc<Contact>| ReplicaContact {
            heard: contact.heard.load(Ordering::Relaxed),
            refused: contact.refused.load(Ordering::Relaxed),
            trouble: contact.trouble().clone(),
        };
        let contacts = self.contacts.read().unwrap_or_else(PoisonError::into_inner);
        contacts.iter().map(contact).collect()
    }

    /// Where the session stands.
    #[must_use]
    pub fn state(&self) -> State {
        *self.state.borrow()
    }
}

fn nanoseconds_since_1970() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
