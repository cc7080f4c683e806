//! What waits for the verdicts on its signatures.

use super::message::Offer;
use super::pending::{ClaimedBlock, Pending, Verdicts};
use super::proofs::may_be_in_a_block;
use super::verifications::Settled;
use super::{Action, Fx, Refused, Replica};
use crate::base::crypto::{Check, Claim};
use crate::base::membership::{Membership, Rules};
use crate::base::types::{ReplicaId, Time};
use crate::ledger::execution::Restoring;
use crate::ledger::frame::SharedFrame;
use crate::ledger::mempool::Origin;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{
    self, FullBlockOf, Malformed, MessageOf, Protocol, SharedHandover, Types, Verifier as _,
};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Has the checks of `pending` verified that are not known to hold; then it goes on. `from` is
    /// the peer to whose account it goes, with the bytes of its message.
    pub(super) fn verify(
        &mut self,
        now: Time,
        pending: Pending<P::Types>,
        from: Option<(ReplicaId, usize)>,
        fx: &mut Fx<P::Types>,
    ) {
        let keys = Keys::of(&self.membership, &self.epochs.believed);
        let give = &mut |ask, checks| {
            let checks = keys.resolve(checks);
            fx.output(Action::Verify { ask, checks });
        };
        if let Err(from) = self.verifications.ask(now, pending, from, give) {
            fx.output(Action::Refused { from, reason: Refused::Flood });
        }
    }

    /// The verdicts on checks that were given to the verifier.
    pub(super) fn on_checked(
        &mut self,
        now: Time,
        ask: u64,
        verdicts: &[bool],
        fx: &mut Fx<P::Types>,
    ) {
        if let Some(settled) = self.verifications.checked(ask, verdicts) {
            self.resume(now, settled, fx);
        }
        let keys = Keys::of(&self.membership, &self.epochs.believed);
        self.verifications.give_more(now, &mut |ask, checks| {
            let checks = keys.resolve(checks);
            fx.output(Action::Verify { ask, checks });
        });
    }

    /// A signature that a peer sent does not hold.
    fn bad_signature(&mut self, now: Time, from: ReplicaId, fx: &mut Fx<P::Types>) {
        self.verifications.distrust(now, from);
        fx.output(Action::Refused { from, reason: Refused::BadSignature });
    }

    /// Admits the frames that hold. Returns whether whoever relayed them forged one.
    fn admit_verified(
        &mut self,
        now: Time,
        (relayed_by, frames): (Option<ReplicaId>, Vec<Claim<SharedFrame>>),
        is_current: bool,
        verdicts: &mut Verdicts<'_>,
    ) -> bool {
        // What was asked for is of a proposal: it need not wait until it is spread.
        let asked_for = if self.ahead.is_on() { Origin::Proposal } else { Origin::Relayed };
        let origin = relayed_by.map_or(asked_for, Origin::RelayedBy);
        let verifies_steps = self.membership.latest().shares().is_some();
        let mut is_bad = false;
        for frame in frames {
            // It may have been verified by an older epoch's rules.
            let is_late = |frame: &SharedFrame| {
                frame.is_directive() || frame.is_unverified_under(Rules::FIRST)
            };
            let is_stale = !is_current && is_late(frame.unverified());
            let is_forged = verdicts.is_forged_by_its_relay(&frame, verifies_steps);
            match verdicts.settle(frame) {
                Some(_) if is_stale => {}
                Some(frame) => self.admit_passed_on(now, &frame.into_inner(), origin),
                None => is_bad |= is_forged,
            }
        }
        is_bad
    }

    pub(super) fn resume(&mut self, now: Time, settled: Settled<P::Types>, fx: &mut Fx<P::Types>) {
        let Settled { is_current, pending, verdicts } = settled;
        if !is_current && !matches!(pending, Pending::Frames { .. }) {
            // The protocol that it was for is gone.
            return;
        }
        let mut verdicts = Verdicts { left: &verdicts };
        match pending {
            Pending::Protocol { ask, .. } => {
                let verdicts = verdicts.left.to_vec();
                self.consult(now, protocol::Input::Checked { ask, verdicts }, fx);
            }
            Pending::Message { from, claim, frames } => {
                let message = verdicts.settle(claim);
                let count = frames.len();
                let frames: Vec<_> =
                    frames.into_iter().filter_map(|frame| verdicts.settle(frame)).collect();
                match message {
                    Some(message) if frames.len() == count => {
                        self.on_verified(now, from, message, &frames, fx);
                    }
                    _ => self.bad_signature(now, from, fx),
                }
            }
            Pending::Frames { relayed_by, frames } => {
                let is_bad =
                    self.admit_verified(now, (relayed_by, frames), is_current, &mut verdicts);
                if let Some(from) = relayed_by.filter(|_| is_bad) {
                    self.bad_signature(now, from, fx);
                }
                self.release_arrivals(now, fx);
                self.consult(now, protocol::Input::Wake, fx);
            }
            Pending::Chain { from, blocks } => {
                let count = blocks.len();
                let mut good: Vec<_> = blocks
                    .into_iter()
                    .map_while(|(claim, frames)| Some((verdicts.settle(claim)?, frames)))
                    .collect();
                if good.len() < count {
                    // The bad one was to certify its parent.
                    good.pop();
                    self.bad_signature(now, from, fx);
                }
                self.on_chain_verified(now, from, good, fx);
            }
            Pending::Offer { from, offer, .. } => {
                let holds = verdicts.left.iter().all(|verdict| *verdict);
                self.on_offer_checked(now, from, offer, holds, fx);
            }
            Pending::Handover { from, handover, .. } => {
                if verdicts.left.iter().all(|verdict| *verdict) {
                    self.on_believed(now, from, handover, fx);
                } else {
                    self.bad_signature(now, from, fx);
                }
            }
            Pending::Testimony { from, testimony, .. } => {
                if verdicts.left.iter().all(|verdict| *verdict) {
                    self.on_testimony(now, from, *testimony, fx);
                } else if self.is_governed() {
                    // It may be one of a later epoch.
                    fx.output(Action::Refused { from, reason: Refused::BadSignature });
                } else {
                    self.bad_signature(now, from, fx);
                }
            }
        }
    }

    /// A snapshot is offered, and the evidence of its root holds or not.
    fn on_offer_checked(
        &mut self,
        now: Time,
        from: ReplicaId,
        offer: Box<Offer<P::Types>>,
        holds: bool,
        fx: &mut Fx<P::Types>,
    ) {
        if !self.catch_up.takes_offers(from) {
            // Another was taken up meanwhile.
            return;
        }
        if !holds {
            self.catch_up.answered(from, None);
            return self.bad_signature(now, from, fx);
        }
        let limits = *self.execution.sessions().limits();
        let expected = P::Verifier::attested_root(&offer.shown);
        let block = (offer.block.height(), offer.block.id());
        let restoring = Restoring::new((self.fresh)(), limits, expected).behind(block);
        let message = self.catch_up.accept(now, from, offer, restoring);
        fx.output(Action::Send { to: from, message });
    }

    /// The frames among `frames` that are not here, as claims by these rules; those that are need
    /// no check.
    pub(super) fn unknown_frames(
        &self,
        frames: Vec<SharedFrame>,
        rules: Rules,
    ) -> Vec<Claim<SharedFrame>> {
        let (chain, is_governed) = (self.membership.latest().chain(), self.is_governed());
        let rules = self.membership.latest().verified_under(rules);
        let claim = |frame: SharedFrame| match is_governed {
            true => frame.claim_with_approvals(&chain, rules),
            false => frame.claim(&chain),
        };
        frames
            .into_iter()
            .filter(|frame| !self.payload.mempool.contains(&frame.id()))
            .map(claim)
            .collect()
    }

    /// What the signatures of fetched blocks rest on.
    pub(super) fn chain_claims(
        &self,
        blocks: Vec<FullBlockOf<P::Types>>,
    ) -> Result<Vec<ClaimedBlock<P::Types>>, Malformed> {
        blocks
            .into_iter()
            .map(|full| Ok((self.protocol.claim_block(full.block)?, full.frames)))
            .collect()
    }

    /// Sends a peer's message on to where it belongs, or refuses it.
    pub(super) fn claim_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: MessageOf<P>,
        frames: Vec<SharedFrame>,
        fx: &mut Fx<P::Types>,
    ) {
        match self.protocol.claim(from, message) {
            Err(reason) => {
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
            Ok(claim) => {
                let bytes = bytes_of(&frames);
                let fits = may_be_in_a_block(&frames, self.membership.latest());
                if bytes > self.settings.inline_bytes || !fits {
                    fx.output(Action::Refused { from, reason: Refused::Unfit });
                    return;
                }
                // All replicas must agree on what a block rests on.
                let frames = self.unknown_frames(frames, self.membership.latest().rules());
                let pending = Pending::Message { from, claim, frames };
                self.verify(now, pending, Some((from, bytes)), fx);
            }
        }
    }
}

/// Whose keys signatures are checked by. Where members may change, the verifier is given each
/// signer's key in the epoch that its statement names: ids alone say nothing to it.
struct Keys<'a, T: Types> {
    membership: &'a Membership,
    believed: &'a [SharedHandover<T>],
}

impl<'a, T: Types> Keys<'a, T> {
    fn of(membership: &'a Membership, believed: &'a [SharedHandover<T>]) -> Self {
        Self { membership, believed }
    }

    fn resolve(&self, checks: Vec<Check>) -> Vec<Check> {
        if self.membership.latest().governance().administrators.is_empty() {
            return checks;
        }
        checks.into_iter().map(|check| self.by_key(check)).collect()
    }

    fn by_key(&self, check: Check) -> Check {
        let Some(epoch) = check.epoch() else { return check };
        let believed = || {
            let next = |handover: &&SharedHandover<T>| handover.next.epoch() == epoch;
            self.believed.iter().find(next).map(|handover| &handover.next)
        };
        match self.membership.committee(epoch).or_else(believed) {
            Some(committee) => committee.by_key(check),
            None => check,
        }
    }
}

/// Bytes of frames.
pub(super) fn bytes_of(frames: &[SharedFrame]) -> usize {
    frames.iter().map(|frame| frame.encoded_bytes().len()).sum()
}
