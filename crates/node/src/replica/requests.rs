//! The clients' stage: decode, hash once, verify signatures as one batch, hand over.
//!
//! One thread takes whatever frames are waiting, from all connections, so that under load the
//! batches grow by themselves and an idle replica answers at once.

use std::sync::Arc;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::client::message::{Refusal, Request, Response};
use quorate_core::crypto::{Check, Claim, Scheme};
use quorate_core::frame::SharedFrame;
use quorate_core::wire::{Decode as _, Encode as _};
use tokio::sync::mpsc;

use super::archive::{Archive, Task};
use super::inbox::{FromClient, Outside};
use super::metrics::Metrics;
use crate::transport::{ClientListener, ConnectionId, Event};

/// Most events taken up at once.
const BATCH: usize = 256;

/// What the stage works with.
pub struct Requests {
    /// The chain that clients sign for.
    pub chain: Digest,
    /// Verifies.
    pub scheme: Arc<dyn Scheme>,
    /// Answers at once what is refused here.
    pub listener: Arc<ClientListener>,
    /// Serves pulls.
    pub archive: Archive,
    /// Where the rest goes.
    pub outside: Outside,
    /// What is counted.
    pub metrics: Arc<Metrics>,
}

/// A frame whose signature is being checked.
struct Claimed {
    connection: ConnectionId,
    claim: Claim<SharedFrame>,
    relay: bool,
}

impl Requests {
    /// Works until the listener is gone.
    pub fn run(&self, mut events: mpsc::Receiver<(ConnectionId, Event)>) {
        let mut batch = Vec::with_capacity(BATCH);
        while events.blocking_recv_many(&mut batch, BATCH) > 0 {
            let mut ready = Vec::with_capacity(batch.len());
            let mut claimed = Vec::with_capacity(batch.len());
            for (connection, event) in batch.drain(..) {
                match event {
                    Event::Opened => {}
                    Event::Closed => ready.push(FromClient::Closed(connection)),
                    Event::Frame(bytes) => self.take(connection, bytes, &mut claimed, &mut ready),
                }
            }
            self.verify(claimed, &mut ready);
            if !ready.is_empty() {
                if self.outside.clients.send(ready).is_err() {
                    return;
                }
                self.outside.bell.ring();
            }
        }
    }

    fn take(
        &self,
        connection: ConnectionId,
        bytes: Bytes,
        claimed: &mut Vec<Claimed>,
        ready: &mut Vec<FromClient>,
    ) {
        match Request::from_bytes(bytes) {
            Ok(Request::Submit { relay, frame }) => {
                let claim = frame.claim(&self.chain);
                claimed.push(Claimed { connection, claim, relay });
            }
            Ok(Request::Query { id, question }) => {
                ready.push(FromClient::Query { connection, id, question });
            }
            Ok(Request::Pull { from, budget_bytes }) => {
                self.archive.ask(Task::Pull { connection, from, budget_bytes });
            }
            Err(_) => {
                self.metrics.refuse("client_malformed");
                self.listener.disconnect(connection);
            }
        }
    }

    fn verify(&self, claimed: Vec<Claimed>, ready: &mut Vec<FromClient>) {
        let checks: Vec<Check> =
            claimed.iter().flat_map(|one| one.claim.checks().iter().copied()).collect();
        let verdicts = self.scheme.verify(&checks);
        for (Claimed { connection, claim, relay }, verdict) in claimed.into_iter().zip(verdicts) {
            let (session, first) = (claim.unverified().session(), claim.unverified().first());
            match claim.settle(&[verdict]) {
                Some(frame) => ready.push(FromClient::Frame { connection, frame, relay }),
                None => {
                    self.metrics.refuse("client_bad_signature");
                    let reason = Refusal::BadSignature;
                    let response = Response::Refused { session, first, reason };
                    // The connection may be gone; there is nobody else to tell.
                    let _ = self.listener.send(connection, response.to_bytes().into());
                }
            }
        }
    }
}
