//! The protocol of two delays: a small part of what `make model` explores, every wrong rule, and
//! the two counterexamples to a view change that looks at last votes alone.

use quorate_model::campaign::Depth;
use quorate_model::rounds::Scheduler;
use quorate_model::two_delay::{Block, Move, Rule, State, TwoDelay, campaign};
use stateright::Model as _;

fn four(views: u8, rule: Rule) -> TwoDelay {
    TwoDelay { replicas: 4, views, blocks: 2, scheduler: Scheduler::Sparing, rule }
}

fn seven(views: u8, rule: Rule) -> TwoDelay {
    TwoDelay { replicas: 7, ..four(views, rule) }
}

#[test]
fn no_views_part_the_replicas_or_have_no_end() {
    let mut runs = 0;
    campaign::rules(Depth::Quick, 1, |run, held| {
        assert!(held, "{run}: {:#?}", run.violation);
        runs += 1;
    });
    assert_eq!(runs, 3);
}

#[test]
fn every_wrong_rule_is_found() {
    let mut found = Vec::new();
    campaign::mutants(1, |run| found.push(run.violation.clone().map(|(property, _)| property)));
    assert_eq!(found, [Some("agreement"); 8]);
}

/// With seven replicas a commit by one first vote too few is one by n − f.
#[test]
fn commits_by_n_minus_f_first_votes_are_found_with_seven() {
    let run = campaign::seven(Rule::FastTooEarly, 2_000);
    assert!(run.violation.is_some(), "{run}");
}

/// What the last vote of a replica says: a view, and the block of it.
type Status = (u8, char);

/// The common rule: the highest view that a status names, and of its blocks the one with most
/// votes, if there are enough. Otherwise the leader is free.
fn simple_choice(statuses: &[Status], enough: usize) -> Option<char> {
    let highest = statuses.iter().map(|(view, _)| *view).max()?;
    let at = statuses.iter().filter(|(view, _)| *view == highest).map(|(_, block)| *block);
    let votes = |block: char| at.clone().filter(|other| *other == block).count();
    at.clone().max_by_key(|block| votes(*block)).filter(|block| votes(*block) >= enough)
}

/// View 1 of `model` with so many first votes of correct replicas for one block, blank ones of the
/// others, and everything said that may be. Returns all states that view 2 can begin with.
fn behind_a_commit(model: &TwoDelay, votes: usize) -> Vec<State> {
    let mut state = State::new(model.replicas - model.liars());
    let block = Block { view: 1, parent: 0, payload: 0 };
    for voter in 0..state.replicas.len() {
        let at = state.replicas.iter().position(|it| it.first.is_none()).expect("one is silent");
        let vote = (voter < votes).then_some(block);
        state = state.after(model, Move::First(at, vote));
    }
    assert!(state.has_fast_commit(model), "it is committed in two delays");
    let (mut open, mut begun) = (vec![state], Vec::new());
    while let Some(state) = open.pop() {
        let mut moves = Vec::new();
        model.actions(&state, &mut moves);
        for step in moves {
            let next = state.after(model, step);
            let known = if step == Move::Next { &mut begun } else { &mut open };
            if !known.contains(&next) {
                known.push(next);
            }
        }
    }
    begun
}

/// Whether a replica may vote in view 2 for a block that leaves the committed one.
fn may_leave(model: &TwoDelay, votes: usize) -> bool {
    behind_a_commit(model, votes).iter().any(|state| {
        let mut moves = Vec::new();
        model.actions(state, &mut moves);
        moves.iter().any(|step| matches!(step, Move::First(_, Some(block)) if block.parent == 0))
    })
}

/// Four replicas, and the last one lies. View 1 commits v by the first votes of r0, r1 and r3. The
/// leader of view 2 signs w, which nothing justifies. One vote of the highest view is enough for
/// the simple rule.
#[test]
fn an_unjustified_vote_of_a_later_view_chooses_nothing() {
    let statuses = [(1, 'v'), (1, 'v'), (2, 'w')];
    assert_eq!(simple_choice(&statuses, 1), Some('w'), "the simple rule drops a committed block");
    assert!(!may_leave(&four(2, Rule::Right), 2));
    // Planted: no justification is asked for.
    assert!(may_leave(&four(2, Rule::Unjustified), 2));
}

/// Seven replicas, and two lie. View 1 commits v by six first votes, two of them the liars'. View 2
/// begins with v again and reaches one. Of the five statuses that the leader of view 3 has, no view
/// has f = 2 votes.
#[test]
fn votes_that_are_split_over_two_views_free_nobody() {
    let statuses = [(1, 'v'), (2, 'v'), (0, ' '), (0, ' '), (0, ' ')];
    assert_eq!(simple_choice(&statuses, 2), None, "the simple rule thinks that it is free");
    assert!(!may_leave(&seven(2, Rule::Right), 4));
    // Planted: a view ends before it is settled.
    assert!(may_leave(&seven(2, Rule::GivesUpFreely), 4));
}
