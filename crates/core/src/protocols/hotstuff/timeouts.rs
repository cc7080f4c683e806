//! Giving up on a view.

use super::{Fx, HotStuff, Message};
use crate::base::types::{ReplicaId, Time, View};
use crate::protocols::hotstuff::certificate::{Qc, TimeOut, Vote};
use crate::protocols::hotstuff::pacemaker::Consequence;
use crate::protocols::protocol::{Event, Output};

impl HotStuff {
    /// A timer ran out: the wait for locks, that of an empty block, or that of the current view.
    pub(super) fn on_timer(&mut self, now: Time, fx: &mut Fx) {
        self.new_views.on_time(now);
        self.proposals.on_time(now);
        if self.pacemaker.deadline().is_none_or(|deadline| now < deadline) {
            return;
        }
        let view = self.pacemaker.expired(now);
        self.give_up(now, view, fx);
    }

    /// Gives up on `view`: durably first, so that no vote can follow; then tells all. The view
    /// stays; the time-out is sent again at each deadline until a certificate ends the view.
    fn give_up(&mut self, now: Time, view: View, fx: &mut Fx) {
        if mutant!("abstention-ignored", false, self.abstains(view)) {
            return self.ask_for_news(fx);
        }
        if view > self.safety.timed_out {
            self.safety.timed_out = view;
            fx.event(Event::TimedOut(view));
        }
        let high_qc = self.safety.high_qc.clone();
        match self.said.time_out() {
            Some((sent, _)) if sent.view == view && sent.high_qc_view == high_qc.view() => {
                let sent = *sent;
                let unheard = self.pacemaker.unheard(view);
                let again = || self.send_time_out(now, sent, high_qc, &unheard, fx);
                mutant!("time-out-sent-once", (), again());
            }
            _ => {
                mutant!("time-out-not-persisted", (), self.said.write_first());
                let (qc_view, block) = (high_qc.view(), high_qc.block());
                fx.output(Output::Sign(self.domain.time_out(view, qc_view, &block)));
                self.said.sign_time_out(view, high_qc);
            }
        }
    }

    /// A replica that abstains gives up nothing, so that nobody answers it: it says what it knows
    /// to one peer after another, and who knows more will tell.
    fn ask_for_news(&self, fx: &mut Fx) {
        let to = self.pacemaker.turn();
        if to != self.me {
            fx.output(Output::Send { to, message: self.advance() });
        }
    }

    /// Sends a time-out that was just signed.
    pub(super) fn tell_time_out(&mut self, now: Time, time_out: TimeOut, high_qc: Qc, fx: &mut Fx) {
        let all: Vec<ReplicaId> = self.domain.committee().replicas().collect();
        self.send_time_out(now, time_out, high_qc, &all, fx);
    }

    /// Sends a time-out to these replicas or, where one collects them, to that one.
    fn send_time_out(
        &mut self,
        now: Time,
        time_out: TimeOut,
        high_qc: Qc,
        to: &[ReplicaId],
        fx: &mut Fx,
    ) {
        self.said.keep_time_out(time_out, high_qc.clone());
        let message = self.time_out_message(time_out, high_qc.clone());
        match self.pacemaker.collector(time_out.view) {
            None => self.send_to_these(to, message, fx),
            Some(to) if to != self.me => return fx.output(Output::Send { to, message }),
            Some(_) => {}
        }
        if let Some(vote) = self.said.vote() {
            self.on_vote(now, vote, fx);
        }
        self.on_time_out(now, time_out, high_qc, fx);
    }

    fn send_to_these(&self, these: &[ReplicaId], message: Message, fx: &mut Fx) {
        let others = these.iter().filter(|id| **id != self.me);
        if others.clone().count() + 1 == self.domain.committee().replicas().count() {
            return fx.output(Output::Broadcast(message));
        }
        others.for_each(|to| fx.output(Output::Send { to: *to, message: message.clone() }));
    }

    /// What is said when `time_out` is: the QC that it names, the TC by which its view was entered
    /// if that was one, and this replica's last vote where that is news.
    fn time_out_message(&self, time_out: TimeOut, high_qc: Qc) -> Message {
        let high_tc = self.safety.high_tc.clone().filter(|tc| tc.view() > self.ended_by(&high_qc));
        // A vote that has its certificate in the high QC is no help.
        let news = |vote: &Vote| vote.view <= time_out.view && vote.rank() > high_qc.rank();
        let last_vote = mutant!("time-outs-without-votes", None, self.said.vote().filter(news));
        let last_vote = last_vote.map(Box::new);
        Message::TimeOut { time_out, high_qc, high_tc, last_vote }
    }

    /// Says again that it gave up its view, to a peer whose channel opened: what was sent before is
    /// lost.
    pub(super) fn repeat_time_out(&self, peer: ReplicaId, fx: &mut Fx) {
        let Some((time_out, high_qc)) = self.said.time_out() else { return };
        let wanted = self.pacemaker.collector(time_out.view).is_none_or(|to| to == peer);
        if wanted && time_out.view >= self.pacemaker.view() && self.pacemaker.deadline().is_some() {
            let message = self.time_out_message(*time_out, high_qc.clone());
            fx.output(Output::Send { to: peer, message });
        }
    }

    /// Takes in a time-out, its certificates having been dealt with.
    pub(super) fn on_time_out(&mut self, now: Time, time_out: TimeOut, high_qc: Qc, fx: &mut Fx) {
        if time_out.view < self.pacemaker.view() {
            // Its sender is behind: what brought this replica here will bring it here as well.
            if time_out.replica != self.me && self.pacemaker.is_behind(&time_out, &high_qc) {
                fx.output(Output::Send { to: time_out.replica, message: self.answer() });
            }
            return;
        }
        self.help_if_idle(time_out.replica, &high_qc, fx);
        match self.pacemaker.time_out(time_out, high_qc, self.safety.timed_out) {
            Consequence::None => {}
            Consequence::Join(view) => {
                self.pacemaker.expired(now);
                self.give_up(now, view, fx);
            }
            Consequence::Certificate(time_outs) => self.join_time_outs(now, time_outs, fx),
        }
    }

    /// A replica without work knows all to be committed: one that gives up its view lacks what this
    /// one has. (With work it would give up as well, and a certificate come of it.)
    fn help_if_idle(&self, replica: ReplicaId, theirs: &Qc, fx: &mut Fx) {
        let knows_more =
            self.news_of_decision().is_some() || self.safety.high_qc.rank() > theirs.rank();
        if replica != self.me && self.pacemaker.deadline().is_none() && knows_more {
            fx.output(Output::Send { to: replica, message: self.answer() });
        }
    }
}
