//! What becomes of a peer's message.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::catch_up::BUDGET_BYTES;
use super::message::{MAX_FRAMES_SENT, PeerMessage};
use super::payload::Payload;
use super::pending::Pending;
use super::proofs::{may_be_in_a_block, proofs_of};
use super::verify::bytes_of;
use super::{Action, Fx, Refused, Replica, is_among};
use crate::base::crypto::{PublicKey, Verified};
use crate::base::membership::Rules;
use crate::base::types::{ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::ledger::mempool::Origin;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{self, BlockOf, MessageOf, Protocol, Types};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    pub(super) fn on_peer(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: PeerMessage<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        if from == self.settings.me {
            return;
        }
        let current = self.membership.latest().epoch();
        match message {
            PeerMessage::Protocol { epoch, .. } if epoch != current && !self.is_governed() => {
                return self.refuse_epoch(from, fx);
            }
            PeerMessage::AskHandover(_) | PeerMessage::Handover(_) if !self.is_governed() => {
                return self.refuse_epoch(from, fx);
            }
            PeerMessage::Protocol { epoch, .. } if epoch != current => {
                return self.on_other_epoch(now, from, epoch, fx);
            }
            PeerMessage::AskHandover(epoch) => return self.tell_handover(now, from, epoch, fx),
            PeerMessage::Handover(handover) => return self.on_handover(now, from, handover, fx),
            // Who is no member any more, or not yet, may still be served what it lacks.
            PeerMessage::FetchChain { .. } | PeerMessage::FetchChunk { .. } => {}
            PeerMessage::Chain(_) | PeerMessage::Behind(_) if self.catch_up.awaits(from) => {}
            PeerMessage::Chunk { .. } if self.catch_up.takes_from(from) => {}
            _ if !self.membership.latest().contains(from) => return,
            _ => {}
        }
        if let PeerMessage::Testimony { nonce, testimony, signature } = message {
            return self.claim_testimony(now, (from, nonce), testimony, signature, fx);
        }
        if self.epochs.asks() || !self.epochs.speaks() && is_for_those_who_speak(&message) {
            return;
        }
        match message {
            PeerMessage::Protocol { message, frames, .. } => {
                self.note_held(from, &message);
                self.claim_message(now, from, message, frames, fx);
            }
            PeerMessage::Relay(frames) => {
                self.note_passed_on(now, from, &frames);
                self.on_offered_frames(now, (from, true), frames, fx);
            }
            PeerMessage::Frames(frames) => {
                if self.payload.arrivals.deadline().is_some() {
                    if frames.iter().any(|frame| self.payload.arrivals.lacks(&frame.id())) {
                        self.ahead.sent(from);
                    }
                    self.on_offered_frames(now, (from, false), frames, fx);
                }
            }
            PeerMessage::NeedFrames(ids) => self.serve_frames(from, &ids, fx),
            PeerMessage::FetchChain { tip, above, budget_bytes } => {
                self.serve_chain(now, from, (tip, above, budget_bytes), fx);
            }
            PeerMessage::Chain(blocks) => self.on_chain(now, from, blocks, fx),
            PeerMessage::Ancestors { blocks, evidence } => {
                self.on_ancestors(now, from, blocks, &evidence, fx);
            }
            PeerMessage::Behind(offer) => self.on_offer(now, from, offer, fx),
            PeerMessage::FetchChunk { height, chunk } => {
                fx.output(Action::ServeChunk { to: from, height, chunk });
            }
            PeerMessage::Chunk { height, chunk, last, bytes } => {
                self.on_chunk(now, from, (height, chunk, last), bytes, fx);
            }
            PeerMessage::AskTestimony { nonce } => self.testify(now, from, nonce, fx),
            PeerMessage::Testimony { .. }
            | PeerMessage::AskHandover(_)
            | PeerMessage::Handover(_) => {}
            PeerMessage::Show(height) => self.on_show(now, from, height, fx),
            PeerMessage::Held(ids) => self.on_held(now, from, &ids, fx),
        }
    }

    /// A protocol's message whose signatures hold, with bodies whose signatures hold.
    pub(super) fn on_verified(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: Verified<MessageOf<P>>,
        frames: &[Verified<SharedFrame>],
        fx: &mut Fx<P::Types>,
    ) {
        for frame in frames {
            self.admit(now, frame, Origin::Proposal);
        }
        let Some(block) = P::carried_block(&message).cloned() else {
            return self.consult(now, protocol::Input::Message { from, message }, fx);
        };
        let Payload { mempool, arrivals, .. } = &mut self.payload;
        let find = |id: &FrameId| {
            let carried = || frames.iter().find(|frame| frame.id() == *id).map(|f| Arc::clone(f));
            mempool.get(id).cloned().or_else(carried)
        };
        let announced = message.clone();
        if let Some(lag) = self.ahead.usual_lag(now) {
            arrivals.usual_lag(lag);
        }
        let (ahead, me) = (&self.ahead, self.settings.me);
        let comes = |id: &FrameId| ahead.holder(now, id, me, from).is_some();
        let lacking = arrivals.add(now, from, (message, block), find, comes);
        if lacking.any {
            let input = protocol::Input::Announced { from, message: announced };
            self.consult(now, input, fx);
        }
        for ids in lacking.to_ask.chunks(MAX_FRAMES_SENT) {
            let message = PeerMessage::NeedFrames(ids.to_vec());
            fx.output(Action::Send { to: from, message });
        }
        self.release_arrivals(now, fx);
    }

    /// Hands the protocol the proposals whose bodies are all here.
    pub(super) fn release_arrivals(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        while let Some((from, message, block, frames)) = self.payload.arrivals.take_complete() {
            let commands: usize = frames.iter().map(|frame| frame.count() as usize).sum();
            let bytes: usize = frames.iter().map(|frame| frame.encoded_bytes().len()).sum();
            let fits =
                commands <= self.settings.batch_commands && bytes <= self.settings.batch_bytes;
            let fits =
                (frames.len() == 1 || fits) && may_be_in_a_block(&frames, self.membership.latest());
            if frames.len() != block.frames().len() || !fits {
                fx.output(Action::Refused { from, reason: Refused::Unfit });
                continue;
            }
            self.hold(&block, frames);
            self.consult(now, protocol::Input::Message { from, message }, fx);
            self.let_go(&block.id());
        }
    }

    pub(super) fn hold(&mut self, block: &BlockOf<P::Types>, frames: Vec<SharedFrame>) {
        self.payload.keep(block.id(), frames);
        // Blocks above the root, an orphan a proposer, and what is being executed. More than that
        // are those of orphans that later ones took the place of.
        let held = self.protocol.uncommitted() + self.membership.latest().size();
        if self.payload.blocks() > held + self.to_execute.len() + 1 {
            let (protocol, to_execute, epochs) = (&self.protocol, &self.to_execute, &self.epochs);
            self.payload.retain(|id| {
                *id == block.id()
                    || protocol.holds(id)
                    || is_among(to_execute, id)
                    || epochs.is_void(id)
            });
        }
    }

    /// Drops a block's bodies if the protocol had no use for it.
    pub(super) fn let_go(&mut self, block: &BlockId) {
        let is_needed = self.protocol.holds(block)
            || is_among(&self.to_execute, block)
            || self.epochs.is_void(block);
        if !is_needed {
            self.payload.take(block);
        }
    }

    fn on_offered_frames(
        &mut self,
        now: Time,
        (from, relays): (ReplicaId, bool),
        frames: Vec<SharedFrame>,
        fx: &mut Fx<P::Types>,
    ) {
        let bytes = bytes_of(&frames);
        // What is asked for is of a block of this epoch. A relayed frame may get into a later one.
        let rules = if relays { Rules::EVERY_FORMAT } else { self.membership.latest().rules() };
        let frames =
            if relays { self.expected_frames(frames) } else { self.wanted_frames(frames, fx) };
        let frames = self.unknown_frames(frames, rules);
        if !frames.is_empty() {
            let pending = Pending::Frames { relayed_by: relays.then_some(from), frames };
            self.verify(now, pending, Some((from, bytes)), fx);
        }
    }

    /// Those of passed on frames that are worth their proofs, and have room. The peer may have
    /// executed more, or less: it is not to blame for the others.
    fn expected_frames(&self, mut frames: Vec<SharedFrame>) -> Vec<SharedFrame> {
        let (members, height) = (self.execution.members(), self.execution.height());
        let (mempool, mut with) = (&self.payload.mempool, BTreeMap::<PublicKey, usize>::new());
        frames.retain(|frame| {
            let beside = with.entry(frame.key()).or_default();
            let is_taken = mempool.takes_step(frame, *beside) && members.expects(frame, height);
            *beside += usize::from(is_taken);
            is_taken
        });
        frames
    }

    /// Those of frames that were asked for that are worth their proofs: a proposal waits for them
    /// that rests on no more than a block may.
    fn wanted_frames(
        &mut self,
        mut frames: Vec<SharedFrame>,
        fx: &mut Fx<P::Types>,
    ) -> Vec<SharedFrame> {
        let (current, arrivals) = (self.membership.latest(), &mut self.payload.arrivals);
        frames.retain(|frame| match proofs_of(frame, current) {
            0 => true,
            proofs => {
                for from in arrivals.weighs(&frame.id(), proofs) {
                    fx.output(Action::Refused { from, reason: Refused::Unfit });
                }
                arrivals.lacks(&frame.id())
            }
        });
        frames
    }

    fn serve_frames(&mut self, to: ReplicaId, ids: &[FrameId], fx: &mut Fx<P::Types>) {
        let frames = self.payload.find(ids, BUDGET_BYTES as usize);
        if !frames.is_empty() {
            fx.output(Action::Send { to, message: PeerMessage::Frames(frames) });
        }
    }
}

/// Whether a message is of no use to a replica that is mute, or asks it for its word.
fn is_for_those_who_speak<T: Types>(message: &PeerMessage<T>) -> bool {
    matches!(
        message,
        PeerMessage::Protocol { .. }
            | PeerMessage::Ancestors { .. }
            | PeerMessage::AskTestimony { .. }
            | PeerMessage::Show(_)
    )
}
