//! One connection to a replica: made, used, lost and made again.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use quorate_core::client::message::{MAX_REPLY_BYTES, Response};
use quorate_core::wire::Decode;
use quorate_core::{Digest, ReplicaId};
use tokio::time::{Instant, Sleep};

use super::ReplicaAddress;
use crate::transport::{self, Connection, DialError, Limits, Refusal};

const REDIAL_LEAST: Duration = Duration::from_millis(50);
const REDIAL_MOST: Duration = Duration::from_secs(2);
/// Bytes of a response beside its replies, at most.
const RESPONSE_OVERHEAD_BYTES: usize = 64;
/// Bytes waiting to be written to one replica, at most. One that takes in nothing is left, and
/// told everything it needs when it is back.
const BACKLOG_BYTES: usize = 64 << 20;

/// What a link has to tell.
pub(super) enum News {
    Connected,
    Disconnected,
    Response(Response),
}

/// The connection to one replica.
pub(super) struct Link {
    replica: ReplicaId,
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
    pub(super) fn new(replica: ReplicaId, address: ReplicaAddress, chain: Digest) -> Self {
        let state = State::Dialling(dial(replica, address.clone(), chain));
        Self { replica, address, chain, state, redial_after: REDIAL_LEAST }
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
                        self.state = State::Up(Box::new(connection));
                        return Poll::Ready(News::Connected);
                    }
                    Err(_) => self.pause(),
                },
                State::Up(connection) => {
                    let message = ready!(connection.poll_receive(cx));
                    match message.and_then(|message| Response::from_bytes(message).ok()) {
                        Some(response) => {
                            self.redial_after = REDIAL_LEAST;
                            return Poll::Ready(News::Response(response));
                        }
                        None => {
                            self.pause();
                            return Poll::Ready(News::Disconnected);
                        }
                    }
                }
            }
        }
    }

    /// Puts a message behind what is to be written when the link is polled next. A connection
    /// that has no room for it ends, and says so then.
    pub(super) fn send(&mut self, message: &Bytes) {
        if let State::Up(connection) = &mut self.state {
            let _ = connection.push(message.clone());
        }
    }

    fn pause(&mut self) {
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
        let connection = transport::connect(&address, key, chain, limits).await?;
        match connection.replica() == replica {
            true => Ok(connection),
            false => Err(DialError::Refused { address, refusal: Refusal::Role }),
        }
    })
}
