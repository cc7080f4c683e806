//! When a replica votes, falls back and gives up. What it says is written down before it is signed.

use super::certificate::{Phase, Qc};
use super::words::{MAX_FALLBACKS, Message, Said, Types, Vote};
use super::{Fx, TwoDelay, Unsigned};
use crate::base::crypto::{Signature, Statement};
use crate::base::types::{Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{Ballot, BlockOf, Declined, Event, Ledger, Output};

impl TwoDelay {
    /// What it said in the current view.
    pub(super) fn said(&self) -> Option<&Said> {
        Some(&self.memory.said).filter(|said| said.view == self.view)
    }

    /// Where it writes down what it says in the current view.
    fn say(&mut self) -> &mut Said {
        self.must_write = mutant!("two-delay-words-not-persisted", self.must_write, true);
        if self.memory.said.view != self.view {
            self.memory.said = Said { view: self.view, ..Said::default() };
        }
        &mut self.memory.said
    }

    pub(super) fn has_voted(&self) -> bool {
        self.said().is_some_and(|said| said.first.is_some())
    }

    /// Says its first vote of the view.
    pub(super) fn say_first(&mut self, vote: Option<(BlockId, Signature)>, fx: &mut Fx) {
        self.say().first = Some(vote);
        let view = self.view;
        match vote {
            Some((block, _)) => fx.event(Event::Voted(Ballot { view, phase: 1, block })),
            None => fx.event(Event::TimedOut(view)),
        }
        self.sign(Unsigned::Vote(Phase::First, view, vote), fx);
    }

    /// Says that the block of the current view has a QC, unless it said something else before.
    pub(super) fn say_second(&mut self, block: BlockId, fx: &mut Fx) {
        let is_bound = self
            .said()
            .is_some_and(|said| said.gave_up.is_some() || said.votes().any(|voted| voted != block));
        if mutant!("two-delay-second-anyway", false, is_bound) || !self.speaks() {
            return;
        }
        self.say().second = Some(block);
        let view = self.view;
        fx.event(Event::Voted(Ballot { view, phase: 2, block }));
        self.sign(Unsigned::Vote(Phase::Second, view, Some((block, Signature::NONE))), fx);
    }

    /// Says all that it may say now.
    pub(super) fn speak(&mut self, ledger: &mut dyn Ledger, fx: &mut Fx) {
        if !self.speaks() {
            return;
        }
        self.vote_first(ledger, fx);
        if !self.has_voted() {
            return;
        }
        for block in self.candidates() {
            self.fall_back(block, ledger, fx);
        }
        let gave_up = self.said().is_some_and(|said| said.gave_up.is_some());
        let may = mutant!(
            "two-delay-gives-up-freely",
            self.said().is_some_and(|said| said.second.is_none()),
            self.ask(|firsts| firsts.excludes_all()),
        );
        if !gave_up && may {
            let view = self.view;
            let high_qc = mutant!(
                "two-delay-hides-certificate",
                self.domain.genesis_qc(),
                self.memory.high_qc.clone(),
            );
            self.say().gave_up = Some(high_qc.clone());
            self.sign(Unsigned::TimeOut(view, high_qc), fx);
        }
    }

    fn vote_first(&mut self, ledger: &mut dyn Ledger, fx: &mut Fx) {
        let Some(block) = self.proposal.clone().filter(|_| !self.has_voted()) else { return };
        let Some(leaders) = self.heard.leaders(self.view, &block.id()) else { return };
        match self.fits(&block, ledger) {
            Some(Ok(())) => self.say_first(Some((block.id(), leaders)), fx),
            Some(Err(reason)) => {
                self.proposal = None;
                fx.event(Event::Declined { view: block.view(), reason });
                self.tell_of_root(&block, ledger, fx);
            }
            None => {}
        }
    }

    fn fall_back(&mut self, block: BlockId, ledger: &mut dyn Ledger, fx: &mut Fx) {
        let full = |said: &Said| said.voted(&block) || said.fallbacks.len() == MAX_FALLBACKS;
        if self.said().is_some_and(full) {
            return;
        }
        let held = self.chain.get(&block).cloned().filter(|held| held.view() == self.view);
        let (Some(held), Some(leaders)) = (held, self.heard.leaders(self.view, &block)) else {
            return;
        };
        if self.fits(&held, ledger) == Some(Ok(())) {
            self.say().fallbacks.push((block, leaders));
            let view = self.view;
            self.sign(Unsigned::Vote(Phase::Fallback, view, Some((block, leaders))), fx);
        }
    }

    /// Whether a block that is justified fits what this replica knows; `None` if it cannot tell
    /// yet.
    fn fits(
        &self,
        block: &BlockOf<Types>,
        ledger: &mut dyn Ledger,
    ) -> Option<Result<(), Declined>> {
        let Some(path) = self.chain.path(&block.id()) else { return Some(Err(Declined::Unsafe)) };
        if path.is_err() {
            return None;
        }
        if block.root_of >= block.height() {
            return Some(Err(Declined::StateRoot));
        }
        if ledger.executed() < block.root_of {
            return None;
        }
        let is_ours = ledger.state_root(block.root_of) == Some(block.state_root);
        Some(if is_ours { Ok(()) } else { Err(Declined::StateRoot) })
    }

    fn tell_of_root(&self, block: &BlockOf<Types>, ledger: &mut dyn Ledger, fx: &mut Fx) {
        let Height(of) = block.root_of;
        let ours = ledger.state_root(Height(of)).filter(|ours| *ours != block.state_root);
        if let Some(ours) = ours {
            let (view, height, theirs) = (block.view(), block.root_of, block.state_root);
            let proposer = self.domain.leader(view);
            fx.event(Event::RootDiffers { view, proposer, height, ours, theirs });
        }
    }

    /// The timer ran out: votes blank if it has not voted, and says everything again.
    pub(super) fn on_timer(&mut self, now: Time, fx: &mut Fx) {
        if !self.clock.has_run_out(now) {
            return;
        }
        if self.speaks() && !self.has_voted() {
            self.say_first(None, fx);
        }
        for message in self.words() {
            fx.output(Output::Broadcast(message));
        }
        fx.output(Output::Broadcast(self.standing(true)));
    }

    /// What it said last, as far as it is signed.
    pub(super) fn words(&self) -> Vec<Message> {
        let view = self.memory.said.view;
        let (votes, time_out) = self.heard.said(self.me, view);
        let mut words: Vec<Message> = Vec::new();
        for vote in votes {
            words.push(self.message(vote));
        }
        let time_out =
            time_out.map(|(high_qc, signature)| Message::TimeOut { view, high_qc, signature });
        words.extend(time_out);
        words
    }

    /// A vote, with its block where the leader says it first.
    fn message(&self, vote: Vote) -> Message {
        let is_mine = vote.phase == Phase::First && self.domain.leader(vote.view) == self.me;
        let block = vote.block.filter(|_| is_mine).and_then(|(id, _)| self.chain.get(&id));
        match block {
            Some(block) if block.view() == vote.view => Message::Proposal {
                block: block.clone(),
                signature: vote.signature,
                decided: self.memory.decided.clone(),
            },
            _ => Message::Vote(vote),
        }
    }

    fn statement(&self, word: &Unsigned) -> Statement {
        match word {
            Unsigned::Vote(phase, view, block) => {
                self.domain.vote(*phase, *view, block.as_ref().map(|(id, _)| id))
            }
            Unsigned::TimeOut(view, Qc { view: high, .. }) => self.domain.time_out(*view, *high),
        }
    }

    fn sign(&mut self, word: Unsigned, fx: &mut Fx) {
        let statement = self.statement(&word);
        self.unsigned.push((statement, word));
        fx.output(Output::Sign(statement));
    }

    /// After a restart: the memory may have survived a power failure that the block beside it did
    /// not. Then the first vote for that block never left, nor did anything after it in that view.
    /// (If a later state was taken over meanwhile, the block may lie below that.)
    pub(super) fn forget_unsaid(&mut self) {
        let Said { view, first, .. } = &self.memory.said;
        let is_lost = |(block, _): (BlockId, Signature)| self.chain.get(&block).is_none();
        if *view > self.chain.head().view() && first.flatten().is_some_and(is_lost) {
            self.memory.said = Said { view: View(0), ..Said::default() };
            self.must_write = true;
        }
    }

    /// After a restart: what it said last is signed once more.
    pub(super) fn sign_again(&mut self, fx: &mut Fx) {
        let Said { view, first, fallbacks, second, gave_up } = self.memory.said.clone();
        if view == View(0) {
            return;
        }
        let first = first.map(|vote| Unsigned::Vote(Phase::First, view, vote));
        let fallbacks = fallbacks.into_iter().map(Some);
        let fallbacks = fallbacks.map(|vote| Unsigned::Vote(Phase::Fallback, view, vote));
        let second =
            second.map(|block| Unsigned::Vote(Phase::Second, view, Some((block, Signature::NONE))));
        let gave_up = gave_up.map(|high_qc| Unsigned::TimeOut(view, high_qc));
        let words: Vec<_> =
            first.into_iter().chain(fallbacks).chain(second).chain(gave_up).collect();
        words.into_iter().for_each(|word| self.sign(word, fx));
    }

    /// A word is signed: all are told.
    pub(super) fn on_signed(&mut self, statement: &Statement, signature: Signature, fx: &mut Fx) {
        let at = self.unsigned.iter().position(|(unsigned, _)| unsigned == statement);
        let Some(at) = at else { return };
        let (_, word) = self.unsigned.remove(at);
        let me: ReplicaId = self.me;
        match word {
            Unsigned::Vote(phase, view, block) => {
                let leads = self.domain.leader(view) == me;
                let block = match (phase, leads) {
                    (Phase::First, true) => block.map(|(id, _)| (id, signature)),
                    _ => block,
                };
                let vote = Vote { phase, view, block, signature };
                fx.output(Output::Broadcast(self.message(vote)));
                self.on_vote(me, &vote, fx);
            }
            Unsigned::TimeOut(view, high_qc) => {
                let message = Message::TimeOut { view, high_qc: high_qc.clone(), signature };
                fx.output(Output::Broadcast(message));
                self.on_time_out(me, view, high_qc, signature, fx);
            }
        }
    }
}
