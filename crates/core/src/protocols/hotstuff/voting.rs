//! When a replica votes.

use super::{Fx, HotStuff, Message};
use crate::base::crypto::{Signature, Statement};
use crate::base::types::Time;
use crate::protocols::hotstuff::block::SharedBlock;
use crate::protocols::hotstuff::certificate::{Qc, Tc, TimeOut, Vote};
use crate::protocols::protocol::Ballot;
use crate::protocols::protocol::{Declined, Event, Ledger, Output};

/// The phase of the votes for proposals.
const FIRST: u8 = 1;

impl HotStuff {
    /// Votes for a block of the tree if every rule allows it; `tc` is how its view was entered, if
    /// not by its justify. Asked again for the block it voted for, it sends the stored vote.
    pub(super) fn consider_vote(
        &mut self,
        block: &SharedBlock,
        tc: Option<Tc>,
        ledger: &dyn Ledger,
        fx: &mut Fx,
    ) {
        let ballot = Ballot { view: block.view, phase: FIRST, block: block.id() };
        if let Some(vote) = self.said.vote().filter(|vote| vote.ballot == ballot) {
            self.send_vote(vote, fx);
            return;
        }
        match self.vote_verdict(block, tc.as_ref(), ledger) {
            Ok(true) => {
                self.proposals.take_waiting();
                self.hold_election(&Qc::supposed(ballot), ballot.view.next());
                if self.leads_after(ballot) {
                    self.safety.reserved = self.safety.reserved.max(ballot.view.next());
                }
                self.vote(ballot, fx);
            }
            Ok(false) => self.proposals.wait_for_root(block.id(), tc),
            Err(reason) => {
                if reason == Declined::StateRoot {
                    self.note_other_root(block, ledger, fx);
                }
                fx.event(Event::Declined { view: block.view, reason });
            }
        }
    }

    fn note_other_root(&self, block: &SharedBlock, ledger: &dyn Ledger, fx: &mut Fx) {
        let height = self.tree.committed_by(&block.parent());
        if let Some((height, ours)) = height.and_then(|h| Some((h, ledger.state_root(h)?))) {
            let (view, proposer, theirs) = (block.view, block.proposer, block.state_root);
            fx.event(Event::RootDiffers { view, proposer, height, ours, theirs });
        }
    }

    /// `Ok(true)`: vote. `Ok(false)`: ask again when more was executed.
    fn vote_verdict(
        &self,
        block: &SharedBlock,
        tc: Option<&Tc>,
        ledger: &dyn Ledger,
    ) -> Result<bool, Declined> {
        let view = block.view;
        if self.abstains(view) {
            return Err(Declined::Abstaining);
        }
        let now = self.pacemaker.view();
        if mutant!("past-view-voted", view > now, view != now) {
            return Err(Declined::NotCurrent);
        }
        if self.safety.high_qc.rank() >= (view, FIRST) {
            return Err(Declined::Certified);
        }
        let voted = self.safety.voted.is_some_and(|voted| voted.rank() >= (view, FIRST));
        if mutant!("two-votes-in-view", false, voted) {
            return Err(Declined::AlreadyVoted);
        }
        if mutant!("vote-after-time-out", false, self.safety.timed_out >= view) {
            return Err(Declined::TimedOut);
        }
        let leads = self.leads(block.proposer, view, &block.justify);
        if mutant!("proposer-not-checked", false, leads == Some(false)) {
            return Err(Declined::NotLeader);
        }
        let may_vote = self.settings.rules.may_vote(&self.tree, &self.safety.lock, block, tc);
        if !mutant!("vote-ignores-rules", true, may_vote) {
            return Err(Declined::Unsafe);
        }
        let Some(committed) = self.tree.committed_by(&block.parent()) else {
            return Ok(false);
        };
        match ledger.state_root(committed) {
            None => Ok(false),
            Some(root) if mutant!("state-root-not-compared", true, root == block.state_root) => {
                Ok(true)
            }
            Some(_) => Err(Declined::StateRoot),
        }
    }

    pub(super) fn vote_if_it_waited(&mut self, ledger: &dyn Ledger, fx: &mut Fx) {
        let Some((id, tc)) = self.proposals.take_waiting() else { return };
        if let Some(block) = self.tree.get(&id).cloned()
            && block.view == self.pacemaker.view()
        {
            self.consider_vote(&block, tc, ledger, fx);
        }
    }

    /// In variants with several phases: votes in the phase behind the one whose certificate of this
    /// view is here. Whoever did not vote before may do so: q others found the block safe.
    pub(super) fn vote_in_next_phase(&mut self, fx: &mut Fx) {
        let high_qc = self.safety.high_qc.ballot();
        let ballot = Ballot { phase: high_qc.phase + 1, ..high_qc };
        let may = high_qc.view == self.pacemaker.view()
            && (FIRST + 1..=self.facts().phases).contains(&ballot.phase)
            && self.safety.voted.is_none_or(|voted| voted.rank() < ballot.rank())
            && self.safety.timed_out < ballot.view
            && planted!("abstains-in-the-first-phase-alone", true, !self.abstains(ballot.view))
            && self.tree.get(&ballot.block).is_some();
        if may {
            self.vote(ballot, fx);
        }
    }

    /// Casts a vote: remembered first, then sent.
    pub(super) fn vote(&mut self, ballot: Ballot, fx: &mut Fx) {
        self.safety.voted = Some(ballot);
        mutant!("vote-not-persisted", (), self.said.write_first());
        fx.event(Event::Voted(ballot));
        self.send_cast(ballot, fx);
    }

    /// Sends the vote that is on record, signed if it is one for a certificate.
    pub(super) fn send_cast(&mut self, ballot: Ballot, fx: &mut Fx) {
        if self.is_second(&ballot) {
            return self.tell_again(ballot, fx);
        }
        self.said.sign_vote(ballot);
        fx.output(Output::Sign(self.domain.vote(ballot.view, ballot.phase, &ballot.block)));
    }

    pub(super) fn on_signed(
        &mut self,
        now: Time,
        statement: &Statement,
        signature: Signature,
        fx: &mut Fx,
    ) {
        let domain = &self.domain;
        let vote_of = |b: &Ballot| *statement == domain.vote(b.view, b.phase, &b.block);
        let time_out_of = |view, high_qc: &Qc| {
            *statement == domain.time_out(view, high_qc.view(), &high_qc.block())
        };
        if let Some(ballot) = self.said.signed_vote(vote_of) {
            self.on_own_vote(now, Vote { ballot, voter: self.me, signature }, fx);
        } else if let Some((view, high_qc)) = self.said.signed_time_out(time_out_of) {
            let high_qc_view = high_qc.view();
            let time_out = TimeOut { view, high_qc_view, replica: self.me, signature };
            self.tell_time_out(now, time_out, high_qc, fx);
        }
    }

    fn on_own_vote(&mut self, now: Time, vote: Vote, fx: &mut Fx) {
        self.said.keep_vote(vote);
        self.send_vote(vote, fx);
        if self.collector(&vote.ballot).is_none_or(|collector| collector == self.me) {
            self.on_vote(now, vote, fx);
        }
    }

    fn send_vote(&self, vote: Vote, fx: &mut Fx) {
        match self.collector(&vote.ballot) {
            None => fx.output(Output::Broadcast(Message::Vote(vote))),
            Some(to) if to != self.me => {
                fx.output(Output::Send { to, message: Message::Vote(vote) });
            }
            Some(_) => {}
        }
    }
}
