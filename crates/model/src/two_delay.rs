//! The protocol of two delays, view by view.
//!
//! The correct replicas decide by production's
//! [`Firsts`](quorate_core::protocols::two_delay::choice::Firsts); liars are there in every way
//! that signatures allow. As in [`rounds`](crate::rounds), any execution can be put in the order of
//! views: what a correct replica says in a view rests on first votes of that view and on
//! certificates of earlier ones. Nothing that was said gets lost or is withdrawn, and a reader may
//! have any part of it. So a state is what correct replicas said, and a step is allowed if *some*
//! part of it, with some words of the liars, allows it.
//!
//! - f liars, and **one of them leads every view**: whatever a correct leader proposes, it may
//!   propose as well. Its blocks: on any certified block that a certificate of the view before
//!   justifies, with either of two payloads; another one to each replica.
//! - Liars vote for everything: a block is certified as soon as q − f correct replicas voted for
//!   it, and committed as soon as F − f did so first, or q − f a second time. Blank votes are
//!   shown where they help: they count against every block. Their time-outs name no certificate.
//! - Every reader may know that the leader signed two blocks, or not.
//! - A view may end at any time, with whatever was said. A replica enters the next one by a
//!   certificate of this view, if there is one. A block that was certified or committed stays so.
//! - [`Scheduler::Sparing`]: a replica enters by the time-out certificate that names the lowest
//!   view, if there is one, and learns of no certificate otherwise. A replica with a lower high QC
//!   is allowed all that one with a higher QC is, and its time-outs justify more.
//!   [`Scheduler::Full`] does not rest on that argument.
//!
//! Correct replicas are alike: states that differ by their names only are one.

pub mod campaign;
mod mutant;
mod state;
mod walk;

pub use mutant::Rule;
pub use state::{Block, Replica, State};
pub use walk::{Walks, walks};

use std::fmt;

use quorate_core::base::membership::{faults, quorum};
use quorate_core::protocols::two_delay::choice::Counts;
use stateright::{Model, Property};

use crate::report::{Run, run};
use crate::rounds::Scheduler;

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct TwoDelay {
    /// How many replicas there are, liars included.
    pub replicas: usize,
    /// How many views there are.
    pub views: u8,
    /// How many blocks of a view correct replicas vote for, at most.
    pub blocks: usize,
    /// How much is up to the scheduler.
    pub scheduler: Scheduler,
    /// What correct replicas do.
    pub rule: Rule,
}

/// What happens next; replicas by their place in the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A replica enters the view by the certificate of the view before, or by a time-out
    /// certificate of it.
    Enter(usize, By),
    /// A replica learns of a certificate of an earlier view.
    Learn(usize, u8),
    /// Its first vote in the view; `None` is blank.
    First(usize, Option<Block>),
    /// A fallback vote.
    Fallback(usize, Block),
    /// A second vote for the block of this number.
    Second(usize, u8),
    /// A time-out.
    GiveUp(usize),
    /// The next view begins.
    Next,
}

/// What a view is entered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// A QC of the view before.
    Qc,
    /// A TC of the view before.
    Tc,
}

impl TwoDelay {
    /// How many replicas lie; the leader of every view is one of them.
    #[must_use]
    pub fn liars(&self) -> usize {
        faults(self.replicas)
    }

    /// How many correct replicas make a quorum with the liars.
    #[must_use]
    pub fn correct_quorum(&self) -> usize {
        quorum(self.replicas) - self.liars()
    }

    /// The counts of the correct replicas.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.rule.counts(Counts::of(self.replicas))
    }
}

impl fmt::Display for TwoDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replicas, views, blocks, scheduler, rule } = self;
        match rule {
            Rule::Right => write!(f, "two delays, n = {replicas}, ")?,
            wrong => write!(f, "two delays that {}, ", wrong.name())?,
        }
        write!(f, "{views} views, {blocks} blocks each, {scheduler:?}")
    }
}

impl Model for TwoDelay {
    type State = State;
    type Action = Move;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self.replicas - self.liars())]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Move>) {
        state.moves(self, actions);
    }

    fn next_state(&self, state: &State, action: Move) -> Option<State> {
        Some(state.after(self, action))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("agreement", |_, state: &State| state.agrees()),
            Property::always("views end", |model: &Self, state: &State| !state.is_stuck(model)),
            Property::sometimes("fast commits", |model: &Self, state: &State| {
                state.has_fast_commit(model)
            }),
            Property::sometimes("slow commits", |model: &Self, state: &State| {
                state.has_slow_commit(model)
            }),
            Property::sometimes("conflicting certificates", |_, state: &State| {
                state.has_conflicting_certificates()
            }),
            Property::sometimes("views given up", |_, state: &State| state.tc.is_some()),
        ]
    }
}

/// Explores the model.
#[must_use]
pub fn explore(model: TwoDelay, threads: usize) -> Run {
    run(&model.to_string(), model, threads)
}
