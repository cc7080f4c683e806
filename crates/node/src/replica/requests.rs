//! The clients' stage: decode, hash once, verify signatures as one batch, hand over.
//!
//! One thread takes whatever frames are waiting, from all connections, so that under load the
//! batches grow by themselves and an idle replica answers at once.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use quorate_core::Digest;
use quorate_core::client::message::{Refusal, Request, Response};
use quorate_core::crypto::{Check, Claim, Scheme};
use quorate_core::frame::{Frame, OVERHEAD_BYTES, SharedFrame};
use quorate_core::wire::{Decode as _, Encode as _};

use super::archive::{Archive, Task};
use super::decide::LITTLE_BYTES;
use super::inbox::{Batch, FromClient, Outside, Question};
use super::metrics::Metrics;
use super::profile::REQUESTS;
use crate::transport::{Arrivals, ClientListener, ConnectionId, Event};

/// Most events taken up at once.
const BATCH: usize = 256;

/// What the stage works with.
pub struct Requests {
    /// The chain that clients sign for.
    pub chain: Digest,
    /// Most commands in a frame, by the cluster's agreement.
    pub max_frame_commands: u32,
    /// Most bytes of commands in a frame, by the cluster's agreement.
    pub max_frame_bytes: usize,
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
    pub fn run(&self, mut events: Arrivals<(ConnectionId, Event)>) {
        let mut batch = Vec::with_capacity(BATCH);
        while let Some(room) = events.blocking_recv_many(&mut batch, BATCH) {
            let arrived = Instant::now();
            let mut ready = Vec::with_capacity(batch.len());
            let mut claimed = Vec::with_capacity(batch.len());
            let mut closed = Vec::new();
            for (connection, event) in batch.drain(..) {
                match event {
                    Event::Opened => {}
                    Event::Closed => closed.push(FromClient::Closed(connection)),
                    Event::Frame(bytes) => self.take(connection, bytes, &mut claimed, &mut ready),
                }
            }
            self.verify(arrived, claimed, &mut ready);
            self.metrics.profile.stages[REQUESTS].record(arrived.elapsed());
            // Behind the frames that came before, or these would bring the connection back.
            ready.append(&mut closed);
            if !ready.is_empty() {
                let is_little = room.bytes() <= LITTLE_BYTES;
                if self.outside.clients.send(Batch { doings: ready, room }).is_err() {
                    return;
                }
                if is_little {
                    self.outside.bell.ring_and_help();
                } else {
                    self.outside.bell.ring();
                }
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
            Ok(Request::Submit { frame, .. })
                if frame.count() > self.max_frame_commands
                    || frame.encoded_bytes().len() > OVERHEAD_BYTES + self.max_frame_bytes =>
            {
                self.metrics.refuse("client_frame_too_large");
                self.refuse(connection, &frame, Refusal::TooLarge);
            }
            Ok(Request::Submit { relay, frame }) => {
                let claim = frame.claim(&self.chain);
                claimed.push(Claimed { connection, claim, relay });
            }
            Ok(Request::Query { id, question }) => {
                ready.push(FromClient::Query { connection, id, question });
            }
            Ok(Request::Prove { id, question: bytes }) => {
                ready.push(FromClient::Prove(Question { connection, id, bytes }));
            }
            Ok(Request::Newest { id }) => ready.push(FromClient::Newest { connection, id }),
            Ok(Request::Pull { from, budget_bytes }) => {
                self.archive.ask(Task::Pull { connection, from, budget_bytes });
            }
            Err(_) => {
                self.metrics.refuse("client_malformed");
                self.listener.disconnect(connection);
            }
        }
    }

    fn verify(&self, arrived: Instant, claimed: Vec<Claimed>, ready: &mut Vec<FromClient>) {
        let checks: Vec<Check> =
            claimed.iter().flat_map(|one| one.claim.checks().iter().cloned()).collect();
        let verdicts = self.scheme.verify(&checks);
        for (Claimed { connection, claim, relay }, verdict) in claimed.into_iter().zip(verdicts) {
            let frame = Arc::clone(claim.unverified());
            match claim.settle(&[verdict]) {
                Some(frame) => {
                    ready.push(FromClient::Frame { connection, frame, relay, arrived });
                }
                None => {
                    self.metrics.refuse("client_bad_signature");
                    self.refuse(connection, &frame, Refusal::BadSignature);
                }
            }
        }
    }

    fn refuse(&self, connection: ConnectionId, frame: &Frame, reason: Refusal) {
        let response = Response::Refused { session: frame.session(), first: frame.first(), reason };
        // The connection may be gone; there is nobody else to tell.
        let _ = self.listener.send(connection, response.to_bytes().into());
    }
}
