//! What the deciding thread does: the drive loop on real time.
//!
//! A turn takes what waits (peers first, then its own threads' answers, then clients, each up to a
//! limit) and has the replica take one [turn](drive::turn) on all of it with one sync. Nothing else
//! touches the replica. Who takes turns, and when, says `desk.rs`.

mod publish;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quorate_core::base::crypto::{
    Check, Form, PublicKey, Scheme, Share, ShareKeys, Signature, Signer, Statement,
};
use quorate_core::base::wire::{Decode as _, Encode};
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::message::Response;
use quorate_core::ledger::sessions::Standing;
use quorate_core::ledger::state_machine::StateMachine;
use quorate_core::protocols::protocol::{Protocol, Types};
use quorate_core::replica::message::PeerMessage;
use quorate_core::replica::{Action, Input, Replica, Submitted, drive};
use quorate_core::{Height, ReplicaId, Time, planted};
use quorate_journal::{BlockIndex, Journal};
use quorate_transport::{ClientListener, Room};

use super::archive::{Archive, Task};
use super::channels::Channels;
use super::desk::Work;
use super::epochs::Epochs;
use super::events::Trouble;
use super::generating::Board;
use super::inbox::{Answer, Batch, FromClient, Inbox, LITTLE_BYTES};
use super::keyring::Keyring;
use super::links::{Links, version_of};
use super::metrics::{Metrics, StageClock, reason_name};
use super::profile::{Follower, Stage};
use super::proofs::Proofs;
use super::queries::Queries;
use super::replies::Replies;
use super::routes::Routes;
use super::settled::Settled;
use super::verifier::Verifier;

/// Most messages of peers in one turn.
const PEER_INPUTS: usize = 256;
/// Most batches of clients in one turn.
const CLIENT_INPUTS: usize = 4;
/// What a small turn writes to the log at the most, and some.
const ROOM_IN_SEGMENT: u64 = 16 * LITTLE_BYTES as u64;
/// How often numbers that nothing waits for are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(100);
/// A replica that abstains asks for views again after this.
const VIEWS_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Why the deciding thread ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It was asked to.
    Stopped,
    /// Storage failed: what is on disk is not known any more.
    Storage(String),
    /// The replica must not go on; its state is evidence.
    Safety(String),
    /// The application failed: it panicked, or broke its contract.
    Application(String),
    /// A thread of the replica panicked.
    Bug(String),
}

/// The replica, and all that a turn of it needs.
pub struct Decider<P: Protocol, S> {
    /// The replica.
    pub replica: Replica<P, S>,
    /// Where its records go.
    pub journal: Journal,
    /// Its queues.
    pub inbox: Inbox,
    /// Everything it reaches.
    pub reach: Reach<P::Types>,
    /// Clients that wait for proofs.
    pub proofs: Proofs<P::Types>,
    /// Clients that wait for answers.
    pub queries: Queries,
    /// What was executed lately.
    pub settled: Arc<Settled>,
    /// Bytes that the log may take on disk.
    pub log_window_bytes: u64,
    /// What it keeps from turn to turn.
    pub turns: Turns<P::Types>,
}

/// What is kept from one turn to the next.
pub struct Turns<T: Types> {
    begin: Instant,
    inputs: Vec<Input<T>>,
    /// What the messages that are at work take of the bytes that may wait.
    rooms: Vec<Room>,
    channels: Channels,
    /// Something was done that the published numbers do not show, and they are not to be set
    /// before.
    unpublished: bool,
    publish_at: Time,
    /// When views were asked for last, which end an abstention.
    asked_for_views: Option<Instant>,
    /// The first turn is over.
    began: bool,
    /// The last turn took as much as it may: more may wait.
    is_full: bool,
}

impl<T: Types> Turns<T> {
    /// Before the first turn; `first` starts the replica.
    pub fn new(first: Input<T>) -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            inputs: vec![first],
            rooms: Vec::new(),
            channels: Channels::default(),
            unpublished: false,
            publish_at: Time(0),
            asked_for_views: None,
            began: false,
            is_full: false,
        }
    }

    fn now(&self) -> Time {
        Time(super::metrics::nanoseconds(self.begin.elapsed()) + 1)
    }
}

/// What the replica's actions reach.
pub struct Reach<T: Types> {
    /// Whether frames travel ahead of proposals, and so behind all other messages.
    pub sends_ahead: bool,
    /// The other replicas.
    pub links: Links,
    /// The clients.
    pub listener: Arc<ClientListener>,
    /// Signs what they are answered, where that was agreed on.
    pub replies: Option<Replies>,
    /// The verifying threads.
    pub verifier: Verifier,
    /// Verifies here.
    pub scheme: Arc<dyn Scheme>,
    /// Signs.
    pub signer: Arc<dyn Signer>,
    /// Most signatures that are verified here if nothing else waits.
    pub inline_checks: usize,
    /// Reads and writes beside the log.
    pub archive: Archive<T>,
    /// Where blocks are.
    pub index: Arc<BlockIndex>,
    /// What is known of the members.
    pub epochs: Arc<Epochs>,
    /// Its part in key generations.
    pub generating: Arc<Board>,
    /// This replica.
    pub me: ReplicaId,
    /// Its consensus keys.
    pub keyring: Arc<Keyring>,
    /// Its transport keys.
    pub transport: Arc<super::transport_key::TransportKey>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// On which connections a client's key is answered.
    pub routes: Routes,
    /// Where the time goes.
    pub clock: StageClock,
    /// What a frame waits for.
    pub follower: Follower,
    /// Frames of blocks that this turn executed.
    pub executed: Vec<SharedFrame>,
    /// Nothing else waits for the deciding thread.
    pub idle: bool,
    /// What failed of late.
    pub trouble: Trouble,
    /// What the application is called.
    pub application: String,
    /// Why the replica must stop, if it must.
    pub halted: Option<End>,
}

impl<P, S> Work for Decider<P, S>
where
    P: Protocol + Send + 'static,
    S: StateMachine + 'static,
{
    type End = End;

    /// On what waits.
    fn turn(&mut self) -> Result<bool, End> {
        let stop = self.gather();
        self.note_connections();
        let time = self.turns.now();
        if self.replica.deadline().is_some_and(|deadline| deadline <= time) {
            self.turns.inputs.push(Input::Timeout);
        }
        let worked = !self.turns.inputs.is_empty();
        if worked {
            self.turns.unpublished = true;
            self.drive(time)?;
        } else {
            self.reach.clock.rest_from_nothing();
        }
        self.turns.rooms.clear();
        if let Some(end) = stop {
            return Err(end);
        }
        self.queries.go_on(&self.replica, time);
        let commands = self.reach.metrics.committed_commands_total.get();
        if self.proofs.go_on(&self.replica, commands) {
            self.turns.inputs.push(Input::Show);
            return Ok(true);
        }
        if self.turns.unpublished && time >= self.turns.publish_at {
            self.turns.publish_at = time.after(PUBLISH_EVERY);
            self.look_around()?;
        }
        // Questions are answered as they are taken: they leave no input, and as many may still
        // wait.
        Ok(worked || self.turns.is_full || !self.turns.inputs.is_empty())
    }

    fn single_turn(&mut self) -> Result<bool, End> {
        self.turn()?;
        self.reach.clock.rest();
        Ok(self.turns.inputs.is_empty() && !self.turns.is_full)
    }

    fn has_little_to_do(&self) -> bool {
        let bytes = self.inbox.peers.bytes() + self.replica.mempool().bytes();
        // A new segment of the log is synced.
        let fits = self.journal.log().room_in_segment() >= ROOM_IN_SEGMENT;
        self.turns.began && self.turns.inputs.is_empty() && bytes <= LITTLE_BYTES && fits
    }

    fn deadline(&self) -> Option<Instant> {
        let publish = self.turns.unpublished.then_some(self.turns.publish_at);
        let timers = [self.replica.deadline(), self.queries.deadline(), publish];
        let Time(nanos) = timers.into_iter().flatten().min()?;
        self.turns.begin.checked_add(Duration::from_nanos(nanos))
    }
}

impl<P, S> Decider<P, S>
where
    P: Protocol,
    S: StateMachine,
{
    fn drive(&mut self, time: Time) -> Result<(), End> {
        self.reach.metrics.turns_total.add(1);
        self.reach.metrics.inputs_total.add(self.turns.inputs.len() as u64);
        self.reach.idle = self.inbox.peers.is_empty();
        let (replica, journal, reach) = (&mut self.replica, &mut self.journal, &mut self.reach);
        drive::turn(replica, journal, reach, time, &mut self.turns.inputs)
            .map_err(|error| End::Storage(error.to_string()))?;
        if let Some(end) = self.reach.halted.take() {
            return Err(end);
        }
        if self.replica.handovers().len() > self.reach.epochs.ended() {
            self.reach.epochs.add(self.replica.handovers());
        }
        let sessions = self.replica.execution().sessions();
        self.reach.epochs.clients.note(sessions);
        self.settled.note(&self.reach.executed, |session| sessions.next_number(session));
        self.reach.generating.note(self.replica.execution(), &self.reach.executed);
        self.reach.executed.clear();
        if !std::mem::replace(&mut self.turns.began, true) {
            self.turns.inputs.push(Input::LogBegins(self.reach.index.first()));
        }
        Ok(())
    }

    /// Takes what waits, and the room that it takes until the turn is over. Returns how to end, if
    /// that was asked.
    fn gather(&mut self) -> Option<End> {
        let mut peers = 0;
        let waiting = self.inbox.peers.len();
        if waiting > 0 {
            self.reach.clock.visit(Stage::Decode, 0, waiting);
        } else {
            self.reach.clock.go_on(Stage::Decide);
        }
        while peers < PEER_INPUTS
            && let Some(((from, bytes), room)) = self.inbox.peers.try_recv()
        {
            peers += 1;
            self.turns.rooms.push(room);
            self.reach.links.received(from, &bytes);
            match PeerMessage::from_bytes(bytes) {
                Ok(message) => self.turns.inputs.push(Input::Peer { from, message }),
                Err(_) => self.reach.metrics.refuse("peer_malformed"),
            }
        }
        if peers > 0 {
            self.reach.clock.visit(Stage::Decode, peers, 0);
            self.reach.clock.go_on(Stage::Decide);
        }
        while let Ok(answer) = self.inbox.answers.try_recv() {
            match answer {
                Answer::Verdicts { ask, verdicts } => {
                    self.turns.inputs.push(Input::Checked { ask, verdicts });
                }
                Answer::Combined { ask, signature } => {
                    self.turns.inputs.push(Input::Combined { ask, signature });
                }
                Answer::SnapshotWritten(height) => {
                    self.turns.inputs.push(Input::SnapshotWritten(height));
                }
                Answer::OfferKept(height) => {
                    if let Err(end) = self.retire_below(height) {
                        return Some(end);
                    }
                }
                Answer::Stop => return Some(End::Stopped),
                // What an application has to give that is gone cannot be written.
                Answer::Fail(reason) => {
                    return Some(self.fault().unwrap_or(End::Storage(reason)));
                }
                Answer::Unfit(reason) => return Some(self.reach.unfit(&reason)),
                Answer::Panicked(reason) => return Some(End::Bug(reason)),
            }
        }
        let mut batches = 0;
        while batches < CLIENT_INPUTS
            && let Ok(Batch { doings, room }) = self.inbox.clients.try_recv()
        {
            batches += 1;
            self.turns.rooms.push(room);
            self.take_clients(doings);
        }
        // Clients that come and go are counted as well, and leave no input.
        self.turns.unpublished |= batches > 0;
        self.turns.is_full = peers == PEER_INPUTS || batches == CLIENT_INPUTS;
        None
    }

    fn take_clients(&mut self, batch: Vec<FromClient>) {
        let mut frames = Vec::with_capacity(batch.len());
        for one in batch {
            match one {
                FromClient::Frame { connection, frame, relay: alone, arrived } => {
                    self.reach.follower.taken(frame.get(), arrived);
                    let sessions = self.replica.execution().sessions();
                    let settled = || matches!(sessions.standing(frame.get()), Standing::Settled(_));
                    self.reach.routes.learn(frame.key(), connection, settled);
                    let relay = planted!("relayed-by-nobody", false, alone);
                    frames.push(Submitted { frame, relay });
                }
                FromClient::Query(asked) => self.queries.ask(asked),
                FromClient::Prove(question) => self.proofs.ask(question),
                FromClient::Newest { connection, id } => self.proofs.ask_newest(connection, id),
                FromClient::Ready(question) => self.give_word(&question),
                FromClient::Program { connection, id } => self.tell_program(connection, id),
                FromClient::Closed(connection) => {
                    self.reach.routes.forget(connection);
                    self.proofs.forget(connection);
                    self.queries.forget(connection);
                }
            }
        }
        if !frames.is_empty() {
            self.turns.inputs.push(Input::Frames(frames));
        }
    }

    /// Tells the replica of peers whose channel has opened.
    fn note_connections(&mut self) {
        let (links, channels) = (&self.reach.links, &mut self.turns.channels);
        if let Some(opened) = channels.look(links.changes(), || links.connections()) {
            self.reach.metrics.connected_peers.set(channels.count() as u64);
            self.turns.inputs.extend(opened.into_iter().map(Input::Connected));
        }
    }

    /// Retires the log below what the snapshot at `height` makes unnecessary.
    fn retire_below(&mut self, height: Height) -> Result<(), End> {
        self.journal
            .retire(self.log_window_bytes / 2, height)
            .map_err(|error| End::Storage(error.to_string()))?;
        self.turns.inputs.push(Input::LogBegins(self.reach.index.first()));
        Ok(())
    }

    /// Whether the log has grown by a quarter of its window since the last snapshot was begun. Half
    /// of the window is kept when it is cut; the last quarter is for the segment being written,
    /// the one that is ready, and what comes while the snapshot is made and attested.
    fn log_is_large(&mut self) -> bool {
        let end = self.journal.log().end().0;
        let grown = end.saturating_sub(self.journal.snapshot_begun_at);
        let large = grown > self.log_window_bytes / 4;
        if large {
            self.journal.snapshot_begun_at = end;
        }
        large
    }

    /// Sees to what is not for every turn.
    fn look_around(&mut self) -> Result<(), End> {
        self.publish();
        self.end_abstention();
        if self.log_is_large() {
            self.turns.inputs.push(Input::TakeSnapshot);
        }
        self.fault().map_or(Ok(()), Err)
    }

    /// How to end, if the application cannot go on.
    fn fault(&self) -> Option<End> {
        let fault = self.replica.execution().application().fault()?;
        Some(self.reach.unfit(&fault))
    }

    /// Abstention ends with views, and an idle cluster makes none: so this replica asks for some,
    /// or it would stand for a faulty one until there is work.
    fn end_abstention(&mut self) {
        let status = self.replica.protocol().status();
        let abstains = status.abstain_until >= status.view && !self.replica.is_rejoining();
        if !planted!("abstains-until-there-is-work", false, abstains) {
            return;
        }
        if self.turns.asked_for_views.is_none_or(|at| at.elapsed() >= VIEWS_AGAIN_AFTER) {
            self.turns.asked_for_views = Some(Instant::now());
            self.turns.inputs.push(Input::Show);
        }
        // To look again.
        self.turns.unpublished = true;
    }

    /// Ends what goes with it. `end` is why.
    pub fn end(mut self, end: End) -> End {
        self.publish();
        tracing::info!(seconds = self.reach.metrics.profile.seconds(), "where the time went");
        self.reach.verifier.close();
        self.reach.links.close();
        // Nobody takes answers any more, so that the archive cannot wait for that.
        drop(self.inbox);
        self.reach.archive.write(Task::End);
        end
    }
}

impl<T: Types> Reach<T> {
    /// The bytes of what is to be sent. What follows is sending it.
    fn encoded(&mut self, message: &impl Encode) -> Bytes {
        self.clock.visit(Stage::Encode, 1, 1);
        let bytes = Bytes::from(message.to_bytes());
        self.clock.go_on(Stage::Send);
        bytes
    }

    /// Tells a client on every connection that it has.
    fn respond(&mut self, client: PublicKey, response: Response) {
        self.follower.answered(&response, &self.metrics.profile);
        let connections = self.routes.of(&client);
        if connections.is_empty() {
            return;
        }
        let connections = connections.to_vec();
        for response in self.links.answers(response) {
            if let Some(replies) = &self.replies {
                replies.sign(client, connections.clone(), response);
                continue;
            }
            let bytes = self.encoded(&response);
            for connection in &connections {
                // A client that is gone or does not read asks again.
                let _ = self.listener.send(*connection, bytes.clone());
            }
        }
    }
}

impl<T: Types> drive::World<T> for Reach<T> {
    fn perform(&mut self, action: Action<T>) {
        self.clock.go_on(Stage::Decide);
        match action {
            Action::Send { to, message } => {
                let version = version_of(&message);
                if version == 0 || self.links.speaks(to, version) {
                    let bytes = self.encoded(&message);
                    self.links.send(to, bytes);
                }
            }
            Action::Broadcast(message) => {
                let bytes = self.encoded(&message);
                match version_of(&message) {
                    0 if self.sends_ahead && matches!(message, PeerMessage::Relay(_)) => {
                        self.links.broadcast_behind(&bytes);
                    }
                    0 => self.links.broadcast(&bytes),
                    version => self.links.broadcast_since(version, &bytes),
                }
            }
            Action::Verify { ask, checks } => self.verifier.verify(ask, checks),
            Action::Combine { ask, form, shares, keys } => {
                self.verifier.combine(ask, form, shares, keys);
            }
            Action::Respond { client, response } => self.respond(client, response),
            Action::Committed(blocks) => self.committed(&blocks),
            Action::Executed { commands, frames } => {
                self.metrics.committed_commands_total.add(commands);
                self.follower.executed(&frames);
                self.executed.extend(frames);
            }
            Action::ServeChain { to, above, through, budget_bytes, tail } => {
                self.archive.ask(Task::Chain { to, above, through, budget_bytes, tail });
            }
            Action::ServeChunk { to, height, chunk } => {
                self.archive.ask(Task::Chunk { to, height, chunk });
            }
            Action::WriteSnapshot(meta, handle) => {
                self.archive.write(Task::Snapshot(meta, handle));
            }
            Action::Offered(offer) => self.archive.write(Task::Offer(offer)),
            Action::EpochBegan(committee) => self.begin_epoch(*committee),
            Action::Event(event) => {
                self.follower.note(&event);
                self.note(&event);
            }
            Action::Refused { from, reason } => {
                self.metrics.refuse(reason_name(reason));
                tracing::debug!(%from, ?reason, "refused a message");
            }
            Action::NotTaken { from, reason } => {
                tracing::warn!(
                    %from, %reason,
                    "the state that it sends was not taken over; another replica is asked. If it is for want of room here, make some"
                );
            }
            Action::Halt(halt) => self.halted = Some(self.end_of(&halt)),
            // The loop signs by itself.
            Action::Sign(_) => {}
        }
    }

    fn enter(&mut self, stage: drive::Stage, items: usize) {
        self.clock.enter(stage, items);
        self.follower.enter(stage);
    }

    fn sign(&mut self, statement: &Statement) -> Signature {
        self.clock.visit(Stage::Authenticate, 1, 1);
        let signature = self.signer.sign(statement);
        self.clock.go_on(Stage::Decide);
        signature
    }

    fn verify(&mut self, _: u64, checks: &[Check]) -> Option<Vec<bool>> {
        if !self.idle || checks.len() > self.inline_checks {
            return None;
        }
        self.clock.visit(Stage::Verify, checks.len(), checks.len());
        let verdicts = self.scheme.verify(checks);
        self.clock.go_on(Stage::Decide);
        Some(verdicts)
    }

    fn combine(
        &mut self,
        _: u64,
        _: Form,
        _: &[Share],
        _: Option<&ShareKeys>,
    ) -> Option<Option<Signature>> {
        // Joining is arithmetic on points: never worth the deciding thread's time.
        None
    }
}
