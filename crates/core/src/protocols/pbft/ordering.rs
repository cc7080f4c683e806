//! The three phases (section 4.2 of the paper), over a window of blocks that are under way at once.

use std::sync::Arc;

use super::words::{Content, Entry, Phase, Types, Vote};
use super::{Fx, Pbft, Settings, Unsigned};
use crate::base::types::{Height, ReplicaId, Time, View};
use crate::ledger::block::{Block, BlockId};
use crate::protocols::protocol::{
    Attested, Ballot, BlockOf, Decision, Event, Ledger, Output, Record,
};

impl Pbft {
    /// The high water mark H of the paper.
    pub(super) fn high(&self) -> Height {
        let Settings { window, .. } = self.settings;
        let every = mutant!("pbft-high-water-mark", self.settings.checkpoint_every, 0);
        self.checkpoints.low().plus(window + every)
    }

    fn is_primary(&self) -> bool {
        self.domain.primary(self.view) == self.me && !self.is_changing && !self.abstains()
    }

    /// Takes every step that is possible by now.
    pub(super) fn advance(&mut self, now: Time, ledger: &mut dyn Ledger, fx: &mut Fx) {
        self.sign_checkpoints(ledger, fx);
        let mut has_proposed = false;
        loop {
            let before = (self.order.tip, self.order.prepared, self.chain.head().height());
            let proven = self.believe(fx);
            self.accept_next(fx);
            self.prepare_next(fx);
            self.commit_next(now, proven, fx);
            // One block a step: its frames are those that the ledger handed out last.
            has_proposed = has_proposed || self.propose(ledger, fx);
            if before == (self.order.tip, self.order.prepared, self.chain.head().height()) {
                break;
            }
        }
        self.attest(fx);
        self.run_ahead(fx);
    }

    /// The primary orders what waits, in a block on the last one: it waits for none to commit.
    fn propose(&mut self, ledger: &mut dyn Ledger, fx: &mut Fx) -> bool {
        let (tip, parent) = self.order.tip;
        let head = self.chain.head().height();
        let under_way = tip.0.saturating_sub(head.0);
        let may = self.is_primary()
            && self.order.chosen.is_empty()
            && tip >= head
            && tip < self.high()
            && under_way < self.settings.under_way
            && self.known.pre_prepared_in(self.view, tip.next()).is_none()
            && self.may_remember(tip.next(), None);
        let Some(path) = self.chain.path(&parent).filter(|_| may) else { return false };
        let executed = ledger.executed();
        let above = (executed.next().0..=head.0).filter_map(|height| self.chain.at(Height(height)));
        let ancestors: Vec<_> = above.cloned().chain(path).collect();
        let taken = ancestors.iter().flat_map(|block| block.frames().iter().copied());
        let frames = ledger.payload(&mut taken.into_iter());
        if frames.is_empty() {
            return false;
        }
        let stable = self.checkpoints.stable().filter(|stable| {
            let said = ancestors.iter().filter_map(|block| block.stable.as_ref());
            let said = said.map(|stable| stable.checkpoint.height).max().max(Some(self.said));
            Some(stable.checkpoint.height) > said
        });
        let (epoch, view, height) = (self.domain.committee().epoch(), self.view, tip.next());
        let content = Content { epoch, view, height, parent, stable: stable.cloned(), frames };
        let block = Arc::new(Block::new(content));
        fx.event(Event::Proposed { view, block: block.id(), frames: block.frames.len() });
        self.accept(&block, fx);
        self.say(Unsigned::PrePrepare(block), None, fx);
        true
    }

    /// A block of the current view's primary.
    pub(super) fn on_pre_prepare(&mut self, from: ReplicaId, block: BlockOf<Types>, fx: &mut Fx) {
        let (view, height) = (block.view(), block.height());
        if view != self.view || height <= self.chain.head().height() {
            return;
        }
        let known = match self.order.held.get(&height) {
            Some(held) => Some(held.id()),
            None => self.known.pre_prepared_in(view, height),
        };
        match known {
            Some(known) if known != block.id() => {
                fx.event(Event::Equivocation { proposer: from, view });
            }
            Some(_) => {}
            None => drop(self.order.held.insert(height, block)),
        }
    }

    /// Accepts what comes next in this view, as far as it is here.
    fn accept_next(&mut self, fx: &mut Fx) {
        while mutant!("pbft-votes-after-giving-up", true, !self.is_changing) {
            if let Some(stable) = self.checkpoints.stable() {
                self.order.skip_to(stable.checkpoint.height, stable.checkpoint.block);
            }
            self.leave_dead_branch();
            if self.order.chosen.is_empty() {
                let head = self.chain.head();
                self.order.skip_to(head.height(), head.id());
            }
            let (tip, parent) = self.order.tip;
            let next = tip.next();
            let head = self.chain.head().height();
            if let Some(entry) = self.order.chosen.front().copied().filter(|_| next <= head) {
                // It is committed here, and the block itself may be gone: a replica that started
                // from a state above the stable checkpoint cannot fetch what is below.
                self.order.chosen.pop_front();
                self.take(Entry { view: self.view, ..entry }, fx);
                continue;
            }
            let block = match self.order.chosen.front() {
                Some(entry) => self.chain.get(&entry.block).cloned(),
                None => {
                    self.order.held.remove(&next).or_else(|| self.vouched_for(next)).or_else(|| {
                        self.known
                            .pre_prepared_in(self.view, next)
                            .and_then(|id| self.chain.get(&id).cloned())
                    })
                }
            };
            // What was pre-prepared in this view before a restart binds.
            let known = &self.known;
            let bound = mutant!(
                "pbft-pre-prepared-forgotten",
                None,
                known.pre_prepared_in(self.view, next),
            );
            let extends = |block: &BlockOf<Types>| {
                block.parent() == parent
                    && next <= self.high()
                    && bound.is_none_or(|bound| bound == block.id())
                    && self.may_remember(next, Some(&block.id()))
            };
            let Some(block) = block.filter(extends) else { return };
            self.order.chosen.pop_front();
            self.accept(&block, fx);
        }
    }

    /// Forgets what the view began with here, from the first block on whose height another block is
    /// committed at. It was committed in this view, for every later one begins with it: so the
    /// primary showed others another new view. The dead branch is never committed. A
    /// replica must not say of it that it is, nor wait for blocks that nobody may have.
    fn leave_dead_branch(&mut self) {
        let (chain, order) = (&self.chain, &mut self.order);
        let is_dead = |height: Height, id: &BlockId| {
            chain.at(height).is_some_and(|committed| committed.id() != *id)
        };
        let alive = match is_dead(order.tip.0, &order.tip.1) {
            true => 0,
            false => {
                let mut chosen = order.chosen.iter();
                let dead = chosen.position(|entry| is_dead(entry.height, &entry.block));
                dead.unwrap_or(order.chosen.len())
            }
        };
        order.chosen.truncate(alive);
    }

    /// A block of this view at a height that f + 1 replicas prepare: one of them is correct, and
    /// saw that the primary ordered it.
    fn vouched_for(&self, height: Height) -> Option<BlockOf<Types>> {
        let witness = self.domain.committee().honest_witness();
        let below = Height(height.0.saturating_sub(1));
        let votes = self.window.agreed(Phase::Prepare, below, witness);
        let mut votes = votes.iter().filter(|vote| vote.height == height && vote.view == self.view);
        votes.find_map(|vote| self.chain.get(&vote.block).cloned())
    }

    /// Pre-prepares a block in the current view, and says so.
    fn accept(&mut self, block: &BlockOf<Types>, fx: &mut Fx) {
        let (view, height, id) = (self.view, block.height(), block.id());
        if self.chain.get(&id).is_none() {
            fx.record(Record::Block(Arc::clone(block)));
        }
        self.chain.insert(Arc::clone(block));
        self.take(Entry { height, view, block: id, parent: block.parent() }, fx);
    }

    /// Takes the next place in the order of the current view, and says so.
    fn take(&mut self, entry: Entry, fx: &mut Fx) {
        let Entry { height, view, block, .. } = entry;
        self.order.tip = (height, block);
        if self.abstains() {
            // It follows what the others order, and says nothing.
            return;
        }
        self.remember(entry);
        let prepare = Vote { phase: Phase::Prepare, view, height, block };
        let primary = self.domain.primary(view);
        // The pre-prepare is the primary's own.
        self.window.add(primary, &prepare);
        if primary != self.me {
            self.cast(prepare, fx);
        }
        if height <= self.chain.head().height() {
            // Chosen again for others: here it is known to be committed. It stays prepared in the
            // view that it was, for fewer than f + 1 may have pre-prepared it in this one.
            self.cast(Vote { phase: Phase::Commit, ..prepare }, fx);
        }
    }

    /// A block is prepared if q replicas have pre-prepared it in this view, and all below are.
    fn prepare_next(&mut self, fx: &mut Fx) {
        let may = mutant!("pbft-votes-after-giving-up", true, !self.is_changing);
        while may && self.order.prepared < self.order.tip.0 {
            let (view, height) = (self.view, self.order.prepared.next());
            if height > self.chain.head().height() {
                let Some(block) = self.known.pre_prepared_in(view, height) else { return };
                let Some(parent) = self.chain.get(&block).map(|block| block.parent()) else {
                    return;
                };
                let prepare = Vote { phase: Phase::Prepare, view, height, block };
                let weight = mutant!(
                    "pbft-prepared-across-views",
                    self.window.voters(prepare.phase, height, &block).len(),
                    self.window.weight(&prepare),
                );
                if weight < self.domain.committee().quorum() {
                    return;
                }
                self.known.prepare(Entry { height, view, block, parent });
                self.must_write = true;
                fx.event(Event::Certified(Ballot { view, phase: 1, block }));
                self.cast(Vote { phase: Phase::Commit, ..prepare }, fx);
            }
            self.order.prepared = height;
        }
    }

    /// Commits up to the highest block that q replicas have prepared in one view, or that a stable
    /// checkpoint proves. Its ancestors are committed with it.
    fn commit_next(&mut self, now: Time, proven: Option<BlockId>, fx: &mut Fx) {
        let head = self.chain.head().height();
        let stable = self.checkpoints.stable().map(|stable| stable.checkpoint);
        let stable = stable.filter(|stable| stable.height > head).map(|stable| stable.block);
        let quorum = self.domain.committee().quorum();
        let needed = mutant!("pbft-commit-at-q-minus-1", (quorum - 1).max(1), quorum);
        let votes = self.window.agreed(Phase::Commit, head, needed);
        let tips = votes.iter().map(|vote| vote.block).chain(stable).chain(proven);
        let path = tips.filter_map(|tip| self.chain.path(&tip)).max_by_key(Vec::len);
        if let Some(path) = path.filter(|path| !path.is_empty()) {
            self.commit(now, &path, fx);
            self.commit_late(&votes, &path, fx);
        }
    }

    /// Says COMMIT of blocks that are committed in this view before they were prepared here: one of
    /// the COMMITs may be a liar's that says it to few, and somebody lack this one. What is
    /// committed f + 1 correct replicas have prepared, and that is all that a later view needs.
    fn commit_late(&mut self, votes: &[Vote], path: &[BlockOf<Types>], fx: &mut Fx) {
        let tip = path.last().map(|block| block.id());
        let is_of_this_view = |vote: &Vote| vote.view == self.view && Some(vote.block) == tip;
        if self.is_changing || self.abstains() || !votes.iter().any(is_of_this_view) {
            return;
        }
        for block in path {
            let (view, height, block) = (self.view, block.height(), block.id());
            let own = self.window.voted(self.me, height);
            let has_said = own.iter().any(|own| own.phase == Phase::Commit && own.view == view);
            if !has_said {
                self.cast(Vote { phase: Phase::Commit, view, height, block }, fx);
            }
        }
    }

    fn commit(&mut self, now: Time, path: &[BlockOf<Types>], fx: &mut Fx) {
        let mut decisions = Vec::with_capacity(path.len());
        for block in path {
            self.chain.commit(block);
            if let Some(stable) = &block.stable {
                self.said = self.said.max(stable.checkpoint.height);
                self.raise_stable(stable.clone());
            }
            decisions.push(Decision::Block(Arc::clone(block)));
        }
        // It is decided what stays.
        self.ahead = None;
        let head = self.chain.head();
        let (height, view, block) = (head.height(), self.view, head.id());
        fx.output(Output::Commit(decisions));
        fx.event(Event::Committed { height, view, block });
        self.clock.progressed(now);
    }

    /// Tells the ledger of the stable checkpoint, once its block is committed here.
    pub(super) fn attest(&mut self, fx: &mut Fx) {
        let Some(stable) = self.checkpoints.reach(self.chain.head().height()) else { return };
        let Some(block) = self.chain.at(stable.checkpoint.height).cloned() else { return };
        let (root, state) = (stable.checkpoint.root, Some(stable.checkpoint.height));
        let attested = |evidence| {
            let block = Arc::clone(&block);
            Decision::Root(Attested { root, state, block, evidence })
        };
        fx.output(Output::Commit(vec![attested(None), attested(Some(stable.clone()))]));
        self.chain.forget_below(stable.checkpoint.height);
    }

    /// Says a vote of this replica's, and counts it.
    fn cast(&mut self, vote: Vote, fx: &mut Fx) {
        self.window.add(self.me, &vote);
        let Vote { phase, view, block, .. } = vote;
        fx.event(Event::Voted(Ballot { view, phase: phase as u8, block }));
        self.say(Unsigned::Vote(vote), None, fx);
    }

    pub(super) fn on_vote(&mut self, from: ReplicaId, vote: &Vote, fx: &mut Fx) {
        if vote.height <= self.checkpoints.low() {
            return;
        }
        if self.window.add(from, vote) {
            let (voter, view): (_, View) = (from, vote.view);
            fx.event(Event::DoubleVote { voter, view });
        }
    }
}
