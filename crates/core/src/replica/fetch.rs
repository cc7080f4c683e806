//! Fetching what this replica lacks, and serving others what they lack: blocks, or a snapshot.
//! [`catch_up`](super::catch_up) says what is asked for, and of whom.

use std::sync::Arc;

use bytes::Bytes;

use super::beginning::{Beginning, Installed};
use super::catch_up::{BUDGET_BYTES, Chunked};
use super::message::{Offer, PeerMessage, within};
use super::pending::Pending;
use super::{Action, Fx, Halt, Refused, Replica};
use crate::base::crypto::Verified;
use crate::base::types::{Height, ReplicaId, Time};
use crate::base::wire::Encode as _;
use crate::ledger::block::{BlockId, FullBlock};
use crate::ledger::execution::{Restoring, SnapshotError};
use crate::ledger::frame::SharedFrame;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, Ancestry, BlockOf, FullBlockOf, Handover, Protocol, Verifier as _,
};

/// A fetched block that may be believed, with its frames.
type VerifiedBlock<T> = (Verified<BlockOf<T>>, Vec<SharedFrame>);

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Committed blocks come from the log, later ones from the tree.
    pub(super) fn serve_chain(
        &mut self,
        now: Time,
        to: ReplicaId,
        (tip, above, budget_bytes): (BlockId, Height, u32),
        fx: &mut Fx<P::Types>,
    ) {
        if let Some(end) = self.epochs.end_above(above).cloned() {
            return self.serve_end(now, to, (above, budget_bytes), &end, fx);
        }
        let (root, path) = self.beyond_the_log(&tip);
        if above < root && !self.snapshots.log_reaches(above) {
            return self.offer_snapshot(now, to, fx);
        }
        let full = |block: BlockOf<P::Types>| {
            let frames = self.payload.bodies(&block.id())?.clone();
            Some(FullBlock { block, frames })
        };
        let path = path.into_iter().filter(|block| block.height() > above);
        let tail: Vec<_> = path.map_while(full).collect();
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

    /// How far the log's index goes, and the blocks behind that, up to `tip`. Where members may
    /// change, a block is in the index once it is executed: those that are decided above the
    /// sealing one never are, and who is behind needs them to come to the end of the epoch.
    fn beyond_the_log(&self, tip: &BlockId) -> (Height, Vec<BlockOf<P::Types>>) {
        let (head, path) = (self.protocol.committed(), self.protocol.path(tip));
        let executed = self.execution.height();
        if !self.is_governed() || executed >= head.height() {
            return (head.height(), path);
        }
        let below = self.protocol.ancestors(head, executed);
        let mut blocks = below.map(|Ancestry { blocks, .. }| blocks).unwrap_or_default();
        blocks.push(Arc::clone(head));
        blocks.extend(path);
        let follows = blocks.first().is_some_and(|first| first.height() == executed.next());
        (executed, if follows { blocks } else { Vec::new() })
    }

    /// What a peer lacks is gone: it is offered a snapshot, if there is one.
    fn offer_snapshot(&mut self, now: Time, to: ReplicaId, fx: &mut Fx<P::Types>) {
        let Some(offer) = self.snapshots.offer() else { return self.prepare_offer(now, fx) };
        let message = PeerMessage::Behind(Box::new(offer.clone()));
        fx.output(Action::Send { to, message });
    }

    /// A peer is in an epoch that has ended: it is sent blocks up to the sealing one, and behind
    /// that the void ones by which its protocol finds the end.
    fn serve_end(
        &mut self,
        now: Time,
        to: ReplicaId,
        (above, budget_bytes): (Height, u32),
        end: &Handover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        let through = end.state.height;
        if above < through && !self.snapshots.log_reaches(above) {
            return self.offer_snapshot(now, to, fx);
        }
        let (budget_bytes, tail) = (budget_bytes.min(BUDGET_BYTES), end.void.clone());
        if above < through {
            fx.output(Action::ServeChain { to, above, through, budget_bytes, tail });
        } else if !tail.is_empty() {
            let message = PeerMessage::Chain(within(tail, budget_bytes));
            fx.output(Action::Send { to, message });
        }
    }

    pub(super) fn on_chain(
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
        // Where blocks vouch for their parents, every block but the last may be believed; the last
        // only if it is one that was asked for.
        let linked = blocks.windows(2).all(|pair| match pair {
            [parent, child] => child.block.parent() == parent.block.id(),
            _ => true,
        });
        if !linked {
            self.catch_up.answered(from, None);
            fx.output(Action::Refused { from, reason: Refused::Unfit });
            return;
        }
        let is_wanted = |id: &BlockId| !P::VOUCHES_FOR_PARENTS || self.catch_up.is_wanted(id);
        if blocks.last().is_some_and(|last| !is_wanted(&last.block.id())) {
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
        let (mut reached, mut is_new) = (None, false);
        for (block, frames) in blocks {
            let (id, height) = (block.id(), block.height());
            let is_known = self.protocol.knows(&id);
            if !is_known {
                self.hold(&block, frames);
                self.consult(now, protocol::Input::Fetched { from, block }, fx);
                self.let_go(&id);
            }
            if self.protocol.knows(&id) {
                (reached, is_new) = (Some(height), is_new || !is_known);
            }
        }
        if is_new {
            self.catch_up.gave(from);
        }
        if self.catch_up.awaits(from) {
            self.catch_up.answered(from, reached);
        }
    }

    /// A snapshot is believed if a block of this chain, certified by a quorum, carries the root
    /// of its state; that chunks are of that state is checked when they come ([`Restoring`]).
    pub(super) fn on_offer(
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
        let Some(verifier) = self.verifier_of(offer.epoch) else {
            if !asked || !self.is_governed() {
                return self.refuse_epoch(from, fx);
            }
            return self.ask_up_to(from, offer.epoch, fx);
        };
        let above_genesis = height.0.saturating_sub(verifier.committee().opening().height.0);
        let fits = offer.shown.block.height() >= height
            && height > self.protocol.committed().height()
            // With fewer, this replica would elect other leaders than the rest.
            && offer.recent.len() as u64 >= above_genesis.min(self.protocol.look_back() as u64)
            && linked;
        if !asked || !fits {
            let reason = if asked { Refused::Unfit } else { Refused::Unasked };
            fx.output(Action::Refused { from, reason });
            if asked {
                self.catch_up.answered(from, None);
            }
            return;
        }
        let checks = verifier.claim_evidence(&offer.shown.block.id(), &offer.shown.evidence);
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

    pub(super) fn on_chunk(
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
                self.catch_up.gave(from);
                self.catch_up.answered(from, Some(offer.block.height()));
                let skips = offer.epoch > self.membership.latest().epoch();
                if skips {
                    self.skip_to(now, offer.epoch, fx);
                }
                self.execution = execution.skipping_as(&self.execution);
                self.to_execute.clear();
                self.tentative = None;
                let settled = self.payload.mempool.taken_over(self.execution.sessions());
                self.answer(&settled, fx);
                let Offer { block: root, recent, shown, .. } = offer;
                let evidence = shown.evidence;
                // What is between its own log and the snapshot never was here.
                self.snapshots.took_over(root.height());
                if skips {
                    let installed = Some(Installed { root, recent, evidence });
                    self.begin(now, Beginning { installed, ..Beginning::at_genesis() }, fx);
                } else {
                    self.consult(now, protocol::Input::Installed { root, recent, evidence }, fx);
                }
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

    /// The state that a peer sends was given up; another peer is asked, unless this program could
    /// not go on from any.
    fn not_taken(&mut self, from: ReplicaId, reason: SnapshotError, fx: &mut Fx<P::Types>) {
        if let SnapshotError::Rules(unknown) = reason {
            // A quorum stands for this state: no peer has another one to give.
            return self.halt(Halt::Execution(unknown.into()), fx);
        }
        self.catch_up.answered(from, None);
        fx.output(Action::Refused { from, reason: Refused::Unfit });
        fx.output(Action::NotTaken { from, reason });
    }
}
