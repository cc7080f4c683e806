//! What is told after a view without a certificate, and what its successor's leader waits for.
//!
//! Time-outs carry votes, and those that make the time-out certificate often make the certificate
//! of the view's block as well. So nothing is told before votes at hand are verified: the next
//! leader is to extend the highest certificate that there is.
//!
//! With the linear pacemaker it is q NEW-VIEWs (the dissertation's Algorithm 2; its own counts):
//! before it has them it may propose below an honest lock. Where the rules
//! [wait for locks](super::rules::Facts::waits_for_locks) it is those of all replicas, or Δ.

use super::state::Untold;
use super::{Fx, HotStuff, Message};
use crate::base::types::{ReplicaId, Time};
use crate::protocols::hotstuff::pacemaker::Kind;
use crate::protocols::protocol::Output;

impl HotStuff {
    fn takes_new_views(&self) -> bool {
        self.facts().waits_for_locks || self.settings.pacemaker == Kind::Linear
    }

    /// Whether the current view can be entered by a time-out certificate only.
    pub(super) fn entered_by_tc(&self) -> bool {
        self.ended_by(&self.safety.high_qc).next() < self.pacemaker.view()
    }

    /// Begins to wait in the view just entered: for what this replica has to hear if it leads the
    /// view, or for a leader that does so.
    pub(super) fn wait_for_new_views(&mut self, now: Time) {
        let view = self.pacemaker.view();
        self.new_views.wait(None);
        if !self.takes_new_views() || !self.entered_by_tc() {
            return;
        }
        self.new_views.heard(self.me, view);
        if self.facts().waits_for_locks {
            self.pacemaker.allow(now, self.settings.delta);
            self.new_views.wait(Some((view, now.after(self.settings.delta))));
        }
    }

    /// Tells of the last time-out certificate, as soon as no votes are being verified that may
    /// make a higher certificate than this replica has.
    pub(super) fn tell_of_tc(&mut self, fx: &mut Fx) {
        if self.is_certifying() {
            return;
        }
        let untold = self.new_views.take_untold();
        let Some(Untold { ended, tc_from }) = mutant!("tc-not-forwarded", None, untold) else {
            return;
        };
        let view = ended.next();
        if view != self.pacemaker.view() {
            return;
        }
        let leader = self.leader(view);
        if leader != self.me && self.takes_new_views() && self.entered_by_tc() {
            fx.output(Output::Send { to: leader, message: self.new_view() });
        }
        match (tc_from, self.pacemaker.collector(ended)) {
            // The dissertation's NEXT-VIEW.
            (None, Some(_)) => fx.output(Output::Broadcast(self.advance())),
            // Forwarded once: were it held by one replica alone, the next leader could not enter.
            _ if leader != self.me && tc_from != Some(leader) => {
                fx.output(Output::Send { to: leader, message: self.advance() });
            }
            _ => {}
        }
    }

    fn new_view(&self) -> Message {
        let (view, high_qc) = (self.pacemaker.view(), self.safety.high_qc.clone());
        Message::NewView { view, high_qc }
    }

    /// Tells the leader of the current view (again), if `peer` is it.
    pub(super) fn repeat_new_view(&self, peer: ReplicaId, fx: &mut Fx) {
        let view = self.pacemaker.view();
        if self.takes_new_views() && self.entered_by_tc() && self.leader(view) == peer {
            fx.output(Output::Send { to: peer, message: self.new_view() });
        }
    }

    /// Whether enough replicas have told this one what it may have to extend.
    pub(super) fn heard_enough(&self) -> bool {
        if !self.takes_new_views() {
            return true;
        }
        let (view, committee) = (self.pacemaker.view(), self.domain.committee());
        let heard = committee.weight_of(self.new_views.in_view(view));
        let waits = mutant!("hotstuff-2-no-wait", false, self.new_views.waits_in(view));
        let quorum = self.settings.pacemaker != Kind::Linear || heard >= committee.quorum();
        quorum && (!waits || heard == committee.weight_of(committee.replicas()))
    }
}
