//! Asking for testimonies after a loss of memory, and giving them ([`rejoin`](super::rejoin)).

use std::sync::Arc;

use super::beginning::Beginning;
use super::epochs::Voice;
use super::message::PeerMessage;
use super::pending::Pending;
use super::{Action, Fx, Halt, Record, Recovery, Refused, Replica};
use crate::base::crypto::{Check, Share, Signature, Statement};
use crate::base::types::{Digest, ReplicaId, Time};
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{self, Protocol, TestimonyOf};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    pub(super) fn begin_rejoin(
        &mut self,
        now: Time,
        (nonce, restored): (Digest, Recovery<P::Types>),
        fx: &mut Fx<P::Types>,
    ) {
        fx.record(Record::Amnesia);
        self.amnesia.begin(nonce);
        self.start(now, restored, fx);
    }

    pub(super) fn ask_testimonies(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if let Some(nonce) = self.amnesia.ask(now) {
            if self.is_governed() {
                // Who is in a later epoch has no testimony for this one, and shows how it ended.
                let epoch = self.membership.latest().epoch();
                fx.output(Action::Broadcast(PeerMessage::AskHandover(epoch)));
            }
            fx.output(Action::Broadcast(PeerMessage::AskTestimony { nonce }));
        }
    }

    fn testimony_content(nonce: &Digest, asker: ReplicaId) -> Digest {
        let mut bytes = nonce.0.to_vec();
        bytes.extend_from_slice(&asker.0.to_le_bytes());
        Digest::of("quorate testimony", &bytes)
    }

    /// Tells a replica that lost its data which views to keep away from.
    pub(super) fn testify(
        &mut self,
        now: Time,
        to: ReplicaId,
        nonce: Digest,
        fx: &mut Fx<P::Types>,
    ) {
        if !self.amnesia.may_testify(now, to) {
            return;
        }
        let testimony = self.protocol.testimony();
        let content = Self::testimony_content(&nonce, to);
        let statement = self.protocol.testimony_statement(&testimony, &content);
        self.amnesia.sign(statement, (to, nonce, testimony));
        fx.output(Action::Sign(statement));
    }

    /// Sends the testimony that was signed, if it is one.
    pub(super) fn send_testimony(
        &mut self,
        statement: &Statement,
        signature: Signature,
        fx: &mut Fx<P::Types>,
    ) -> bool {
        let Some((to, nonce, testimony)) = self.amnesia.signed(statement) else { return false };
        let message = PeerMessage::Testimony { nonce, testimony, signature };
        fx.output(Action::Send { to, message });
        true
    }

    pub(super) fn claim_testimony(
        &mut self,
        now: Time,
        (from, nonce): (ReplicaId, Digest),
        testimony: TestimonyOf<P>,
        signature: Signature,
        fx: &mut Fx<P::Types>,
    ) {
        if !self.amnesia.awaits(nonce) {
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
        let Some(testimonies) = self.amnesia.heard(from, testimony) else { return };
        let Some(memory) = self.protocol.recollect(&testimonies) else {
            return self.halt(Halt::NoWayBack, fx);
        };
        let Some(beginning) = self.amnesia.end() else { return };
        fx.record(Record::Memory(Arc::new(memory.clone())));
        self.epochs.voice = Voice::Speaks;
        self.take_up(now, Beginning { memory: Some(memory), ..beginning }, fx);
        if self.is_governed() {
            // A state that was taken over meanwhile is on no disk yet.
            self.want_snapshot(fx);
        }
        // Channels that opened meanwhile went by unused, and testimonies may be old when the last
        // one comes. A peer that knows more will say so.
        let (me, replicas) = (self.settings.me, self.membership.latest().replicas());
        for peer in replicas.filter(|peer| *peer != me).collect::<Vec<_>>() {
            self.consult(now, protocol::Input::Connected(peer), fx);
        }
    }
}
