//! One connection to a replica: made, used, lost and made again.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::base::wire::Decode;
use quorate_core::client::message::{MAX_REPLY_BYTES, Response};
use quorate_core::{Digest, ReplicaId};
use quorate_transport::{Connection, DialError, Limits, Refusal};
use tokio::time::{Instant, Sleep};

use super::ReplicaAddress;

const REDIAL_LEAST: Duration = Duration::from_millis(50);
const REDIAL_MOST: Duration = Duration::from_secs(2);
/// Bytes of a response beside its replies, at most.
const RESPONSE_OVERHEAD_BYTES: usize = 256;
/// Bytes waiting to be written to one replica, at most. One that takes in nothing is left, and
/// told everything it needs when it is back.
const BACKLOG_BYTES: usize = 64 << 20;

/// What a link has to tell.
pub(super) enum News {
    Connected,
    /// Whoever is there proves another key than that of the replica.
    OtherKey,
    Disconnected,
    Response(Response),
}

/// What a link shares with the client's handles.
#[derive(Debug, Default)]
pub(super) struct Contact {
    /// Outcomes and parts of read indices received.
    pub(super) heard: AtomicU64,
    /// Messages dropped because they were not authentic.
    pub(super) refused: AtomicU64,
    /// Why there is no connection.
    trouble: Mutex<Option<String>>,
}

impl Contact {
    pub(super) fn trouble(&self) -> MutexGuard<'_, Option<String>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The connection to one replica.
pub(super) struct Link {
    replica: ReplicaId,
    contact: Arc<Contact>,
    address: ReplicaAddress,
    chain: Digest,
    state: State,
    redial_after: Duration,
}

type Dialling = dyn Future<Output = Result<Connection, DialError>> + Send;

enum State {
    Pausing(Pin<Box<Sleep>>),
    Dialling(Pin<Box<Dialling>>),
    Up(Box<Connection>),
}

impl Link {
    pub(super) fn new(
        replica: ReplicaId,
        address: ReplicaAddress,
        chain: Digest,
        contact: Arc<Contact>,
    ) -> Self {
        let state = State::Dialling(dial(replica, address.clone(), chain));
        Self { replica, contact, address, chain, state, redial_after: REDIAL_LEAST }
    }

    /// Goes on with making the connection, with writing and reading. `Pending` if there is no
    /// news.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<News> {
        loop {
            match &mut self.state {
                State::Pausing(until) => {
                    ready!(until.as_mut().poll(cx));
                    self.state =
                        State::Dialling(dial(self.replica, self.address.clone(), self.chain));
                }
                State::Dialling(dialling) => match ready!(dialling.as_mut().poll(cx)) {
                    Ok(connection) => {
                        *self.contact.trouble() = None;
                        self.state = State::Up(Box::new(connection));
                        return Poll::Ready(News::Connected);
                    }
                    Err(error) => {
                        let is_key = matches!(error, DialError::Key { .. });
                        self.pause(error.to_string());
                        if is_key {
                            return Poll::Ready(News::OtherKey);
                        }
                    }
                },
                State::Up(connection) => {
                    let message = ready!(connection.poll_receive(cx));
                    let at = &self.address.address;
                    let trouble = match message.map(Response::from_bytes) {
                        Some(Ok(response)) => return Poll::Ready(self.heard(response)),
                        Some(Err(error)) => format!("replica at {at}: a response: {error}"),
                        None => format!("replica at {at}: the connection was lost"),
                    };
                    self.pause(trouble);
                    return Poll::Ready(News::Disconnected);
                }
            }
        }
    }

    fn heard(&mut self, response: Response) -> News {
        self.redial_after = REDIAL_LEAST;
        if let Response::Outcome(_)
        | Response::Signed { .. }
        | Response::Tentative { .. }
        | Response::ReadIndex { .. } = response
        {
            self.contact.heard.fetch_add(1, Ordering::Relaxed);
        }
        News::Response(response)
    }

    /// A message was not authentic, and is dropped.
    pub(super) fn refused(&self) {
        self.contact.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Puts a message behind what is to be written when the link is polled next. A connection
    /// that has no room for it ends, and says so then.
    pub(super) fn send(&mut self, message: &Bytes) {
        if let State::Up(connection) = &mut self.state {
            let _ = connection.push(message.clone());
        }
    }

    /// Writes what was sent, as far as the connection takes it.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) {
        if let State::Up(connection) = &mut self.state {
            connection.write(cx);
        }
    }

    fn pause(&mut self, trouble: String) {
        *self.contact.trouble() = Some(trouble);
        let until = Instant::now() + self.redial_after;
        self.state = State::Pausing(Box::pin(tokio::time::sleep_until(until)));
        self.redial_after = (self.redial_after * 2).min(REDIAL_MOST);
    }
}

/// Connects, and makes sure that it is this replica: two addresses that lead to one replica must
/// not give it two votes.
fn dial(replica: ReplicaId, address: ReplicaAddress, chain: Digest) -> Pin<Box<Dialling>> {
    let limits = Limits {
        frame_bytes: MAX_REPLY_BYTES + RESPONSE_OVERHEAD_BYTES,
        queue_bytes: BACKLOG_BYTES,
        ..Limits::clients()
    };
    Box::pin(async move {
        let ReplicaAddress { address, key } = address;
        let connection = quorate_transport::connect(&address, key, chain, limits).await?;
        match connection.replica() == replica {
            true => Ok(connection),
            false => Err(DialError::Refused { address, refusal: Refusal::Role }),
        }
    })
}
