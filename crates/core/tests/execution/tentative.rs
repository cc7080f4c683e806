//! A block that is executed before it is committed: nothing of it is seen but its outcomes, and
//! nothing is left of it if it is not committed.

use bytes::Bytes;
use quorate_core::base::crypto::Signature;
use quorate_core::base::wire::{Decode as _, Encode as _};
use quorate_core::client::message::{Outcome, Response};
use quorate_core::ledger::execution::Execution;
use quorate_core::ledger::frame::SharedFrame;
use quorate_core::ledger::sessions::{Limits, Standing};
use quorate_core::{Digest, Height, View};

use crate::fixtures::*;

const OTHER: Digest = Digest([77; 32]);

/// The outcomes of executing `frames` tentatively as the next block.
fn tentatively(state: &mut Execution<Journal>, frames: &[SharedFrame]) -> Option<Vec<Outcome>> {
    let height = state.height().next();
    let executed = state.execute_tentatively(height, View(height.0), OTHER, frames);
    let outcomes = executed.expect("the journal counts right")?;
    Some(outcomes.into_iter().map(|(_, outcome)| outcome).collect())
}

/// A state with a session, in which a command was executed.
fn begun() -> Execution<Journal> {
    let mut state = state(Limits::default());
    execute(&mut state, &[open(1, 1), frame(1, 1, 1, &["a"])]);
    state
}

/// All that leaves a replica of its state.
fn seen(state: &Execution<Journal>) -> (Height, Digest, Vec<Bytes>, Bytes, Option<u64>) {
    let chunks = chunks_of(&state.snapshot());
    let next = state.sessions().next_number(quorate_core::SessionId(1)).map(|next| next.0);
    (state.height(), state.state_root(), chunks, state.query(b"how many"), next)
}

#[test]
fn nothing_is_seen_of_a_block_before_it_is_committed_and_nothing_after_it_is_not() {
    let mut state = begun();
    let before = seen(&state);
    let frames = [frame(1, 1, 2, &["b"]), open(2, 1)];
    let told = tentatively(&mut state, &frames).expect("it is the next block");
    assert_eq!(told, [executed(1, 2, 1, &["b"]), opened(1, 2)]);
    assert!(state.is_tentative());
    assert_eq!(seen(&state), before);
    assert_eq!(state.standing(&frames[0]), Standing::New);
    // Asked again, in another view, it says the same.
    assert_eq!(tentatively(&mut state, &frames), Some(told));
    state.roll_back();
    assert!(!state.is_tentative());
    assert_eq!(seen(&state), before);
    let mut plain = begun();
    let next = [frame(1, 1, 2, &["c"]), open(3, 1)];
    assert_eq!(execute(&mut state, &next), execute(&mut plain, &next));
    assert_eq!(seen(&state), seen(&plain));
}

#[test]
fn what_a_block_led_to_stays_when_it_is_committed() {
    let (mut state, mut plain) = (begun(), begun());
    for round in 2..6 {
        let frames = [frame(1, 1, round, &["b"]), open(round as u8, 1)];
        let told = tentatively(&mut state, &frames).expect("it is the next block");
        let height = state.height().next();
        let kept = state.execute(height, View(height.0), OTHER, &frames).expect("it is executed");
        let executed = plain.execute(height, View(height.0), OTHER, &frames);
        assert_eq!(
            kept.outcomes.iter().map(|(_, outcome)| outcome.clone()).collect::<Vec<_>>(),
            told
        );
        assert_eq!(Ok(kept), executed);
        assert_eq!(seen(&state), seen(&plain));
    }
}

#[test]
fn another_block_takes_the_place_of_one_that_is_not_committed() {
    let (mut state, mut plain) = (begun(), begun());
    tentatively(&mut state, &[frame(1, 1, 2, &["b"]), open(2, 1)]).expect("it is the next block");
    let next = [frame(1, 1, 2, &["c", "d"])];
    assert_eq!(execute(&mut state, &next), execute(&mut plain, &next));
    assert_eq!(seen(&state), seen(&plain));
    assert!(!state.is_tentative());
}

#[test]
fn only_the_next_block_is_executed_and_only_where_it_can_be_undone() {
    let mut state = begun();
    let above = state.height().next().next();
    assert_eq!(state.execute_tentatively(above, View(3), OTHER, &[]), Ok(None));
    assert!(!state.is_tentative());
    let is_final = Journal { is_final: true, ..Journal::default() };
    let mut state = Execution::new(is_final, Limits::default(), GENESIS).expect("limits of use");
    assert_eq!(tentatively(&mut state, &[open(1, 1)]), None);
    assert_eq!(outcomes(&mut state, &[open(1, 1)]), [opened(1, 1)]);
}

#[test]
fn a_tentative_outcome_is_read_as_it_was_written() {
    let (view, outcome) = (View(9), executed(1, 2, 1, &["b"]));
    let response = Response::Tentative { view, outcome, signature: Signature::from([5; 64]) };
    assert_eq!(Response::from_bytes(response.to_bytes().into()), Ok(response));
}
