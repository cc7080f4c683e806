//! The rules under a scheduler that goes view by view.
//!
//! A replica in view v holds certificates of views below v only, for one of v or more would take it
//! out of v: so whatever a correct replica does in a view rests on what was certified in earlier
//! ones, and any execution can be put in the order of views without changing what anybody sees.
//! (Protocols of several phases: in the order of views and phases.) This model goes through all
//! executions in that order.
//!
//! - Three correct replicas, a fourth that lies. **It leads every view**: whatever a correct leader
//!   may propose it may as well, so that every election is covered.
//! - Its proposals: any certified block below, with either of two payloads, and any time-out
//!   certificate that there can be; another one to each replica.
//! - A block is certified as soon as two correct replicas voted for it: the liar adds its vote.
//! - **Every replica gives up on every view**, after what it did in it: a replica that did not
//!   would allow fewer time-out certificates and nothing else.
//! - A time-out certificate holds the words of two correct replicas and the liar's, whose high QC
//!   is any certificate: so its highest QC is the higher one of some pair, or any above that.
//! - A replica enters a view by the certificate of the view before or by a time-out certificate,
//!   and knows then what that says. What else it learns of, and when, is up to the scheduler
//!   ([`Scheduler`]).
//! - Certificates commit for whoever comes to know them, and every replica may come to know each:
//!   so all that *some* certificate commits must lie on one chain.
//!
//! Correct replicas are alike: states that differ by their names only are one.

mod state;

pub use state::{Choice, Replica, State};

use std::fmt;
use std::sync::Arc;

use quorate_core::View;
use quorate_core::protocols::hotstuff::rules::Rules;
use stateright::{Model, Property};

/// How much is up to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// Everything: replica after replica votes for any proposal, and is told of any certificate at
    /// any time.
    Full,
    /// What can matter: in each view and phase at most one block is voted for, by two correct
    /// replicas, with the lowest time-out certificate that lets each; and nobody is told of more
    /// than that and what it enters views by. A vote that makes no certificate, a third one, and a
    /// certificate told do nothing but teach a replica something, and no rule lets a replica do
    /// more for knowing more: a lower lock allows all that a higher one does, and a lower high QC
    /// allows more time-out certificates. So this goes deeper with nothing lost; `Full`, at a
    /// smaller depth, does not rest on that argument.
    Sparing,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Rounds {
    /// The rules of the correct replicas.
    pub rules: &'static dyn Rules,
    /// How many views there are.
    pub views: u64,
    /// How much is up to the scheduler.
    pub scheduler: Scheduler,
}

/// What one correct replica, whose turn it is, does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// It is told of the certificate of this number.
    Learn(u8),
    /// It votes for a proposal.
    Vote {
        /// Which one.
        choice: Choice,
        /// The highest QC of the time-out certificate that came with it.
        tc: Option<u8>,
    },
    /// It votes in the next phase for what the certificate of this number is for.
    VoteNext(u8),
    /// It enters the view by the certificate of this number, and does no more.
    Enter(u8),
    /// It does no more.
    Pass,
}

/// A move, with what a reader wants to know of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Step {
    /// In which view.
    pub view: View,
    /// In which phase.
    pub phase: u8,
    /// Whose. Between views replicas are renamed.
    pub replica: u8,
    /// What.
    pub what: Move,
    /// For votes: the view and phase of the justify.
    pub justify: Option<(View, u8)>,
    /// The view of the certificate learned, or of the highest in the time-out certificate.
    pub about: Option<u64>,
}

impl fmt::Debug for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{} phase {} r{}: ", self.view.0, self.phase, self.replica)?;
        let about = self.about.unwrap_or_default();
        match (self.what, self.justify) {
            (Move::Learn(_), _) => write!(f, "learns the certificate of view {about}"),
            (Move::Vote { choice, tc }, Some((on, phase))) => {
                write!(
                    f,
                    "votes for {} on the block of view {}",
                    ["a", "b"][usize::from(choice.variant)],
                    on.0
                )?;
                if phase > 1 {
                    write!(f, " (phase {phase})")?;
                }
                tc.map_or(Ok(()), |_| write!(f, ", TC with high QC {about}"))
            }
            (Move::VoteNext(_), _) => write!(f, "votes on the certificate of this view"),
            (Move::Enter(_), _) => write!(f, "enters by the certificate of view {about}"),
            _ => write!(f, "passes"),
        }
    }
}

impl Model for Rounds {
    type State = State;
    /// The moves of one replica, or of each in turn.
    type Action = Vec<Step>;

    fn init_states(&self) -> Vec<State> {
        vec![State::first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Vec<Step>>) {
        if state.conflict || state.view.0 > self.views {
            return;
        }
        match self.scheduler {
            Scheduler::Full => {
                let moves = state.moves(self.rules);
                actions.extend(moves.into_iter().map(|what| vec![state.describe(what, 0)]));
            }
            Scheduler::Sparing => {
                let rounds = state.rounds(self.rules);
                actions.extend(rounds.into_iter().map(|moves| {
                    moves.iter().zip(0..).map(|(what, turn)| state.describe(*what, turn)).collect()
                }));
            }
        }
    }

    fn next_state(&self, state: &State, steps: Vec<Step>) -> Option<State> {
        let mut next = state.clone();
        for step in steps {
            next.play(self.rules, step.what);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("agreement", |_, state: &State| !state.conflict),
            Property::always("one certificate a view and phase", |_, state: &State| {
                state.certificates.windows(2).all(|pair| pair[0].rank() < pair[1].rank())
            }),
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

/// A certificate, shared between states.
type SharedQc = Arc<quorate_core::protocols::hotstuff::certificate::Qc>;
