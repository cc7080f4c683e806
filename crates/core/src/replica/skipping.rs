//! Taking over a state of a later epoch.
//!
//! A replica that was away for long, or is new, finds that the blocks it lacks are gone everywhere,
//! and is offered a snapshot of an epoch whose committee it does not know. It asks for the
//! handovers between, one by one, and believes each because the committee before it signed it. Then
//! it can check the offer as any other. The epochs between are never run here.

use super::message::PeerMessage;
use super::pending::Pending;
use super::{Action, Fx, Refused, Replica};
use crate::base::types::{Epoch, ReplicaId, Time};
use crate::base::wire::Encode as _;
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{Protocol, SharedHandover};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// What the evidence of an epoch is checked by, if its committee is known.
    pub(super) fn verifier_of(&self, epoch: Epoch) -> Option<P::Verifier> {
        let current = self.membership.latest().epoch();
        if epoch == current {
            return Some(self.protocol.verifier());
        }
        let between = epoch.0.checked_sub(current.0.checked_add(1)?)?;
        let handover = self.epochs.believed.get(usize::try_from(between).ok()?)?;
        Some((self.make)(&handover.next).verifier())
    }

    /// The first epoch whose end is not known here.
    pub(super) fn last_known_epoch(&self) -> Epoch {
        self.membership.latest().epoch().plus(self.epochs.believed.len() as u64)
    }

    /// A peer offers a state of a later epoch: it is asked for the handovers up to there.
    pub(super) fn ask_up_to(&mut self, from: ReplicaId, epoch: Epoch, fx: &mut Fx<P::Types>) {
        self.epochs.skips_to = self.epochs.skips_to.max(Some(epoch));
        let message = PeerMessage::AskHandover(self.last_known_epoch());
        fx.output(Action::Send { to: from, message });
    }

    /// Whether this handover is the next to be believed unseen.
    pub(super) fn awaits_handover(&self, ended: Epoch) -> bool {
        self.epochs.skips_to.is_some_and(|to| ended < to) && ended == self.last_known_epoch()
    }

    /// A handover that is to be believed by its signatures alone.
    pub(super) fn claim_handover(
        &mut self,
        now: Time,
        from: ReplicaId,
        handover: SharedHandover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        if !handover.is_linked() {
            if self.ends_here(&handover) {
                self.show_end(now, from, &handover, fx);
            }
            return fx.output(Action::Refused { from, reason: Refused::Unfit });
        }
        let Some(verifier) = self.verifier_of(handover.ended()) else { return };
        let bytes = handover.to_bytes().len();
        match handover.claim(&verifier) {
            Ok(checks) => {
                let pending = Pending::Handover { from, handover, checks };
                self.verify(now, pending, Some((from, bytes)), fx);
            }
            Err(reason) => {
                fx.output(Action::Refused { from, reason: Refused::Malformed(reason) });
            }
        }
    }

    /// A handover whose signatures hold.
    pub(super) fn on_believed(
        &mut self,
        now: Time,
        from: ReplicaId,
        handover: SharedHandover<P::Types>,
        fx: &mut Fx<P::Types>,
    ) {
        if self.ends_here(&handover) {
            self.record_end(now, &handover, fx);
            return self.begin_epoch(now, handover, fx);
        }
        if self.epochs.asks() {
            return self.has_ended(now, from, handover, fx);
        }
        if !self.awaits_handover(handover.ended()) {
            return;
        }
        let reached = Some(handover.next.epoch()) >= self.epochs.skips_to;
        self.epochs.believed.push(handover);
        if reached {
            self.catch_up.ask_again();
        } else {
            let message = PeerMessage::AskHandover(self.last_known_epoch());
            fx.output(Action::Send { to: from, message });
        }
    }

    /// Enters the epoch of a state that is taken over. Its protocol is begun with that state.
    pub(super) fn skip_to(&mut self, now: Time, epoch: Epoch, fx: &mut Fx<P::Types>) {
        while self.membership.latest().epoch() < epoch {
            let Some(handover) = self.epochs.believed.first().cloned() else { return };
            self.record_end(now, &handover, fx);
            let Some(next) = self.enter_epoch(handover) else { return };
            fx.output(Action::EpochBegan(Box::new(next)));
        }
    }
}
