//! Two message delays: a block is committed by the first votes of n − 1 replicas. **For the
//! laboratory only.**
//!
//! `docs/protocols/two-delay.md` has the rules, the argument for them, and the sources. By file:
//!
//! - [`choice`]: which blocks first votes may have committed. All that is new here rests on it;
//! - [`certificate`]: QCs, TCs and commits;
//! - [`domain`]: what is signed, and what a certificate needs;
//! - `saying`: when a replica votes, falls back and gives up;
//! - `proposing`: when a leader proposes, and what;
//! - `heard`: what each replica said, in few views;
//! - `seam`: the answers to what the replica asks of its protocol;
//! - `chain`, `clock`, [`words`].
//!
//! # A view
//! The leader sends a block with its own first vote. Replicas vote for it, to all. F first votes
//! commit it: two delays. q votes make a QC: the next view begins, and whoever voted for no other
//! block says a second vote; q of these commit it as well: three delays. When the timer runs out, a
//! replica that has not voted says a blank first vote. By the first votes of q replicas every
//! replica knows which blocks are out. If all but one are, it says a fallback vote for that one,
//! which counts for a QC; if all are, it says a time-out. A QC or a TC ends the view, and nothing
//! else does.
//!
//! # Deviations from the page
//! - **A block carries the TC that justifies it.** So a block that was fetched is justified by what
//!   it carries, like one that was proposed.
//! - **A block carries a state root** that its leader computed, of a state that the leader's latest
//!   commit reaches. That commit comes with the proposal. A replica votes once it has executed so
//!   far and has the same root.
//! - **An idle cluster is silent**: a leader proposes only while commands wait, a block with
//!   commands is not known to be committed, or somebody waits for a root.

pub mod certificate;
mod chain;
pub mod choice;
mod clock;
pub mod domain;
mod heard;
mod proposing;
mod saying;
mod seam;
mod verifier;
pub mod words;

use std::sync::Arc;

pub use clock::Patience;
pub use domain::Domain;
pub use words::{Message, Types, memory_bytes};

use crate::base::crypto::{Signature, Statement};
use crate::base::membership::Committee;
use crate::base::types::{Height, ReplicaId, View};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::{
    Attested, BlockOf, Decision, Effects, Event, Origin, Output, Record, Recovered,
};
use certificate::{Commit, Phase, Qc, Tc};
use chain::Chain;
use choice::Firsts;
use clock::Clock;
use heard::{Heard, Heeded};
use words::{Content, Memory, Said, Standing, Vote};

/// Its name in configuration: nobody runs it by mistake.
pub const NAME: &str = "laboratory-two-delay";
/// One-way message delays from a proposal to its commit at every replica, if n − 1 vote for it.
pub const FAST_DELAYS: u64 = 2;
/// The same if fewer do.
pub const SLOW_DELAYS: u64 = 3;
/// Kinds of votes in a view: first, fallback and second votes.
pub const PHASES: u8 = 3;
/// What a view change costs.
pub const VIEW_CHANGE: &str = "O(n²) broadcast blank votes, then fallback votes or time-outs";
/// Where it is from.
pub const SOURCE: &str = "docs/protocols/two-delay.md";

type Fx = Effects<Output<Types>, Record<Types>>;

/// A replica's share in the protocol.
#[derive(Clone, Debug)]
pub struct TwoDelay {
    me: ReplicaId,
    domain: Domain,
    view: View,
    memory: Memory,
    chain: Chain,
    heard: Heard,
    clock: Clock,
    /// The proposal of the current view.
    proposal: Option<BlockOf<Types>>,
    /// The height of the latest state whose root a committed block attests.
    attested: Height,
    /// What is being signed, oldest first.
    unsigned: Vec<(Statement, Unsigned)>,
    must_write: bool,
}

/// A word without its signature.
#[derive(Clone, Debug)]
enum Unsigned {
    Vote(Phase, View, Option<(BlockId, Signature)>),
    TimeOut(View, Qc),
}

/// Whether the protocol can be run by a committee: its members weigh the same, or nothing, and
/// nobody may change them.
#[must_use]
pub fn supports(committee: &Committee) -> bool {
    let mut weights = committee.voters().map(|voter| committee.weight(voter));
    weights.all(|weight| weight == 1) && committee.governance().administrators.is_empty()
}

/// What the data of a replica of `committee` begins with.
#[must_use]
pub fn origin(committee: &Committee) -> Origin<Types> {
    let genesis = Content::genesis(committee);
    let high_qc = Qc::genesis(genesis.id());
    Origin {
        committee: committee.clone(),
        memory: Memory { said: Said::default(), high_qc, tc: None, decided: None },
        memory_bytes: memory_bytes(committee.most_replicas()),
        genesis,
    }
}

impl TwoDelay {
    /// The protocol of replica `me` of a committee that it [supports], before its
    /// [`Input::Start`](crate::protocols::protocol::Input::Start).
    ///
    /// # Panics
    /// If it does not support the committee: its counts would be wrong.
    #[must_use]
    pub fn new(committee: Committee, me: ReplicaId, patience: Patience) -> Self {
        assert!(supports(&committee), "members must weigh the same, for ever");
        let Origin { genesis, memory, .. } = origin(&committee);
        Self {
            me,
            view: View(1),
            memory,
            chain: Chain::new(genesis),
            heard: Heard::new(committee.size()),
            clock: Clock::new(patience),
            proposal: None,
            attested: Height(0),
            unsigned: Vec::new(),
            must_write: false,
            domain: Domain::new(committee),
        }
    }

    /// What it never forgets.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Whether its words count.
    fn speaks(&self) -> bool {
        self.domain.committee().weight(self.me) > 0
    }

    fn standing(&self, asks: bool) -> Message {
        let Memory { high_qc, tc, decided, .. } = self.memory.clone();
        Message::Standing(Box::new(Standing { high_qc, tc, decided, asks }))
    }

    fn start(&mut self, recovered: Recovered<Types>, fx: &mut Fx) {
        self.chain = Chain::new(recovered.root);
        for block in &recovered.blocks {
            self.chain.insert(block);
        }
        if let Some(memory) = recovered.memory {
            let known = memory.tc.as_ref().map_or(View(0), |tc| tc.view);
            self.view = memory.high_qc.view.max(known).next();
            self.memory = memory;
            self.forget_unsaid();
        }
        self.try_commit(fx);
        self.sign_again(fx);
        fx.output(Output::Broadcast(self.standing(true)));
    }

    /// Grows from a later committed block, whose state was taken over.
    fn install(&mut self, root: BlockOf<Types>, evidence: Commit, fx: &mut Fx) {
        if root.height() <= self.chain.head().height() {
            return;
        }
        self.attested = self.attested.max(root.root_of);
        self.chain.install(root);
        self.on_commit(evidence, fx);
        fx.output(Output::Broadcast(self.standing(true)));
    }

    fn on_message(&mut self, from: ReplicaId, message: Message, fx: &mut Fx) {
        match message {
            Message::Proposal { block, signature, decided } => {
                self.on_certificates(&block, decided, fx);
                self.on_proposal(from, &block, signature, fx);
            }
            Message::Vote(vote) => self.on_vote(from, &vote, fx),
            Message::TimeOut { view, high_qc, signature } => {
                self.on_time_out(from, view, high_qc, signature, fx);
            }
            Message::Standing(standing) => self.on_standing(from, *standing, fx),
        }
    }

    /// What a proposal shows besides its block.
    fn on_certificates(&mut self, block: &BlockOf<Types>, decided: Option<Commit>, fx: &mut Fx) {
        if let Some(commit) = decided {
            self.on_commit(commit, fx);
        }
        self.on_qc(&block.justify, fx);
        if let Some(tc) = &block.tc {
            self.on_tc(tc, fx);
        }
    }

    fn on_proposal(
        &mut self,
        from: ReplicaId,
        block: &BlockOf<Types>,
        signature: Signature,
        fx: &mut Fx,
    ) {
        // What justifies it led here, or farther.
        if block.view() != self.view {
            return;
        }
        let voted = Some((block.id(), signature));
        let vote = Vote { phase: Phase::First, view: self.view, block: voted, signature };
        if self.proposal.is_none() {
            self.take_in(block, fx);
            self.proposal = Some(Arc::clone(block));
        } else if self.is_lacking(&block.id()) {
            self.take_in(block, fx);
        }
        self.on_vote(from, &vote, fx);
    }

    /// Records a block that is worth it.
    fn take_in(&mut self, block: &BlockOf<Types>, fx: &mut Fx) {
        if self.chain.insert(block) {
            fx.record(Record::Block(Arc::clone(block)));
            self.try_commit(fx);
        }
    }

    fn on_vote(&mut self, from: ReplicaId, vote: &Vote, fx: &mut Fx) {
        if !Heard::is_near(vote.view, self.view) {
            return;
        }
        let view = vote.view;
        match self.heard.vote(from, vote) {
            Heeded::New => {}
            Heeded::Known => return,
            Heeded::Contradicts => {
                let is_leader = self.domain.leader(view) == from;
                return fx.event(if is_leader && vote.phase == Phase::First {
                    Event::Equivocation { proposer: from, view }
                } else {
                    Event::DoubleVote { voter: from, view }
                });
            }
        }
        let Some((block, _)) = vote.block else { return };
        let votes = self.heard.votes(vote.phase, view, &block);
        let needed = match vote.phase {
            Phase::First => Some(self.domain.counts().fast),
            Phase::Second => Some(self.domain.committee().quorum()),
            Phase::Fallback => None,
        };
        if needed.is_some_and(|needed| votes.len() >= needed) {
            self.on_commit(Commit { phase: vote.phase, view, block, votes }, fx);
        }
        if vote.phase != Phase::Second {
            self.try_certify(view, block, fx);
        }
    }

    /// Makes a QC of the votes for a block, if there are enough and it is news.
    fn try_certify(&mut self, view: View, block: BlockId, fx: &mut Fx) {
        if view < self.view && view <= self.memory.high_qc.view {
            return;
        }
        let firsts = self.heard.votes(Phase::First, view, &block);
        let mut fallbacks = self.heard.votes(Phase::Fallback, view, &block);
        fallbacks.retain(|(voter, _)| firsts.iter().all(|(first, _)| first != voter));
        if firsts.len() + fallbacks.len() >= self.domain.qc_votes() {
            let ballot = crate::protocols::protocol::Ballot { view, phase: 1, block };
            fx.event(Event::Certified(ballot));
            self.on_qc(&Qc { view, block, firsts, fallbacks }, fx);
        }
    }

    fn on_qc(&mut self, qc: &Qc, fx: &mut Fx) {
        if qc.view > self.memory.high_qc.view {
            self.memory.high_qc = qc.clone();
            self.must_write = true;
        }
        if qc.view == self.view {
            self.say_second(qc.block, fx);
        }
        if qc.view >= self.view {
            self.enter(qc.view.next(), None, fx);
        }
    }

    /// A TC. The QC that goes with it has been dealt with.
    fn on_tc(&mut self, tc: &Tc, fx: &mut Fx) {
        if tc.view >= self.view && self.memory.high_qc.view >= tc.high() {
            fx.event(Event::GaveUp(tc.view));
            self.enter(tc.view.next(), Some(tc.clone()), fx);
        }
    }

    fn enter(&mut self, view: View, tc: Option<Tc>, fx: &mut Fx) {
        self.clock.entered(tc.is_some());
        self.view = view;
        self.memory.tc = tc;
        self.must_write = true;
        self.proposal = None;
        self.heard.forget_behind(view);
        fx.event(Event::Entered(view));
    }

    fn on_time_out(
        &mut self,
        from: ReplicaId,
        view: View,
        high_qc: Qc,
        signature: Signature,
        fx: &mut Fx,
    ) {
        self.on_qc(&high_qc, fx);
        if view < self.view || !Heard::is_near(view, self.view) {
            return;
        }
        self.heard.time_out(from, view, high_qc, signature);
        let (entries, high_qc) = self.heard.time_outs(view);
        if entries.len() >= self.domain.committee().quorum()
            && let Some(high_qc) = high_qc
        {
            self.on_qc(&high_qc, fx);
            self.on_tc(&Tc { view, entries }, fx);
        }
    }

    fn on_standing(&mut self, from: ReplicaId, standing: Standing, fx: &mut Fx) {
        let view_of = |commit: &Option<Commit>| commit.as_ref().map_or(View(0), |it| it.view);
        let (view, decided) = (standing.view(), view_of(&standing.decided));
        if let Some(commit) = standing.decided {
            self.on_commit(commit, fx);
        }
        self.on_qc(&standing.high_qc, fx);
        if let Some(tc) = &standing.tc {
            self.on_tc(tc, fx);
        }
        if !standing.asks {
            return;
        }
        if view < self.view || decided < view_of(&self.memory.decided) {
            fx.output(Output::Send { to: from, message: self.standing(false) });
        }
        for message in self.words() {
            fx.output(Output::Send { to: from, message });
        }
    }

    /// A block is committed, whether it is here or not.
    fn on_commit(&mut self, commit: Commit, fx: &mut Fx) {
        if self.memory.decided.as_ref().is_none_or(|known| known.view < commit.view) {
            self.memory.decided = Some(commit);
            self.must_write = true;
        }
        self.try_commit(fx);
    }

    /// Commits the latest block that is known to be committed, with all below, if they are here.
    fn try_commit(&mut self, fx: &mut Fx) {
        let Some(commit) = &self.memory.decided else { return };
        let path = if self.chain.holds(&commit.block) {
            self.chain.path(&commit.block)
        } else {
            // Not here, or committed before.
            None
        };
        let Some(Ok(path)) = path else { return };
        let Some(head) = path.last().map(Arc::clone) else { return };
        let root = |block: &BlockOf<Types>, evidence| {
            let (root, state) = (block.state_root, Some(block.root_of));
            Decision::Root(Attested { root, state, block: Arc::clone(block), evidence })
        };
        let evidence = commit.clone();
        let mut decisions = Vec::new();
        for block in path {
            self.attested = self.attested.max(block.root_of);
            decisions.push(root(&block, None));
            decisions.push(Decision::Block(block));
        }
        decisions.push(root(&head, Some(evidence)));
        fx.output(Output::Commit(decisions));
        let (height, view, block) = (head.height(), head.view(), head.id());
        fx.event(Event::Committed { height, view, block });
        let pruned = self.chain.commit(&head);
        if pruned > 0 {
            fx.event(Event::Pruned(pruned));
        }
        self.clock.progressed();
    }

    /// Asks what the first votes of the current view leave open.
    fn ask<T>(&self, ask: impl Fn(&Firsts<'_, BlockId>) -> T) -> T {
        let votes = self.heard.firsts(self.view);
        let mut blocks: Vec<_> = votes.iter().filter_map(|(_, block)| *block).collect();
        blocks.sort_unstable();
        blocks.dedup();
        ask(&Firsts {
            counts: self.domain.counts(),
            leader: mutant!(
                "two-delay-liar-counts",
                ReplicaId(u16::MAX),
                self.domain.leader(self.view),
            ),
            // Each came with the leader's signature.
            is_liar: blocks.len() > 1,
            votes: &votes,
        })
    }

    /// The blocks of the current view that a fallback vote is worth: all others are out.
    fn candidates(&self) -> Vec<BlockId> {
        let mut blocks = self.ask(|firsts| {
            let is_one = |block: &BlockId| {
                let are_out =
                    mutant!("two-delay-falls-back-freely", true, firsts.excludes_others(block));
                firsts.support(block) >= firsts.counts.support && are_out
            };
            firsts.named().filter(is_one).collect::<Vec<_>>()
        });
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }
}
