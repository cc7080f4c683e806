//! The answers to what the replica asks of its protocol.

use std::sync::Arc;

use super::certificate::{Phase, Qc};
use super::domain::Domain;
use super::heard::Heard;
use super::words::{Message, Nothing, Types, Vote};
use super::{Fx, TwoDelay};
use crate::base::crypto::{Check, Claim, Statement};
use crate::base::types::{Digest, Height, ReplicaId, Time, View};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{
    BlockOf, Capability, Input, Ledger, Malformed, Missing, Output, Protocol, Record, SnapshotBase,
    Status, Verifier as _,
};

impl TwoDelay {
    fn claim_vote(&self, from: ReplicaId, vote: &Vote) -> Result<Vec<Check>, Malformed> {
        if !Heard::is_near(vote.view, self.view) {
            return Err(Malformed::Stale);
        }
        let (view, block) = (vote.view, vote.block.as_ref().map(|(block, _)| block));
        let statement = self.domain.vote(vote.phase, view, block);
        let mut checks = vec![self.domain.signed(from, statement, vote.signature)?];
        if let Some((block, leaders)) = vote.block.filter(|_| vote.phase != Phase::Second) {
            let statement = self.domain.vote(Phase::First, view, Some(&block));
            checks.push(self.domain.signed(self.domain.leader(view), statement, leaders)?);
        }
        Ok(checks)
    }

    fn checks(&self, from: ReplicaId, message: &Message) -> Result<Vec<Check>, Malformed> {
        match message {
            Message::Proposal { block, signature, decided } => {
                if from != self.domain.leader(block.view) {
                    return Err(Malformed::WrongSender);
                }
                if block.view < self.view || block.height <= self.chain.head().height() {
                    return Err(Malformed::Stale);
                }
                let mut checks = self.domain.claim_block(block)?;
                let statement = self.domain.vote(Phase::First, block.view, Some(&block.id()));
                checks.push(self.domain.signed(from, statement, *signature)?);
                if let Some(commit) = decided {
                    checks.extend(self.domain.commit(commit)?);
                }
                Ok(checks)
            }
            Message::Vote(vote) => self.claim_vote(from, vote),
            Message::TimeOut { view, high_qc, signature } => {
                if *view < self.view || !Heard::is_near(*view, self.view) {
                    return Err(Malformed::Stale);
                }
                if high_qc.view >= *view {
                    return Err(Malformed::Contradiction);
                }
                let statement = self.domain.time_out(*view, high_qc.view);
                let mut checks = self.domain.qc(high_qc)?;
                checks.push(self.domain.signed(from, statement, *signature)?);
                Ok(checks)
            }
            Message::Standing(standing) => {
                let mut checks = self.domain.qc(&standing.high_qc)?;
                if let Some(tc) = &standing.tc {
                    checks.extend(self.domain.tc(tc, &standing.high_qc)?);
                }
                if let Some(commit) = &standing.decided {
                    checks.extend(self.domain.commit(commit)?);
                }
                Ok(checks)
            }
        }
    }

    /// The first block that is not here on the way down from this one, and who must have it.
    fn lacking(&self, tip: &BlockId, holders: Vec<ReplicaId>) -> Option<Missing> {
        match self.chain.path(tip)? {
            Ok(_) => None,
            Err(block) if block == *tip => Some(Missing { block, holders }),
            Err(block) => {
                let child = self.chain.above().find(|child| child.parent() == block)?;
                Some(Missing { block, holders: child.justify.signers().collect() })
            }
        }
    }

    /// Whether this is the block that it lacks.
    pub(super) fn is_lacking(&self, block: &BlockId) -> bool {
        self.missing().is_some_and(|missing| missing.block == *block)
    }
}

impl Protocol for TwoDelay {
    type Types = Types;
    type Verifier = Domain;

    const CAPABILITIES: &'static [Capability] = &[Capability::ReadIndex];

    fn claim(&self, from: ReplicaId, message: Message) -> Result<Claim<Message>, Malformed> {
        let checks = self.checks(from, &message)?;
        Ok(Claim::new(message, checks))
    }

    fn carried_block(message: &Message) -> Option<&BlockOf<Types>> {
        match message {
            Message::Proposal { block, .. } => Some(block),
            _ => None,
        }
    }

    fn step(&mut self, now: Time, input: Input<Types>, ledger: &mut dyn Ledger) -> Fx {
        let mut fx = Fx::default();
        match input {
            Input::Start(recovered) => self.start(*recovered, &mut fx),
            Input::Timeout => self.on_timer(now, &mut fx),
            Input::Message { from, message } => {
                self.on_message(from, message.into_inner(), &mut fx);
            }
            Input::Announced { message, .. } => {
                if let Message::Proposal { block, decided, .. } = message.into_inner() {
                    self.on_certificates(&block, decided, &mut fx);
                }
            }
            Input::Fetched { block, .. } => self.take_in(&block.into_inner(), &mut fx),
            Input::Signed { statement, signature } => {
                self.on_signed(&statement, signature, &mut fx);
            }
            Input::Installed { root, evidence, .. } => self.install(root, evidence, &mut fx),
            Input::Connected(to) => {
                fx.output(Output::Send { to, message: self.standing(true) });
                for message in self.words() {
                    fx.output(Output::Send { to, message });
                }
            }
            Input::Wake | Input::Checked { .. } | Input::Combined { .. } => {}
        }
        self.propose(ledger, &mut fx);
        self.speak(ledger, &mut fx);
        let waits = self.is_busy(ledger);
        self.clock.set(now, waits);
        if std::mem::take(&mut self.must_write) {
            fx.record(Record::Memory(Arc::new(self.memory.clone())));
        }
        fx
    }

    fn deadline(&self) -> Option<Time> {
        self.clock.deadline()
    }

    fn status(&self) -> Status {
        Status {
            view: self.view,
            leader: Some(self.domain.leader(self.view)),
            committed: self.chain.head().height(),
            uncommitted: self.chain.uncommitted(),
            abstain_until: View(0),
            details: vec![("high_qc", self.memory.high_qc.view.0)],
        }
    }

    fn view(&self) -> View {
        self.view
    }

    fn committed(&self) -> &BlockOf<Types> {
        self.chain.head()
    }

    fn uncommitted(&self) -> usize {
        self.chain.uncommitted()
    }

    fn holds(&self, block: &BlockId) -> bool {
        self.chain.holds(block)
    }

    fn height_of(&self, block: &BlockId) -> Option<Height> {
        self.chain.height_of(block)
    }

    fn path(&self, tip: &BlockId) -> Vec<BlockOf<Types>> {
        self.chain.path(tip).and_then(Result::ok).unwrap_or_default()
    }

    fn missing(&self) -> Option<Missing> {
        let head = self.chain.head().view();
        if let Some(commit) = self.memory.decided.as_ref().filter(|commit| commit.view > head) {
            let voters = commit.votes.iter().map(|(voter, _)| *voter);
            // A second vote needs no block.
            let holders = if commit.phase == Phase::First { voters.collect() } else { Vec::new() };
            if let Some(missing) = self.lacking(&commit.block, holders) {
                return Some(missing);
            }
        }
        let Qc { view, block, .. } = self.memory.high_qc;
        if view > head
            && let Some(missing) = self.lacking(&block, self.memory.high_qc.signers().collect())
        {
            return Some(missing);
        }
        // It may have been left behind by a commit.
        let proposal = self.proposal.as_ref().map(|block| block.id());
        let proposal = proposal.filter(|id| self.chain.holds(id));
        if let Some(missing) = proposal.and_then(|id| self.lacking(&id, Vec::new())) {
            return Some(missing);
        }
        let candidates = self.candidates().into_iter();
        let missing = |block: BlockId| {
            let votes = self.heard.votes(Phase::First, self.view, &block);
            self.lacking(&block, votes.into_iter().map(|(voter, _)| voter).collect())
        };
        candidates.filter_map(missing).next()
    }

    fn claim_block(&self, block: BlockOf<Types>) -> Result<Claim<BlockOf<Types>>, Malformed> {
        let checks = self.domain.claim_block(&block)?;
        Ok(Claim::new(block, checks))
    }

    fn look_back(&self) -> usize {
        0
    }

    fn snapshot_base(&self, id: &BlockId) -> Option<SnapshotBase<Types>> {
        let block = Arc::clone(self.chain.head());
        let committed = block.height();
        (block.id() == *id).then_some(SnapshotBase { block, committed, recent: Vec::new() })
    }

    fn verifier(&self) -> Domain {
        self.domain.clone()
    }

    fn testimony(&self) -> Nothing {
        Nothing
    }

    fn testimony_statement(&self, _: &Nothing, content: &Digest) -> Statement {
        self.domain.testimony(content)
    }

    fn claim_testimony(&self, _: &Nothing) -> Result<Vec<Check>, Malformed> {
        Ok(Vec::new())
    }

    fn recollect(&self, _: &[Nothing]) -> Option<super::words::Memory> {
        None
    }

    /// The high QC, and the first vote in the current view. First votes alone may commit a block.
    /// Whoever leaves the view afterwards does so by the block's QC: a TC shows that no block of
    /// the view was committed (`docs/protocols/two-delay.md`).
    fn read_index(&self) -> Option<Height> {
        let head = self.chain.head().view();
        let said = self.said().filter(|said| said.view > head);
        let first = said.and_then(|said| said.first?).map(|(block, _)| block);
        let high_qc = &self.memory.high_qc;
        let certified = (high_qc.view > head).then_some(high_qc.block);
        let mut highest = Height(0);
        for tip in first.into_iter().chain(certified) {
            let path = match self.chain.path(&tip) {
                Some(Ok(path)) => path,
                Some(Err(_)) => return None,
                // It leaves the committed block out: it was never committed.
                None => continue,
            };
            let commands = path.iter().rev().find(|block| !block.is_empty());
            highest = highest.max(commands.map_or(Height(0), |block| block.height()));
        }
        Some(highest)
    }

    fn held_block(message: &Message) -> Option<&BlockId> {
        match message {
            Message::Vote(Vote { phase: Phase::First | Phase::Fallback, block, .. }) => {
                block.as_ref().map(|(block, _)| block)
            }
            _ => None,
        }
    }
}
