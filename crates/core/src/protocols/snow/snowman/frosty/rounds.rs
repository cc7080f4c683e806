//! The rounds of an odd epoch: reports, proposals, votes.

use std::sync::Arc;

use super::choice::{candidates, majority};
use super::epochs::say;
use super::words::{
    Ballot, Certificate, Chain, Decided, Odd, Proposal, REACH, Report, Signed, SignedReport, Word,
};
use super::{Frosty, MAX_DOUBLINGS, Unsigned, leader};
use crate::base::crypto::Signature;
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::Output;
use crate::protocols::snow::snowman::place::Place;
use crate::protocols::snow::snowman::{Fx, Snowman};

impl Odd {
    /// The blocks above the base that the replica stands by. `None`: it does not know them.
    fn stands_by(&self) -> Option<Vec<BlockId>> {
        let mut chain = self.newest().above(self.base())?;
        chain.truncate(REACH);
        Some(chain)
    }

    /// What it preferred when it entered, if that has what it voted for; else the latter.
    pub(super) fn newest(&self) -> &Chain {
        let voted = self.vote.as_ref().map(|(_, chain)| chain);
        let voted = voted.filter(|voted| !self.stand.reaches(voted));
        planted!("frosty-votes-forgotten", &self.stand, voted.unwrap_or(&self.stand))
    }
}

impl Frosty {
    /// What was said in the epoch before is of no use.
    pub(super) fn forget_epoch(&mut self) {
        let epoch = self.kept.epoch();
        self.unsigned.clear();
        self.reports.iter_mut().for_each(|place| *place = None);
        self.votes.iter_mut().for_each(|place| *place = None);
        for place in &mut self.complaints {
            place.take_if(|(complaint, _)| complaint.epoch <= epoch);
        }
        (self.proposal, self.has_proposed, self.waits) = (None, false, 0);
    }

    /// Each wait is twice as long as the one before.
    fn end_of_round(&self, now: Time) -> Time {
        now.after(self.settings.round * (1 << self.waits.min(MAX_DOUBLINGS)))
    }

    /// The reports of this round about the highest block that a replicas agree on.
    fn reports_of(&self, round: u32, weigh: impl Fn(&[SignedReport]) -> bool) -> Vec<SignedReport> {
        let of_round = self.reports.iter().flatten().filter(|it| it.report.round == round);
        let mut bases: Vec<Place> = of_round.clone().map(|signed| signed.report.base).collect();
        bases.sort_unstable();
        let about = |base: Place| -> Vec<SignedReport> {
            of_round.clone().filter(|signed| signed.report.base == base).cloned().collect()
        };
        bases.into_iter().rev().map(about).find(|reports| weigh(reports)).unwrap_or_default()
    }
}

impl Snowman {
    /// The next round begins.
    pub(super) fn next_round(&mut self, now: Time, fx: &mut Fx) {
        let round = self.frosty.as_ref().and_then(|frosty| frosty.odd()).map(|odd| odd.round);
        if let Some(round) = round {
            self.enter_round(now, round.saturating_add(1), fx);
        }
    }

    /// The round takes too long. It is given up if a replicas are in it, or in later ones: so
    /// nobody runs ahead of all others. Else those that may not have heard are told again.
    pub(super) fn give_up_round(&mut self, now: Time, fx: &mut Fx) {
        let committee = self.domain.committee();
        let Some(frosty) = &mut self.frosty else { return };
        let Some(odd) = frosty.kept.odd.as_ref() else { return };
        frosty.waits = frosty.waits.saturating_add(1);
        let reports = frosty.reports.of_each().filter_map(|(id, it)| Some((id, it.as_ref()?)));
        let there = reports.filter(|(_, signed)| signed.report.round >= odd.round);
        let weight: usize = there.map(|(id, _)| committee.weight(id)).sum();
        // Before a restart this replica may have said something in this round.
        if !frosty.has_begun || weight >= committee.quorum_of_a_fifth() {
            return self.next_round(now, fx);
        }
        frosty.round_ends = frosty.end_of_round(now);
        let own = frosty.reports.get(self.me).and_then(Option::as_ref);
        if let Some(signed) = own.filter(|signed| signed.report.base == odd.base()) {
            let (certificate, signed) = (odd.certificate.clone(), signed.clone());
            say(fx, Word::Report { certificate, signed });
        }
    }

    /// A round begins: this replica signs what it stands by.
    fn enter_round(&mut self, now: Time, round: u32, fx: &mut Fx) {
        let Some(frosty) = &mut self.frosty else { return };
        frosty.round_ends = frosty.end_of_round(now);
        (frosty.proposal, frosty.has_proposed, frosty.has_begun) = (None, false, true);
        let Some(odd) = &mut Arc::make_mut(&mut frosty.kept).odd else { return };
        odd.round = round;
        let Some(chain) = odd.stands_by() else { return };
        let certificate = odd.certificate.clone();
        let report = Report { epoch: odd.epoch(), round, base: odd.base(), chain };
        let statement = self.domain.report(&report);
        frosty.unsigned.insert(statement, Unsigned::Report(certificate, report));
        fx.output(Output::Sign(statement));
    }

    /// The own report is signed.
    pub(super) fn report(
        &mut self,
        now: Time,
        certificate: Certificate,
        report: Report,
        signature: Signature,
        fx: &mut Fx,
    ) {
        let signed = SignedReport { from: self.me, report, signature };
        say(fx, Word::Report { certificate: certificate.clone(), signed: signed.clone() });
        self.on_report(now, certificate, signed, fx);
    }

    pub(super) fn on_report(
        &mut self,
        now: Time,
        certificate: Certificate,
        signed: SignedReport,
        fx: &mut Fx,
    ) {
        let Report { epoch, base, .. } = signed.report;
        let Some(frosty) = &self.frosty else { return };
        if epoch < frosty.kept.epoch() || self.is_far_below(base) {
            return self.inform(now, signed.from, epoch, fx);
        }
        self.enter(now, certificate, fx);
        let Some(frosty) = &mut self.frosty else { return };
        let Some(place) = frosty.reports.get_mut(signed.from) else { return };
        if place.as_ref().is_none_or(|known| known.report.round < signed.report.round) {
            *place = Some(signed);
        }
        self.follow_rounds(now, fx);
    }

    /// f + 1 replicas are in later rounds: one of them is correct.
    fn follow_rounds(&mut self, now: Time, fx: &mut Fx) {
        let Some(frosty) = &self.frosty else { return };
        let Some(round) = frosty.odd().map(|odd| odd.round) else { return };
        let reports = frosty.reports.of_each().filter_map(|(id, it)| Some((id, it.as_ref()?)));
        let mut rounds: Vec<_> = reports.map(|(id, it)| (it.report.round, id)).collect();
        rounds.sort_unstable_by(|one, other| other.cmp(one));
        let needed = self.domain.committee().witness_of_a_fifth();
        let mut weight = 0;
        let later = rounds.into_iter().find(|(_, id)| {
            weight += self.domain.committee().weight(*id);
            weight >= needed
        });
        if let Some((later, _)) = later.filter(|(later, _)| *later > round) {
            self.enter_round(now, later, fx);
        }
    }

    /// Proposes what the reports of a replicas lead to, if this replica leads the round.
    pub(super) fn lead(&mut self, now: Time, fx: &mut Fx) {
        let committee = self.domain.committee();
        let Some(frosty) = &self.frosty else { return };
        let Some(odd) = frosty.odd().filter(|_| !frosty.has_proposed) else { return };
        let (epoch, round) = (odd.epoch(), odd.round);
        if leader(committee, epoch, round) != self.me {
            return;
        }
        let weigh = |reports: &[SignedReport]| {
            let weight: usize = reports.iter().map(|it| committee.weight(it.from)).sum();
            weight >= committee.quorum_of_a_fifth()
        };
        let reports = frosty.reports_of(round, weigh);
        let Some(base) = reports.first().map(|signed| signed.report.base) else { return };
        let mut chain = majority(committee, &reports);
        if chain.is_empty() {
            let listed = candidates(committee, &reports);
            let is_free = listed.is_empty();
            let mut known = listed.into_iter().filter(|id| self.has_chain(base, &[*id]));
            match known.next() {
                Some(block) => chain.push(block),
                // It may come yet.
                None if !is_free => return,
                None => {}
            }
        }
        let block = *chain.last().unwrap_or(&base.block);
        let place = Place { height: base.height.plus(chain.len() as u64), block };
        let proposal = Proposal { ballot: Ballot { epoch, round, place }, base, chain, reports };
        if let Some(frosty) = &mut self.frosty {
            frosty.has_proposed = true;
        }
        say(fx, Word::Proposal(proposal.clone()));
        self.on_proposal(now, proposal, fx);
    }

    pub(super) fn on_proposal(&mut self, now: Time, proposal: Proposal, fx: &mut Fx) {
        let Ballot { epoch, round, .. } = proposal.ballot;
        let Some(odd) = self.frosty.as_ref().and_then(|frosty| frosty.odd()) else { return };
        if odd.epoch() != epoch || round < odd.round {
            return;
        }
        if round > odd.round {
            self.enter_round(now, round, fx);
        }
        let Some(frosty) = &mut self.frosty else { return };
        let has_voted =
            frosty.odd().and_then(|odd| odd.vote.as_ref()).is_some_and(|it| it.0 >= round);
        if !planted!("frosty-votes-twice", false, has_voted) {
            frosty.proposal.get_or_insert(proposal);
        }
    }

    /// Votes for the proposal of the round, once its blocks are here.
    pub(super) fn vote(&mut self, fx: &mut Fx) {
        let Some(frosty) = &mut self.frosty else { return };
        let proposal = frosty.proposal.take();
        let Some(proposal) = proposal else { return };
        if !self.has_chain(proposal.base, &proposal.chain) {
            if let Some(frosty) = &mut self.frosty {
                frosty.proposal = Some(proposal);
            }
            return;
        }
        let Proposal { ballot, base, chain, .. } = proposal;
        let ids = [base.block].into_iter().chain(chain).collect();
        let Some(frosty) = &mut self.frosty else { return };
        let Some(odd) = &mut Arc::make_mut(&mut frosty.kept).odd else { return };
        odd.vote = Some((ballot.round, Chain { first: base.height, ids }));
        let statement = self.domain.ballot(&ballot);
        frosty.unsigned.insert(statement, Unsigned::Vote(ballot));
        fx.output(Output::Sign(statement));
    }

    /// Whether the base and these blocks on it are accepted here or in the tree, as one chain.
    fn has_chain(&self, base: Place, chain: &[BlockId]) -> bool {
        let head = self.accepted.head().height();
        let tip = chain.last().unwrap_or(&base.block);
        let above = match base.height.plus(chain.len() as u64) > head {
            true => self.tree.path(tip),
            false => Some(Vec::new()),
        };
        let Some(above) = above else { return false };
        let at = |height: Height| match height.0.checked_sub(head.0 + 1) {
            None => self.accepted.name_at(height),
            Some(place) => above.get(usize::try_from(place).ok()?).map(|block| block.id()),
        };
        let ids = [base.block].into_iter().chain(chain.iter().copied());
        (base.height.0..).zip(ids).all(|(height, id)| at(Height(height)) == Some(id))
    }

    pub(super) fn on_vote(&mut self, from: ReplicaId, ballot: Ballot, signature: Signature) {
        let (committee, needed) = (self.domain.committee(), self.domain.enough_votes());
        let Some(frosty) = &mut self.frosty else { return };
        let is_of_it = frosty.odd().is_some_and(|odd| odd.epoch() == ballot.epoch);
        let Some(place) = frosty.votes.get_mut(from).filter(|_| is_of_it) else { return };
        if place.is_none_or(|(known, _)| known.round < ballot.round) {
            *place = Some((ballot, signature));
        }
        let same = frosty.votes.of_each().filter_map(|(signer, vote)| {
            let (known, signature) = (*vote)?;
            let is_same = known == ballot;
            let is_counted =
                planted!("frosty-votes-of-any-round", known.place == ballot.place, is_same);
            is_counted.then_some(Signed { signer, signature })
        });
        let signatures: Vec<Signed> = same.collect();
        let weight: usize = signatures.iter().map(|it| committee.weight(it.signer)).sum();
        if weight >= needed {
            self.on_decided(Decided { ballot, signatures });
        }
    }
}
