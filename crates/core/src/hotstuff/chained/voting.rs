//! When a replica votes, and how votes become a certificate.

use super::{Chained, Fx};
use crate::block::SharedBlock;
use crate::certificate::{TimeOut, Vote};
use crate::crypto::{Check, Signature, Statement};
use crate::hotstuff::message::Message;
use crate::hotstuff::rules::Rules;
use crate::protocol::{Declined, Event, Ledger, Output};
use crate::types::Time;

impl<R: Rules> Chained<R> {
    /// Votes for a block of the tree if every rule allows it. Asked again for the block it voted
    /// for, it sends the stored vote.
    pub(super) fn consider_vote(&mut self, block: &SharedBlock, ledger: &dyn Ledger, fx: &mut Fx) {
        let view = block.view;
        if let Some(vote) =
            self.my_vote.filter(|vote| vote.view == view && vote.block == block.id())
        {
            self.send_vote(vote, fx);
            return;
        }
        match self.vote_verdict(block, ledger) {
            Ok(true) => {
                self.vote_waits = None;
                self.safety.voted = Some((view, block.id()));
                if self.leader(view.next()) == self.me {
                    self.safety.reserved = self.safety.reserved.max(view.next());
                }
                self.must_write = true;
                fx.event(Event::Voted { view, block: block.id() });
                fx.output(Output::Sign(self.domain.vote(view, &block.id())));
            }
            Ok(false) => self.vote_waits = Some(block.id()),
            Err(reason) => fx.event(Event::Declined { view, reason }),
        }
    }

    /// `Ok(true)`: vote. `Ok(false)`: ask again when more was executed.
    fn vote_verdict(&self, block: &SharedBlock, ledger: &dyn Ledger) -> Result<bool, Declined> {
        let view = block.view;
        if self.abstains(view) {
            return Err(Declined::Abstaining);
        }
        if view != self.pacemaker.view() {
            return Err(Declined::NotCurrent);
        }
        if self.safety.voted.is_some_and(|(voted, _)| voted >= view) {
            return Err(Declined::AlreadyVoted);
        }
        if self.safety.timed_out >= view {
            return Err(Declined::TimedOut);
        }
        if !R::may_vote(&self.tree, &self.safety.lock, block) {
            return Err(Declined::Unsafe);
        }
        let Some(committed) = self.tree.committed_by(&block.parent()) else {
            return Ok(false);
        };
        match ledger.state_root(committed) {
            None => Ok(false),
            Some(root) if root == block.state_root => Ok(true),
            Some(_) => Err(Declined::StateRoot),
        }
    }

    pub(super) fn vote_if_it_waited(&mut self, ledger: &dyn Ledger, fx: &mut Fx) {
        let Some(id) = self.vote_waits.take() else { return };
        if let Some(block) = self.tree.get(&id).cloned()
            && block.view == self.pacemaker.view()
        {
            self.consider_vote(&block, ledger, fx);
        }
    }

    pub(super) fn on_signed(
        &mut self,
        now: Time,
        statement: &Statement,
        signature: Signature,
        fx: &mut Fx,
    ) {
        if let Some((view, block)) = self.safety.voted
            && *statement == self.domain.vote(view, &block)
        {
            let vote = Vote { view, block, voter: self.me, signature };
            self.my_vote = Some(vote);
            self.send_vote_or_collect(now, vote, fx);
        } else if let Some((view, high_qc)) = self.time_out_to_sign.take() {
            let high_qc_view = high_qc.view();
            if *statement == self.domain.time_out(view, high_qc_view) {
                let time_out = TimeOut { view, high_qc_view, replica: self.me, signature };
                self.send_time_out(now, time_out, high_qc, fx);
            } else {
                self.time_out_to_sign = Some((view, high_qc));
            }
        }
    }

    fn send_vote_or_collect(&mut self, now: Time, vote: Vote, fx: &mut Fx) {
        if self.leader(vote.view.next()) == self.me {
            self.on_vote(now, vote, fx);
        } else {
            self.send_vote(vote, fx);
        }
    }

    fn send_vote(&self, vote: Vote, fx: &mut Fx) {
        let to = self.leader(vote.view.next());
        if to != self.me {
            fx.output(Output::Send { to, message: Message::Vote(vote) });
        }
    }

    /// Takes in a vote that was not verified yet. With q for one block they are, as a batch.
    pub(super) fn on_vote(&mut self, now: Time, vote: Vote, fx: &mut Fx) {
        if vote.view <= self.safety.high_qc.view() {
            return;
        }
        if let Some(votes) = self.votes.add(vote) {
            self.certify(now, votes, fx);
        }
    }

    fn certify(&mut self, now: Time, votes: Vec<Vote>, fx: &mut Fx) {
        let Some(first) = votes.first().copied() else { return };
        let same = |held: &Vec<Vote>| {
            held.first().is_some_and(|vote| vote.view == first.view && vote.block == first.block)
        };
        if self.asks.values().any(same) {
            return;
        }
        let checks: Vec<Check> = votes
            .iter()
            .filter(|vote| vote.voter != self.me)
            .filter_map(|vote| vote.check(&self.domain).ok())
            .collect();
        let ask = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(ask, votes);
        if checks.is_empty() {
            self.on_checked(now, ask, &[], fx);
        } else {
            fx.output(Output::Verify { ask, checks });
        }
    }

    /// The verdicts on a batch of votes: the good ones make a certificate if they are still q.
    pub(super) fn on_checked(&mut self, now: Time, ask: u64, verdicts: &[bool], fx: &mut Fx) {
        let Some(votes) = self.asks.remove(&ask) else { return };
        let Some(first) = votes.first().copied() else { return };
        let mut verdicts = verdicts.iter();
        let mut good = Vec::with_capacity(votes.len());
        for vote in votes {
            // Its own vote was not among those to be checked.
            if vote.voter == self.me || verdicts.next() == Some(&true) {
                good.push(vote);
            } else {
                self.votes.refuse(&vote);
                fx.event(Event::BadVote { voter: vote.voter, view: vote.view });
            }
        }
        if first.view <= self.safety.high_qc.view() {
            return;
        }
        if let Some(qc) = self.votes.certify(&good) {
            fx.event(Event::Certified { view: qc.view(), block: qc.block() });
            self.on_qc(now, qc, fx);
        } else if let Some(votes) = self.votes.quorum_for(first.view, &first.block) {
            self.certify(now, votes, fx);
        }
    }
}
