//! What correct replicas said, and what follows from it.

use std::collections::BTreeSet;

use quorate_core::ReplicaId;
use quorate_core::protocols::two_delay::choice::Firsts;

use super::{By, Move, Rule, TwoDelay};
use crate::rounds::Scheduler;

/// A block: its view, the number of its parent, and one of two payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The view it was proposed in.
    pub view: u8,
    /// The number of its parent.
    pub parent: u8,
    /// One of two.
    pub payload: u8,
}

/// What a correct replica has said in the current view.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// The view of its high QC.
    pub high: u8,
    /// Whether it is in the view.
    pub entered: bool,
    /// Its first vote, by the number of the block; `Some(None)` is blank.
    pub first: Option<Option<u8>>,
    /// Its fallback votes, by the numbers of the blocks.
    pub fallbacks: BTreeSet<u8>,
    /// Its second vote.
    pub second: Option<u8>,
    /// Its time-out: the view of the QC that it names.
    pub gave_up: Option<u8>,
}

impl Replica {
    fn voted(&self, block: u8) -> bool {
        self.first == Some(Some(block)) || self.fallbacks.contains(&block)
    }

    fn voted_for_another(&self, block: u8) -> bool {
        let first = self.first.flatten().into_iter();
        first.chain(self.fallbacks.iter().copied()).any(|voted| voted != block)
    }
}

/// The current view, and what is left of earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The current view.
    pub view: u8,
    /// All that a correct replica voted for; the first is genesis.
    pub blocks: Vec<Block>,
    /// The numbers of certified blocks of earlier views.
    pub certified: BTreeSet<u8>,
    /// The numbers of blocks that were committed in earlier views.
    pub committed: BTreeSet<u8>,
    /// The lowest view that a time-out certificate of the view before can name.
    pub tc: Option<u8>,
    /// The correct replicas, in order.
    pub replicas: Vec<Replica>,
}

impl State {
    /// So many correct replicas in the first view.
    #[must_use]
    pub fn new(correct: usize) -> Self {
        let replica = Replica { entered: true, ..Replica::default() };
        Self {
            view: 1,
            blocks: vec![Block { view: 0, parent: 0, payload: 0 }],
            certified: BTreeSet::from([0]),
            committed: BTreeSet::new(),
            tc: None,
            replicas: vec![replica; correct],
        }
    }

    fn number_of(&self, block: Block) -> Option<u8> {
        self.blocks.iter().position(|other| *other == block).map(|at| at as u8)
    }

    fn view_of(&self, block: u8) -> u8 {
        self.blocks[usize::from(block)].view
    }

    /// The numbers of the blocks of the current view.
    fn current(&self) -> impl Iterator<Item = u8> + '_ {
        (0..self.blocks.len() as u8).filter(|block| self.view_of(*block) == self.view)
    }

    fn count(&self, is: impl Fn(&Replica) -> bool) -> usize {
        self.replicas.iter().filter(|replica| is(replica)).count()
    }

    fn is_certified(&self, model: &TwoDelay, block: u8) -> bool {
        self.count(|it| it.voted(block)) >= model.correct_quorum()
    }

    fn is_fast(&self, model: &TwoDelay, block: u8) -> bool {
        let firsts = self.count(|it| it.first == Some(Some(block)));
        firsts + model.liars() >= model.counts().fast
    }

    fn is_slow(&self, model: &TwoDelay, block: u8) -> bool {
        self.count(|it| it.second == Some(block)) >= model.correct_quorum()
    }

    /// Whether a block is committed in the current view by first votes.
    #[must_use]
    pub fn has_fast_commit(&self, model: &TwoDelay) -> bool {
        self.current().any(|block| self.is_fast(model, block))
    }

    /// Whether one is by second votes, and not by first ones.
    #[must_use]
    pub fn has_slow_commit(&self, model: &TwoDelay) -> bool {
        self.current().any(|block| self.is_slow(model, block) && !self.is_fast(model, block))
    }

    fn extends(&self, mut block: u8, ancestor: u8) -> bool {
        while self.view_of(block) > self.view_of(ancestor) {
            block = self.blocks[usize::from(block)].parent;
        }
        block == ancestor
    }

    fn on_one_chain(&self, blocks: &BTreeSet<u8>) -> bool {
        let pair = |one: u8, other: u8| self.extends(one, other) || self.extends(other, one);
        blocks.iter().all(|one| blocks.iter().all(|other| pair(*one, *other)))
    }

    /// All committed blocks are on one chain.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.on_one_chain(&self.committed)
    }

    /// Blocks of different chains are certified.
    #[must_use]
    pub fn has_conflicting_certificates(&self) -> bool {
        !self.on_one_chain(&self.certified)
    }

    /// What a reader has of the first votes: those of the correct replicas, and of liars, the
    /// leader among them, blank ones if it `helps`.
    fn ask(
        &self,
        model: &TwoDelay,
        (is_liar, helps): (bool, bool),
        ask: impl Fn(Firsts<'_, u8>) -> bool,
    ) -> bool {
        let blank = vec![None; if helps { model.liars() } else { 0 }];
        let correct = self.replicas.iter().filter_map(|replica| replica.first);
        // The leader's id is the first liar's; without help no liar is heard.
        let first = if helps { 0 } else { model.liars() };
        let votes = blank.into_iter().chain(correct).zip(first..);
        let votes: Vec<_> = votes.map(|(vote, id)| (ReplicaId(id as u16), vote)).collect();
        let (counts, leader) = (model.counts(), ReplicaId(0));
        ask(Firsts { counts, leader, is_liar, votes: &votes })
    }

    /// Whether some reader may take this for true.
    fn may(&self, model: &TwoDelay, ask: impl Fn(Firsts<'_, u8>) -> bool) -> bool {
        [false, true].into_iter().any(|is_liar| self.ask(model, (is_liar, true), &ask))
    }

    fn is_justified(&self, model: &TwoDelay, parent: u8) -> bool {
        let view = self.view_of(parent);
        view + 1 == self.view
            || self.tc.is_some_and(|lowest| view >= lowest)
            || model.rule == Rule::Unjustified
    }

    /// The blocks that the leader may propose: those that are voted for, and one on each parent
    /// that nobody knows yet, as long as there may be more.
    fn proposals(&self, model: &TwoDelay) -> Vec<Block> {
        if self.current().count() >= model.blocks {
            return self.current().map(|block| self.blocks[usize::from(block)]).collect();
        }
        let parents = self.certified.iter().filter(|parent| self.is_justified(model, **parent));
        let of = |parent: &u8| {
            let with = |payload| Block { view: self.view, parent: *parent, payload };
            let other = self.number_of(with(0)).map(|_| with(1));
            [Some(with(0)), other]
        };
        parents.flat_map(of).flatten().collect()
    }

    /// Everything that can happen next.
    pub fn moves(&self, model: &TwoDelay, moves: &mut Vec<Move>) {
        let proposals = self.proposals(model);
        for (at, replica) in self.replicas.iter().enumerate() {
            let is_new = at == 0 || self.replicas[at - 1] != *replica;
            if is_new {
                self.moves_of(model, (at, replica), &proposals, moves);
            }
        }
        if self.view < model.views {
            moves.push(Move::Next);
        }
    }

    fn moves_of(
        &self,
        model: &TwoDelay,
        (at, replica): (usize, &Replica),
        proposals: &[Block],
        moves: &mut Vec<Move>,
    ) {
        if !replica.entered {
            let qc = self.certified.iter().any(|block| self.view_of(*block) + 1 == self.view);
            moves.extend(qc.then_some(Move::Enter(at, By::Qc)));
            moves.extend(self.tc.map(|_| Move::Enter(at, By::Tc)));
            return;
        }
        if replica.second.is_some() {
            // It has left the view.
            return;
        }
        if model.scheduler == Scheduler::Full && replica.first.is_none() {
            let views: BTreeSet<u8> = self.certified.iter().map(|it| self.view_of(*it)).collect();
            let later = views.into_iter().filter(|view| *view > replica.high);
            moves.extend(later.map(|view| Move::Learn(at, view)));
        }
        if replica.first.is_none() {
            moves.push(Move::First(at, None));
            moves.extend(proposals.iter().map(|block| Move::First(at, Some(*block))));
            return;
        }
        for block in proposals {
            let number = self.number_of(*block).unwrap_or(self.blocks.len() as u8);
            let free = model.rule == Rule::FallsBackFreely;
            if !replica.voted(number)
                && (free || self.may(model, |firsts| firsts.excludes_others(&number)))
            {
                moves.push(Move::Fallback(at, *block));
            }
        }
        let free = model.rule == Rule::GivesUpFreely;
        if replica.gave_up.is_none() && (free || self.may(model, |firsts| firsts.excludes_all())) {
            moves.push(Move::GiveUp(at));
        }
        let anyway = model.rule == Rule::SecondAnyway;
        for block in self.current().filter(|block| self.is_certified(model, *block)) {
            let is_bound = replica.voted_for_another(block) || replica.gave_up.is_some();
            if anyway || !is_bound {
                moves.push(Move::Second(at, block));
            }
        }
    }

    /// The state behind a move.
    #[must_use]
    pub fn after(&self, model: &TwoDelay, step: Move) -> Self {
        let mut state = self.clone();
        match step {
            Move::Enter(at, by) => {
                let known = if by == By::Tc { self.tc.unwrap_or(0) } else { self.view - 1 };
                let replica = &mut state.replicas[at];
                (replica.entered, replica.high) = (true, replica.high.max(known));
            }
            Move::Learn(at, view) => state.replicas[at].high = view,
            Move::First(at, vote) => {
                let number = vote.map(|block| state.take(at, block));
                state.replicas[at].first = Some(number);
            }
            Move::Fallback(at, block) => {
                let number = state.take(at, block);
                state.replicas[at].fallbacks.insert(number);
            }
            Move::Second(at, block) => {
                let replica = &mut state.replicas[at];
                (replica.second, replica.high) = (Some(block), self.view);
            }
            Move::GiveUp(at) => {
                let hides = model.rule == Rule::HidesCertificate;
                let replica = &mut state.replicas[at];
                replica.gave_up = Some(if hides { 0 } else { replica.high });
            }
            Move::Next => return self.next(model),
        }
        let committed: Vec<u8> = state
            .current()
            .filter(|block| state.is_fast(model, *block) || state.is_slow(model, *block))
            .collect();
        state.committed.extend(committed);
        state.replicas.sort();
        state
    }

    /// The number of a block that a replica votes for, which knows its parent's certificate.
    fn take(&mut self, at: usize, block: Block) -> u8 {
        let known = self.view_of(block.parent);
        let replica = &mut self.replicas[at];
        replica.high = replica.high.max(known);
        self.number_of(block).unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() as u8 - 1
        })
    }

    /// The lowest view that a time-out certificate of the current view can name.
    fn lowest_tc(&self, model: &TwoDelay) -> Option<u8> {
        let mut named: Vec<u8> = self.replicas.iter().filter_map(|it| it.gave_up).collect();
        named.sort_unstable();
        named.get(model.correct_quorum() - 1).copied()
    }

    fn next(&self, model: &TwoDelay) -> Self {
        let mut state = self.clone();
        let certified: Vec<u8> =
            self.current().filter(|block| self.is_certified(model, *block)).collect();
        state.tc = self.lowest_tc(model);
        state.view += 1;
        for replica in &mut state.replicas {
            let high = replica.high;
            *replica = Replica { high, ..Replica::default() };
            let known = state.tc.or_else(|| certified.first().map(|_| self.view));
            if let (Scheduler::Sparing, Some(known)) = (model.scheduler, known) {
                (replica.entered, replica.high) = (true, high.max(known));
            }
        }
        state.certified.extend(certified);
        state.forget();
        state.replicas.sort();
        state
    }

    /// Forgets the blocks that are neither certified nor committed, nor below one that is, and
    /// numbers the others anew: states that differ in those alone are one.
    fn forget(&mut self) {
        let mut kept = BTreeSet::from([0]);
        for block in self.certified.iter().chain(&self.committed) {
            let mut block = *block;
            while kept.insert(block) {
                block = self.blocks[usize::from(block)].parent;
            }
        }
        let mut kept: Vec<u8> = kept.into_iter().collect();
        // Parents keep their order before their children, as views do.
        kept.sort_by_key(|block| (self.blocks[usize::from(*block)], *block));
        let anew = |block: u8| kept.iter().position(|old| *old == block).unwrap_or(0) as u8;
        let renamed = |old: &u8| {
            let block = self.blocks[usize::from(*old)];
            Block { parent: anew(block.parent), ..block }
        };
        let blocks = kept.iter().map(renamed).collect();
        self.certified = self.certified.iter().map(|block| anew(*block)).collect();
        self.committed = self.committed.iter().map(|block| anew(*block)).collect();
        self.blocks = blocks;
    }

    /// Whether all correct replicas are in the view and have said all that the votes of correct
    /// replicas oblige them to, and the view still does not end.
    #[must_use]
    pub fn is_stuck(&self, model: &TwoDelay) -> bool {
        if self.replicas.iter().any(|it| !it.entered || it.first.is_none()) {
            return false;
        }
        let voted: BTreeSet<u8> = self.replicas.iter().filter_map(|it| it.first?).collect();
        let knowing = (voted.len() > 1, false);
        let gives_up = self.ask(model, knowing, |firsts| firsts.excludes_all());
        if gives_up && self.replicas.iter().any(|it| it.gave_up.is_none()) {
            return false;
        }
        for block in &voted {
            let falls_back = self.ask(model, knowing, |firsts| {
                firsts.support(block) >= firsts.counts.support && firsts.excludes_others(block)
            });
            if falls_back && self.replicas.iter().any(|it| !it.voted(*block)) {
                return false;
            }
        }
        let certified = self.current().any(|block| self.is_certified(model, block));
        !certified && self.lowest_tc(model).is_none()
    }
}
