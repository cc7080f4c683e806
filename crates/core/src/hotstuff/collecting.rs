//! How votes and time-outs become certificates: q that agree are verified as one batch, and, where
//! the scheme joins signatures, joined. Both are asked for, and the answers come back as inputs.

use super::{Fx, HotStuff};
use crate::certificate::{Ballot, Qc, Tc, TimeOut, Vote};
use crate::crypto::{Check, Form, Share, Signature};
use crate::protocol::{Event, Output};
use crate::types::{Time, View};

/// What is asked for.
#[derive(Clone, Debug)]
pub(super) enum Ask {
    /// To verify these votes, all for one ballot.
    Votes(Ballot, Vec<Vote>),
    /// To join these votes, which were verified.
    JoinVotes(Ballot, Vec<Vote>),
    /// To join these time-outs of one view, which were verified.
    JoinTimeOuts(View, Vec<(TimeOut, Qc)>),
}

impl HotStuff {
    fn ask(&mut self, ask: Ask) -> u64 {
        let number = self.next_ask;
        self.next_ask += 1;
        self.asks.insert(number, ask);
        number
    }

    /// Whether votes are being verified or joined that may make a new high QC.
    pub(super) fn is_certifying(&self) -> bool {
        let high_qc = self.safety.high_qc.rank();
        self.asks.values().any(|ask| {
            matches!(ask, Ask::Votes(of, _) | Ask::JoinVotes(of, _)
                if of.rank() > high_qc && of.phase <= self.facts.phases)
        })
    }

    /// Whether a vote can help nobody any more.
    pub(super) fn is_late(&self, vote: &Vote) -> bool {
        if vote.phase > self.facts.phases {
            // A second vote: it commits its block.
            let decided = self.decided.as_ref().map(Qc::view).unwrap_or_default();
            vote.view <= self.tree.root().view.max(decided)
        } else {
            vote.rank() <= self.safety.high_qc.rank()
        }
    }

    /// Takes in a vote that was not verified yet. With q for the same they are, as a batch.
    pub(super) fn on_vote(&mut self, now: Time, vote: Vote, fx: &mut Fx) {
        if self.is_late(&vote) {
            return;
        }
        if let Some(votes) = self.votes.add(vote) {
            self.certify(now, vote.ballot, votes, fx);
        }
    }

    fn certify(&mut self, now: Time, ballot: Ballot, votes: Vec<Vote>, fx: &mut Fx) {
        let under_way = self
            .asks
            .values()
            .any(|ask| matches!(ask, Ask::Votes(of, _) | Ask::JoinVotes(of, _) if *of == ballot));
        if under_way {
            return;
        }
        let checks: Vec<Check> = votes
            .iter()
            .filter(|vote| vote.voter != self.me)
            .filter_map(|vote| vote.check(&self.domain).ok())
            .collect();
        let ask = self.ask(Ask::Votes(ballot, votes));
        if checks.is_empty() {
            self.on_checked(now, ask, &[], fx);
        } else {
            fx.output(Output::Verify { ask, checks });
        }
    }

    /// The verdicts on a batch of votes: the good ones make a certificate if they are still q.
    pub(super) fn on_checked(&mut self, now: Time, ask: u64, verdicts: &[bool], fx: &mut Fx) {
        let Some(Ask::Votes(ballot, votes)) = self.asks.remove(&ask) else { return };
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
        if good.first().is_none_or(|vote| self.is_late(vote)) {
            return;
        }
        let quorum = self.domain.committee().quorum();
        if good.len() >= quorum {
            // The lowest ids first: replicas that see the same votes make the same certificate.
            good.truncate(quorum);
            self.join_votes(now, ballot, good, fx);
        } else if let Some(votes) = self.votes.quorum_for(&ballot) {
            self.certify(now, ballot, votes, fx);
        }
    }

    fn join_votes(&mut self, now: Time, ballot: Ballot, votes: Vec<Vote>, fx: &mut Fx) {
        let form = self.domain.vote_form();
        if form == Form::List {
            return self.on_certified(now, Qc::of_votes(ballot, &votes), fx);
        }
        let shares: Vec<Share> = votes.iter().map(|vote| vote.share(&self.domain)).collect();
        let ask = self.ask(Ask::JoinVotes(ballot, votes));
        fx.output(Output::Combine { ask, form, shares });
    }

    /// q time-outs of one view, all of them verified, make a certificate.
    pub(super) fn join_time_outs(&mut self, now: Time, time_outs: Vec<(TimeOut, Qc)>, fx: &mut Fx) {
        let form = self.domain.time_out_form();
        if form == Form::List {
            return self.on_tc_made(now, time_outs, None, fx);
        }
        let Some(view) = time_outs.first().map(|(time_out, _)| time_out.view) else { return };
        let same = |ask: &Ask| matches!(ask, Ask::JoinTimeOuts(of, _) if *of == view);
        if self.asks.values().any(same) {
            return;
        }
        let share = |(time_out, qc): &(TimeOut, Qc)| time_out.share(&self.domain, qc);
        let shares: Vec<Share> = time_outs.iter().map(share).collect();
        let ask = self.ask(Ask::JoinTimeOuts(view, time_outs));
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
        let (Some(asked), Some(signature)) = (self.asks.remove(&ask), signature) else { return };
        match asked {
            Ask::JoinVotes(ballot, votes) => {
                let qc = Qc::joined(self.domain.vote_form(), ballot, &votes, signature);
                self.on_certified(now, qc, fx);
            }
            Ask::JoinTimeOuts(_, time_outs) => {
                self.on_tc_made(now, time_outs, Some(signature), fx);
            }
            Ask::Votes(..) => {}
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
