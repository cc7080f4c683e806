//! From one epoch to the next.
//!
//! Each epoch is run by a protocol of its own: the same state machine, made anew with the epoch's
//! committee, growing from the epoch's genesis. The protocol knows of no other epoch. All that
//! outlives one (mempool, sessions, state, log) is the replica's.
//!
//! 1. A block *seals* its epoch: a change of the members executes in it
//!    ([`change`](crate::ledger::change)). Nothing above that block is executed in this epoch: what
//!    the old committee decides there is *void*. Leaders put no commands there, so nothing is lost;
//!    commands that were there already are pending still, and come into later blocks.
//! 2. The old committee goes on until its certificates attest the root of the sealed state. That
//!    root covers the next members, so this is the proof that the old committee chose them
//!    ([`Handover`]). It is written down, sent to all, and only then
//! 3. the next epoch begins: at the replica that made the proof at once, at the others when the
//!    proof reaches them, or when they can make it themselves.
//!
//! # Who is behind
//!
//! Messages of the protocol name their epoch. A message of an epoch that ended is answered with its
//! handover; one of a later epoch makes the receiver ask for the handover of its own. Whoever gets
//! it hands the evidence to its protocol, which fetches what it lacks as it always does, executes
//! up to the sealing block, and comes to the same proof. So a replica that was away for ten epochs
//! believes each committee because the one before it signed its choice, from genesis on; and so
//! does a new member.
//!
//! # Why an old epoch cannot go on beside a new one
//!
//! A handover needs a certificate, so a quorum of the old committee signed a root that they
//! computed, behind a block that they know to be committed. Every later certificate of the old
//! epoch is for a block above it, and no correct replica executes one of those. Old members that
//! never hear of the handover can at most certify void blocks. A certificate of the new epoch needs
//! a quorum of the new committee, each of which has the handover.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::beginning::Beginning;
use super::catch_up::CatchUp;
use super::message::PeerMessage;
use super::{Action, Fx, Halt, Refused, Replica};
use crate::base::membership::{Committee, MAX_REPLICAS};
#[cfg(quorate_mutants)]
use crate::base::types::Digest;
use crate::base::types::{Epoch, Height, ReplicaId, Time};
use crate::ledger::block::{BlockId, FullBlock};
use crate::ledger::frame::Frame;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, Ancestry, BlockOf, FullBlockOf, Handover, MAX_VOID_BLOCKS, Malformed, Missing, Protocol,
    SharedHandover, Shown,
};

/// Above this bit, the number of a question says which epoch's protocol asked it.
const EPOCH_SHIFT: u32 = 40;

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// The block just executed seals the epoch: what was decided above it is void.
    pub(super) fn seal(&mut self) {
        self.epochs.sealed = Some((self.execution.height(), self.execution.state_root()));
        self.epochs.are_void(&self.to_execute);
        self.to_execute.clear();
    }

    /// Goes over to the next epoch, if this one is sealed and its committee has attested that.
    pub(super) fn hand_over(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        let known = self.epochs.believed.first().filter(|known| self.ends_here(known)).cloned();
        if let Some(known) = known {
            self.record_end(now, &known, fx);
            return self.begin_epoch(now, known, fx);
        }
        let sealed =
            mutant!("epoch-before-commit", self.sealed_when_certified(fx), self.epochs.sealed);
        let Some((height, root)) = sealed else { return };
        let Some(next) = self.execution.members().sealed().cloned() else { return };
        let shown = mutant!(
            "epoch-before-certificate",
            self.protocol.newest_certified(),
            self.protocol.certified(&root, height),
        );
        let Some(shown) = shown else { return };
        let Some(void) = self.void_blocks(&shown, height) else { return };
        let state = *self.execution.summary();
        let handover = Arc::new(Handover { state, next, shown, void });
        self.record_end(now, &handover, fx);
        fx.output(Action::Broadcast(PeerMessage::Handover(Arc::clone(&handover))));
        self.begin_epoch(now, handover, fx);
    }

    /// A change counts as soon as its block is certified: a bug put in on purpose.
    #[cfg(quorate_mutants)]
    fn sealed_when_certified(&mut self, fx: &mut Fx<P::Types>) -> Option<(Height, Digest)> {
        self.seal_when_certified(fx);
        self.epochs.sealed
    }

    #[cfg(quorate_mutants)]
    fn seal_when_certified(&mut self, fx: &mut Fx<P::Types>) {
        let Some(Shown { block, .. }) = self.protocol.newest_certified() else { return };
        let executed = self.execution.height();
        if !self.to_execute.is_empty() || block.height() <= executed {
            return;
        }
        let below = self.protocol.ancestors(&block, executed);
        let mut path = below.map(|Ancestry { blocks, .. }| blocks).unwrap_or_default();
        path.push(block);
        let Some(current) = self.execution.members().committee() else { return };
        let seals = |block: &BlockOf<P::Types>| {
            let frames = self.payload.bodies(&block.id()).into_iter().flatten();
            let changes = frames.filter_map(|frame| frame.change(current.rules())?.ok());
            changes.into_iter().any(|change| change.judge(current, current.opening()).is_ok())
        };
        let Some(seal) = path.iter().position(seals) else { return };
        path.truncate(seal + 1);
        let is_next = |block: &BlockOf<P::Types>| block.parent() == self.execution.block_id();
        let is_here = |block: &BlockOf<P::Types>| self.payload.bodies(&block.id()).is_some();
        if path.first().is_some_and(is_next) && path.iter().all(is_here) {
            path.iter().for_each(|block| self.execute_block(block, fx));
        }
    }

    /// Those of these decisions that the same bug has not anticipated.
    #[cfg(quorate_mutants)]
    pub(super) fn not_executed(
        &self,
        mut decisions: Vec<protocol::Decision<P::Types>>,
    ) -> Vec<protocol::Decision<P::Types>> {
        let executed = self.execution.height();
        decisions.retain(|it| it.block().is_none_or(|block| block.height() > executed));
        decisions
    }

    /// The blocks from the one above `height` to the one shown, with their frames.
    fn void_blocks(
        &self,
        shown: &Shown<P::Types>,
        height: Height,
    ) -> Option<Vec<FullBlockOf<P::Types>>> {
        if shown.block.height() <= height {
            return Some(Vec::new());
        }
        let below = self.protocol.ancestors(&shown.block, height);
        let blocks = below.map(|Ancestry { blocks, .. }| blocks).unwrap_or_default();
        let full = |block: BlockOf<P::Types>| {
            let frames = match self.payload.bodies(&block.id()) {
                Some(frames) => frames.clone(),
                None if block.is_empty() => Vec::new(),
                None => return None,
            };
            Some(FullBlock { block, frames })
        };
        let void: Option<Vec<_>> =
            blocks.into_iter().chain([Arc::clone(&shown.block)]).map(full).collect();
        void.filter(|void| void.len() <= MAX_VOID_BLOCKS)
    }

    pub(super) fn begin_epoch(
        &mut self,
        now: Time,
        handover: SharedHandover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        let Some(next) = self.enter_epoch(handover) else { return };
        let genesis = Arc::clone(self.protocol.committed());
        if let Err(error) = self.execution.open_epoch(genesis.id()) {
            return self.halt(Halt::Execution(error), fx);
        }
        fx.output(Action::EpochBegan(Box::new(next.clone())));
        self.begin(now, Beginning::at_genesis(), fx);
        // A restart would have to execute the old epoch's end again.
        self.want_snapshot(fx);
        if !self.epochs.speaks() {
            return;
        }
        let me = self.settings.me;
        for peer in next.replicas().filter(|peer| *peer != me) {
            self.consult(now, protocol::Input::Connected(peer), fx);
        }
    }

    /// Makes the protocol of the epoch behind a handover, and room for its members.
    pub(super) fn enter_epoch(&mut self, handover: SharedHandover<P::Types>) -> Option<Committee> {
        let former = self.membership.latest().rules();
        let next = self.membership.begin(handover.next.clone())?.clone();
        if next.rules().core > former.core {
            // They were verified as what they were by the former rules: as commands like any other.
            let now = next.rules();
            let is_unverified = |frame: &Frame| frame.is_unverified_until(former, now);
            self.payload.mempool.drop_where(is_unverified);
        }
        self.epochs.passed(handover);
        self.protocol = mutant!(
            "removed-member-counts",
            (self.make)(&next.clone().with_those_of(self.execution.members().committee()?)),
            (self.make)(&next),
        );
        let peers = next.size();
        let settings = &self.settings;
        self.payload.arrivals = super::arrivals::<P>(settings, peers);
        self.payload.retain(|_| false);
        self.catch_up = CatchUp::new(self.settings.max_snapshot_bytes);
        self.verifications.begin_epoch(peers);
        self.held_by.grow(peers);
        self.wish.grow(peers);
        self.ahead.grow(peers);
        if self.ahead.is_on() {
            self.payload.mempool.share_among(next.faults());
        }
        self.to_execute.clear();
        Some(next)
    }

    /// Enters the epochs that ended before the restart. Those of their blocks that the recovered
    /// state lacks are executed again. Where they are not in the log, a later state was taken over
    /// and was not durable: this replica is in an epoch that it knows to have ended.
    pub(super) fn recover_epochs(
        &mut self,
        handovers: Vec<SharedHandover<P::Types>>,
        blocks: &[FullBlockOf<P::Types>],
    ) -> Result<(), Halt> {
        if handovers.is_empty() {
            return Ok(());
        }
        let by_id = blocks.iter().map(|full| (full.block.id(), full)).collect();
        let mut handovers = handovers.into_iter();
        while let Some(handover) = handovers.next() {
            let (height, end) = (handover.state.height, handover.state.block_id);
            if self.execution.height() <= height && !self.execute_up_to(end, &by_id)? {
                self.epochs.believed = [handover].into_iter().chain(handovers).collect();
                self.epochs.skips_to = Some(self.last_known_epoch());
                break;
            }
            let is_past = self.execution.height() > height;
            if self.enter_epoch(handover).is_none() {
                return Err(Halt::Epochs);
            }
            let genesis = self.protocol.committed().id();
            if !is_past {
                self.execution.open_epoch(genesis).map_err(Halt::Execution)?;
            }
        }
        Ok(())
    }

    /// Executes the blocks on the way to `end`, which were executed before the restart. Says
    /// whether all of them are here; else none is executed.
    fn execute_up_to(
        &mut self,
        end: BlockId,
        blocks: &BTreeMap<BlockId, &FullBlockOf<P::Types>>,
    ) -> Result<bool, Halt> {
        let mut path = Vec::new();
        let mut next = end;
        while next != self.execution.block_id() {
            let Some(full) = blocks.get(&next).copied() else { return Ok(false) };
            next = full.block.parent();
            path.push(full);
        }
        for FullBlock { block, frames } in path.into_iter().rev() {
            let executed = self.execution.execute(block.height(), block.view(), block.id(), frames);
            executed.map_err(Halt::Execution)?;
        }
        Ok(true)
    }

    /// A peer speaks of another epoch than this replica's.
    pub(super) fn on_other_epoch(
        &mut self,
        now: Time,
        from: ReplicaId,
        epoch: Epoch,
        fx: &mut Fx<P::Types>,
    ) {
        let current = self.membership.latest().epoch();
        if epoch < current {
            return self.tell_handover(now, from, epoch, fx);
        }
        self.note_ahead(now, from, epoch);
    }

    /// A peer speaks of epochs where members are fixed, so that there is one.
    pub(super) fn refuse_epoch(&self, from: ReplicaId, fx: &mut Fx<P::Types>) {
        let reason = Refused::Malformed(Malformed::WrongEpoch);
        fx.output(Action::Refused { from, reason });
    }

    /// A peer is in a later epoch. It need not be a member of this one.
    pub(super) fn note_ahead(&mut self, now: Time, peer: ReplicaId, epoch: Epoch) {
        if peer.index() < MAX_REPLICAS {
            self.verifications.grow(peer.index() + 1);
            self.epochs.ahead.insert(peer, epoch);
            self.epochs.asks_at.get_or_insert(now);
        }
    }

    /// Asks a peer that is further how this epoch ended, if it is time.
    pub(super) fn ask_handover(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if let Some(to) = self.epochs.ask(now) {
            let epoch = self.last_known_epoch();
            fx.output(Action::Send { to, message: PeerMessage::AskHandover(epoch) });
        }
    }

    /// A peer asks how an epoch ended.
    pub(super) fn tell_handover(
        &mut self,
        now: Time,
        to: ReplicaId,
        epoch: Epoch,
        fx: &mut Fx<P::Types>,
    ) {
        if let Some(handover) = self.epochs.ended(epoch).cloned()
            && self.epochs.may_tell(now, to, epoch)
        {
            fx.output(Action::Send { to, message: PeerMessage::Handover(handover) });
        }
    }

    /// A peer tells how this replica's epoch ended: its protocol gets the evidence, and finds the
    /// end by itself.
    pub(super) fn on_handover(
        &mut self,
        now: Time,
        from: ReplicaId,
        handover: SharedHandover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        let current = self.membership.latest().epoch();
        let ends_question = self.epochs.asks() && handover.ended() == current;
        if self.awaits_handover(handover.ended()) || self.ends_here(&handover) || ends_question {
            return self.claim_handover(now, from, handover, fx);
        }
        if handover.ended() != current {
            if handover.ended() > current {
                self.on_other_epoch(now, from, handover.next.epoch(), fx);
            }
            return;
        }
        self.show_end(now, from, &handover, fx);
    }

    /// The protocol gets the evidence of a handover, and finds the end of its epoch by itself.
    pub(super) fn show_end(
        &mut self,
        now: Time,
        from: ReplicaId,
        handover: &Handover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        self.note_ahead(now, from, handover.next.epoch());
        if let Some(message) = P::showing(handover.shown.evidence.clone()) {
            self.claim_message(now, from, message, Vec::new(), fx);
        }
    }

    /// Under which number the driver is asked: protocols of different epochs begin at 0 each.
    pub(super) fn ask_of_epoch(&self, ask: u64) -> u64 {
        self.membership.latest().epoch().0 << EPOCH_SHIFT | ask
    }

    /// The number that the current epoch's protocol gave to a question; `None` if an earlier one
    /// asked it.
    pub(super) fn own_ask(&self, ask: u64) -> Option<u64> {
        let of_epoch = ask >> EPOCH_SHIFT == self.membership.latest().epoch().0;
        of_epoch.then_some(ask & ((1 << EPOCH_SHIFT) - 1))
    }

    /// Whether a handover is the end of this epoch, and this replica has come to its state.
    pub(super) fn ends_here(&self, handover: &Handover<P::Types>) -> bool {
        let sealed = self.execution.members().sealed();
        sealed == Some(&handover.next) && *self.execution.summary() == handover.state
    }

    /// What is missing, and who has it: besides those that the protocol names, and who may be gone,
    /// the peers that say they are in a later epoch.
    pub(super) fn missing(&self) -> Option<Missing> {
        let mut missing = self.protocol.missing()?;
        let further = self.epochs.ahead.keys().copied();
        if !self.epochs.ahead.is_empty() && missing.holders.is_empty() {
            missing.holders.extend(self.membership.latest().replicas());
        }
        let named = missing.holders.len();
        for peer in further {
            if !missing.holders[..named].contains(&peer) {
                missing.holders.push(peer);
            }
        }
        Some(missing)
    }
}
