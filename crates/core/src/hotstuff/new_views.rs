//! What a leader waits for after a view without a certificate.
//!
//! With the linear pacemaker it is q NEW-VIEWs (the dissertation's Algorithm 2; its own counts):
//! before it has them it may propose below an honest lock. Where the rules
//! [wait for locks](super::rules::Facts::waits_for_locks) it is those of all replicas, or Δ.

use super::{Fx, HotStuff, Message};
use crate::pacemaker::Kind;
use crate::protocol::Output;
use crate::types::{ReplicaId, Time, View};

/// The NEW-VIEWs at hand: one place a peer.
#[derive(Clone, Debug)]
pub(super) struct NewViews {
    highest: Vec<View>,
    /// Until when the leader of a view waits for locks.
    patience: Option<(View, Time)>,
}

impl NewViews {
    pub(super) fn new(replicas: usize) -> Self {
        Self { highest: vec![View(0); replicas], patience: None }
    }

    /// `replica` has entered `view`.
    pub(super) fn heard(&mut self, replica: ReplicaId, view: View) {
        if let Some(place) = self.highest.get_mut(replica.index()) {
            *place = view.max(*place);
        }
    }

    fn count(&self, view: View) -> usize {
        self.highest.iter().filter(|heard| **heard == view).count()
    }

    /// When the wait for locks ends.
    pub(super) fn deadline(&self) -> Option<Time> {
        self.patience.map(|(_, until)| until)
    }

    /// The wait for locks has ended, if it has.
    pub(super) fn on_time(&mut self, now: Time) {
        self.patience.take_if(|(_, until)| *until <= now);
    }
}

impl HotStuff {
    fn takes_new_views(&self) -> bool {
        self.facts.waits_for_locks || self.settings.pacemaker == Kind::Linear
    }

    /// Whether the current view was entered by a time-out certificate.
    fn entered_by_tc(&self) -> bool {
        self.ended_by(&self.safety.high_qc).next() < self.pacemaker.view()
    }

    /// Tells the leader of a view that was just entered by a time-out certificate.
    pub(super) fn tell_new_view(&mut self, now: Time, fx: &mut Fx) {
        let view = self.pacemaker.view();
        self.new_views.patience = None;
        if !self.takes_new_views() || !self.entered_by_tc() {
            return;
        }
        let leader = self.leader(view);
        if leader != self.me {
            return self.repeat_new_view(leader, fx);
        }
        self.new_views.heard(self.me, view);
        if self.facts.waits_for_locks {
            self.new_views.patience = Some((view, now.after(self.settings.delta)));
        }
    }

    /// Tells the leader of the current view (again), if `peer` is it.
    pub(super) fn repeat_new_view(&self, peer: ReplicaId, fx: &mut Fx) {
        let view = self.pacemaker.view();
        if self.takes_new_views() && self.entered_by_tc() && self.leader(view) == peer {
            let high_qc = self.safety.high_qc.clone();
            fx.output(Output::Send { to: peer, message: Message::NewView { view, high_qc } });
        }
    }

    /// Whether enough replicas have told this one what it may have to extend.
    pub(super) fn heard_enough(&self) -> bool {
        if !self.takes_new_views() {
            return true;
        }
        let (view, committee) = (self.pacemaker.view(), self.domain.committee());
        let heard = self.new_views.count(view);
        let waits = self.new_views.patience.is_some_and(|(waits, _)| waits == view);
        let quorum = self.settings.pacemaker != Kind::Linear || heard >= committee.quorum();
        quorum && (!waits || heard == committee.size())
    }
}
