//! Roots that somebody waits for: a client that reads one replica's state wants its root certified.
//!
//! A block carries the root of a state some heights below it, and a cluster with nothing to order
//! proposes nothing: the last states would wait for the next command. So a replica that is asked
//! for a proof says up to where roots are wanted, and leaders propose until those have their
//! certificate. That ends by itself, since the height is fixed when it is said; and a wish is
//! forgotten after a while, so that one which cannot be fulfilled keeps no timer running.

use super::message::PeerMessage;
use super::{Action, Fx, Replica};
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::state_machine::StateMachine;
use crate::protocols::protocol::{self, Protocol};

/// When so many blocks stand on a state, one of them that shows its root is committed, and so is
/// the next, with its certificate.
const ATTESTED_WITHIN: u64 = 16;

impl<P: Protocol, S: StateMachine> Replica<P, S> {
    /// Has the root of the latest state certified, unless that was done: here and elsewhere.
    pub(super) fn show(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        let height = self.execution.height();
        if self.amnesia.is_own() || Some(height) <= self.protocol.certified_state() {
            return;
        }
        self.wish_for(now, height, fx);
    }

    /// Where an offer is wanted and there is none: the cluster was idle, or this replica stopped,
    /// before blocks had shown the root of the newest snapshot. A few are proposed for that. If
    /// they have shown later ones already, another snapshot is taken first.
    pub(super) fn prepare_offer(&mut self, now: Time, fx: &mut Fx<P::Types>) {
        if self.snapshots.may_be_replaced() {
            self.take_snapshot(fx);
        }
        if let Some(meta) = self.snapshots.newest() {
            let height = meta.block.height().plus(ATTESTED_WITHIN);
            self.wish_for(now, height, fx);
        }
    }

    fn wish_for(&mut self, now: Time, height: Height, fx: &mut Fx<P::Types>) {
        if self.wish.was_raised_lately(now, height) {
            return;
        }
        fx.output(Action::Broadcast(PeerMessage::Show(height)));
        self.wish.raise(now, height);
        self.consult(now, protocol::Input::Wake, fx);
    }

    pub(super) fn on_show(
        &mut self,
        now: Time,
        from: ReplicaId,
        height: Height,
        fx: &mut Fx<P::Types>,
    ) {
        self.wish.raise_for(now, from, height, self.execution.height());
        self.consult(now, protocol::Input::Wake, fx);
    }
}
