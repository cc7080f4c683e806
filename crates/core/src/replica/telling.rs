//! What a replica says and does about frames that travel [ahead](super::ahead) of proposals.

use super::message::{MAX_HELD, PeerMessage, ShortId};
use super::{Action, Fx, Replica};
use crate::base::types::{ReplicaId, Time};
use crate::ledger::frame::{FrameId, SharedFrame};
use crate::ledger::mempool::{Admission, Origin};
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{self, Protocol};

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Whether a frame travelled ahead to a quorum, as far as that was told.
    pub(super) fn is_spread(&self, id: &FrameId) -> bool {
        let committee = self.membership.latest();
        self.ahead.is_on()
            && self.payload.mempool.passed_on_at_once(id).is_some()
            && self.ahead.is_spread(id, self.settings.me, committee, false)
    }

    /// A peer passes frames on, so it holds them. Those that are here already are told of again:
    /// it may have missed that.
    pub(super) fn note_passed_on(&mut self, now: Time, from: ReplicaId, frames: &[SharedFrame]) {
        if !self.ahead.is_on() {
            return;
        }
        let ids = frames.iter().map(|frame| ShortId::of(&frame.id()));
        self.ahead.passed_on(now, from, ids, self.membership.latest().faults());
        let here = frames.iter().filter(|frame| self.payload.mempool.contains(&frame.id()));
        here.for_each(|frame| self.ahead.tell(&frame.id()));
    }

    /// Takes in a verified frame that another replica sent, and tells the others of it.
    pub(super) fn admit_passed_on(&mut self, now: Time, frame: &SharedFrame, origin: Origin) {
        let admission = self.admit(now, frame, origin);
        if let (Admission::Added, Origin::RelayedBy(_)) = (admission, origin) {
            self.ahead.tell(&frame.id());
        }
    }

    /// A peer tells which frames it holds.
    pub(super) fn on_held(
        &mut self,
        now: Time,
        from: ReplicaId,
        ids: &[ShortId],
        fx: &mut Fx<P::Types>,
    ) {
        if !self.ahead.is_on() {
            return;
        }
        if !self.ahead.tells(now, from, ids.len()) {
            return;
        }
        let faults = self.membership.latest().faults();
        let is_news = self.ahead.note(now, from, ids.iter().copied(), faults);
        if is_news && self.ahead.has_put_off() {
            self.consult(now, protocol::Input::Wake, fx);
        }
    }

    /// Tells the others what came since.
    pub(super) fn tell_held(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if let Some(ids) = self.ahead.take_due(now) {
            fx.output(Action::Broadcast(PeerMessage::Held(ids)));
        }
    }

    /// Tells a peer that connected of all that waits here: of nothing, too.
    pub(super) fn tell_newcomer(&mut self, to: ReplicaId, fx: &mut Fx<P::Types>) {
        if !self.ahead.is_on() {
            return;
        }
        self.ahead.connected(to);
        let waiting = self.payload.mempool.all_passed_on_at_once().take(MAX_HELD);
        let ids = waiting.map(|frame| ShortId::of(&frame.id())).collect();
        fx.output(Action::Send { to, message: PeerMessage::Held(ids) });
    }

    /// Asks for bodies that did not come.
    pub(super) fn ask_overdue(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        let (ahead, me) = (&self.ahead, self.settings.me);
        let holder = |id: &FrameId, proposer| ahead.holder(now, id, me, proposer);
        let overdue = self.payload.arrivals.overdue(now, holder);
        overdue.silent.iter().for_each(|peer| self.ahead.was_silent(now, *peer));
        for (to, ids) in overdue.to_ask {
            fx.output(Action::Send { to, message: PeerMessage::NeedFrames(ids) });
        }
    }

    /// Proposes what has waited long enough.
    pub(super) fn propose_put_off(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if self.ahead.take_put_off(now) {
            self.consult(now, protocol::Input::Wake, fx);
        }
    }
}
