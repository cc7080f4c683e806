//! The production driver under a scheduler that goes view by view.
//!
//! The same executions as in [`rounds`](crate::rounds), but three correct replicas run the real
//! `HotStuff`: messages with signatures that are checked, the pacemaker, the safety record, one
//! tree a replica that is pruned at each commit, blocks that are missing and fetched. The liar
//! leads every view and hands round what can exist: proposals, votes made into certificates,
//! time-outs made into certificates.
//!
//! Agreement is judged by what replicas commit: whenever something is certified, each is told of
//! it in a copy of the world, and what the copies commit must agree.

mod node;
mod state;

use std::fmt;

use quorate_core::View;
use quorate_core::protocols::hotstuff::rules::Rules;
use stateright::{Model, Property};

use crate::rounds::Scheduler;
pub use node::{LIAR, Node};
pub use state::State;

/// The model.
#[derive(Clone, Debug)]
pub struct Driver {
    /// The rules of the correct replicas.
    pub rules: &'static dyn Rules,
    /// How many views there are.
    pub views: u64,
    /// How much is up to the scheduler.
    pub scheduler: Scheduler,
}

/// What happens to one correct replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It gets a proposal.
    Proposal {
        /// The number of the justify.
        justify: u8,
        /// Which of two payloads.
        variant: u8,
        /// The highest QC of the time-out certificate that comes with it.
        tc: Option<u8>,
    },
    /// It gets the certificate of the phase before, of this number.
    Certificate(u8),
    /// It enters the view by the certificate of this number.
    Enter(u8),
    /// It enters the view by the time-out certificate with the lowest high QC.
    EnterByTimeOuts,
    /// Nothing (in later phases only).
    Nothing,
}

/// What happens in one step, and in which view and phase.
#[derive(Clone, PartialEq, Eq)]
pub struct Step {
    view: View,
    phase: u8,
    first: u8,
    moves: Vec<Move>,
    /// All of it is votes, where it is a proposal or a certificate.
    all_vote: bool,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{} phase {}:", self.view.0, self.phase)?;
        for (what, replica) in self.moves.iter().zip(self.first..) {
            write!(f, " r{replica} {what:?};")?;
        }
        Ok(())
    }
}

impl Model for Driver {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self.rules)]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.conflict || state.view.0 > self.views {
            return;
        }
        let step = |first, moves, all_vote| Step {
            view: state.view,
            phase: state.phase,
            first,
            moves,
            all_vote,
        };
        match self.scheduler {
            Scheduler::Full => {
                let moves = state.moves(self.rules);
                steps.extend(moves.into_iter().map(|what| step(state.turn, vec![what], false)));
            }
            Scheduler::Sparing => {
                let rounds = state.rounds(self.rules);
                steps.extend(rounds.into_iter().map(|moves| step(0, moves.to_vec(), true)));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        for what in step.moves {
            let voted = next.play(what);
            let asks_for_vote = matches!(what, Move::Proposal { .. } | Move::Certificate(_));
            if step.all_vote && asks_for_vote && !voted {
                return None;
            }
        }
        next.end_turn(self.rules);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("agreement", |_, state: &State| !state.conflict),
            Property::always("vote uniqueness", |_, state: &State| !state.broke_a_vow()),
            Property::sometimes("a block is committed", |_, state: &State| state.has_committed()),
            Property::sometimes("two conflicting blocks are certified", |_, state: &State| {
                state.forked
            }),
            Property::sometimes("a commit beside a conflicting certificate", |_, state: &State| {
                state.forked && state.has_committed()
            }),
        ]
    }
}
