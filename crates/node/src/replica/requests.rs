//! The clients' stages: decode, hash once, verify signatures as one batch, hand over.
//!
//! One thread takes whatever frames are waiting, from all connections, so that under load the
//! batches grow by themselves. It decodes; to hash and to verify it shares a batch with as many
//! threads as `pipeline.requests` says. A batch is handed over whole, so each connection's frames
//! stay in their order. A frame that comes alone is dealt with by whoever brings it
//! ([`desk`](super::desk)). Connections whose signatures do not hold pay for that themselves
//! ([`standing`](super::standing)), and so do clients that go on sending what is refused
//! ([`refusals`](super::refusals)).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::TrySendError;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::crypto::{Check, Claim, PublicKey, Scheme};
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{self, Refusal, Request, Response, Unproven};
use quorate_core::ledger::frame::{OVERHEAD_BYTES, SharedFrame, Unnamed, name_all};
use quorate_core::protocols::protocol::Types;
use quorate_core::replica::reads::Read;
use quorate_core::{Digest, Sequence, SessionId};
use quorate_transport::{Arrivals, ClientListener, ConnectionId, Event};

use super::admission::{self, Admission};
use super::archive::{Archive, Backup, Pull, Task};
use super::changes::Approved;
use super::desk::Work;
use super::epochs::Epochs;
use super::feed::Watchers;
use super::generating::Board;
use super::inbox::{Asked, Batch, FromClient, LITTLE_BYTES, Outside, Question};
use super::metrics::Metrics;
use super::profile::Stage;
use super::refusals::{Payer, Refusals, UNANSWERED};
use super::settled::{Allowance, Known, Settled};
use super::spread::Spread;
use super::standing::Standings;
use super::traced::Received;

/// Most events taken up at once.
const BATCH: usize = 256;
/// Most frames verified together of a connection that has no standing.
const APART: usize = 8;
/// What comes so long after all else comes alone.
const ALONE: Duration = Duration::from_micros(250);

/// What the stage works with.
pub struct Requests<T: Types> {
    /// The chain that clients sign for.
    pub chain: Digest,
    /// Most commands in a frame, by the cluster's agreement.
    pub max_frame_commands: u32,
    /// Most bytes of commands in a frame, by the cluster's agreement.
    pub max_frame_bytes: usize,
    /// Verifies.
    pub scheme: Arc<dyn Scheme>,
    /// Threads that hash and verify.
    pub spread: Spread,
    /// Answers at once what is refused here.
    pub listener: Arc<ClientListener>,
    /// Serves pulls.
    pub archive: Archive<T>,
    /// Serves those who watch.
    pub watchers: Watchers,
    /// Where the rest goes.
    pub outside: Outside,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// What is told of frames that are traced.
    pub received: Option<Received>,
    /// What clients did.
    pub events: Arrivals<(ConnectionId, Event)>,
    /// Whose signatures have held.
    pub standings: Standings,
    /// What refusals have cost whom.
    pub refusals: Refusals,
    /// What was executed, and need not be verified.
    pub settled: Arc<Settled>,
    /// What is known of the members.
    pub epochs: Arc<Epochs>,
    /// This replica's part in key generations.
    pub generating: Arc<Board>,
    /// Who may send commands.
    pub admission: Admission,
    /// How many old frames may be verified.
    pub allowance: Allowance,
    /// What signatures under changes of the members cost, and which have held.
    pub approved: Approved,
    /// Room for what is taken up; empty in between.
    pub batch: Vec<(ConnectionId, Event)>,
    /// Looked over, and not handed over yet.
    pub kept: Option<Batch>,
    /// When it last looked over anything.
    pub worked: Instant,
    /// Set, and rung for, when the replica has ended.
    pub over: Arc<AtomicBool>,
}

/// Bytes of frames for each thread that hashes: fewer are done before another thread is awake.
const HASHED_BY_ONE: usize = 64 << 10;
/// Signatures for each thread that verifies: as many as cost least when they are summed together.
const VERIFIED_BY_ONE: usize = 32;
/// The reason under which a signature of a client that does not hold is counted.
const BAD_SIGNATURE: &str = "client_bad_signature";

/// A frame that was read, and not hashed.
struct Decoded {
    connection: ConnectionId,
    frame: Unnamed,
    relay: bool,
}

/// A frame whose signature is being checked.
pub(super) struct Claimed {
    pub(super) connection: ConnectionId,
    pub(super) claim: Claim<SharedFrame>,
    pub(super) relay: bool,
    /// Its session has executed what comes behind it. Anybody may have sent it again.
    pub(super) is_old: bool,
}

/// The replica has ended.
#[derive(Debug)]
pub struct Gone;

impl<T: Types> Work for Requests<T> {
    type End = Gone;

    /// Waits where the deciding thread has enough to do.
    fn turn(&mut self) -> Result<bool, Gone> {
        if let Some(batch) = self.kept.take() {
            let is_little = batch.is_little();
            self.outside.clients.send(batch).map_err(|_| Gone)?;
            self.ring(is_little);
        }
        let is_over = self.over.load(Ordering::Acquire);
        self.kept = self.work();
        if is_over && self.kept.is_none() && self.events.is_empty() {
            return Err(Gone);
        }
        Ok(self.kept.is_some() || !self.events.is_empty())
    }

    fn single_turn(&mut self) -> Result<bool, Gone> {
        let Some(batch) = self.work() else { return Ok(self.events.is_empty()) };
        let is_little = batch.is_little();
        match self.outside.clients.try_send(batch) {
            Ok(()) => self.ring(is_little),
            Err(TrySendError::Full(batch)) => self.kept = Some(batch),
            Err(TrySendError::Disconnected(_)) => return Err(Gone),
        }
        Ok(self.kept.is_none() && self.events.is_empty())
    }

    /// What comes in numbers is for the thread, which meets more of it: together they cost less to
    /// verify.
    fn has_little_to_do(&self) -> bool {
        let is_alone = self.events.len() <= 1 && self.worked.elapsed() >= ALONE;
        self.kept.is_none() && is_alone && self.events.bytes() <= LITTLE_BYTES
    }
}

impl<T: Types> Requests<T> {
    /// Looks over what waits.
    fn work(&mut self) -> Option<Batch> {
        let mut events = std::mem::take(&mut self.batch);
        let waiting = self.events.len() as u64;
        let room = self.events.try_recv_many(&mut events, BATCH);
        if events.is_empty() {
            return None;
        }
        let arrived = Instant::now();
        self.admission.look();
        let mut ready = Vec::with_capacity(events.len());
        let mut decoded = Vec::with_capacity(events.len());
        let (mut closed, taken) = (Vec::new(), events.len() as u64);
        for (connection, event) in events.drain(..) {
            match event {
                Event::Opened => {}
                Event::Closed => {
                    self.watchers.forget(connection);
                    closed.push(connection);
                }
                Event::Frame(bytes) => {
                    self.take((connection, bytes, arrived), &mut decoded, &mut ready);
                }
            }
        }
        self.batch = events;
        let mut since = arrived;
        self.note(Stage::Decode, &mut since, taken, waiting.max(taken));
        if !decoded.is_empty() {
            let frames = decoded.len() as u64;
            let claimed = self.hash(decoded);
            self.note(Stage::Hash, &mut since, frames, frames);
            let hashed = since;
            self.verify(arrived, claimed, &mut ready);
            self.note(Stage::Verify, &mut since, frames, frames);
            if let Some(received) = &mut self.received {
                received.note(&ready, arrived, (hashed, since));
            }
        }
        for connection in &closed {
            self.standings.forget(*connection);
            self.refusals.forget(*connection);
        }
        self.worked = since;
        // Behind the frames that came before, or these would bring the connection back.
        ready.extend(closed.into_iter().map(FromClient::Closed));
        (!ready.is_empty()).then_some(Batch { doings: ready, room })
    }

    /// A visit to `stage` that began at `since` is over; the next begins.
    fn note(&self, stage: Stage, since: &mut Instant, items: u64, waiting: u64) {
        let now = Instant::now();
        self.metrics.profile.stage(stage).visit(now - *since, items, waiting);
        *since = now;
    }

    /// Gives frames their identities, in their order.
    fn hash(&self, decoded: Vec<Decoded>) -> Vec<Claimed> {
        let (mut frames, mut others) = (Vec::new(), Vec::with_capacity(decoded.len()));
        let mut bytes = 0;
        for Decoded { connection, frame, relay } in decoded {
            bytes += frame.hashed_bytes();
            frames.push(frame);
            others.push((connection, relay));
        }
        let least = (frames.len() * HASHED_BY_ONE).div_ceil(bytes.max(1));
        let named = self.spread.map(frames, least, name_all).into_iter().map(SharedFrame::from);
        let claim = |(frame, (connection, relay)): (SharedFrame, _)| {
            let claim = frame.claim(&self.chain);
            Claimed { connection, claim, relay, is_old: false }
        };
        named.zip(others).map(claim).collect()
    }

    fn ring(&self, is_little: bool) {
        if is_little {
            self.outside.bell.ring_and_help();
        } else {
            self.outside.bell.ring();
        }
    }

    fn take(
        &mut self,
        (connection, bytes, arrived): (ConnectionId, Bytes, Instant),
        decoded: &mut Vec<Decoded>,
        ready: &mut Vec<FromClient>,
    ) {
        let request = match message::Decoded::from_bytes(bytes) {
            Ok(message::Decoded::Submit { relay, frame }) => {
                let is_taken = !self.is_too_large(connection, &frame, arrived)
                    && !self.turns_away(connection, &frame, arrived);
                return decoded.extend(is_taken.then_some(Decoded { connection, frame, relay }));
            }
            Ok(message::Decoded::Other(request)) => Ok(request),
            Err(error) => Err(error),
        };
        match request {
            Ok(Request::Query { id, question: bytes }) => {
                let question = Question { connection, id, bytes, packed: None };
                ready.push(FromClient::Query(Asked::Now(question)));
            }
            Ok(Request::Prove { id, question: bytes }) => {
                ready.push(FromClient::Prove(Question { connection, id, bytes, packed: None }));
            }
            Ok(Request::Newest { id }) => ready.push(FromClient::Newest { connection, id }),
            Ok(Request::ReadIndex { id, epoch }) => {
                ready.push(FromClient::Query(Asked::Index { connection, id, epoch }));
            }
            Ok(Request::ReadAt { id, epoch, index, questions }) => {
                let read = Read { client: connection, id, epoch, index, questions };
                ready.push(FromClient::Query(Asked::At(read)));
            }
            Ok(Request::Program { id }) => ready.push(FromClient::Program { connection, id }),
            Ok(Request::Handovers { id, from }) => {
                let handovers = self.epochs.handovers(from);
                self.say(connection, &Response::Handovers { id, handovers });
            }
            Ok(Request::Clients { id }) => {
                let clients = self.admission.clients().to_bytes().into();
                self.say(connection, &Response::Clients { id, clients });
            }
            Ok(Request::Generation { id, key }) => {
                self.say(connection, &self.generating.answer(id, key));
            }
            Ok(Request::Dealing { id, dealer }) => {
                let dealing = self.generating.dealing(dealer).unwrap_or_default();
                self.say(connection, &Response::Dealing { id, dealing });
            }
            Ok(Request::Ready { id, change: bytes }) => {
                let question = Question { connection, id, bytes, packed: None };
                ready.extend(self.is_ready(question, arrived));
            }
            Ok(Request::Pull { from, budget_bytes }) => {
                self.archive.pull(Pull { connection, from, budget_bytes });
            }
            Ok(Request::Offer { id }) => self.ask_archive(Backup { connection, id, chunk: None }),
            Ok(Request::Chunk { id, height, chunk }) => {
                self.ask_archive(Backup { connection, id, chunk: Some((height, chunk)) });
            }
            Ok(request @ (Request::Changes { id, .. } | Request::Lists { id, .. })) => {
                if let Err(reason) = self.watchers.ask(connection, request) {
                    self.say(connection, &Response::Unproven { id, reason });
                }
            }
            // The first byte tells frames apart, above.
            Ok(Request::Submit { .. }) | Err(_) => {
                self.metrics.refuse("client_malformed");
                self.listener.disconnect(connection);
            }
        }
    }

    /// Passes on the question whether this replica is ready for a change. It does so only for a
    /// change that administrators signed.
    fn is_ready(&mut self, question: Question, arrived: Instant) -> Option<FromClient> {
        let Question { connection, id, ref bytes, .. } = question;
        match self.look_at_change(connection, bytes, arrived) {
            Ok(()) => Some(FromClient::Ready(question)),
            Err(reason) => {
                let reason = Bytes::from_static(reason.as_bytes());
                self.say(connection, &Response::NotReady { id, reason });
                None
            }
        }
    }

    /// Refuses a frame that is larger than the cluster agreed on.
    fn is_too_large(
        &mut self,
        connection: ConnectionId,
        frame: &Unnamed,
        arrived: Instant,
    ) -> bool {
        let most_bytes = OVERHEAD_BYTES + self.max_frame_bytes;
        if frame.count() <= self.max_frame_commands && frame.encoded_bytes() <= most_bytes {
            return false;
        }
        self.metrics.refuse("client_frame_too_large");
        if self.may_answer(connection, &frame.key(), arrived) {
            self.refuse(connection, frame.session(), frame.first(), Refusal::TooLarge);
        }
        true
    }

    /// Turns a frame away whose client may not send it, or not so many.
    fn turns_away(&mut self, connection: ConnectionId, frame: &Unnamed, arrived: Instant) -> bool {
        if self.admission.clients().is_silent() {
            return false;
        }
        let key = frame.key();
        if let Some(reason) = self.admission.refuses(frame) {
            self.metrics.refuse(admission::label(reason));
            self.admission.tell(&key, admission::label(reason), arrived);
            if self.may_answer(connection, &key, arrived) {
                self.say(connection, &self.admission.answer(frame, reason));
            }
            return true;
        }
        if self.admission.is_beyond_rate(&key, arrived) {
            self.is_beyond_rate(connection, &key, (frame.session(), frame.first()), arrived);
            return true;
        }
        false
    }

    fn is_beyond_rate(
        &mut self,
        connection: ConnectionId,
        key: &PublicKey,
        (session, first): (SessionId, Sequence),
        arrived: Instant,
    ) {
        self.metrics.refuse(admission::BEYOND_RATE);
        self.admission.tell(key, admission::BEYOND_RATE, arrived);
        if self.may_answer(connection, key, arrived) {
            self.refuse(connection, session, first, Refusal::Busy);
        }
    }

    /// Bills a refusal at the door. Whether there is an answer: otherwise the connection is not
    /// read for a while.
    fn may_answer(&mut self, connection: ConnectionId, key: &PublicKey, now: Instant) -> bool {
        let payer = match self.standings.is_of(connection, key) {
            true => Payer::Proven(connection),
            false => Payer::Unproven(connection),
        };
        let pause = self.refusals.bill(payer, now);
        if let Some(pause) = pause {
            self.metrics.refuse(UNANSWERED);
            self.admission.tell(key, UNANSWERED, now);
            self.listener.pause(connection, pause);
        }
        pause.is_none()
    }

    /// Hands on those frames that were executed lately, and drops old ones beyond the allowance.
    /// The rest is to be verified.
    fn sift(
        &mut self,
        arrived: Instant,
        claimed: Vec<Claimed>,
        ready: &mut Vec<FromClient>,
    ) -> Vec<Claimed> {
        let known = self.settled.known(claimed.iter().map(|one| &**one.claim.unverified()));
        let old = known.iter().filter(|known| **known == Known::Old).count();
        let mut allowed = if old > 0 { self.allowance.take(old, arrived) } else { 0 };
        let mut rest = Vec::with_capacity(claimed.len());
        for (one, known) in claimed.into_iter().zip(known) {
            match known {
                Known::New => rest.push(one),
                Known::Old if allowed > 0 => {
                    allowed -= 1;
                    rest.push(Claimed { is_old: true, ..one });
                }
                // Its client asks again.
                Known::Old => self.metrics.refuse("client_old_frame"),
                Known::Executed => {
                    let Claimed { connection, claim, relay, .. } = one;
                    let verdicts = vec![true; claim.checks().len()];
                    ready.extend(claim.settle(&verdicts).map(|frame| FromClient::Frame {
                        connection,
                        frame,
                        relay,
                        arrived,
                    }));
                }
            }
        }
        rest
    }

    /// Frames of connections in good standing are verified as one batch. The rest of a connection's
    /// frames are verified apart, a few at a time, until too many of them do not hold.
    fn verify(&mut self, arrived: Instant, claimed: Vec<Claimed>, ready: &mut Vec<FromClient>) {
        let claimed = self.sift(arrived, claimed, ready);
        let mut claimed = self.settle_changes(arrived, claimed, ready);
        // One behind the other, in their order: where the batch fails, bisection soon comes to the
        // frames of one connection, and leaves those of others alone.
        claimed.sort_by_key(|one| one.connection);
        let mut together = Vec::with_capacity(claimed.len());
        let mut apart: Vec<Vec<Claimed>> = Vec::new();
        let mut frames = claimed.into_iter().peekable();
        while let Some(connection) = frames.peek().map(|one| one.connection) {
            let mut trusted = self.standings.trusted(connection);
            let mut others = Vec::new();
            while let Some(one) = frames.next_if(|one| one.connection == connection) {
                if trusted > 0 {
                    trusted -= 1;
                    together.push(one);
                } else {
                    others.push(one);
                }
            }
            apart.extend((!others.is_empty()).then_some(others));
        }
        self.settle(arrived, together, ready);
        for frames in apart {
            let mut frames = frames.into_iter();
            loop {
                let few: Vec<Claimed> = frames.by_ref().take(APART).collect();
                let Some(connection) = few.first().map(|one| one.connection) else { break };
                if self.standings.is_ended(connection) {
                    break;
                }
                self.settle(arrived, few, ready);
            }
        }
    }

    /// Verifies `claimed` as one batch, and answers those that do not hold.
    fn settle(&mut self, arrived: Instant, claimed: Vec<Claimed>, ready: &mut Vec<FromClient>) {
        let checks: Vec<Check> =
            claimed.iter().flat_map(|one| one.claim.checks().iter().cloned()).collect();
        let scheme = Arc::clone(&self.scheme);
        let verify = move |checks: Vec<Check>| scheme.verify(&checks);
        let verdicts = self.spread.map(checks, VERIFIED_BY_ONE, verify);
        for (one, verdict) in claimed.into_iter().zip(verdicts) {
            let Claimed { connection, claim, relay, is_old } = one;
            let frame = Arc::clone(claim.unverified());
            if let Some(frame) = claim.settle(&[verdict]) {
                let (key, place) = (frame.key(), (frame.session(), frame.first()));
                self.standings.good(connection, key);
                if is_old || self.admission.pay(&key, frame.count(), arrived) {
                    ready.push(FromClient::Frame { connection, frame, relay, arrived });
                } else {
                    self.is_beyond_rate(connection, &key, place, arrived);
                }
                continue;
            }
            self.is_bad(connection, &frame);
        }
    }

    /// A signature of a frame does not hold. Counted first: who reads the answer finds it counted.
    pub(super) fn is_bad(&mut self, connection: ConnectionId, frame: &SharedFrame) {
        self.metrics.refuse(BAD_SIGNATURE);
        self.refuse(connection, frame.session(), frame.first(), Refusal::BadSignature);
        self.lowers(connection);
    }

    /// A signature that came over `connection` does not hold.
    pub(super) fn is_forged(&mut self, connection: ConnectionId) {
        self.metrics.refuse(BAD_SIGNATURE);
        self.lowers(connection);
    }

    /// Bills a signature that does not hold, and ends the connection when it was one too many.
    fn lowers(&mut self, connection: ConnectionId) {
        if self.standings.bad(connection) {
            self.metrics.refuse("client_bad_signatures_ended");
            self.listener.disconnect(connection);
        }
    }

    pub(super) fn refuse(
        &self,
        connection: ConnectionId,
        session: SessionId,
        first: Sequence,
        reason: Refusal,
    ) {
        self.say(connection, &Response::Refused { session, first, reason });
    }

    fn ask_archive(&self, backup: Backup) {
        if !self.archive.ask(Task::Backup(backup)) {
            let Backup { connection, id, .. } = backup;
            self.say(connection, &Response::Unproven { id, reason: Unproven::Busy });
        }
    }

    fn say(&self, connection: ConnectionId, response: &Response) {
        // The connection may be gone; there is nobody else to tell.
        let _ = self.listener.send(connection, response.to_bytes().into());
    }
}
