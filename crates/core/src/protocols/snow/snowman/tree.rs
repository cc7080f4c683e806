//! The blocks above the accepted one, and the choices between them.
//!
//! Every block with children is a choice between these: a Snowflake of its own, whose colours are
//! the children in the order of their arrival. An answer that names a block is one for each of its
//! ancestors, too: a poll moves all choices on the way.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::words::Types;
use crate::base::types::{Height, ReplicaId};
use crate::ledger::block::BlockId;
use crate::protocols::protocol::BlockOf;
use crate::protocols::snow::parameters::Parameters;
use crate::protocols::snow::poll::{Colour, Outcome};
use crate::protocols::snow::random::Random;
use crate::protocols::snow::snowflake_plus::{Condition, SnowflakePlus};

/// The most children of a block that are remembered.
const MAX_CHILDREN: usize = 1024;

/// A choice between the children of a block.
#[derive(Clone, Debug)]
struct Choice {
    /// By colour. `None`: it was forgotten.
    children: Vec<Option<BlockId>>,
    flake: SnowflakePlus,
    /// The first poll that can have been about it.
    since: u64,
}

impl Choice {
    fn preferred(&self) -> Option<BlockId> {
        let Colour(colour) = self.flake.colour()?;
        *self.children.get(usize::from(colour))?
    }

    /// The seats for any of these children.
    fn seats(&self, tally: &Tally) -> u32 {
        let children = self.children.iter().flatten();
        children.filter_map(|child| tally.get(child)).map(|support| support.seats).sum()
    }

    /// The seats for siblings of what is preferred.
    fn against(&self, tally: &Tally) -> u32 {
        let preferred = self.preferred().and_then(|child| tally.get(&child));
        self.seats(tally) - preferred.map_or(0, |support| support.seats)
    }
}

/// One answer: a block that is known here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vote {
    pub block: BlockId,
    /// For how many seats it counts.
    pub seats: u32,
    /// The height up to which the sender says that it has accepted.
    pub accepted: Height,
}

/// What the answers of a poll say of each block.
type Tally = BTreeMap<BlockId, Support>;

/// The support of one block.
#[derive(Clone, Copy, Debug, Default)]
struct Support {
    seats: u32,
    /// The seats of those who say that they have accepted it.
    accepted: u32,
}

/// The blocks above the accepted one.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    root: BlockId,
    blocks: BTreeMap<BlockId, BlockOf<Types>>,
    choices: BTreeMap<BlockId, Choice>,
    rules: Rules,
}

/// What a poll takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// k, α and β.
    pub parameters: Parameters,
    /// Whether each poll asks everybody.
    pub asks_all: bool,
    /// f + 1: of so many seats one is of a correct replica.
    pub witness: u32,
    /// Fewer than a fifth: how many may lie without harm.
    pub liars: u32,
}

/// What the answers of a poll say.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answers<'a> {
    /// The number of the poll.
    pub poll: u64,
    /// The blocks that were named, and for how many seats.
    pub votes: &'a [Vote],
    /// What those who have not answered said in polls before, if everybody is asked.
    pub last_words: &'a [Vote],
    /// The seats that may answer still.
    pub waiting: u32,
}

impl Answers<'_> {
    /// The seats that named a block that is known here. What others prefer may rest on any.
    fn named(&self) -> u32 {
        self.votes.iter().map(|vote| vote.seats).sum()
    }
}

fn flake(parameters: Parameters, colour: Option<Colour>) -> SnowflakePlus {
    let Parameters { quorum, decision: polls, .. } = parameters;
    let seats = planted!("snowman-accepts-by-a-majority", parameters.sample / 2 + 1, quorum);
    // Which outcomes change a colour is decided by the tree.
    match SnowflakePlus::new(colour, 1, &[Condition { seats, polls }]) {
        Ok(flake) => flake,
        Err(invalid) => unreachable!("parameters are checked: {invalid}"),
    }
}

impl Tree {
    /// No block above `root`.
    pub fn new(root: BlockId, rules: Rules) -> Self {
        let (blocks, choices) = Default::default();
        Self { root, blocks, choices, rules }
    }

    fn flake(&self, colour: Option<Colour>) -> SnowflakePlus {
        flake(self.rules.parameters, colour)
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there is nothing to decide.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The block of this name.
    pub fn get(&self, id: &BlockId) -> Option<&BlockOf<Types>> {
        self.blocks.get(id)
    }

    /// Whether a block can be put on this one.
    pub fn reaches(&self, id: &BlockId) -> bool {
        *id == self.root || self.blocks.contains_key(id)
    }

    /// The child of a block that this replica made.
    pub fn child_by(&self, parent: &BlockId, proposer: ReplicaId) -> Option<BlockId> {
        let mut children = self.choices.get(parent)?.children.iter().flatten();
        children.find(|id| self.get(id).is_some_and(|block| block.proposer == proposer)).copied()
    }

    /// Takes in a block; polls from `poll` on are about it. `false`: its parent is not here, or it
    /// is here already, or has too many siblings.
    pub fn insert(&mut self, block: &BlockOf<Types>, poll: u64) -> bool {
        let (id, parent) = (block.id(), block.parent());
        if !self.reaches(&parent) || self.reaches(&id) {
            return false;
        }
        if !self.choices.contains_key(&parent) {
            let flake = self.flake(None);
            self.choices.insert(parent, Choice { children: Vec::new(), flake, since: poll });
        }
        let Some(choice) = self.choices.get_mut(&parent) else { return false };
        if choice.children.len() >= MAX_CHILDREN {
            return false;
        }
        choice.flake.asked(Colour(choice.children.len() as u16));
        choice.children.push(Some(id));
        self.blocks.insert(id, Arc::clone(block));
        true
    }

    /// The blocks from the root up to `tip`; `None` if one is not here.
    pub fn path(&self, tip: &BlockId) -> Option<Vec<BlockOf<Types>>> {
        let mut path = Vec::new();
        let mut id = *tip;
        while id != self.root {
            let block = self.blocks.get(&id)?;
            path.push(Arc::clone(block));
            id = block.parent();
        }
        path.reverse();
        Some(path)
    }

    /// The blocks that are preferred, from the root up.
    pub fn preferred(&self) -> Vec<BlockOf<Types>> {
        let mut path: Vec<BlockOf<Types>> = Vec::new();
        let mut id = self.root;
        while let Some(next) = self.choices.get(&id).and_then(Choice::preferred) {
            let Some(block) = self.blocks.get(&next) else { break };
            path.push(Arc::clone(block));
            id = next;
        }
        path
    }

    /// The last block that is preferred.
    pub fn tip(&self) -> BlockId {
        self.preferred().last().map_or(self.root, |block| block.id())
    }

    /// Prefers the way up to `tip`, as before a restart.
    pub fn prefer(&mut self, tip: &BlockId) {
        for block in self.path(tip).unwrap_or_default() {
            let (id, parent) = (block.id(), block.parent());
            let children = self.choices.get(&parent).map(|choice| &choice.children);
            let place = children.and_then(|all| all.iter().position(|child| *child == Some(id)));
            let flake = self.flake(place.map(|place| Colour(place as u16)));
            if let Some(choice) = self.choices.get_mut(&parent) {
                choice.flake = flake;
            }
        }
    }

    /// Preferences stay, and all polls in a row begin anew.
    pub fn forget_counts(&mut self) {
        let parameters = self.rules.parameters;
        for choice in self.choices.values_mut() {
            choice.flake = flake(parameters, choice.flake.colour());
        }
    }

    /// The support of each named block and of its ancestors.
    fn tally<'a>(&self, votes: impl IntoIterator<Item = &'a Vote>) -> Tally {
        let mut tally = Tally::new();
        for vote in votes {
            for block in self.path(&vote.block).unwrap_or_default() {
                let support = tally.entry(block.id()).or_default();
                support.seats += vote.seats;
                if block.height() <= vote.accepted {
                    support.accepted += vote.seats;
                }
            }
        }
        tally
    }

    /// The child with most seats. Among everybody one goes before it that f + 1 say they have
    /// accepted: one of them is correct, and cannot turn any more. A tie goes to a child that more
    /// than may lie say they have accepted, else to the lowest name.
    fn best(&self, choice: &Choice, tally: &Tally) -> Option<Outcome> {
        let colours = choice.children.iter().enumerate();
        let named = colours.filter_map(|(colour, child)| {
            let child = (*child)?;
            let said = tally.get(&child)?;
            let accepted = if self.rules.asks_all { said.accepted } else { 0 };
            let witness = planted!("snowman-one-claim-turns", 1, self.rules.witness);
            let claims = planted!("snowman-ties-turn-from-accepted", 0, accepted);
            let in_a_tie = claims > self.rules.liars;
            let rank = (accepted >= witness, said.seats, in_a_tie, Reverse(child));
            Some((rank, Colour(colour as u16)))
        });
        named.max().map(|((_, seats, ..), colour)| Outcome { colour, seats })
    }

    /// Whether no further answer changes what the poll says of the lowest choice: the seats that
    /// wait are not needed; or they are too few, also to [turn](Self::is_majority) this replica,
    /// and enough have named known blocks to [break a tie](Self::breaks_tie). What it then leaves
    /// open higher up counts as unsuccessful. It does not wait for more: the answers would be old
    /// by the time that a liar gives the last one.
    pub fn is_final(&self, answers: Answers<'_>) -> bool {
        let Some(choice) = self.choices.get(&self.root) else { return true };
        let (tally, quorum) = (self.tally(answers.votes), self.rules.parameters.quorum);
        let best = self.best(choice, &tally).map_or(0, |best| best.seats);
        let most_against = choice.against(&tally) + answers.waiting;
        let may_turn = self.is_majority(most_against) && !self.is_majority(best);
        let is_lost = best + answers.waiting < quorum && answers.named() >= quorum;
        answers.waiting == 0 || best >= quorum || is_lost && !may_turn
    }

    /// α₁ of Snowflake+: more than half of the sample turns a replica. Among everybody nothing
    /// below α does so by itself.
    fn is_majority(&self, seats: u32) -> bool {
        !self.rules.asks_all && 2 * seats > self.rules.parameters.sample
    }

    /// A poll has ended. Says whether it was successful for the lowest choice.
    pub fn polled(&mut self, answers: Answers<'_>, random: &mut Random) -> bool {
        let tally = self.tally(answers.votes);
        let all = self.tally(answers.votes.iter().chain(answers.last_words));
        let quorum = self.rules.parameters.quorum;
        let mut successful = false;
        let parents: Vec<BlockId> = self.choices.keys().copied().collect();
        for parent in parents {
            let is_of = |it: &&Choice| {
                planted!("snowman-polls-before-the-block-count", true, answers.poll >= it.since)
            };
            let Some(choice) = self.choices.get(&parent).filter(is_of) else {
                continue;
            };
            let best = self.best(choice, &tally);
            let is_clear = |it: &Outcome| it.seats >= quorum || self.is_majority(it.seats);
            let outcome = best.filter(is_clear).or_else(|| {
                let best = self.best(choice, &all)?;
                let turns = self.breaks_tie(choice, best, answers, &all) && random.below(2) == 0;
                // A poll succeeds by its own answers alone.
                turns.then_some(Outcome { seats: best.seats.min(quorum - 1), ..best })
            });
            successful |= parent == self.root && best.is_some_and(|best| best.seats >= quorum);
            if let Some(choice) = self.choices.get_mut(&parent) {
                choice.flake.polled(outcome);
            }
        }
        successful
    }

    /// Whether a coin decides if the best child is preferred from now on, though it has too few
    /// seats by itself: more than half of the sample prefers siblings of the own preference. Among
    /// everybody, where that is one of the seats, it takes enough that name a known block in this
    /// poll, and enough for these children with the last words of the others.
    fn breaks_tie(
        &self,
        choice: &Choice,
        best: Outcome,
        answers: Answers<'_>,
        tally: &Tally,
    ) -> bool {
        let is_split = match self.rules.asks_all {
            true => {
                let seats = choice.seats(tally).min(answers.named());
                let are_enough = seats >= self.rules.parameters.quorum;
                planted!("snowman-unknown-blocks-break-ties", true, are_enough)
            }
            false => {
                let is_against = self.is_majority(choice.against(tally));
                planted!("snowman-turns-on-a-tie", true, is_against)
            }
        };
        is_split && choice.flake.colour() != Some(best.colour)
    }

    /// The child of the root that is decided.
    pub fn decided(&self) -> Option<BlockOf<Types>> {
        let choice = self.choices.get(&self.root)?;
        let Colour(colour) = choice.flake.decided()?;
        let child = (*choice.children.get(usize::from(colour))?)?;
        self.blocks.get(&child).cloned()
    }

    /// A child of the root is accepted: the tree grows from it, and its siblings are rejected with
    /// all on top of them. Returns how many blocks those are.
    pub fn accept(&mut self, child: &BlockId) -> usize {
        let before = self.blocks.len();
        self.blocks.remove(child);
        self.root = *child;
        let mut kept = BTreeSet::new();
        let mut open = vec![*child];
        while let Some(id) = open.pop() {
            let children = self.choices.get(&id).into_iter().flat_map(|it| &it.children);
            for child in children.flatten() {
                kept.insert(*child);
                open.push(*child);
            }
        }
        self.choices.retain(|id, _| id == child || kept.contains(id));
        self.blocks.retain(|id, _| kept.contains(id));
        before - 1 - self.blocks.len()
    }

    /// Forgets the blocks that are not on the way to any of these, and not preferred.
    pub fn keep_ways_to(&mut self, tips: &[BlockId]) {
        let ways = tips.iter().filter_map(|tip| self.path(tip)).flatten();
        let kept: BTreeSet<_> = ways.chain(self.preferred()).map(|block| block.id()).collect();
        self.blocks.retain(|id, _| kept.contains(id));
        for choice in self.choices.values_mut() {
            choice.children.iter_mut().for_each(|place| {
                place.take_if(|child| !kept.contains(child));
            });
        }
        let root = self.root;
        self.choices.retain(|id, choice| {
            (*id == root || kept.contains(id)) && choice.children.iter().any(Option::is_some)
        });
    }

    /// A later state was taken over: grows from its block, with the blocks above it.
    pub fn install(&mut self, root: BlockId) {
        let tip = self.tip();
        let mut above: Vec<_> = std::mem::take(&mut self.blocks).into_values().collect();
        above.sort_by_key(|block| block.height());
        *self = Self::new(root, self.rules);
        for block in &above {
            self.insert(block, 0);
        }
        self.prefer(&tip);
    }

    /// How many polls in a row the lowest choice has been the same.
    pub fn counter(&self) -> u32 {
        self.choices.get(&self.root).map_or(0, |choice| choice.flake.most_counted())
    }
}
