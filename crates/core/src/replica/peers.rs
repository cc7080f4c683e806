//! What becomes of a peer's message.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::catch_up::{BUDGET_BYTES, Chunked};
use super::message::{MAX_FRAMES_SENT, Offer, PeerMessage, within};
use super::pending::Pending;
use super::verify::bytes_of;
use super::{Action, Fx, Halt, Refused, Replica, is_among};
use crate::base::crypto::{Check, Share, Signature, Verified};
use crate::base::types::{Digest, Height, ReplicaId, Time};
use crate::base::wire::Encode as _;
use crate::ledger::block::{BlockId, FullBlock};
use crate::ledger::execution::{Restoring, SnapshotError};
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::ledger::mempool::Origin;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{self, BlockOf, FullBlockOf, MessageOf, Protocol, TestimonyOf};
use crate::replica::rejoin::Rejoin;

/// A fetched block that may be believed, with its frames.
type VerifiedBlock<T> = (Verified<BlockOf<T>>, Vec<SharedFrame>);

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    pub(super) fn on_peer(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: PeerMessage<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        if from == self.settings.me || !self.membership.latest().contains(from) {
            return;
        }
        if let PeerMessage::Testimony { nonce, testimony, signature } = message {
            return self.claim_testimony(now, (from, nonce), testimony, signature, fx);
        }
        if self.rejoin.is_some() {
            // Without memory nothing else can be answered yet.
            return;
        }
        match message {
            PeerMessage::Protocol { message, frames } => {
                self.note_held(from, &message);
                self.claim_message(now, from, message, frames, fx);
            }
            PeerMessage::Relay(frames) => self.on_offered_frames(now, (from, true), frames, fx),
            PeerMessage::Frames(frames) => {
                if self.arrivals.deadline().is_some() {
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
            PeerMessage::AskTestimony { nonce } => self.testify(from, nonce, fx),
            PeerMessage::Testimony { .. } => {}
            PeerMessage::Show(height) => self.on_show(now, height, fx),
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
        let find = |id: &FrameId| {
            let carried = || frames.iter().find(|frame| frame.id() == *id).map(|f| Arc::clone(f));
            self.mempool.get(id).cloned().or_else(carried)
        };
        let lacking = self.arrivals.add(now, from, message, block, find);
        for ids in lacking.chunks(MAX_FRAMES_SENT) {
            let message = PeerMessage::NeedFrames(ids.to_vec());
            fx.output(Action::Send { to: from, message });
        }
        self.release_arrivals(now, fx);
    }

    /// Hands the protocol the proposals whose bodies are all here.
    pub(super) fn release_arrivals(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        while let Some((from, message, block, frames)) = self.arrivals.take_complete() {
            let commands: usize = frames.iter().map(|frame| frame.count() as usize).sum();
            let bytes: usize = frames.iter().map(|frame| frame.encoded_bytes().len()).sum();
            let fits = frames.len() == 1
                || commands <= self.settings.batch_commands && bytes <= self.settings.batch_bytes;
            if frames.len() != block.frames().len() || frames.len() > 1 && !fits {
                fx.output(Action::Refused { from, reason: Refused::Unfit });
                continue;
            }
            self.hold(&block, frames);
            self.consult(now, protocol::Input::Message { from, message }, fx);
            self.let_go(&block.id());
        }
    }

    fn hold(&mut self, block: &BlockOf<P::Types>, frames: Vec<SharedFrame>) {
        let frames = mutant!("filtering-loses-commands", self.mempool.take_out(frames), frames);
        self.bodies.entry(block.id()).or_insert(frames);
        // Blocks above the root, an orphan a proposer, and what is being executed. More than that
        // are those of orphans that later ones took the place of.
        let held = self.protocol.uncommitted() + self.membership.latest().size();
        if self.bodies.len() > held + self.to_execute.len() + 1 {
            let (protocol, to_execute) = (&self.protocol, &self.to_execute);
            self.bodies.retain(|id, _| {
                *id == block.id() || protocol.holds(id) || is_among(to_execute, id)
            });
        }
    }

    /// Drops a block's bodies if the protocol had no use for it.
    fn let_go(&mut self, block: &BlockId) {
        if !self.protocol.holds(block) && !is_among(&self.to_execute, block) {
            self.bodies.remove(block);
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
        let frames = self.unknown_frames(frames);
        if !frames.is_empty() {
            let pending = Pending::Frames { relayed_by: relays.then_some(from), frames };
            self.verify(now, pending, Some((from, bytes)), fx);
        }
    }

    fn serve_frames(&mut self, to: ReplicaId, ids: &[FrameId], fx: &mut Fx<P::Types>) {
        let in_blocks: BTreeMap<FrameId, &SharedFrame> =
            self.bodies.values().flatten().map(|frame| (frame.id(), frame)).collect();
        let held = |id: &FrameId| {
            self.mempool.get(id).or_else(|| in_blocks.get(id).copied()).map(Arc::clone)
        };
        let mut bytes = 0;
        let mut frames = Vec::new();
        for frame in ids.iter().filter_map(held) {
            bytes += frame.encoded_bytes().len();
            frames.push(frame);
            if bytes > BUDGET_BYTES as usize {
                break;
            }
        }
        if !frames.is_empty() {
            fx.output(Action::Send { to, message: PeerMessage::Frames(frames) });
        }
    }

    /// Committed blocks come from the log, later ones from the tree.
    fn serve_chain(
        &mut self,
        now: Time,
        to: ReplicaId,
        (tip, above, budget_bytes): (BlockId, Height, u32),
        fx: &mut Fx<P::Types>,
    ) {
        let root = self.protocol.committed().height();
        if above < root && above.next() < self.log_begins {
            let Some(offer) = self.snapshots.offer() else {
                return self.prepare_offer(now, fx);
            };
            let message = PeerMessage::Behind(Box::new(offer.clone()));
            fx.output(Action::Send { to, message });
            return;
        }
        let full = |block: BlockOf<P::Types>| {
            let frames = self.bodies.get(&block.id())?.clone();
            Some(FullBlock { block, frames })
        };
        let path = self.protocol.path(&tip).into_iter();
        let tail: Vec<_> = path.filter(|block| block.height() > above).filter_map(full).collect();
        let budget_bytes = budget_bytes.min(BUDGET_BYTES);
        if above >= root {
            if !tail.is_empty() {
                let message = PeerMessage::Chain(within(tail, budget_bytes));
                fx.output(Action::Send { to, message });
            }
        } else {
            fx.output(Action::ServeChain { to, above, through: root, budget_bytes, tail });
        }
    }

    fn on_chain(
        &mut self,
        now: Time,
        from: ReplicaId,
        mut blocks: Vec<FullBlockOf<P::Types>>,
        fx: &mut Fx<P::Types>,
    ) {
        if !self.catch_up.awaits(from) {
            fx.output(Action::Refused { from, reason: Refused::Unasked });
            return;
        }
        // Every block but the last is certified by its child's justify; the last only if it is
        // one that was asked for.
        let linked = blocks.windows(2).all(|pair| match pair {
            [parent, child] => child.block.parent() == parent.block.id(),
            _ => true,
        });
        if !linked {
            self.catch_up.answered(from, None);
            fx.output(Action::Refused { from, reason: Refused::Unfit });
            return;
        }
        if blocks.last().is_some_and(|last| !self.catch_up.is_wanted(&last.block.id())) {
            blocks.pop();
        }
        let bytes = blocks.iter().map(FullBlock::size_bytes).sum();
        match self.chain_claims(blocks) {
            Ok(blocks) => {
                self.verify(now, Pending::Chain { from, blocks }, Some((from, bytes)), fx);
            }
            Err(reason) => {
                self.catch_up.answered(from, None);
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
        }
    }

    pub(super) fn on_chain_verified(
        &mut self,
        now: Time,
        from: ReplicaId,
        blocks: Vec<VerifiedBlock<P::Types>>,
        fx: &mut Fx<P::Types>,
    ) {
        let mut reached = None;
        for (block, frames) in blocks {
            let (id, height) = (block.id(), block.height());
            if !self.protocol.knows(&id) {
                self.hold(&block, frames);
                self.consult(now, protocol::Input::Fetched(block), fx);
                self.let_go(&id);
            }
            if self.protocol.knows(&id) {
                reached = Some(height);
            }
        }
        if self.catch_up.awaits(from) {
            self.catch_up.answered(from, reached);
        }
    }

    /// A snapshot is believed if a block of this chain, certified by a quorum, carries the root
    /// of its state; that chunks are of that state is checked when they come ([`Restoring`]).
    fn on_offer(
        &mut self,
        now: Time,
        from: ReplicaId,
        offer: Box<Offer<P::Types>>,
        fx: &mut Fx<P::Types>,
    ) {
        let asked = self.catch_up.takes_offers(from);
        let linked = offer
            .recent
            .iter()
            .chain([offer.block.header()])
            .collect::<Vec<_>>()
            .windows(2)
            .all(|pair| pair[1].parent() == pair[0].id());
        let height = offer.block.height();
        let fits = offer.shown.block.height() > height
            && height > self.protocol.committed().height()
            // With fewer, this replica would elect other leaders than the rest.
            && offer.recent.len() as u64 >= height.0.min(self.protocol.look_back() as u64)
            && linked;
        if !asked || !fits {
            let reason = if asked { Refused::Unfit } else { Refused::Unasked };
            fx.output(Action::Refused { from, reason });
            if asked {
                self.catch_up.answered(from, None);
            }
            return;
        }
        let checks = self.protocol.claim_evidence(&offer.shown.block.id(), &offer.shown.evidence);
        match mutant!("snapshot-offer-unchecked", Ok(Vec::new()), checks) {
            Ok(checks) => {
                let bytes = offer.to_bytes().len();
                self.verify(now, Pending::Offer { from, offer, checks }, Some((from, bytes)), fx);
            }
            Err(reason) => {
                self.catch_up.answered(from, None);
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
        }
    }

    fn on_chunk(
        &mut self,
        now: Time,
        from: ReplicaId,
        chunk: (Height, u32, bool),
        bytes: Bytes,
        fx: &mut Fx<P::Types>,
    ) {
        match self.catch_up.chunk(now, from, chunk, bytes) {
            Chunked::Unasked => {
                fx.output(Action::Refused { from, reason: Refused::Unasked });
            }
            Chunked::Again => {}
            Chunked::Unfit(reason) => self.not_taken(from, reason, fx),
            Chunked::More => {
                if let Some((to, height, chunk)) = self.catch_up.next_chunk() {
                    let message = PeerMessage::FetchChunk { height, chunk };
                    fx.output(Action::Send { to, message });
                }
            }
            Chunked::Complete(offer, restoring) => {
                self.install(now, from, *offer, *restoring, fx);
            }
        }
    }

    fn install(
        &mut self,
        now: Time,
        from: ReplicaId,
        offer: Offer<P::Types>,
        restoring: Restoring<S>,
        fx: &mut Fx<P::Types>,
    ) {
        let overtaken = offer.block.height() <= self.protocol.committed().height();
        if mutant!("snapshot-overtaken", false, overtaken) {
            // Blocks came faster than the snapshot. Its state would be one of the past.
            return self.catch_up.answered(from, None);
        }
        match restoring.finish() {
            Ok(execution) if execution.block_id() == offer.block.id() => {
                self.execution = execution.skipping_as(&self.execution);
                self.to_execute.clear();
                self.catch_up.answered(from, Some(offer.block.height()));
                let settled = self.mempool.taken_over(self.execution.sessions());
                self.answer(&settled, fx);
                let Offer { block: root, recent, shown } = offer;
                let evidence = shown.evidence;
                // What is between its own log and the snapshot never was here.
                self.log_begins = self.log_begins.max(root.height().next());
                self.snapshots.show(Height(0));
                self.consult(now, protocol::Input::Installed { root, recent, evidence }, fx);
                self.drop_unheld_bodies();
                self.take_snapshot(fx);
            }
            Ok(other) => {
                let found = other.height();
                self.not_taken(from, SnapshotError::Other { found }, fx);
            }
            Err(error) => self.not_taken(from, error, fx),
        }
    }

    /// The state that a peer sends was given up; another peer is asked.
    fn not_taken(&mut self, from: ReplicaId, reason: SnapshotError, fx: &mut Fx<P::Types>) {
        self.catch_up.answered(from, None);
        fx.output(Action::Refused { from, reason: Refused::Unfit });
        fx.output(Action::NotTaken { from, reason });
    }

    pub(super) fn begin_rejoin(&mut self, now: Time, nonce: Digest, fx: &mut Fx<P::Types>) {
        self.rejoin = Some(Rejoin::new(nonce, self.membership.latest()));
        self.ask_testimonies(now, fx);
    }

    pub(super) fn ask_testimonies(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if let Some(rejoin) = &mut self.rejoin {
            rejoin.asked(now);
            fx.output(Action::Broadcast(PeerMessage::AskTestimony { nonce: rejoin.nonce() }));
        }
    }

    fn testimony_content(nonce: &Digest, asker: ReplicaId) -> Digest {
        let mut bytes = nonce.0.to_vec();
        bytes.extend_from_slice(&asker.0.to_le_bytes());
        Digest::of("quorate testimony", &bytes)
    }

    /// Tells a replica that lost its data which views to keep away from.
    fn testify(&mut self, to: ReplicaId, nonce: Digest, fx: &mut Fx<P::Types>) {
        let testimony = self.protocol.testimony();
        let content = Self::testimony_content(&nonce, to);
        let statement = self.protocol.testimony_statement(&testimony, &content);
        self.testimonies.insert(statement, (to, nonce, testimony));
        // A few askers at a time: the oldest unanswered ones give way.
        while self.testimonies.len() > self.membership.latest().size() {
            self.testimonies.pop_first();
        }
        fx.output(Action::Sign(statement));
    }

    /// Sends the testimony that was signed, if it is one.
    pub(super) fn send_testimony(
        &mut self,
        statement: &crate::base::crypto::Statement,
        signature: Signature,
        fx: &mut Fx<P::Types>,
    ) -> bool {
        let Some((to, nonce, testimony)) = self.testimonies.remove(statement) else { return false };
        let message = PeerMessage::Testimony { nonce, testimony, signature };
        fx.output(Action::Send { to, message });
        true
    }

    fn claim_testimony(
        &mut self,
        now: Time,
        (from, nonce): (ReplicaId, Digest),
        testimony: TestimonyOf<P>,
        signature: Signature,
        fx: &mut Fx<P::Types>,
    ) {
        let expected = self.rejoin.as_ref().map(Rejoin::nonce);
        let asked = mutant!("nonce-not-compared", expected.is_some(), expected == Some(nonce));
        if !asked {
            return;
        }
        let content = Self::testimony_content(&nonce, self.settings.me);
        let statement = self.protocol.testimony_statement(&testimony, &content);
        match self.protocol.claim_testimony(&testimony) {
            Ok(mut checks) => {
                checks.push(Check::Replica(Share { signer: from, statement, signature }));
                let testimony = Box::new(testimony);
                self.verify(
                    now,
                    Pending::Testimony { from, testimony, checks },
                    Some((from, 0)),
                    fx,
                );
            }
            Err(reason) => {
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
        }
    }

    pub(super) fn on_testimony(
        &mut self,
        now: Time,
        from: ReplicaId,
        testimony: TestimonyOf<P>,
        fx: &mut Fx<P::Types>,
    ) {
        let Some(rejoin) = &mut self.rejoin else { return };
        let Some(testimonies) = rejoin.testimony(from, testimony) else { return };
        let Some(memory) = self.protocol.recollect(&testimonies) else {
            return self.halt(Halt::NoWayBack, fx);
        };
        self.rejoin = None;
        let recovery = super::Recovery {
            memory: Some(memory.clone()),
            snapshot: None,
            offer: None,
            blocks: Vec::new(),
        };
        fx.record(super::Record::Memory(Arc::new(memory)));
        self.start(now, recovery, fx);
        // Channels that opened meanwhile went by unused; and testimonies may be old when the last one comes.
        // Who knows more will say so.
        let (me, replicas) = (self.settings.me, self.membership.latest().replicas());
        for peer in replicas.filter(|peer| *peer != me).collect::<Vec<_>>() {
            self.consult(now, protocol::Input::Connected(peer), fx);
        }
    }
}
