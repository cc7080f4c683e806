//! What the scheduler knows, and what becomes of it by one step.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::choosing::{Basis, Chooser, NewViews};
use super::replica::{Column, Entry, HEIGHTS, Name, Replica, at};
use super::{Bound, Step};
use crate::rounds::Scheduler;

/// What the scheduler decides next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Nothing: what the view can begin with is worked out.
    Begin,
    /// Whether and with what this replica enters the view.
    Enter(u8),
    /// What each accepts at this height.
    Accept(u8),
    /// Where a block of this height is prepared.
    Prepare(u8),
    /// Who learns of what is committed up to this height.
    Know(u8),
}

/// What a replica accepts at a height.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pick {
    /// Nothing.
    None,
    /// What the view began with, there or for another replica.
    Old(Name),
    /// A new block of the primary's, on this one; several to a parent are told apart by numbers.
    New(Name, u8),
}

/// What is worked out of the rest of a state: it tells no states apart.
#[derive(Clone, Debug, Default)]
struct Derived(Arc<NewViews>);

impl Hash for Derived {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl PartialEq for Derived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A state of the [model](super::ViewChanges).
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct State {
    pub(super) view: u8,
    pub(super) stage: Stage,
    pub(super) replicas: [Replica; 3],
    /// The parent of each block, by its name.
    pub(super) parents: Vec<Name>,
    /// What q replicas prepared in some view, and its ancestors.
    pub(super) committed: Column,
    /// Blocks of different chains are committed.
    pub(super) conflict: bool,
    /// A new view follows from q view changes and begins without a committed block.
    pub(super) lost: bool,
    /// A new view begins with a block that no correct replica got from a primary.
    pub(super) made_up: bool,
    /// The view changes of all correct replicas lead to no new view.
    pub(super) stuck: bool,
    new_views: Derived,
}

impl State {
    pub(super) fn first() -> Self {
        let mut first = Self {
            view: 1,
            stage: Stage::Accept(1),
            replicas: Default::default(),
            parents: vec![0],
            committed: Column::default(),
            conflict: false,
            lost: false,
            made_up: false,
            stuck: false,
            new_views: Derived::default(),
        };
        first.replicas.iter_mut().for_each(|replica| replica.enter(Column::default()));
        first
    }

    /// What a view that begins with this rests on.
    pub(super) fn basis(&self, chosen: &Column) -> Option<&Basis> {
        self.new_views.0.all.get(chosen)
    }

    /// Everything that the view can begin with.
    pub(super) fn new_views(&self) -> impl Iterator<Item = &Column> {
        self.new_views.0.all.keys()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.conflict || self.lost || self.made_up || self.stuck
    }

    fn prepared(&self, height: u8) -> impl Iterator<Item = Entry> {
        let all = self.replicas.iter().map(move |replica| replica.places[at(height)].prepared);
        all.filter(|entry| entry.block != 0)
    }

    /// Replicas prepared different blocks at a height.
    pub(super) fn has_rivals(&self) -> bool {
        (1..=HEIGHTS as u8).any(|height| {
            let first = self.prepared(height).next();
            self.prepared(height).any(|entry| Some(entry.block) != first.map(|it| it.block))
        })
    }

    /// A replica entered a view that begins without a block that one prepared.
    pub(super) fn has_dropped(&self) -> bool {
        let entered = self.replicas.iter().filter(|replica| replica.entered);
        let mut lacks = entered.flat_map(|replica| {
            (1..=HEIGHTS as u8).map(|height| (height, replica.chosen[at(height)]))
        });
        lacks.any(|(height, chosen)| {
            let before = |entry: &Entry| entry.view < self.view && entry.block != chosen;
            chosen == 0 && self.prepared(height).any(|entry| before(&entry))
        })
    }

    /// Replicas entered a view with different blocks.
    pub(super) fn is_split(&self) -> bool {
        let mut entered = self.replicas.iter().filter(|replica| replica.entered);
        let first = entered.next().map(|replica| replica.chosen);
        entered.any(|replica| Some(replica.chosen) != first)
    }

    /// A prepared block's parent is not what a later view committed or prepared below it.
    pub(super) fn has_orphan(&self) -> bool {
        (2..=HEIGHTS as u8).any(|height| {
            let parent = |entry: Entry| self.parents[usize::from(entry.block)];
            let below = |entry: Entry| {
                self.prepared(height - 1)
                    .any(|low| low.view > entry.view && low.block != parent(entry))
            };
            self.prepared(height).any(below)
        })
    }

    /// A replica prepared a block again, and the one above it only earlier.
    pub(super) fn is_overtaken(&self) -> bool {
        self.replicas.iter().any(|replica| {
            replica.places.windows(2).any(|pair| {
                let [low, high] = [pair[0].prepared, pair[1].prepared];
                high.block != 0
                    && low.view > high.view
                    && self.parents[usize::from(high.block)] == low.block
            })
        })
    }

    /// All that may happen next.
    pub(super) fn steps(&self, bound: &Bound) -> Vec<Step> {
        match self.stage {
            Stage::Begin if self.shown() != self.replicas => {
                vec![Step::Begin(false), Step::Begin(true)]
            }
            Stage::Begin => vec![Step::Begin(false)],
            Stage::Enter(_) if self.view > bound.views => Vec::new(),
            Stage::Enter(turn) => {
                let chosen = self.new_views.0.all.keys().copied().map(Some).chain([None]);
                let chosen = chosen.filter(|chosen| {
                    bound.scheduler == Scheduler::Full || self.may_enter(turn, *chosen)
                });
                chosen.map(|chosen| Step::Enter(turn, chosen)).collect()
            }
            Stage::Accept(height) => {
                let picks = self.picks(height, bound);
                picks.into_iter().map(|picks| Step::Accept(height, picks)).collect()
            }
            Stage::Prepare(height) => {
                let may = |at: usize| {
                    let block = self.replicas[at].accepted[self::at(height)];
                    let same = |other: &&Replica| other.accepted[self::at(height)] == block;
                    // Its own word, another correct one's, and the liar's make a quorum.
                    self.replicas[at].may_prepare(height)
                        && self.replicas.iter().filter(same).count() >= 2
                };
                each([0, 1, 2].map(may)).map(|who| Step::Prepare(height, who)).collect()
            }
            Stage::Know(height) => {
                let may = |replica: &Replica| {
                    let is_asked = bound.scheduler == Scheduler::Full;
                    let is_new = replica.entered && replica.prepared < height;
                    is_asked && is_new && self.committed[at(height)] != 0
                };
                let who = [0, 1, 2].map(|at: usize| may(&self.replicas[at]));
                each(who).map(|who| Step::Know(height, who)).collect()
            }
        }
    }

    /// Two enter a view alike, or nobody enters it.
    fn may_enter(&self, turn: u8, chosen: Option<Column>) -> bool {
        let entered =
            |at: usize| Some(self.replicas[at].chosen).filter(|_| self.replicas[at].entered);
        turn < 2
            || entered(0) == entered(1)
            || chosen.is_some() && [0, 1].map(entered).contains(&chosen)
    }

    /// What the three may accept at a height, together.
    fn picks(&self, height: u8, bound: &Bound) -> Vec<[Pick; 3]> {
        let must = [0, 1, 2].map(|at: usize| self.replicas[at].must_take(height));
        let parents = [0, 1, 2].map(|at: usize| self.replicas[at].parent(height, &self.committed));
        let options = [0, 1, 2].map(|at: usize| {
            let replica = &self.replicas[at];
            match (must[at], parents[at]) {
                (Some(block), _) if height <= replica.head || replica.holds(height, block) => {
                    vec![Pick::Old(block)]
                }
                (Some(block), _) => vec![Pick::Old(block), Pick::None],
                (None, Some(parent)) => {
                    let mut options = vec![Pick::None];
                    let fits = |block: &Name| self.parents[usize::from(*block)] == parent;
                    options.extend(must.into_iter().flatten().filter(fits).map(Pick::Old));
                    options.extend((0..bound.variants()).map(|number| Pick::New(parent, number)));
                    options.dedup();
                    options
                }
                (None, None) => vec![Pick::None],
            }
        });
        let mut all = Vec::new();
        for first in &options[0] {
            for second in &options[1] {
                for third in &options[2] {
                    all.push([*first, *second, *third]);
                }
            }
        }
        all.retain(|picks| {
            // f + 1 say so of an old block only if one had to take it.
            let is_vouched = picks.iter().all(|pick| match pick {
                Pick::Old(block) => {
                    let takes = |at: usize| must[at] == Some(*block) && picks[at] == *pick;
                    [0, 1, 2].into_iter().any(takes)
                }
                _ => true,
            });
            is_vouched && are_numbered(picks)
        });
        if bound.scheduler == Scheduler::Sparing {
            all.retain(|picks| {
                let pairs = |at: usize| {
                    let same = picks.iter().filter(|pick| **pick == picks[at]).count();
                    same == 2 || options[at].len() == 1
                };
                [0, 1, 2].into_iter().all(|at| picks[at] == Pick::None || pairs(at))
            });
        }
        all
    }

    /// Takes a step. Returns how replicas and blocks are called from then on.
    pub(super) fn take(&mut self, step: &Step, bound: &Bound, chooser: &Chooser) -> Renaming {
        match step {
            Step::Begin(shows) => self.begin(*shows, bound, chooser),
            Step::Enter(turn, chosen) => {
                if let Some(chosen) = chosen {
                    self.replicas[usize::from(*turn)].enter(*chosen);
                }
            }
            Step::Accept(height, picks) => self.accept(*height, picks),
            Step::Prepare(height, who) => {
                for (replica, _) in self.replicas.iter_mut().zip(who).filter(|(_, does)| **does) {
                    replica.prepare(self.view, *height);
                }
                self.commit(*height);
            }
            Step::Know(height, who) => {
                for (replica, _) in self.replicas.iter_mut().zip(who).filter(|(_, does)| **does) {
                    replica.know(self.view, *height, &self.committed);
                }
            }
        }
        self.advance(bound)
    }

    /// The replicas, once all have shown why they forgot blocks.
    pub(super) fn shown(&self) -> [Replica; 3] {
        let mut replicas = self.replicas;
        for proof in self.replicas.map(|replica| replica.forgot) {
            for replica in &mut replicas {
                replica.hear_of(proof);
            }
        }
        replicas
    }

    fn begin(&mut self, shows: bool, bound: &Bound, chooser: &Chooser) {
        let shown = self.shown();
        let waits = !shows && shown != self.replicas;
        if shows {
            self.replicas = shown;
        }
        let new_views = chooser.new_views(self.view, bound.heights, &self.replicas, &self.parents);
        let keeps = |chosen: &Column| {
            let mut committed = chosen.iter().zip(&self.committed);
            committed.all(|(chosen, committed)| *committed == 0 || chosen == committed)
        };
        let is_real =
            |chosen: &Column| chosen.iter().all(|block| usize::from(*block) < self.parents.len());
        self.lost = !new_views.all.keys().all(keeps);
        self.made_up = !new_views.all.keys().all(is_real);
        // Who waits is shown what others forgot.
        self.stuck = new_views.is_stuck && !waits;
        self.new_views = Derived(Arc::new(new_views));
    }

    fn accept(&mut self, height: u8, picks: &[Pick; 3]) {
        let mut made: Vec<(Pick, Name)> = Vec::new();
        for (replica, pick) in self.replicas.iter_mut().zip(picks) {
            let block = match *pick {
                Pick::None => continue,
                Pick::Old(block) => block,
                Pick::New(parent, _) => match made.iter().find(|(known, _)| known == pick) {
                    Some((_, block)) => *block,
                    None => {
                        let block = self.parents.len() as Name;
                        self.parents.push(parent);
                        made.push((*pick, block));
                        block
                    }
                },
            };
            replica.accept(self.view, height, block);
        }
        self.prepare_adopted(height, picks);
    }

    /// Who took a block because f + 1 vouch for it has a quorum for it: they, and itself.
    fn prepare_adopted(&mut self, height: u8, picks: &[Pick; 3]) {
        for (replica, pick) in self.replicas.iter_mut().zip(picks) {
            let is_adopted = matches!(pick, Pick::Old(_)) && replica.chosen[at(height)] == 0;
            if is_adopted && replica.may_prepare(height) {
                replica.prepare(self.view, height);
            }
        }
        self.commit(height);
    }

    /// What two correct replicas prepared in this view can be committed: the liar says that it
    /// did.
    fn commit(&mut self, height: u8) {
        let prepared = self.replicas.iter().map(|replica| replica.places[at(height)].prepared);
        let mut prepared: Vec<Name> =
            prepared.filter(|entry| entry.view == self.view).map(|entry| entry.block).collect();
        prepared.sort_unstable();
        let twice = prepared.windows(2).find(|pair| pair[0] == pair[1]);
        let Some(mut block) = twice.map(|pair| pair[0]) else { return };
        for low in (1..=height).rev() {
            let known = &mut self.committed[at(low)];
            self.conflict |= *known != 0 && *known != block;
            *known = block;
            block = self.parents[usize::from(block)];
        }
    }

    /// Goes on to the next stage at which there is a choice.
    fn advance(&mut self, bound: &Bound) -> Renaming {
        loop {
            let last = bound.heights;
            self.stage = match self.stage {
                Stage::Begin => Stage::Enter(0),
                Stage::Enter(turn) if turn < 2 => Stage::Enter(turn + 1),
                Stage::Enter(_) => Stage::Accept(1),
                Stage::Accept(height) => Stage::Prepare(height),
                Stage::Prepare(height) if height < last => Stage::Know(height),
                Stage::Know(height) => Stage::Accept(height + 1),
                Stage::Prepare(_) => {
                    let view = self.view;
                    self.view += 1;
                    self.replicas.iter_mut().for_each(|replica| replica.leave(view));
                    Stage::Begin
                }
            };
            let is_fixed = match self.stage {
                Stage::Begin | Stage::Enter(_) => break,
                Stage::Accept(_) => self.steps(bound) == [Step::Accept(self.height(), NOTHING)],
                Stage::Prepare(_) => self.steps(bound).len() == 1,
                Stage::Know(_) => self.steps(bound).len() == 1,
            };
            if !is_fixed {
                break;
            }
        }
        match self.stage {
            Stage::Enter(_) => Renaming {
                order: [0, 1, 2],
                names: (0..).map(Some).take(self.parents.len()).collect(),
            },
            _ => self.normalise(),
        }
    }

    fn height(&self) -> u8 {
        match self.stage {
            Stage::Accept(height) | Stage::Prepare(height) | Stage::Know(height) => height,
            Stage::Begin | Stage::Enter(_) => 0,
        }
    }

    /// Correct replicas are alike, and so are blocks: of the states that differ by names alone one
    /// stands for all.
    fn normalise(&mut self) -> Renaming {
        const ORDERS: [[usize; 3]; 6] =
            [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        // Names are compared only where all else is equal.
        let nameless = self.replicas.map(|mut replica| {
            replica.names().for_each(|name| *name = Name::from(*name != 0));
            replica
        });
        let ascends = |order: &&[usize; 3]| {
            nameless[order[0]] <= nameless[order[1]] && nameless[order[1]] <= nameless[order[2]]
        };
        let mut least: Option<(Names, Renaming)> = None;
        for order in ORDERS.iter().filter(ascends) {
            let (state, names) = self.renamed(order.map(|at| self.replicas[at]));
            if least.as_ref().is_none_or(|(known, _)| state < *known) {
                least = Some((state, Renaming { order: *order, names }));
            }
        }
        let (state, renaming) = least.unwrap_or_default();
        (self.replicas, self.parents, self.committed) = state;
        renaming
    }

    fn renamed(&self, mut replicas: [Replica; 3]) -> (Names, Vec<Option<Name>>) {
        let mut names = vec![None; self.parents.len()];
        let (mut parents, mut committed) = (vec![0], self.committed);
        names[0] = Some(0);
        for name in committed.iter_mut().chain(replicas.iter_mut().flat_map(Replica::names)) {
            // Ancestors first.
            let mut path = vec![usize::from(*name)];
            while let Some(last) = path.last().filter(|last| names[**last].is_none()) {
                path.push(usize::from(self.parents[*last]));
            }
            let mut below = path.pop().and_then(|at| names[at]).unwrap_or_default();
            for block in path.into_iter().rev() {
                let new = parents.len() as Name;
                parents.push(below);
                names[block] = Some(new);
                below = new;
            }
            *name = below;
        }
        ((replicas, parents, committed), names)
    }
}

/// What names stand in.
type Names = ([Replica; 3], Vec<Name>, Column);

/// How a state that stands for others names what there is.
#[derive(Clone, Debug, Default)]
pub struct Renaming {
    /// Which replica is the first one now, which the second, which the third.
    pub order: [usize; 3],
    /// The new name of each block, by the old one: none of a block that is not needed any more.
    pub names: Vec<Option<Name>>,
}

const NOTHING: [Pick; 3] = [Pick::None; 3];
const _: () = assert!(HEIGHTS < Name::MAX as usize);

/// New blocks on one parent are numbered in the order of the replicas that accept them.
fn are_numbered(picks: &[Pick; 3]) -> bool {
    let mut last: Vec<(Name, u8)> = Vec::new();
    for pick in picks {
        let Pick::New(parent, number) = *pick else { continue };
        let next = match last.iter_mut().find(|(known, _)| *known == parent) {
            Some((_, next)) => next,
            None => {
                last.push((parent, 0));
                let at = last.len() - 1;
                &mut last[at].1
            }
        };
        if number > *next {
            return false;
        }
        *next = (*next).max(number + 1);
    }
    true
}

/// Every subset of those who may.
fn each(may: [bool; 3]) -> impl Iterator<Item = [bool; 3]> {
    let subsets = (0..8_u8).map(|bits| [0, 1, 2].map(|at| bits & 1 << at != 0));
    subsets.filter(move |who| who.iter().zip(&may).all(|(does, may)| *may || !*does))
}
