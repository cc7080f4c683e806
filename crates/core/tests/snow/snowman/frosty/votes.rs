//! Which votes count together, and how many a proposal gets.

use quorate_core::protocols::snow::snowman::frosty::words::Word;
use quorate_core::protocols::snow::snowman::words::Place;

use super::{Desk, SIX, line, proposal, report, vote};

/// Five votes decide, if they are of one round: in each the same block may be proposed anew, and
/// what was voted for before says nothing of what is reported now.
#[test]
fn votes_of_different_rounds_are_not_counted_together() {
    let (mut desk, _, [base, first, second]) = Desk::split(SIX);
    desk.hear_report(report(1, (1, 1), base, &[first])).unwrap();
    for (from, round) in [(1, 1), (2, 1), (3, 1), (4, 2), (5, 2)] {
        desk.hear_word(from, vote(round, second)).unwrap();
    }
    assert_eq!(desk.committed.len(), 0);
    // The later vote of a replica counts, and no earlier one of it any more.
    for from in 1..4 {
        assert_eq!(desk.committed.len(), 0);
        desk.hear_word(from, vote(2, second)).unwrap();
    }
    assert_eq!(desk.committed.iter().map(Place::of).collect::<Vec<_>>(), [second]);
}

/// Where no block has most reports, a leader may propose either: one that does both gets one vote.
#[test]
fn a_leader_that_proposes_twice_gets_one_vote() {
    let (mut desk, _, places) = Desk::split(SIX);
    let [base, first, second] = places;
    desk.hear_report(report(1, (1, 1), base, &[first])).unwrap();
    let none: &[Place] = &[];
    let of: [&[Place]; 5] = [&[first], &[first], &[second], &[second], none];
    let mut said = Vec::new();
    for block in [second, first] {
        let word = Word::Proposal(proposal((1, 1), base, &[block], &of));
        said.extend(desk.hear_word(1, word).unwrap());
    }
    let said: Vec<String> = said.iter().map(|word| line(word, &places)).collect();
    assert_eq!(said, ["votes for B in 1/1"]);
}
