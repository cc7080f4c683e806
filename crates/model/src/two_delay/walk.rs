//! Random walks through the model, where it is too large to be explored.

use quorate_sim::rng::Rng;
use stateright::Model as _;

use super::{Move, State, TwoDelay};

/// What walks came upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Walks {
    /// Steps taken.
    pub steps: usize,
    /// Walks with a commit by first votes.
    pub fast: usize,
    /// Walks with a commit by second votes.
    pub slow: usize,
    /// Walks with certificates of different chains.
    pub conflicts: usize,
    /// The first walk that broke something: what, and its steps.
    pub violation: Option<(&'static str, Vec<Move>)>,
}

/// Walks from the first view on until nothing can happen any more, so many times. A kind of step is
/// drawn first, and then one of that kind: otherwise few views would be seen to their end.
#[must_use]
pub fn walks(model: &TwoDelay, walks: u64) -> Walks {
    let mut seen = Walks::default();
    for seed in 0..walks {
        let mut rng = Rng::new(seed);
        let mut state = State::new(model.replicas - model.liars());
        let (mut way, mut fast, mut slow, mut conflicts) = (Vec::new(), false, false, false);
        // How often a view ends before everything was said differs from walk to walk.
        let patience = rng.below(60);
        while let Some(step) = draw(model, &state, patience, &mut rng) {
            state = state.after(model, step);
            way.push(step);
            fast |= state.has_fast_commit(model);
            slow |= state.has_slow_commit(model);
            conflicts |= state.has_conflicting_certificates();
            let broken = [("agreement", !state.agrees()), ("views end", state.is_stuck(model))];
            if let Some((property, _)) = broken.into_iter().find(|(_, is_broken)| *is_broken) {
                seen.violation = Some((property, way));
                return seen;
            }
        }
        seen.steps += way.len();
        seen.fast += usize::from(fast);
        seen.slow += usize::from(slow);
        seen.conflicts += usize::from(conflicts);
    }
    seen
}

fn draw(model: &TwoDelay, state: &State, patience: u64, rng: &mut Rng) -> Option<Move> {
    let mut moves = Vec::new();
    model.actions(state, &mut moves);
    let ends = moves.last() == Some(&Move::Next);
    if ends && moves.len() > 1 {
        moves.pop();
        if rng.below(patience + 1) == 0 {
            return Some(Move::Next);
        }
    }
    let mut kinds = Vec::new();
    for step in &moves {
        let kind = std::mem::discriminant(step);
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() {
        return None;
    }
    let kind = rng.pick(&kinds);
    moves.retain(|step| std::mem::discriminant(step) == kind);
    Some(rng.pick(&moves))
}
