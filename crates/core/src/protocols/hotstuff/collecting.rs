//! How votes and time-outs become certificates. What costs time is asked for, and the answers come
//! back as inputs.
//!
//! - In a list, q votes that agree are verified as one batch.
//! - Where the scheme joins signatures, q votes are joined first and the certificate is verified:
//!   one check instead of q. Only if it fails are the votes verified, the bad ones dropped, and the
//!   good ones joined.
//! - Time-outs were verified one by one when they came.

use super::state::{Ask, Trust};
use super::{Fx, HotStuff};
use crate::base::crypto::{Check, Form, Share, Signature};
use crate::base::types::Time;
use crate::protocols::hotstuff::certificate::{Qc, Tc, TimeOut, Vote};
use crate::protocols::protocol::Ballot;
use crate::protocols::protocol::{Event, Output};

impl HotStuff {
    /// Whether votes are being verified or joined that may make a new high QC.
    pub(super) fn is_certifying(&self) -> bool {
        let high_qc = self.safety.high_qc.rank();
        self.collecting.under_way().any(|ballot| ballot.rank() > high_qc)
    }

    /// Whether a vote can help nobody any more.
    pub(super) fn is_late(&self, vote: &Vote) -> bool {
        if self.is_second(vote) {
            vote.view <= self.tree.root().view.max(self.decisions.told_view())
        } else {
            vote.rank() <= self.safety.high_qc.rank()
        }
    }

    /// Takes in a vote that was not verified yet. With q for the same they are, as a batch.
    pub(super) fn on_vote(&mut self, now: Time, vote: Vote, fx: &mut Fx) {
        if self.is_late(&vote) {
            return;
        }
        if self.collecting.votes.contradict(&vote) {
            fx.event(Event::DoubleVote { voter: vote.voter, view: vote.view });
            return;
        }
        if let Some(votes) = self.collecting.votes.add(vote) {
            self.certify(now, vote.ballot, votes, fx);
        }
    }

    fn certify(&mut self, now: Time, ballot: Ballot, mut votes: Vec<Vote>, fx: &mut Fx) {
        if self.collecting.under_way().any(|of| of == ballot) {
            return;
        }
        if self.domain.vote_form() == Form::List {
            return self.verify_votes(now, ballot, votes, fx);
        }
        let voters = votes.iter().map(|vote| vote.voter);
        votes.truncate(self.domain.committee().quorum_among(voters).unwrap_or(votes.len()));
        self.join_votes(now, ballot, votes, Trust::AsTheyCame, fx);
    }

    fn verify_votes(&mut self, now: Time, ballot: Ballot, votes: Vec<Vote>, fx: &mut Fx) {
        let checks: Vec<Check> = votes
            .iter()
            .filter(|vote| vote.voter != self.me)
            .filter_map(|vote| vote.check(&self.domain).ok())
            .collect();
        let ask = self.collecting.ask(Ask::Votes(ballot, votes));
        if checks.is_empty() {
            self.on_checked(now, ask, &[], fx);
        } else {
            fx.output(Output::Verify { ask, checks });
        }
    }

    /// The verdicts that were asked for.
    pub(super) fn on_checked(&mut self, now: Time, ask: u64, verdicts: &[bool], fx: &mut Fx) {
        match self.collecting.answered(ask) {
            Some(Ask::Votes(ballot, votes)) => self.on_votes(now, ballot, votes, verdicts, fx),
            Some(Ask::Joined(qc, votes)) => {
                if verdicts == [true] {
                    self.on_certified(now, qc, fx);
                } else {
                    self.verify_votes(now, qc.ballot(), votes, fx);
                }
            }
            _ => {}
        }
    }

    /// The verdicts on a batch of votes: the good ones make a certificate if they are still q.
    fn on_votes(
        &mut self,
        now: Time,
        ballot: Ballot,
        votes: Vec<Vote>,
        verdicts: &[bool],
        fx: &mut Fx,
    ) {
        let mut verdicts = verdicts.iter();
        let mut good = Vec::with_capacity(votes.len());
        for vote in votes {
            // Its own vote was not among those to be checked.
            let holds = vote.voter == self.me || verdicts.next() == Some(&true);
            if mutant!("vote-verdicts-ignored", true, holds) {
                good.push(vote);
            } else {
                self.collecting.votes.refuse(&vote);
                fx.event(Event::BadVote { voter: vote.voter, view: vote.view });
            }
        }
        if good.first().is_none_or(|vote| self.is_late(vote)) {
            return;
        }
        let voters = good.iter().map(|vote| vote.voter);
        if let Some(quorum) = self.domain.committee().quorum_among(voters) {
            // The lowest ids first: replicas that see the same votes make the same certificate.
            good.truncate(quorum);
            self.join_votes(now, ballot, good, Trust::Verified, fx);
        } else if let Some(votes) = self.collecting.votes.quorum_for(&ballot) {
            self.certify(now, ballot, votes, fx);
        }
    }

    fn join_votes(
        &mut self,
        now: Time,
        ballot: Ballot,
        votes: Vec<Vote>,
        trust: Trust,
        fx: &mut Fx,
    ) {
        let form = self.domain.vote_form();
        if form == Form::List {
            let qc = Qc::of_votes(form, ballot, &votes, Signature::NONE);
            return self.on_certified(now, qc, fx);
        }
        let shares: Vec<Share> = votes.iter().map(|vote| vote.share(&self.domain)).collect();
        let ask = self.collecting.ask(Ask::JoinVotes(ballot, votes, trust));
        fx.output(Output::Combine { ask, form, shares });
    }

    /// q time-outs of one view, all of them verified, make a certificate.
    pub(super) fn join_time_outs(&mut self, now: Time, time_outs: Vec<(TimeOut, Qc)>, fx: &mut Fx) {
        let form = self.domain.time_out_form();
        if form == Form::List {
            return self.on_tc_made(now, time_outs, None, fx);
        }
        let Some(view) = time_outs.first().map(|(time_out, _)| time_out.view) else { return };
        if self.collecting.joins_time_outs_of(view) {
            return;
        }
        let share = |(time_out, qc): &(TimeOut, Qc)| time_out.share(&self.domain, qc);
        let shares: Vec<Share> = time_outs.iter().map(share).collect();
        let ask = self.collecting.ask(Ask::JoinTimeOuts(view, time_outs));
        fx.output(Output::Combine { ask, form, shares });
    }

    /// The joint signature that was asked for.
    pub(super) fn on_combined(
        &mut self,
        now: Time,
        ask: u64,
        signature: Option<Signature>,
        fx: &mut Fx,
    ) {
        match (self.collecting.answered(ask), signature) {
            (Some(Ask::JoinVotes(ballot, votes, trust)), Some(signature)) => {
                let form = self.domain.vote_form();
                let qc = Qc::of_votes(form, ballot, &votes, signature);
                match trust {
                    Trust::Verified => self.on_certified(now, qc, fx),
                    Trust::AsTheyCame => self.verify_joined(qc, votes, fx),
                }
            }
            // One of them is no signature at all.
            (Some(Ask::JoinVotes(ballot, votes, Trust::AsTheyCame)), None) => {
                self.verify_votes(now, ballot, votes, fx);
            }
            (Some(Ask::JoinTimeOuts(_, time_outs)), Some(signature)) => {
                self.on_tc_made(now, time_outs, Some(signature), fx);
            }
            _ => {}
        }
    }

    fn verify_joined(&mut self, qc: Qc, votes: Vec<Vote>, fx: &mut Fx) {
        if let Ok(checks) = qc.checks(&self.domain, &self.genesis) {
            let ask = self.collecting.ask(Ask::Joined(qc, votes));
            fx.output(Output::Verify { ask, checks });
        }
    }

    fn on_tc_made(
        &mut self,
        now: Time,
        time_outs: Vec<(TimeOut, Qc)>,
        joined: Option<Signature>,
        fx: &mut Fx,
    ) {
        if let Some(tc) = Tc::of_time_outs(&self.domain, time_outs, joined) {
            self.on_tc(now, None, tc, fx);
        }
    }
}
