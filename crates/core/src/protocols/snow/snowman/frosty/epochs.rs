//! Complaints, the beginning of an odd epoch, and its end.

use std::sync::Arc;

use super::words::{Certificate, Chain, Complaint, Decided, MAX_CHAIN, Odd, REACH, Signed, Word};
use super::{BELOW, HELPED_EVERY, LEAVES_AFTER, Unsigned};
use crate::base::crypto::{Signature, Statement};
use crate::base::types::{Height, ReplicaId, Time};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::Output;
use crate::protocols::snow::snowman::place::Place;
use crate::protocols::snow::snowman::words::Message;
use crate::protocols::snow::snowman::{Fx, Snowman};

impl Snowman {
    fn odd(&self) -> Option<&Odd> {
        self.frosty.as_ref()?.odd()
    }

    /// Whether an odd epoch is under way here: this replica does not poll, and answers as it did
    /// when it entered.
    pub(in crate::protocols::snow::snowman) fn is_frozen(&self) -> bool {
        planted!("frosty-polls-go-on", false, self.odd().is_some())
    }

    /// What this replica answers: the tip, and the block at a height.
    pub(in crate::protocols::snow::snowman) fn answer(
        &self,
        height: Height,
    ) -> (Place, Option<BlockId>) {
        let frozen = self.stand_of_answer().map(|(stand, tip)| (tip, stand.at(height)));
        frozen.unwrap_or_else(|| (self.tip(), self.preferred_at(height)))
    }

    /// What it stood by when it entered an odd epoch, and its tip.
    fn stand_of_answer(&self) -> Option<(&Chain, Place)> {
        let stand = planted!("frosty-answers-move", None, self.odd().map(|odd| &odd.stand));
        stand.and_then(|stand| Some((stand, stand.tip()?)))
    }

    /// How far this replica has accepted the chain that it [answers](Self::answer) with. In an odd
    /// epoch it may have accepted another one since, by a stable checkpoint.
    pub(in crate::protocols::snow::snowman) fn accepted_of_answer(&self) -> Height {
        let head = self.accepted.head().height();
        let Some((stand, tip)) = self.stand_of_answer() else { return head };
        let agrees = |height: &Height| stand.at(*height) == self.accepted.name_at(*height);
        let top = head.min(tip.height);
        if agrees(&top) {
            return head;
        }
        let below = (stand.first.0..top.0).rev().map(Height);
        let base = Height(stand.first.0.saturating_sub(1));
        planted!("frosty-claims-what-it-did-not-stand-by", head, {
            below.into_iter().find(agrees).unwrap_or(base).min(head)
        })
    }

    pub(in crate::protocols::snow::snowman) fn on_word(
        &mut self,
        now: Time,
        from: ReplicaId,
        word: Word,
        fx: &mut Fx,
    ) {
        match word {
            Word::Complaint { complaint, signature } => {
                self.on_complaint(now, from, complaint, signature, fx);
            }
            Word::Report { certificate, signed } => self.on_report(now, certificate, signed, fx),
            Word::Proposal(proposal) => self.on_proposal(now, proposal, fx),
            Word::Vote { ballot, signature } => self.on_vote(from, ballot, signature),
            Word::Decided(decided) => self.on_decided(decided),
        }
    }

    /// What is due without a message: a complaint, the next round, a proposal, a vote.
    pub(in crate::protocols::snow::snowman) fn fall_back(&mut self, now: Time, fx: &mut Fx) {
        let Some(frosty) = &self.frosty else { return };
        if frosty.deadline().is_some_and(|ends| now >= ends) {
            self.leave();
            self.give_up_round(now, fx);
        }
        self.complain(now, fx);
        self.lead(now, fx);
        self.vote(fx);
        self.demand(now);
    }

    /// Says that this replica is stuck, if it is, and says it again after half as many more polls.
    fn complain(&mut self, now: Time, fx: &mut Fx) {
        let base = Place::of(self.accepted.head());
        let has_choice = !self.tree.is_empty();
        let Some(frosty) = &mut self.frosty else { return };
        if !has_choice || frosty.odd().is_some() || frosty.undecided < frosty.due {
            return;
        }
        frosty.due = frosty.undecided.saturating_add(frosty.settings.undecided / 2 + 1);
        let complaint = Complaint { epoch: frosty.kept.epoch() + 1, base };
        match frosty.complaints.get(self.me).copied().flatten() {
            Some((said, signature)) if said == complaint => {
                say(fx, Word::Complaint { complaint, signature });
                self.certify(now, fx);
            }
            _ => {
                let statement = self.domain.complaint(&complaint);
                frosty.unsigned.insert(statement, Unsigned::Complaint(complaint));
                frosty.counts.complaints += 1;
                fx.output(Output::Sign(statement));
            }
        }
    }

    fn on_complaint(
        &mut self,
        now: Time,
        from: ReplicaId,
        complaint: Complaint,
        signature: Signature,
        fx: &mut Fx,
    ) {
        let is_far_behind = self.is_far_below(complaint.base);
        let Some(frosty) = &mut self.frosty else { return };
        if complaint.epoch <= frosty.kept.epoch() || is_far_behind {
            return self.inform(now, from, complaint.epoch, fx);
        }
        if let Some(place) = frosty.complaints.get_mut(from) {
            *place = Some((complaint, signature));
        }
        self.certify(now, fx);
    }

    /// Enters the epoch of which f + 1 complain, about one block.
    fn certify(&mut self, now: Time, fx: &mut Fx) {
        let Some(frosty) = &self.frosty else { return };
        let (epoch, committee) = (frosty.kept.epoch(), self.domain.committee());
        let all = || frosty.complaints.of_each().filter_map(|(id, it)| Some((id, (*it)?)));
        let certificate = |complaint: Complaint| {
            let is_same = |other: Complaint| {
                planted!(
                    "frosty-complaints-of-any-block",
                    other.epoch == complaint.epoch,
                    other == complaint
                )
            };
            let same = all().filter(|(_, (other, _))| is_same(*other));
            let signed = |(signer, (_, signature))| Signed { signer, signature };
            Certificate { complaint, signatures: same.map(signed).collect() }
        };
        let needed = self.domain.enough_complaints();
        let is_enough = |it: &Certificate| {
            let signers = it.signatures.iter().map(|signed| committee.weight(signed.signer));
            signers.sum::<usize>() >= needed
        };
        let later = all().map(|(_, (complaint, _))| complaint).filter(|it| it.epoch > epoch);
        let found = later.map(certificate).filter(is_enough).max_by_key(|it| it.complaint);
        if let Some(certificate) = found {
            self.enter(now, certificate, fx);
        }
    }

    pub(super) fn is_far_below(&self, base: Place) -> bool {
        base.height.plus(BELOW) < self.accepted.head().height()
    }

    /// A certificate of a later epoch begins it here. One of this epoch with a higher block counts
    /// from the next round on.
    pub(super) fn enter(&mut self, now: Time, certificate: Certificate, fx: &mut Fx) {
        let Some(frosty) = &mut self.frosty else { return };
        let Complaint { epoch, base } = certificate.complaint;
        if frosty.odd().is_some_and(|odd| odd.epoch() == epoch) {
            let is_higher = frosty.odd().is_some_and(|odd| base.height > odd.base().height);
            if is_higher && let Some(odd) = &mut Arc::make_mut(&mut frosty.kept).odd {
                odd.certificate = certificate;
            }
            return;
        }
        if epoch <= frosty.kept.epoch() {
            return;
        }
        let voted = self.end_epoch();
        let stand = self.stand(voted);
        let Some(frosty) = &mut self.frosty else { return };
        let odd = Odd { certificate, round: 0, stand, vote: None };
        Arc::make_mut(&mut frosty.kept).odd = Some(odd);
        frosty.counts.begun += 1;
        frosty.forget_epoch();
        self.polls.open.clear();
        self.tree.forget_counts();
        self.next_round(now, fx);
    }

    /// The odd epoch is no longer under way here. What this replica voted for is preferred from now
    /// on, and returned, if it conflicts with what it preferred before: it may be decided.
    fn end_epoch(&mut self) -> Option<Chain> {
        let frosty = self.frosty.as_mut()?;
        let odd = Arc::make_mut(&mut frosty.kept).odd.take()?;
        let voted = Some(odd.newest()).filter(|newest| **newest != odd.stand).cloned();
        if let Some(tip) = voted.as_ref().and_then(Chain::tip) {
            self.tree.prefer(&tip.block);
        }
        voted
    }

    /// What this replica stands by: some of what it accepted, and what it prefers above that; or
    /// what it voted for, if that is not among it.
    fn stand(&self, voted: Option<Chain>) -> Chain {
        let head = self.accepted.head().height();
        let mut ids = Vec::new();
        let mut first = head.next();
        while let Some(below) = first.0.checked_sub(1).map(Height)
            && below.plus(BELOW) >= head
            && let Some(id) = self.accepted.name_at(below)
        {
            ids.push(id);
            first = below;
        }
        ids.reverse();
        ids.extend(self.tree.preferred().iter().map(|block| block.id()));
        ids.truncate(MAX_CHAIN);
        let stand = Chain { first, ids };
        let head = Place::of(self.accepted.head());
        let voted = voted.filter(|it| it.tip().is_some_and(|tip| tip.height > head.height));
        voted.filter(|voted| !stand.reaches(voted)).unwrap_or(stand)
    }

    /// A decision: its block is final, and sampling goes on.
    pub(super) fn on_decided(&mut self, decided: Decided) {
        let epoch = decided.ballot.epoch;
        let Some(frosty) = &mut self.frosty else { return };
        if frosty.kept.decided.as_ref().is_some_and(|known| known.ballot.epoch >= epoch) {
            return;
        }
        let is_over = frosty.odd().is_some_and(|odd| odd.epoch() <= epoch);
        let kept = Arc::make_mut(&mut frosty.kept);
        kept.decided = Some(decided);
        kept.over = kept.over.max(epoch);
        frosty.counts.decided += 1;
        frosty.accepted();
        if is_over {
            self.end_epoch();
        }
        if let Some(frosty) = self.frosty.as_mut().filter(|frosty| frosty.odd().is_none()) {
            frosty.forget_epoch();
        }
        self.pace.hurry();
    }

    /// Leaves an epoch that takes long, if whatever it decides is accepted here.
    fn leave(&mut self) {
        let head = self.accepted.head().height();
        let Some(odd) = self.odd() else { return };
        let (epoch, reach) = (odd.epoch(), odd.base().height.plus(REACH as u64));
        let has_waited = self.frosty.as_ref().is_some_and(|frosty| frosty.waits >= LEAVES_AFTER);
        if !has_waited || head < reach {
            return;
        }
        self.end_epoch();
        if let Some(frosty) = &mut self.frosty {
            let kept = Arc::make_mut(&mut frosty.kept);
            kept.over = kept.over.max(epoch);
            frosty.accepted();
            frosty.forget_epoch();
        }
        self.pace.hurry();
    }

    /// A peer speaks of an epoch that is over, or that it has not entered, or of a block far below:
    /// it is told why.
    pub(super) fn inform(&mut self, now: Time, peer: ReplicaId, epoch: u64, fx: &mut Fx) {
        let (me, standing) = (self.me, self.standing());
        let stable = self.checkpoints.stable().cloned();
        let Some(frosty) = &mut self.frosty else { return };
        let Some(helped) = frosty.helped.get_mut(peer) else { return };
        if peer == me || helped.is_some_and(|helped| now.since(helped) < HELPED_EVERY) {
            return;
        }
        *helped = Some(now);
        let decided = frosty.kept.decided.as_ref().filter(|it| it.ballot.epoch >= epoch);
        let odd = frosty.odd().filter(|odd| odd.epoch() >= epoch);
        let report = frosty.reports.get(me).and_then(Option::as_ref);
        let word = match (decided, odd, report) {
            (Some(decided), ..) => Some(Word::Decided(decided.clone())),
            (None, Some(odd), Some(signed)) if signed.report.base == odd.base() => {
                let (certificate, signed) = (odd.certificate.clone(), signed.clone());
                Some(Word::Report { certificate, signed })
            }
            _ => None,
        };
        let messages = match word {
            Some(word) => vec![Message::Frosty(Box::new(word))],
            None => {
                let stable = stable.map(|stable| Message::Stable(Box::new(stable)));
                stable.into_iter().chain([standing]).collect()
            }
        };
        for message in messages {
            fx.output(Output::Send { to: peer, message });
        }
    }

    /// A peer that was away is told of the odd epoch that is under way.
    pub(in crate::protocols::snow::snowman) fn on_connected_to(
        &mut self,
        now: Time,
        peer: ReplicaId,
        fx: &mut Fx,
    ) {
        if let Some(epoch) = self.odd().map(Odd::epoch) {
            self.inform(now, peer, epoch, fx);
        }
    }

    /// Asks for the blocks of a decision, or of a proposal, that are not here.
    fn demand(&mut self, now: Time) {
        let Some(frosty) = &self.frosty else { return };
        let head = self.accepted.head().height();
        let decided = frosty.kept.decided.as_ref().filter(|it| it.ballot.place.height > head);
        let decided = decided.map(|it| {
            let holders = it.signatures.iter().map(|signed| signed.signer);
            (it.ballot.place, holders.collect::<Vec<_>>())
        });
        let proposed = frosty.proposal.as_ref().map(|it| {
            let leader = super::leader(self.domain.committee(), it.ballot.epoch, it.ballot.round);
            let stand_by = it.reports.iter().filter(|one| one.report.chain.starts_with(&it.chain));
            (it.ballot.place, stand_by.map(|one| one.from).chain([leader]).collect())
        });
        let wanted = decided
            .or(proposed)
            .filter(|(place, _)| place.height > head && !self.tree.reaches(&place.block));
        let wanted = wanted.map(|(place, mut holders)| {
            holders.retain(|holder| *holder != self.me);
            (place.block, holders)
        });
        self.fetching.demand(now, wanted);
    }

    /// A signature of this replica. Says whether it was about epochs.
    pub(in crate::protocols::snow::snowman) fn on_signed_word(
        &mut self,
        now: Time,
        statement: &Statement,
        signature: Signature,
        fx: &mut Fx,
    ) -> bool {
        let unsigned = self.frosty.as_mut().and_then(|it| it.unsigned.remove(statement));
        match unsigned {
            None => return false,
            Some(Unsigned::Complaint(complaint)) => {
                say(fx, Word::Complaint { complaint, signature });
                self.on_complaint(now, self.me, complaint, signature, fx);
            }
            Some(Unsigned::Report(certificate, report)) => {
                self.report(now, certificate, report, signature, fx);
            }
            Some(Unsigned::Vote(ballot)) => {
                say(fx, Word::Vote { ballot, signature });
                self.on_vote(self.me, ballot, signature);
            }
        }
        true
    }
}

/// To all.
pub(super) fn say(fx: &mut Fx, word: Word) {
    fx.output(Output::Broadcast(Message::Frosty(Box::new(word))));
}
