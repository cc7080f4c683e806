//! The life of one replica: a protocol, and what surrounds it whatever the protocol is.
//!
//! - commands come in as signed frames, wait in the [mempool](crate::ledger::mempool), and are
//!   executed behind the [session table](crate::ledger::sessions) once committed;
//! - a block carries the identities of its frames: before the protocol sees a proposal, the
//!   bodies are at hand ([`arrivals`]);
//! - missing blocks are fetched, or a snapshot taken over ([`catch_up`]);
//! - a replica that lost its data comes back without lying ([`rejoin`]);
//! - it speaks only in an epoch in which it knows what it said (`voice`).
//!
//! All of it is pure. [`drive`] is the loop that production, the simulator and tests share: step,
//! persist, release, execute.

mod ahead;
mod ancestors;
pub mod arrivals;
mod beginning;
pub mod catch_up;
mod desk;
pub mod drive;
mod epochs;
mod execute;
mod fetch;
mod interface;
mod known;
mod lags;
pub mod message;
mod payload;
mod peers;
mod pending;
mod proofs;
pub mod reads;
pub mod rejoin;
mod show;
mod skipping;
mod snapshot;
mod snapshots;
mod succession;
mod telling;
mod testimonies;
mod turns;
mod verifications;
mod verify;
mod voice;
mod wish;

use std::collections::VecDeque;

use crate::base::crypto::{Check, Share, Signature, Statement};
use crate::base::membership::{Committee, Membership};
use crate::base::per_peer::PerPeer;
use crate::base::types::{Height, Time, View};
use crate::ledger::block::{BlockId, FullBlock};
use crate::ledger::execution::Execution;
use crate::ledger::frame::{Frame, SharedFrame};
use crate::ledger::mempool::{Admission, Mempool, Origin};
use crate::ledger::message::{Refusal, Response};
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, BlockOf, Decision, Effects, MessageOf, Output, Protocol, SharedHandover, Types,
};
pub use interface::{
    Action, Ancestors, Dissemination, Halt, Input, Record, Recovery, Refused, Settings, Submitted,
};
pub use snapshot::{MAX_ROOTS, SnapshotMeta};

use ahead::Ahead;
use arrivals::Arrivals;
use beginning::is_no_word;
use catch_up::CatchUp;
use desk::Desk;
use epochs::{Epochs, Voice};
use message::PeerMessage;
use payload::Payload;
use pending::Pending;
use rejoin::Amnesia;
use snapshots::Snapshots;
use verifications::Verifications;
use wish::Wish;

type Fx<T> = Effects<Action<T>, Record<T>>;

/// One replica.
pub struct Replica<P: Protocol, S> {
    settings: Settings,
    membership: Membership,
    epochs: Epochs<P::Types>,
    protocol: P,
    /// Makes the protocol of an epoch.
    make: Box<dyn Fn(&Committee) -> P + Send>,
    payload: Payload<P::Types>,
    /// What travels ahead of proposals, and who holds it.
    ahead: Ahead,
    execution: Execution<S>,
    /// Makes the application anew, for a snapshot to be restored into.
    fresh: Box<dyn Fn() -> S + Send>,
    catch_up: CatchUp<P::Types, S>,
    amnesia: Amnesia<P::Types>,
    verifications: Verifications<P::Types>,
    /// By replica: the highest block it is known to hold.
    held_by: PerPeer<Height>,
    to_execute: VecDeque<Decision<P::Types>>,
    /// A prepared block that is to be executed behind them, and the view.
    tentative: Option<(BlockOf<P::Types>, View)>,
    snapshots: Snapshots<P::Types>,
    /// The root that somebody waits for.
    wish: Wish,
    halted: bool,
}

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// A replica before its [`Input::Start`] (or [`Input::Rejoin`]).
    ///
    /// `committee` is that of the first epoch; `make` makes the protocol of an epoch. `execution`
    /// holds the state of the newest snapshot, or the state behind genesis; `fresh` makes an
    /// application in its first state.
    #[must_use]
    pub fn new(
        settings: Settings,
        committee: Committee,
        make: Box<dyn Fn(&Committee) -> P + Send>,
        execution: Execution<S>,
        fresh: Box<dyn Fn() -> S + Send>,
    ) -> Self {
        let peers = committee.size();
        let mut mempool = Mempool::new(settings.mempool);
        if settings.dissemination == Dissemination::Ahead {
            mempool.share_among(committee.faults());
        }
        Self {
            payload: Payload::new(mempool, arrivals::<P>(&settings, peers)),
            ahead: Ahead::new(settings.dissemination, peers),
            catch_up: CatchUp::new(settings.max_snapshot_bytes),
            protocol: make(&committee),
            make,
            membership: Membership::new(committee),
            epochs: Epochs::first(),
            execution,
            fresh,
            amnesia: Amnesia::none(),
            verifications: Verifications::new(settings.certificate_cache, peers),
            held_by: PerPeer::new(peers),
            to_execute: VecDeque::new(),
            tentative: None,
            snapshots: Snapshots::default(),
            wish: Wish::none(peers),
            halted: false,
            settings,
        }
    }

    /// The protocol, for status and transcripts.
    #[must_use]
    pub fn protocol(&self) -> &P {
        &self.protocol
    }

    /// The replicated state, for status and checkers.
    #[must_use]
    pub fn execution(&self) -> &Execution<S> {
        &self.execution
    }

    /// How the epochs before this one ended, from the first.
    #[must_use]
    pub fn handovers(&self) -> &[SharedHandover<P::Types>] {
        self.epochs.handovers()
    }

    /// Whether it has all that it knows of, and its epoch goes on: then it can be counted on in
    /// the next one.
    #[must_use]
    pub fn is_caught_up(&self) -> bool {
        !self.halted
            && !self.amnesia.is_own()
            && self.epochs.speaks()
            && self.epochs.sealed().is_none()
            && self.missing().is_none()
            && self.execution.height() >= self.protocol.committed().height()
    }

    /// The frames that wait, for status and checkers.
    #[must_use]
    pub fn mempool(&self) -> &Mempool {
        &self.payload.mempool
    }

    /// Of how many blocks the frames are held, for status and checkers.
    #[must_use]
    pub fn held_blocks(&self) -> usize {
        self.payload.blocks()
    }

    /// How many verifications of peers' messages are under way, for checkers.
    #[must_use]
    pub fn held_verifications(&self) -> usize {
        self.verifications.messages()
    }

    /// How many verified signatures are remembered, for checkers.
    #[must_use]
    pub fn held_signatures(&self) -> usize {
        self.verifications.known()
    }

    /// Whether this replica waits for testimonies, having lost its data.
    #[must_use]
    pub fn is_rejoining(&self) -> bool {
        self.amnesia.is_own()
    }

    /// Whether this replica says nothing, since it is in an epoch that it knows to have ended, and
    /// does not know what it said there.
    #[must_use]
    pub fn is_mute(&self) -> bool {
        self.epochs.voice == Voice::Mute
    }

    /// The earliest timer, if one is running.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        if self.halted {
            return None;
        }
        if let Some(deadline) = self.amnesia.deadline() {
            return Some(deadline);
        }
        let Payload { mempool, arrivals, .. } = &self.payload;
        let relay = mempool.oldest_unrelayed().map(|t| t.after(self.settings.relay_after));
        let own = [
            self.protocol.deadline(),
            self.catch_up.deadline(),
            arrivals.deadline(),
            self.epochs.deadline(),
            self.ahead.deadline(),
        ];
        own.into_iter().chain([relay]).flatten().min()
    }

    /// Takes one input. Nothing of what it leads to leaves before it is durable.
    pub fn step(&mut self, now: Time, input: Input<P::Types>) -> Fx<P::Types> {
        let mut fx = Fx::default();
        if self.halted {
            return fx;
        }
        match input {
            Input::Frames(frames) if self.amnesia.is_own() => {
                for Submitted { frame, .. } in frames {
                    let response = refusal(&frame, Refusal::Unavailable);
                    fx.output(Action::Respond { client: frame.key(), response });
                }
            }
            Input::Start(recovery) => self.start(now, *recovery, &mut fx),
            Input::Rejoin { nonce, restored } => {
                self.begin_rejoin(now, (nonce, *restored), &mut fx);
            }
            Input::Peer { from, message } => self.on_peer(now, from, message, &mut fx),
            Input::Frames(frames) => self.on_frames(now, frames, &mut fx),
            Input::Timeout => self.on_timeout(now, &mut fx),
            Input::Checked { ask, verdicts } => self.on_checked(now, ask, &verdicts, &mut fx),
            Input::Signed { statement, signature } => {
                self.on_signed(now, statement, signature, &mut fx);
            }
            Input::Combined { ask, signature } => {
                if let Some(ask) = self.own_ask(ask) {
                    self.consult(now, protocol::Input::Combined { ask, signature }, &mut fx);
                }
            }
            Input::Connected(peer) => {
                if !self.epochs.asks() {
                    self.catch_up.connected(peer);
                    self.tell_newcomer(peer, &mut fx);
                    self.consult(now, protocol::Input::Connected(peer), &mut fx);
                }
            }
            Input::SnapshotWritten(height) => self.on_snapshot_written(height, &mut fx),
            Input::LogBegins(height) => self.snapshots.cut_log(height),
            Input::TakeSnapshot => self.want_snapshot(&mut fx),
            Input::Show => self.show(now, &mut fx),
        }
        self.follow_up(now, &mut fx);
        fx
    }

    /// What any input may have led to: verdicts that were known already, blocks to fetch.
    fn follow_up(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        while let Some(settled) = self.verifications.ready() {
            self.resume(now, settled, fx);
        }
        if self.payload.arrivals.deadline().is_some() {
            let (view, committed) = (self.protocol.view(), self.protocol.committed().height());
            let is_here = |id: &BlockId| self.protocol.knows(id);
            self.payload.arrivals.forget_below(view, committed, is_here);
        }
        self.tell_held(now, fx);
        self.hand_over(now, fx);
        self.ask_handover(now, fx);
        let committed = self.protocol.committed().height();
        let (arrivals, missing) = (&self.payload.arrivals, self.missing());
        let is_here = |id: &BlockId| self.protocol.knows(id);
        let comes = missing.as_ref().is_some_and(|missing| arrivals.bring(&missing.block, is_here));
        let longest = comes.then(|| arrivals.longest());
        let waits = self.catch_up.waits(now, committed, missing.is_some(), longest);
        let missing = missing.filter(|_| !waits);
        self.catch_up.want(missing.as_ref(), self.settings.me, self.membership.latest());
        let root = self.epochs.sealed().unwrap_or(committed);
        if let Some((to, message)) = self.catch_up.due(now, root) {
            fx.output(Action::Send { to, message });
        }
    }

    fn on_frames(&mut self, now: Time, frames: Vec<Submitted>, fx: &mut Fx<P::Types>) {
        let mut relayed = Vec::new();
        for Submitted { frame, relay } in frames {
            let frame = frame.into_inner();
            let origin = if relay { Origin::Relayed } else { Origin::Client };
            let response = match self.admit(now, &frame, origin) {
                Admission::Added => {
                    if relay {
                        relayed.push(frame);
                    }
                    continue;
                }
                Admission::Known => {
                    let before = self.relay_overdue_since(now);
                    if relay && self.payload.mempool.pass_on_again(&frame.id(), before, now) {
                        relayed.push(frame);
                    }
                    continue;
                }
                Admission::Waiting => continue,
                Admission::Answered(outcome) => Response::Outcome(outcome),
                Admission::Refused(reason) => refusal(&frame, reason),
            };
            fx.output(Action::Respond { client: frame.key(), response });
        }
        pass_on(relayed, fx);
        self.release_arrivals(now, fx);
        self.consult(now, protocol::Input::Wake, fx);
    }

    /// Takes a verified frame into the mempool, and to the proposals that wait for it.
    fn admit(&mut self, now: Time, frame: &SharedFrame, origin: Origin) -> Admission {
        self.payload.admit(now, frame, origin, self.execution.sessions())
    }

    fn on_timeout(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if let Some(deadline) = self.amnesia.deadline() {
            if now >= deadline {
                self.ask_testimonies(now, fx);
            }
            return;
        }
        self.relay_overdue(now, fx);
        self.ask_overdue(now, fx);
        self.consult(now, protocol::Input::Timeout, fx);
        self.propose_put_off(now, fx);
    }

    /// What came or was passed on before this instant was so at least `relay_after` ago.
    fn relay_overdue_since(&self, now: Time) -> Time {
        Time(now.0.saturating_sub(self.settings.relay_after.as_nanos() as u64) + 1)
    }

    /// Passes on what has waited long in no block: the leader may not have it, or be dead and the
    /// others not know that there is work.
    fn relay_overdue(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        let Some(oldest) = self.payload.mempool.oldest_unrelayed() else { return };
        if now < oldest.after(self.settings.relay_after) {
            return;
        }
        let overdue = self.relay_overdue_since(now);
        pass_on(self.payload.unrelayed_before(overdue, now), fx);
    }

    fn on_signed(
        &mut self,
        now: Time,
        statement: Statement,
        signature: Signature,
        fx: &mut Fx<P::Types>,
    ) {
        if self.send_testimony(&statement, signature, fx) {
            return;
        }
        let signer = self.settings.me;
        self.verifications.learn(Check::Replica(Share { signer, statement, signature }));
        self.consult(now, protocol::Input::Signed { statement, signature }, fx);
    }

    /// Steps the protocol and carries its effects into the replica's.
    fn consult(&mut self, now: Time, input: protocol::Input<P::Types>, fx: &mut Fx<P::Types>) {
        let mut desk = Desk {
            now,
            mempool: &self.payload.mempool,
            ahead: &self.ahead,
            committee: self.membership.latest(),
            execution: &self.execution,
            settings: &self.settings,
            sealed: self.epochs.sealed(),
            is_mute: !self.epochs.speaks(),
            root_wanted: self.epochs.sealed().max(self.wish.height(now)),
            batch: Vec::new(),
            put_off: None,
        };
        let effects = self.protocol.step(now, input, &mut desk);
        let Desk { batch, put_off, .. } = desk;
        self.ahead.put_off(put_off);
        let (early, records, outputs) = effects.into_parts();
        for record in &records {
            if let protocol::Record::Block(block) = record {
                self.payload.keep_own(block, &batch);
            }
        }
        let speaks = self.epochs.speaks();
        for output in early.into_iter().filter(|output| speaks || is_no_word(output)) {
            match output {
                Output::Broadcast(message) => {
                    if let Some(ancestors) = self.ancestors_for(&message) {
                        fx.early(Action::Broadcast(ancestors));
                    }
                    let message = self.with_frames(message);
                    fx.early(Action::Broadcast(message));
                }
                output => self.carry_out(now, output, fx),
            }
        }
        for record in records {
            match record {
                // It would take the place of what is remembered of a later epoch.
                protocol::Record::Memory(_) if !speaks => {}
                protocol::Record::Memory(memory) => fx.record(Record::Memory(memory)),
                protocol::Record::Block(block) => self.record_block(block, fx),
            }
        }
        for output in outputs.into_iter().filter(|output| speaks || is_no_word(output)) {
            self.carry_out(now, output, fx);
        }
    }

    fn record_block(&mut self, block: BlockOf<P::Types>, fx: &mut Fx<P::Types>) {
        match self.payload.bodies(&block.id()) {
            Some(frames) if frames.len() == block.frames().len() => {
                let frames = frames.clone();
                fx.record(Record::Block(FullBlock { block, frames }));
            }
            _ => self.halt(Halt::MissingFrames(block.id()), fx),
        }
    }

    fn carry_out(&mut self, now: Time, output: Output<P::Types>, fx: &mut Fx<P::Types>) {
        match output {
            Output::Send { to, message } => {
                let message = self.with_frames(message);
                fx.output(Action::Send { to, message });
            }
            Output::Broadcast(message) => {
                if let Some(ancestors) = self.ancestors_for(&message) {
                    fx.output(Action::Broadcast(ancestors));
                }
                let message = self.with_frames(message);
                fx.output(Action::Broadcast(message));
            }
            Output::Prepared { block, view } => self.tentative = Some((block, view)),
            Output::RollBack => {
                self.tentative = None;
                self.execution.roll_back();
            }
            Output::PassOn { to } => {
                let waiting = self.payload.unordered(RELAY_FRAMES, RELAY_BYTES);
                if !waiting.is_empty() {
                    fx.output(Action::Send { to, message: PeerMessage::Relay(waiting) });
                }
            }
            Output::Sign(statement) => fx.output(Action::Sign(statement)),
            Output::Verify { ask, checks } => {
                self.verify(now, Pending::Protocol { ask, checks }, None, fx)
            }
            Output::Combine { ask, form, shares } => {
                let ask = self.ask_of_epoch(ask);
                // A protocol joins signatures of its own epoch, which is the latest.
                let keys = self.membership.latest().shares().cloned();
                fx.output(Action::Combine { ask, form, shares, keys });
            }
            Output::Commit(decisions) => {
                if mutant!("sealed-epoch-goes-on", false, self.epochs.sealed().is_some()) {
                    return self.epochs.are_void(&decisions);
                }
                let decisions =
                    mutant!("epoch-before-commit", self.not_executed(decisions), decisions);
                let blocks: Vec<_> =
                    decisions.iter().filter_map(Decision::block).cloned().collect();
                self.to_execute.extend(decisions);
                self.tentative.take_if(|(waiting, _)| {
                    blocks.iter().any(|block| block.height() >= waiting.height())
                });
                // Where members may change, a block counts once those below it turned out not to
                // seal the epoch.
                if !blocks.is_empty() && !self.is_governed() {
                    fx.output(Action::Committed(blocks));
                }
            }
            Output::Event(event) => fx.output(Action::Event(event)),
        }
    }

    /// Whether the members may change.
    fn is_governed(&self) -> bool {
        self.execution.members().committee().is_some()
    }

    /// A message with the bodies of its block's frames, as far as they are small.
    fn with_frames(&self, message: MessageOf<P>) -> PeerMessage<P::Types> {
        let block = P::carried_block(&message);
        let travels = |frame: &Frame| !self.is_spread(&frame.id());
        let most = self.settings.inline_bytes;
        let bodies = block.map(|block| self.payload.small_bodies(&block.id(), most, travels));
        let (epoch, frames) = (self.membership.latest().epoch(), bodies.unwrap_or_default());
        PeerMessage::Protocol { epoch, message, frames }
    }

    fn drop_unheld_bodies(&mut self) {
        if self.epochs.sealed().is_some() {
            // Those of void blocks go with the handover.
            return;
        }
        let (protocol, to_execute) = (&self.protocol, &self.to_execute);
        self.payload.retain(|id| protocol.holds(id) || is_among(to_execute, id));
    }

    fn halt(&mut self, halt: Halt, fx: &mut Fx<P::Types>) {
        self.halted = true;
        fx.output(Action::Halt(halt));
    }
}

/// Most bytes and frames in one relay message.
const RELAY_BYTES: usize = 256 << 10;
const RELAY_FRAMES: usize = 256;

/// Whether a block waits to be executed.
fn is_among<T: Types>(to_execute: &VecDeque<Decision<T>>, id: &BlockId) -> bool {
    to_execute.iter().filter_map(Decision::block).any(|block| block.id() == *id)
}

/// The place where proposals of so many peers wait for frames, with none in it.
fn arrivals<P: Protocol>(settings: &Settings, peers: usize) -> Arrivals<P::Types> {
    let late = P::TAKES_LATE_PROPOSALS && settings.dissemination == Dissemination::Ahead;
    Arrivals::new(settings.me, peers, P::PIPELINE, settings.relay_after).with_late(late)
}

/// Passes frames on, in messages that delay nothing else for long.
fn pass_on<T: Types>(frames: Vec<SharedFrame>, fx: &mut Fx<T>) {
    let mut batch = Vec::new();
    let mut bytes = 0;
    for frame in frames {
        bytes += frame.encoded_bytes().len();
        batch.push(frame);
        if bytes > RELAY_BYTES || batch.len() >= RELAY_FRAMES {
            bytes = 0;
            let full = std::mem::take(&mut batch);
            fx.output(Action::Broadcast(PeerMessage::Relay(full)));
        }
    }
    if !batch.is_empty() {
        fx.output(Action::Broadcast(PeerMessage::Relay(batch)));
    }
}

fn refusal(frame: &SharedFrame, reason: Refusal) -> Response {
    Response::Refused { session: frame.session(), first: frame.first(), reason }
}
