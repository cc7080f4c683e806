//! Telling those who do not know how far this replica is.

use super::words::{Message, Place};
use super::{Fx, Snowman};
use crate::base::types::{Duration, Height, ReplicaId, Time};
use crate::protocols::protocol::Output;

/// The first wait before the accepted block is said again; each further one is twice as long.
const REPEAT_AFTER: Duration = Duration::from_millis(100);
/// How often it is said to those who do not say that they have it.
const REPEATS: u32 = 8;
/// How often a peer is helped at most.
const HELPED_EVERY: Duration = Duration::from_millis(20);

impl Snowman {
    pub(super) fn standing(&self) -> Message {
        let tip = Place::of(self.accepted.head());
        Message::Accepted { tip, stable: self.checkpoints.low() }
    }

    /// Whether f + 1 replicas are ahead: what this one proposed would come too late.
    pub(super) fn is_behind(&self) -> bool {
        let ahead = self.peers.above(self.accepted.head().height());
        ahead >= self.domain.committee().honest_witness()
    }

    /// With nothing left to decide, says to those who may not know how far this replica is.
    pub(super) fn tell(&mut self, now: Time, has_pending: bool, fx: &mut Fx) {
        let head = self.accepted.head().height();
        let below = self.peers.below(head, self.me);
        if !self.tree.is_empty() || has_pending || below.is_empty() {
            self.peers.repeat = None;
            return;
        }
        let (said, times) = self.peers.said;
        let times = if said == head { times } else { 0 };
        let is_due = said < head || self.peers.repeat.is_some_and(|due| now >= due);
        if is_due {
            let message = self.standing();
            for to in below {
                fx.output(Output::Send { to, message: message.clone() });
            }
            self.peers.said = (head, times + 1);
            let next = now.after(REPEAT_AFTER * (1 << times.min(REPEATS)));
            self.peers.repeat = (times < REPEATS).then_some(next);
        } else if self.peers.repeat.is_none() && times <= REPEATS {
            // Something was to be decided meanwhile.
            let next = now.after(REPEAT_AFTER * (1 << times.min(REPEATS)));
            self.peers.repeat = Some(next);
        }
    }

    /// A peer that was away is told where this replica stands.
    pub(super) fn on_connected(&mut self, peer: ReplicaId, fx: &mut Fx) {
        fx.output(Output::Send { to: peer, message: self.standing() });
    }

    /// A peer says where it stands: it is told what it lacks.
    pub(super) fn on_standing(
        &mut self,
        now: Time,
        peer: ReplicaId,
        (theirs, stable): (Height, Height),
        fx: &mut Fx,
    ) {
        let is_behind = theirs < self.accepted.head().height();
        let lacks_stable = stable < self.checkpoints.low();
        if !is_behind && !lacks_stable {
            return;
        }
        let Some(helped) = self.peers.helped.get_mut(peer) else { return };
        if helped.is_some_and(|helped| now.since(helped) < HELPED_EVERY) {
            return;
        }
        *helped = Some(now);
        if let Some(stable) = self.checkpoints.stable().filter(|_| lacks_stable) {
            let message = Message::Stable(Box::new(stable.clone()));
            fx.output(Output::Send { to: peer, message });
        }
        if is_behind {
            fx.output(Output::Send { to: peer, message: self.standing() });
        }
    }
}
