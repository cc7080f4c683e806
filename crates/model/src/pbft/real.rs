//! Production's replicas beside the model: each step is theirs as well, and they must come to the
//! same sets P and Q.
//!
//! A view of the model is four of production's: the last one of them has the liar for its primary.
//! The three before it end without having begun, as messages get lost.

use std::sync::Arc;

use quorate_core::base::types::{Digest, Height, ReplicaId, Time, View};
use quorate_core::ledger::block::{Block, BlockId};
use quorate_core::protocols::pbft::choice::Chosen;
use quorate_core::protocols::pbft::words::{
    Content, NewView, Phase, SignedChange, Types, ViewChange, Vote,
};
use quorate_core::protocols::pbft::{self, Authentication, Domain, Message};
use quorate_core::protocols::protocol::BlockOf;
use quorate_sim::keys::committee;

use super::Step;
use super::choosing::{LIAR, MADE_UP, Words, identity};
use super::node::{Liar, Node};
use super::replica::{Column, Name, at};
use super::state::{Pick, Renaming, State};

/// So many of production's views are one of the model.
const VIEWS: u64 = 4;
/// Longer than any wait.
const LONG_NANOS: u64 = 1 << 40;

/// Where production does something else than the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Difference {
    /// It chooses otherwise, or a replica does not enter a view.
    Entering,
    /// A replica enters a view by what does not follow.
    Refusing,
    /// A replica does not learn what is committed.
    Learning,
    /// A replica does not give up.
    Leaving,
    /// The sets P and Q are others.
    Sets,
    /// Something else can be committed.
    Commits,
}

/// Three of production's replicas, in the order of the model's.
#[derive(Clone, Debug)]
pub struct Real {
    nodes: [Arc<Node>; 3],
    /// By the model's names.
    blocks: Vec<BlockOf<Types>>,
    authentication: Authentication,
    now: Time,
    /// Where they were first found to do something else.
    pub differs: Option<Difference>,
}

impl Real {
    /// Before anything was ordered.
    pub fn new(authentication: Authentication) -> Self {
        let node = |id| Arc::new(Node::new(ReplicaId(id), View(VIEWS), authentication));
        let blocks = vec![pbft::origin(&committee(4), 64).genesis];
        let nodes = [node(0), node(1), node(2)];
        Self { nodes, blocks, authentication, now: Time(0), differs: None }
    }

    fn liar(&self) -> Liar {
        Liar { domain: Domain::new(committee(4), self.authentication) }
    }

    fn differs(&mut self, is_so: bool, difference: Difference) {
        if is_so {
            self.differs.get_or_insert(difference);
        }
    }

    /// Takes the step that the model takes from `before` to `after`.
    pub fn take(&mut self, before: &State, step: &Step, after: &State, renaming: &Renaming) {
        let view = View(VIEWS * u64::from(before.view));
        match step {
            Step::Begin(shows) => {
                if *shows {
                    self.show();
                    self.compare(after);
                }
                self.refuse(after);
            }
            Step::Enter(turn, Some(chosen)) => self.enter(before, usize::from(*turn), chosen),
            Step::Enter(_, None) => {}
            Step::Accept(height, picks) => self.accept(before, view, *height, picks),
            Step::Prepare(height, who) => {
                for at in (0..3).filter(|at| who[*at]) {
                    let block = before.replicas[at].accepted[self::at(*height)];
                    self.prepare(at, view, block);
                }
            }
            Step::Know(height, who) => {
                for at in (0..3).filter(|at| who[*at]) {
                    let path = before.committed[..usize::from(*height)].to_vec();
                    let mut node = Arc::clone(&self.nodes[at]);
                    self.tell(Arc::make_mut(&mut node), &path);
                    self.differs(node.head().0 < Height((*height).into()), Difference::Learning);
                    self.nodes[at] = node;
                }
            }
        }
        if after.view > before.view {
            self.end_view(view);
        }
        self.rename(renaming);
        if after.view > before.view {
            self.compare(after);
        }
    }

    fn rename(&mut self, renaming: &Renaming) {
        self.nodes = renaming.order.map(|at| Arc::clone(&self.nodes[at]));
        let mut named: Vec<(Name, BlockOf<Types>)> = renaming
            .names
            .iter()
            .zip(&self.blocks)
            .filter_map(|(name, block)| Some(((*name)?, Arc::clone(block))))
            .collect();
        named.sort_by_key(|(name, _)| *name);
        self.blocks = named.into_iter().map(|(_, block)| block).collect();
    }

    fn id(&self, name: Name) -> BlockId {
        self.blocks.get(usize::from(name)).map_or(identity(0, MADE_UP), |block| block.id())
    }

    fn parent(&self, name: Name) -> BlockId {
        let genesis = &self.blocks[0];
        match self.blocks.get(usize::from(name)) {
            Some(block) => block.parent(),
            None => genesis.id(),
        }
    }

    /// The new view that begins so.
    fn new_view(&self, state: &State, chosen: &Column) -> Option<NewView> {
        let basis = state.basis(chosen)?;
        let (name, parent) = (|name| self.id(name), |name| self.parent(name));
        let words = Words { views: VIEWS, id: &name, parent: &parent };
        let correct = self.nodes.iter().enumerate().filter(|(at, _)| basis.correct & 1 << at != 0);
        let mut changes: Vec<SignedChange> =
            correct.filter_map(|(_, node)| node.change.clone()).collect();
        if let Some(lies) = &basis.lies {
            changes.push(self.liar().change(words.change(LIAR, state.view, lies)));
        }
        changes.sort_by_key(|signed| signed.from);
        let chosen = chosen.iter().filter(|name| **name != 0).map(|name| self.id(*name)).collect();
        Some(NewView { view: words.view(state.view), changes, chosen })
    }

    /// Whether these replicas' view changes lead to what the model says. Of two blocks of one view
    /// that may both be chosen, the one of the greater identity is: here it may be the other one.
    pub fn follows(&self, state: &State, step: &Step) -> bool {
        let Step::Enter(_, Some(chosen)) = step else { return true };
        self.new_view(state, chosen).is_some_and(|new_view| {
            let names = new_view.chosen.clone();
            self.choice(state, new_view).is_none_or(|right| right.chosen == names)
        })
    }

    /// The same new view with what production chooses; `None` if the model knows of no such one.
    fn choice(&self, state: &State, new_view: NewView) -> Option<NewView> {
        let genesis = self.blocks[0].id();
        let chosen = Chosen::from(&committee(4), genesis, &new_view.changes)?;
        let chosen: Vec<BlockId> = chosen.blocks.iter().map(|entry| entry.block).collect();
        let named = |column: &Column| {
            let names = column.iter().filter(|name| **name != 0);
            names.map(|name| self.id(*name)).eq(chosen.iter().copied())
        };
        state.new_views().any(named).then_some(NewView { chosen, ..new_view })
    }

    /// All hear what the others answer to their view changes.
    fn show(&mut self) {
        for (from, to) in (0..9).map(|pair| (pair / 3, pair % 3)) {
            let (peer, told) = (self.nodes[from].me, self.nodes[to].change.clone());
            let Some(change) = told.filter(|_| from != to) else { continue };
            let mut asked = Node::clone(&self.nodes[from]);
            asked.hear(self.now, change.from, Message::ViewChange(Box::new(change)));
            if let Some(shown) = asked.shown {
                Arc::make_mut(&mut self.nodes[to]).hear(self.now, peer, shown);
            }
        }
    }

    fn enter(&mut self, state: &State, at: usize, chosen: &Column) {
        let Some(new_view) = self.new_view(state, chosen) else {
            return self.differs(true, Difference::Entering);
        };
        let (view, now) = (new_view.view, self.now);
        let message = self.liar().new_view(new_view);
        let node = Arc::make_mut(&mut self.nodes[at]);
        let heard = node.hear(now, LIAR, message);
        let entered = node.view() == Some(view);
        self.differs(!heard || !entered, Difference::Entering);
    }

    /// What does not follow from its view changes, or rests on too few, begins no view.
    fn refuse(&mut self, state: &State) {
        for chosen in state.new_views() {
            let right = self.new_view(state, chosen);
            let Some(right) = right.and_then(|right| self.choice(state, right)) else {
                return self.differs(true, Difference::Entering);
            };
            let mut wrong = vec![right.clone(); 4];
            wrong[0].chosen.push(Digest([7; 32]));
            if wrong[1].chosen.pop().is_none() {
                wrong[1].chosen = vec![Digest([7; 32])];
            }
            wrong[2].changes.pop();
            // Another word for the sender's, with the old signature.
            let forged = wrong[3].changes.iter_mut().find(|signed| signed.from != LIAR);
            forged.into_iter().for_each(|signed| {
                signed.change.prepared.clear();
                signed.change.pre_prepared.clear();
            });
            let is_forged = wrong[3] != right;
            if wrong[2].changes.len() >= 3 {
                wrong.remove(2);
            }
            for new_view in wrong.into_iter().filter(|wrong| is_forged || *wrong != right) {
                let view = new_view.view;
                let mut node = Node::clone(&self.nodes[0]);
                node.hear(self.now, LIAR, self.liar().new_view(new_view));
                self.differs(node.view() == Some(view), Difference::Refusing);
            }
        }
    }

    fn accept(&mut self, state: &State, view: View, height: u8, picks: &[Pick; 3]) {
        let liar = self.liar();
        let mut made: Vec<(Pick, BlockOf<Types>)> = Vec::new();
        for (at, pick) in picks.iter().enumerate() {
            let Pick::New(parent, number) = *pick else { continue };
            let block = match made.iter().find(|(known, _)| known == pick) {
                Some((_, block)) => Arc::clone(block),
                None => {
                    let content = Content {
                        epoch: committee(4).epoch(),
                        view,
                        height: Height(height.into()),
                        parent: self.id(parent),
                        stable: None,
                        frames: vec![Digest([number; 32])],
                    };
                    let block = Arc::new(Block::new(content));
                    made.push((*pick, Arc::clone(&block)));
                    block
                }
            };
            Arc::make_mut(&mut self.nodes[at]).hear(self.now, LIAR, liar.pre_prepare(&block));
        }
        // Who must take it has it already or fetches it; who adopts it needs their word.
        let takes = |at: &usize| state.replicas[*at].must_take(height).is_some();
        let (first, then): (Vec<usize>, Vec<usize>) = (0..3).partition(takes);
        for at in first.into_iter().chain(then) {
            let Pick::Old(name) = picks[at] else { continue };
            let block = Arc::clone(&self.blocks[usize::from(name)]);
            Arc::make_mut(&mut self.nodes[at]).fetch(self.now, &block);
            if !takes(&at) {
                let vote =
                    Vote { phase: Phase::Prepare, view, height: block.height(), block: block.id() };
                let message = liar.vote(vote);
                let node = Arc::make_mut(&mut self.nodes[at]);
                node.hear(self.now, LIAR, message);
                self.prepare(at, view, name);
                Arc::make_mut(&mut self.nodes[at]).fetch(self.now, &block);
            }
        }
        self.blocks.extend(made.into_iter().map(|(_, block)| block));
    }

    /// A replica hears which correct replicas accepted a block.
    fn prepare(&mut self, at: usize, view: View, block: Name) {
        let block = self.id(block);
        for other in (0..3).filter(|other| *other != at) {
            let (from, said) =
                (self.nodes[other].me, self.nodes[other].vote(Phase::Prepare, view, &block));
            if let Some(message) = said {
                Arc::make_mut(&mut self.nodes[at]).hear(self.now, from, message);
            }
        }
    }

    /// Tells a replica who prepared the last block of a path, and hands it the path.
    fn tell(&self, node: &mut Node, path: &[Name]) {
        for name in path.iter().filter(|name| **name != 0) {
            node.fetch(self.now, &self.blocks[usize::from(*name)]);
        }
        let Some(tip) = path.iter().rev().find(|name| **name != 0) else { return };
        let tip = self.id(*tip);
        let Some(view) = self.committed_in(&tip) else { return };
        for other in &self.nodes {
            let Some(message) = other.vote(Phase::Commit, view, &tip) else { continue };
            if let Message::Vote { vote, .. } = &message {
                node.hear(self.now, LIAR, self.liar().vote(*vote));
            }
            if other.me != node.me {
                node.hear(self.now, other.me, message);
            }
        }
        for name in path.iter().filter(|name| **name != 0) {
            node.fetch(self.now, &self.blocks[usize::from(*name)]);
        }
    }

    /// The last view in which two correct replicas say that they prepared a block.
    fn committed_in(&self, block: &BlockId) -> Option<View> {
        let mut views: Vec<View> =
            self.nodes.iter().flat_map(|node| node.views(Phase::Commit, block)).collect();
        views.sort_unstable();
        views.windows(2).rev().find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    /// All give up on the view, and on the three after it.
    fn end_view(&mut self, view: View) {
        let to = view.plus(VIEWS);
        let change =
            ViewChange { view: to, stable: None, prepared: Vec::new(), pre_prepared: Vec::new() };
        let signature = quorate_core::base::crypto::Signature::NONE;
        let early = self.liar().change(SignedChange { from: LIAR, change, signature });
        let by_name = |id: u16| self.nodes.iter().position(|node| node.me == ReplicaId(id));
        let (Some(r0), Some(r1), Some(r2)) = (by_name(0), by_name(1), by_name(2)) else { return };
        // r1 goes from view to view, as r0 and the liar do, and nobody else hears of it.
        self.hear_change(r0, r1);
        self.hear_early(r0, &early);
        self.out_of_time(r0);
        self.hear_early(r1, &early);
        for _ in 1..VIEWS {
            self.hear_change(r1, r0);
            self.out_of_time(r1);
            self.hear_change(r0, r1);
        }
        self.hear_early(r2, &early);
        self.hear_change(r2, r1);
        let gave_up =
            self.nodes.iter().all(|node| node.sets().is_some_and(|(view, ..)| view == to));
        self.differs(!gave_up, Difference::Leaving);
    }

    fn out_of_time(&mut self, at: usize) {
        self.now = Time(self.now.0 + LONG_NANOS);
        Arc::make_mut(&mut self.nodes[at]).time_out(self.now);
    }

    fn hear_early(&mut self, at: usize, early: &SignedChange) {
        let message = Message::ViewChange(Box::new(early.clone()));
        Arc::make_mut(&mut self.nodes[at]).hear(self.now, LIAR, message);
    }

    fn hear_change(&mut self, at: usize, from: usize) {
        let Some(change) = self.nodes[from].change.clone() else { return };
        let (from, message) = (self.nodes[from].me, Message::ViewChange(Box::new(change)));
        Arc::make_mut(&mut self.nodes[at]).hear(self.now, from, message);
    }

    /// The model's sets and production's must be the same, and so what can be committed.
    fn compare(&mut self, state: &State) {
        let (name, parent) = (|name| self.id(name), |name| self.parent(name));
        let words = Words { views: VIEWS, id: &name, parent: &parent };
        let same = self.nodes.iter().zip(&state.replicas).all(|(node, replica)| {
            let (prepared, pre_prepared) = words.sets(&replica.places);
            node.sets() == Some((words.view(state.view), &prepared[..], &pre_prepared[..]))
        });
        let committed = self.can_commit(state);
        self.differs(!same, Difference::Sets);
        self.differs(!committed, Difference::Commits);
    }

    /// Whether whoever is told of all votes commits what the model says, and somebody all of it.
    fn can_commit(&self, state: &State) -> bool {
        let heads = self.nodes.each_ref().map(|node| {
            let mut told = Node::clone(node);
            self.tell(&mut told, &state.committed);
            told.head()
        });
        let named = |height: u64| match height {
            0 => self.id(0),
            _ => self.id(state.committed[height as usize - 1]),
        };
        let tip = state.committed.iter().filter(|name| **name != 0).count() as u64;
        let agree = heads.iter().all(|(height, id)| height.0 <= tip && named(height.0) == *id);
        agree && heads.iter().any(|(height, _)| height.0 == tip)
    }
}
