//! PBFT's view changes, with a pipeline of blocks that have parents.
//!
//! Three correct replicas and a liar, which **leads every view**: whatever a correct primary may
//! order, it may as well. [`ViewChanges`] goes through all executions view by view, and in a view
//! height by height:
//!
//! - **New views are chosen by production's code**, from view changes in production's types. The
//!   liar tries every lie, with the view changes of any two correct replicas or of all three
//!   (`choosing`). It may show each replica another new view, or none.
//! - A replica accepts what its view began with, as far as it has that or fetches it. Above that it
//!   accepts a new block of the primary's on the one below, another one at each replica; or what
//!   f + 1 vouch for, because another replica's view began with it.
//! - A block that two correct replicas accepted in a view may be prepared at each of these, if all
//!   below is: the liar accepts everything. What two of them prepared may be committed.
//! - A replica may learn at any height what is committed there, and goes on above it.
//! - Then all give up the view: their sets P and Q are their view changes.
//!
//! A replica is its sets P and Q here (`replica`). [`Driver`] runs production's replicas beside
//! it: they take each step as well, and have to come to the same sets and commits.
//!
//! # Why view by view
//! A vote counts in its view alone, and a view change is of a replica that left all views below. So
//! what happens in a view rests on what was done in earlier ones. There is one exception, which the
//! model leaves out: a replica that is still in an earlier view learns what a later one commits,
//! and goes on in the earlier one above that. Both correct others are in the later view then. So
//! the replica alone casts votes of the earlier view, and nothing more is committed there.
//!
//! Correct replicas are alike, and so are blocks: states that differ by names only are one.

pub mod campaign;
mod choosing;
mod driver;
mod mutant;
mod node;
mod real;
mod replica;
mod state;

use std::fmt;
use std::sync::Arc;

use stateright::{Model, Property};

pub use choosing::{Basis, Chooser, LIAR, NewViews};
pub use driver::{Driven, Driver};
pub use mutant::Rule;
pub use replica::{Column, Entry, HEIGHTS, Name, Place, Replica};
pub use state::{Pick, Stage, State};

use crate::rounds::Scheduler;

/// How much is explored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// Views in which replicas act. What the next one may begin with is checked as well.
    pub views: u8,
    /// Heights, at most [`HEIGHTS`].
    pub heights: u8,
    /// How much is up to the scheduler. `Sparing` leaves out new blocks that one correct replica
    /// alone accepts, or all three: two of them make a quorum with the liar, and any q view
    /// changes contain one of these. It lets two replicas enter a view with the same blocks, and
    /// the third one with any, or nobody. Nobody learns of commits.
    pub scheduler: Scheduler,
}

impl Bound {
    /// How many different blocks on one parent a primary sends in a view.
    fn variants(&self) -> u8 {
        match self.scheduler {
            Scheduler::Full => 2,
            Scheduler::Sparing => 1,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { views, heights, scheduler } = self;
        write!(f, "{views} views, heights to {heights}, {scheduler:?}")
    }
}

/// The model.
#[derive(Clone, Debug)]
pub struct ViewChanges {
    /// How much is explored.
    pub bound: Bound,
    /// How new views are chosen.
    pub chooser: Arc<Chooser>,
}

/// What happens next. Replicas and blocks are called as in the state before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// All gave up on the last view. They show each other why they forgot blocks, or do not. The
    /// liar makes its new views.
    Begin(bool),
    /// A replica enters the view with these blocks, or stays out.
    Enter(u8, Option<Column>),
    /// The replicas accept blocks at a height.
    Accept(u8, [Pick; 3]),
    /// A block is prepared at some replicas.
    Prepare(u8, [bool; 3]),
    /// Some replicas learn what is committed.
    Know(u8, [bool; 3]),
}

impl Model for ViewChanges {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::first()]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if !state.is_broken() {
            steps.extend(state.steps(&self.bound));
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        next.take(&step, &self.bound, &self.chooser);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always("agreement", |_, state: &State| !state.conflict),
            Property::always("committed blocks stay", |_, state: &State| !state.lost),
            Property::always("nothing is made up", |_, state: &State| !state.made_up),
            Property::always("no view is stuck", |_, state: &State| !state.stuck),
            Property::sometimes("a block is committed", |_, state: &State| state.committed[0] != 0),
            Property::sometimes("different blocks are prepared at a height", |_, state: &State| {
                state.has_rivals()
            }),
            Property::sometimes("a prepared block is dropped", |_, state: &State| {
                state.has_dropped()
            }),
            Property::sometimes("replicas enter a view with different blocks", |_, state| {
                State::is_split(state)
            }),
        ];
        if self.bound.heights > 1 {
            properties.extend([
                Property::sometimes(
                    "a prepared block has another parent than was prepared later",
                    |_, state| State::has_orphan(state),
                ),
                Property::sometimes(
                    "a block is prepared again and the next one is not",
                    |_, state| State::is_overtaken(state),
                ),
            ]);
        }
        properties
    }
}
